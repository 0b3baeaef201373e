"""sum and avg of integers and decimals: exact in 192 bits, rounded once; what the type cannot hold is null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.engine.operators.aggregates.accumulator import NumberedRows
from midstream.kernels import sums, wide_integers
from midstream.state.arrow import pack_validity, validity_of, values_of, view
from midstream.state.columns import pair_words
from midstream.state.indexes import Ints

_WORD = 1 << 64


#: A total as a value: its words, the lowest byte first.
TOTAL_TYPE = pa.binary(8 * sums.TOTAL_WORDS)


class IntegerTotals:
    """Totals of 128-bit integers for every group: int64, and decimals as multiples of their last digit.

    The arguments may be totals themselves, those of the same group in several places (`of_totals`).
    """

    def __init__(self, of_totals: bool = False) -> None:
        self.words = sums.TOTAL_WORDS if of_totals else 2
        self._of_totals = of_totals
        self._totals = NumberedRows(sums.TOTAL_WORDS)

    def encode(self, groups: Ints, values: pa.Array | None, out: Ints) -> None:
        assert values is not None
        if self._of_totals:
            first, count = values.offset * sums.TOTAL_WORDS, len(values) * sums.TOTAL_WORDS
            out[:] = view(values.buffers()[1], "<i8", first, count).reshape(-1, sums.TOTAL_WORDS)
            return
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
        add = sums.add_totals if self._of_totals else sums.add_integers
        add(groups, signs, np.ascontiguousarray(words), ends, self._totals.array, found)
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


class Total(IntegerTotals):
    """The total itself, which others add up with those of other places."""

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> pa.Array:
        found = self.add(groups, signs, words, ends)
        return pa.Array.from_buffers(TOTAL_TYPE, len(ends), [None, pa.py_buffer(found)])


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

    def __init__(self, argument: pa.DataType, type: pa.DataType, is_average: bool, of_totals: bool = False):
        super().__init__(of_totals)
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
