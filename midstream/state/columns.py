"""Payload columns of a base window: rings of values that are written on arrival and read when a result is made.

Values of a fixed width are kept as machine words, strings and binaries as offsets into a ring of bytes, and what has
no simple layout (lists, structs) as the Arrow arrays that came.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.kernels import rings as kernels
from midstream.state import rings, sizes
from midstream.state.arrow import byte_offsets, pack_validity, validity_of, values_of, view
from midstream.state.arrow_column import ArrowColumn

Rows = NDArray[np.int64]


class PayloadColumn(Protocol):
    """A column over a ring of row ids."""

    type: pa.DataType

    def append(self, first: int, values: pa.Array) -> None:
        """Keep values for the ids from `first` on; the ring has room for them."""

    def take(self, rows: Rows, column: int) -> pa.Array:
        """The values of the row ids in one column of a matrix of combinations, cut by `sizes.cut_into_pieces`."""

    def resize(self, head: int, tail: int, capacity: int) -> None:
        """Change the ring's capacity."""

    def forget(self, head: int) -> None:
        """Rows below `head` will not be read again."""

    @property
    def largest(self) -> int:
        """The bytes of the largest value, or more; 0 if all values are a word or two."""

    def measure(self, rows: Rows, column: int) -> Rows:
        """The bytes of the values that `take` would give."""

    @property
    def nbytes(self) -> int: ...


