"""sum and avg of doubles: exact whatever the order, rounded once.

A group takes 32 bytes and 8 for each chunk that the exponents in use need: five chunks for amounts of money, 67 where
the smallest and the largest double are both there. Chunks that were needed once stay.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from midstream.engine.operators.aggregates.accumulator import NumberedRows
from midstream.kernels import float_sums as kernels
from midstream.state.arrow import pack_validity, validity_of, values_of
from midstream.state.indexes import Ints


class FloatSum:
    """sum or avg of float64. The word of an argument is its bits."""

    words = 1

    def __init__(self, is_average: bool):
        self._is_average = is_average
        self._first = 0
        self._chunks = NumberedRows(0)
        self._tallies = NumberedRows(kernels.TALLY_WORDS)

    def encode(self, groups: Ints, values: pa.Array | None, out: Ints) -> None:
        assert values is not None
        out[:, 0] = values_of(values, "<i8")
        out[np.isnan(values_of(values, "<f8")), 0] = kernels.NAN
        valid = validity_of(values)
        if valid is not None:
            out[~valid, 0] = kernels.NULL

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> pa.Array:
        bits = np.where(signs == 0, kernels.NULL, words[:, 0])
        self._make_room(*kernels.find_range(bits))
        found = np.empty((len(ends), 2), np.int64)
        sums = kernels.FloatSums(self._chunks.array, self._tallies.array, self._first)
        kernels.add_floats(groups, signs, bits, ends, sums, self._is_average, kernels.CARRY_AFTER, found)
        values, counts = found[:, 0].copy(), found[:, 1]
        return pa.Array.from_buffers(pa.float64(), len(ends), [pack_validity(counts > 0), pa.py_buffer(values)])

    def _make_room(self, lowest: int, highest: int) -> None:
        """Have the chunks with these numbers and all between them."""
        width = self._chunks.array.shape[1]
        if highest < lowest or (width and self._first <= lowest and highest < self._first + width):
            return
        if width:
            lowest, highest = min(lowest, self._first), max(highest, self._first + width - 1)
        wider = np.zeros((len(self._chunks.array), highest - lowest + 1), np.int64)
        wider[:, self._first - lowest : self._first - lowest + width] = self._chunks.array
        self._chunks.array, self._first = wider, lowest

    def resize(self, groups: int) -> None:
        self._chunks.resize(groups)
        self._tallies.resize(groups)

    def keep(self, kept: Ints) -> None:
        self._chunks.keep(kept)
        self._tallies.keep(kept)

    def renumbering(self) -> None:
        return None

    @property
    def nbytes(self) -> int:
        return self._chunks.array.nbytes + self._tallies.array.nbytes
