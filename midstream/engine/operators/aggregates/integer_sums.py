"""sum and avg of integers and decimals: exact in 192 bits, rounded once; what the type cannot hold is null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.engine.operators.aggregates.accumulator import NumberedRows
from midstream.kernels import sums, wide_integers
from midstream.state.arrow import pack_validity, validity_of, values_of
from midstream.state.columns import pair_words
from midstream.state.indexes import Ints

_WORD = 1 << 64


class IntegerTotals:
    """Totals of 128-bit integers for every group: int64, and decimals as multiples of their last digit."""

    words = 2

    def __init__(self) -> None:
        self._totals = NumberedRows(sums.TOTAL_WORDS)

    def encode(self, groups: Ints, values: pa.Array | None, out: Ints) -> None:
        assert values is not None
        if pat.is_decimal(values.type):
            out[:, :2] = pair_words(values)
        else:
            out[:, 0] = values_of(values, "<i8")
            out[:, 1] = out[:, 0] >> 63
        valid = validity_of(values)
        if valid is not None:
            out[~valid, 1] = sums.NULL_HIGH

    def add(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> Ints:
        """Apply changes; the totals after the ends."""
        found = np.empty((len(ends), sums.TOTAL_WORDS), np.int64)
        sums.add_integers(groups, signs, np.ascontiguousarray(words), ends, self._totals.array, found)
        return found

    def resize(self, groups: int) -> None:
        self._totals.resize(groups)

    def keep(self, kept: Ints) -> None:
        self._totals.keep(kept)

    def renumbering(self) -> None:
        return None

    @property
    def nbytes(self) -> int:
        return self._totals.array.nbytes


class IntegerSum(IntegerTotals):
    """sum of int64; null if it does not fit int64."""

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> pa.Array:
        totals = self.add(groups, signs, words, ends)
        found: Ints = np.empty(len(ends), np.int64)
        valid: NDArray[np.bool_] = np.empty(len(ends), np.bool_)
        wide_integers.fit_integers(totals, found, valid)
        return pa.Array.from_buffers(pa.int64(), len(ends), [pack_validity(valid), pa.py_buffer(found)])


class IntegerAverage(IntegerTotals):
    """avg of int64, a double: the exact quotient rounded once."""

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> pa.Array:
        totals = self.add(groups, signs, words, ends)
        found = np.empty(len(ends))
        wide_integers.average_to_doubles(totals, found)
        valid = pack_validity(totals[:, sums.COUNT] > 0)
        return pa.Array.from_buffers(pa.float64(), len(ends), [valid, pa.py_buffer(found)])


class DecimalSum(IntegerTotals):
    """sum or avg of a decimal, in a decimal type with at least as many digits behind the point; halves round up."""

    def __init__(self, argument: pa.DataType, type: pa.DataType, is_average: bool):
        super().__init__()
        assert type.scale >= argument.scale
        self._type = type
        self._is_average = is_average
        self._factor = 10 ** (type.scale - argument.scale)
        high, low = divmod(10**type.precision, _WORD)
        self._limit = np.array([low, high], np.uint64).view(np.int64)

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> pa.Array:
        totals = self.add(groups, signs, words, ends)
        divisors = np.maximum(totals[:, sums.COUNT], 1) if self._is_average else np.ones(len(ends), np.int64)
        found: Ints = np.empty((len(ends), 2), np.int64)
        valid: NDArray[np.bool_] = np.empty(len(ends), np.bool_)
        wide_integers.divide_decimals(totals, divisors, self._factor, self._limit, found, valid)
        return pa.Array.from_buffers(self._type, len(ends), [pack_validity(valid), pa.py_buffer(found)])
