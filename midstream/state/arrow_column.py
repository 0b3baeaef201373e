"""A payload column of values that have no simple layout, such as lists and structs: the Arrow arrays that came."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from midstream.state import sizes

Rows = NDArray[np.int64]


class ArrowColumn:
    """Values of any other type, kept as Arrow arrays that are merged as they grow in number."""

    def __init__(self, type: pa.DataType, capacity: int):
        self.type = type
        self._chunks: list[pa.Array] = []
        self._sizes: list[Rows] = []
        self._first = 0
        self.largest = 0

    def append(self, first: int, values: pa.Array) -> None:
        if len(values) == 0:
            return
        if not self._chunks:
            self._first = first
        # A copy, so that the caller's buffers, of which this may be a small slice, are not kept alive.
        self._chunks.append(_copy(values))
        self._sizes.append(sizes.row_bytes(values))
        self.largest = max(self.largest, int(self._sizes[-1].max()))
        while len(self._chunks) > 1 and len(self._chunks[-1]) * 2 >= len(self._chunks[-2]):
            if self._chunks[-1].nbytes + self._chunks[-2].nbytes > sizes.PIECE_BYTES:
                break
            last, last_sizes = self._chunks.pop(), self._sizes.pop()
            self._chunks[-1] = pa.concat_arrays([self._chunks[-1], last])
            self._sizes[-1] = np.concatenate((self._sizes[-1], last_sizes))

    def take(self, rows: Rows, column: int) -> pa.Array:
        if len(rows) == 0:
            return pa.array([], self.type)
        parts, order = [], []
        for number, chosen, places in self._by_chunk(rows, column):
            parts.append(self._chunks[number].take(pa.array(places)))
            order.append(chosen)
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(order)] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(back))

    def measure(self, rows: Rows, column: int) -> Rows:
        found = np.empty(len(rows), np.int64)
        for number, chosen, places in self._by_chunk(rows, column):
            found[chosen] = self._sizes[number][places]
        return found

    def _by_chunk(self, rows: Rows, column: int) -> Iterator[tuple[int, Rows, Rows]]:
        """For each array with some of the rows: its number, which rows these are, and their places in it."""
        places = rows[:, column] - self._first
        if len(self._chunks) == 1:
            yield 0, np.arange(len(rows)), places
            return
        begins = np.cumsum([0, *(len(chunk) for chunk in self._chunks)])
        numbers = np.searchsorted(begins, places, side="right") - 1
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            yield number, chosen, places[chosen] - begins[number]

    def resize(self, head: int, tail: int, capacity: int) -> None:
        pass

    def forget(self, head: int) -> None:
        while self._chunks and self._first + len(self._chunks[0]) <= head:
            self._first += len(self._chunks.pop(0))
            self._sizes.pop(0)
        if self._chunks and (head - self._first) * 2 > len(self._chunks[0]):
            self._chunks[0] = _copy(self._chunks[0].slice(head - self._first))
            self._sizes[0] = self._sizes[0][head - self._first :].copy()
            self._first = head
        if not self._chunks:
            self.largest = 0

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.get_total_buffer_size()) for chunk in self._chunks) + sum(
            lengths.nbytes for lengths in self._sizes
        )


def _copy(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values, values.slice(0, 0)])
