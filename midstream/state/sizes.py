"""How many bytes values take, so that no array has more than its offsets can count.

Text, binaries and lists of Arrow have offsets of 32 bits: one array of them holds less than 2 GiB. Windows, snapshots
and pushes hold more, in several arrays. What is made of many values, results above all, is made in pieces of about
`PIECE_BYTES`: small enough for an expression to make values of it that are several times as long. If it makes
longer ones, it finds out before it fills an array beyond `ARRAY_BYTES`, and `make_in_pieces` gives it fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.state.arrow import byte_offsets, view

Sizes = NDArray[np.int64]

#: Values that differ in size are taken, sent through the plan and written in pieces of about so many bytes.
PIECE_BYTES = 1 << 28

#: The most bytes of one array with offsets of 32 bits, as Arrow counts it.
ARRAY_BYTES = (1 << 31) - 2

_Made = TypeVar("_Made")


class ArrayTooLargeError(Exception):
    """Values of several rows need more bytes than one array holds; `make_in_pieces` tries again with fewer rows."""

    def __init__(self, needed: int):
        super().__init__(f"{needed:,} bytes are more than one array holds")
        #: In how many pieces the rows would fit if all were equally large.
        self.pieces = -(-needed // ARRAY_BYTES)


def make_in_pieces(make: Callable[[int, int], _Made], begin: int, end: int) -> Iterator[_Made]:
    """What `make` makes of the rows from `begin` to `end`: all at once, or in pieces where that is too large.

    `make` may raise `ArrayTooLargeError` for any rows but a single one.
    """
    try:
        made = make(begin, end)
    except ArrayTooLargeError as found:
        pieces = min(max(found.pieces, 2), end - begin)
    else:
        yield made
        return
    assert pieces > 1, "what fails for several rows has to be possible, or null, for each of them"
    bounds = [begin + (end - begin) * piece // pieces for piece in range(pieces + 1)]
    for first, last in pairwise(bounds):
        yield from make_in_pieces(make, first, last)


class Sized(Protocol):
    """Values whose sizes are known."""

    @property
    def largest(self) -> int:
        """The bytes of the largest value, or more; 0 if all values are a word or two."""

    def measure(self, rows: NDArray[np.int64], column: int) -> Sizes:
        """The bytes of the values of the row ids in one column of a matrix of combinations."""


def cut_into_pieces(columns: Sequence[tuple[Sized, int]], rows: NDArray[np.int64]) -> Iterator[slice]:
    """Cut a matrix of combinations so that no piece has much more than `PIECE_BYTES` of values of these columns.

    A column is given with its place in the matrix. Where no value can be large nothing is looked at.
    """
    if len(rows) * sum(values.largest for values, _ in columns) <= PIECE_BYTES:
        yield slice(0, len(rows))
        return
    total = np.zeros(len(rows), np.int64)
    for values, place in columns:
        if values.largest:
            total += values.measure(rows, place)
    yield from cut_by_size(total, PIECE_BYTES)


def cut_by_size(sizes: Sizes, most: int) -> Iterator[slice]:
    """Cut rows of these sizes into pieces of at most so many bytes; a row that is larger is a piece of its own.

    >>> [(piece.start, piece.stop) for piece in cut_by_size(np.array([3, 4, 9, 1, 2]), 8)]
    [(0, 2), (2, 3), (3, 5)]
    """
    ends = np.cumsum(sizes)
    begin = done = 0
    while begin < len(ends):
        end = max(begin + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(begin, end)
        begin, done = end, int(ends[end - 1])


def can_be_large(type: pa.DataType) -> bool:
    """Whether values of a plain type can have more than 16 bytes.

    >>> can_be_large(pa.string()), can_be_large(pa.timestamp("us")), can_be_large(pa.decimal128(9, 2))
    (True, False, False)
    """
    return not (pat.is_decimal128(type) or pat.is_primitive(type) or pat.is_boolean(type) or pat.is_null(type))


def row_bytes(values: pa.Array) -> Sizes:
    """About how many bytes each value of an array of a plain type takes, at least one for each value inside it.

    >>> row_bytes(pa.array([["a", "bcd"], [], None])).tolist()
    [20, 8, 8]
    """
    type, length = values.type, len(values)
    if length == 0:
        return np.empty(0, np.int64)
    if pat.is_string(type) or pat.is_binary(type) or pat.is_large_string(type) or pat.is_large_binary(type):
        return np.diff(byte_offsets(values)[0]) + 4
    if pat.is_list(type) or pat.is_large_list(type) or pat.is_map(type):
        offsets = view(values.buffers()[1], "<i8" if pat.is_large_list(type) else "<i4", values.offset, length + 1)
        first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        children = [values.keys, values.items] if pat.is_map(type) else [values.values]
        inside = np.zeros(size + 1, np.int64)
        np.cumsum(sum(row_bytes(child.slice(first, size)) for child in children), out=inside[1:])
        ends: Sizes = inside[offsets.astype(np.int64) - first]
        return np.diff(ends) + 8
    if pat.is_fixed_size_list(type):
        inside = row_bytes(values.values.slice(values.offset * type.list_size, length * type.list_size))
        total: Sizes = inside.reshape(length, type.list_size).sum(axis=1)
        return total + 1
    if pat.is_struct(type):
        parts = (row_bytes(values.field(at)) for at in range(type.num_fields))
        return sum(parts, start=np.ones(length, np.int64))
    return np.full(length, 1 if pat.is_null(type) else max(1, type.bit_width // 8), np.int64)


def wide_type(type: pa.DataType) -> pa.DataType:
    """The plain type of the same values with offsets of 64 bits, as far as Arrow has them: maps have none.

    >>> wide_type(pa.list_(pa.string()))
    LargeListType(large_list<item: large_string>)
    """
    if pat.is_string(type):
        return pa.large_string()
    if pat.is_binary(type):
        return pa.large_binary()
    if pat.is_list(type) or pat.is_large_list(type):
        return pa.large_list(_wide_field(type.value_field))
    if pat.is_fixed_size_list(type):
        return pa.list_(_wide_field(type.value_field), type.list_size)
    if pat.is_map(type):
        return pa.map_(_wide_field(type.key_field), _wide_field(type.item_field), type.keys_sorted)
    if pat.is_struct(type):
        return pa.struct([_wide_field(field) for field in type])
    return type


def _wide_field(field: pa.Field) -> pa.Field:
    return field.with_type(wide_type(field.type))