class _Validity:
    """Which rows of a column are not null; costs nothing until the first null comes."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._flags: NDArray[np.uint8] | None = None

    def append(self, first: int, values: pa.Array) -> None:
        valid = validity_of(values)
        if valid is None and self._flags is None:
            return
        if self._flags is None:
            self._flags = np.ones(self._capacity, np.uint8)
        rings.write(self._flags, first, np.ones(len(values), np.uint8) if valid is None else valid.view(np.uint8))

    def take(self, rows: Rows, column: int) -> pa.Buffer | None:
        if self._flags is None:
            return None
        flags = np.empty(len(rows), np.uint8)
        kernels.gather(self._flags, rows, column, flags)
        return pack_validity(flags.view(np.bool_))

    def resize(self, head: int, tail: int, capacity: int) -> None:
        self._capacity = capacity
        if self._flags is not None:
            self._flags = rings.resize(self._flags, head, tail, capacity)

    @property
    def nbytes(self) -> int:
        return 0 if self._flags is None else self._flags.nbytes


class FixedColumn:
    """Values of 1, 2, 4 or 8 bytes, kept as unsigned integers of that width."""

    largest = 0

    def __init__(self, type: pa.DataType, capacity: int):
        self.type = type
        self._is_bool = pat.is_boolean(type)
        width = 1 if self._is_bool else type.bit_width // 8
        self._dtype = f"<u{width}" if width > 1 else "|u1"
        self._ring: NDArray[Any] = np.zeros(capacity, self._dtype)
        self._valid = _Validity(capacity)

    def append(self, first: int, values: pa.Array) -> None:
        self._valid.append(first, values)
        if self._is_bool:
            values = values.cast(pa.uint8())
        rings.write(self._ring, first, values_of(values, self._dtype))

    def take(self, rows: Rows, column: int) -> pa.Array:
        out = np.empty(len(rows), self._dtype)
        kernels.gather(self._ring, rows, column, out)
        validity = self._valid.take(rows, column)
        if self._is_bool:
            return pa.Array.from_buffers(pa.uint8(), len(rows), [validity, pa.py_buffer(out)]).cast(pa.bool_())
        return pa.Array.from_buffers(self.type, len(rows), [validity, pa.py_buffer(out)])

    def measure(self, rows: Rows, column: int) -> Rows:
        return np.full(len(rows), self.type.bit_width // 8, np.int64)

    def resize(self, head: int, tail: int, capacity: int) -> None:
        self._ring = rings.resize(self._ring, head, tail, capacity)
        self._valid.resize(head, tail, capacity)

    def forget(self, head: int) -> None:
        pass

    @property
    def nbytes(self) -> int:
        return self._ring.nbytes + self._valid.nbytes


class PairColumn:
    """Values of 16 bytes (decimals), kept as two words."""

    largest = 0

    def __init__(self, type: pa.DataType, capacity: int):
        self.type = type
        self.words: NDArray[np.int64] = np.zeros((capacity, 2), np.int64)
        self._valid = _Validity(capacity)

    def append(self, first: int, values: pa.Array) -> None:
        self._valid.append(first, values)
        rings.write(self.words, first, pair_words(values))

    def take(self, rows: Rows, column: int) -> pa.Array:
        out = np.empty((len(rows), 2), np.int64)
        kernels.gather_pairs(self.words, rows, column, out)
        return pa.Array.from_buffers(self.type, len(rows), [self._valid.take(rows, column), pa.py_buffer(out)])

    def measure(self, rows: Rows, column: int) -> Rows:
        return np.full(len(rows), self.type.bit_width // 8, np.int64)

    def resize(self, head: int, tail: int, capacity: int) -> None:
        self.words = rings.resize(self.words, head, tail, capacity)
        self._valid.resize(head, tail, capacity)

    def forget(self, head: int) -> None:
        pass

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self._valid.nbytes


def pair_words(values: pa.Array) -> NDArray[np.int64]:
    """The two words of each 16-byte value."""
    flat = view(values.buffers()[1], "<i8", 2 * values.offset, 2 * len(values))
    return flat.reshape(len(values), 2)


class BytesColumn:
    """Strings and binaries: offsets and lengths per row, the bytes in a ring of their own.

    The bytes of one append are contiguous, so that no value is ever split at the ring's end.
    """

    def __init__(self, type: pa.DataType, capacity: int):
        self.type = type
        self._is_large = pat.is_large_string(type) or pat.is_large_binary(type)
        self._offsets: NDArray[np.int64] = np.zeros(capacity, np.int64)
        self._lengths: NDArray[np.int64] = np.zeros(capacity, np.int64)
        self._heap: NDArray[np.uint8] = np.zeros(rings.SMALLEST_CAPACITY, np.uint8)
        self._heap_head = 0
        self._heap_tail = 0
        self._ids = (0, 0)
        self._valid = _Validity(capacity)
        self.largest = 0

    @property
    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
        """What a kernel needs to compare values: offsets, lengths, heap."""
        return self._offsets, self._lengths, self._heap

    def append(self, first: int, values: pa.Array) -> None:
        size = len(values)
        if size == 0:
            return
        self._valid.append(first, values)
        offsets, data = byte_offsets(values)
        begin, total = int(offsets[0]), int(offsets[-1] - offsets[0])
        at = self._reserve(total)
        slot = at & (len(self._heap) - 1)
        self._heap[slot : slot + total] = data[begin : begin + total]
        rings.write(self._offsets, first, offsets[:-1] + (at - begin))
        lengths = np.diff(offsets)
        rings.write(self._lengths, first, lengths)
        self.largest = max(self.largest, int(lengths.max()))
        self._heap_tail = at + total
        held, last = self._ids
        self._ids = (held if held < last else first, first + size)

    def _reserve(self, total: int) -> int:
        """Where `total` contiguous bytes may go; makes the heap larger if they do not fit."""
        at = self._contiguous(total)
        if at + total - self._heap_head > len(self._heap):
            self._rebuild_heap(total)
            at = self._contiguous(total)
        return at

    def _contiguous(self, total: int) -> int:
        capacity = len(self._heap)
        slot = self._heap_tail & (capacity - 1)
        return self._heap_tail if slot + total <= capacity else self._heap_tail + capacity - slot

    def _rebuild_heap(self, total: int) -> None:
        head, tail = self._ids
        ids = np.arange(head, tail, dtype=np.int64).reshape(-1, 1)
        offsets, data = self._gathered(ids, 0)
        self._heap = np.empty(rings.capacity_for(2 * (len(data) + total) + 1), np.uint8)
        self._heap[: len(data)] = data
        rings.write(self._offsets, head, offsets[:-1])
        self._heap_head, self._heap_tail = 0, len(data)

    def _gathered(self, rows: Rows, column: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        offsets = np.empty(len(rows) + 1, np.int64)
        data = np.empty(kernels.gather_offsets(self._lengths, rows, column, offsets), np.uint8)
        kernels.gather_bytes(self._offsets, self._heap, rows, column, offsets, data)
        return offsets, data

    def take(self, rows: Rows, column: int) -> pa.Array:
        if self._is_large:
            return self.take_wide(rows, column)
        offsets, data = self._gathered(rows, column)
        most = max(sizes.PIECE_BYTES, sizes.ARRAY_BYTES)
        assert len(rows) <= 1 or len(data) <= most, "more bytes than the offsets of one array can count"
        buffers = [self._valid.take(rows, column), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.type, len(rows), buffers)

    def take_wide(self, rows: Rows, column: int) -> pa.Array:
        """As `take`, with offsets of 64 bits: any number of bytes, which need not be cut into pieces."""
        offsets, data = self._gathered(rows, column)
        buffers = [self._valid.take(rows, column), pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(sizes.wide_type(self.type), len(rows), buffers)

    def measure(self, rows: Rows, column: int) -> Rows:
        lengths = np.empty(len(rows), np.int64)
        kernels.gather(self._lengths, rows, column, lengths)
        return lengths

    def resize(self, head: int, tail: int, capacity: int) -> None:
        shrinks = capacity < len(self._offsets)
        self._offsets = rings.resize(self._offsets, head, tail, capacity)
        self._lengths = rings.resize(self._lengths, head, tail, capacity)
        if shrinks:
            self._rebuild_heap(0)
        self._valid.resize(head, tail, capacity)

    def forget(self, head: int) -> None:
        last = self._ids[1]
        self._ids = (max(head, self._ids[0]), last)
        if head >= last:
            self._heap_head = self._heap_tail
            self.largest = 0
        else:
            self._heap_head = int(self._offsets[self._ids[0] & (len(self._offsets) - 1)])

    @property
    def heap_bytes(self) -> int:
        """What the bytes themselves take, however many rows there is room for."""
        return self._heap.nbytes

    @property
    def used_bytes(self) -> int:
        """How much of that rows use."""
        return self._heap_tail - self._heap_head

    @property
    def nbytes(self) -> int:
        return self._offsets.nbytes + self._lengths.nbytes + self._heap.nbytes + self._valid.nbytes


def make_column(type: pa.DataType, capacity: int) -> PayloadColumn:
    """The column that suits a type."""
    if pat.is_decimal128(type):
        return PairColumn(type, capacity)
    if pat.is_string(type) or pat.is_large_string(type) or pat.is_binary(type) or pat.is_large_binary(type):
        return BytesColumn(type, capacity)
    if pat.is_boolean(type) or (pat.is_primitive(type) and type.bit_width in (8, 16, 32, 64)):
        return FixedColumn(type, capacity)
    return ArrowColumn(type, capacity)
