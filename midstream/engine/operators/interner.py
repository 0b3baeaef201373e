"""Rows of values -> dense ids: equal rows have the same id, for as long as the interner knows them.

Equality is that of DISTINCT and GROUP BY: a null equals a null, NaN equals NaN, and -0.0 is 0.0, as which it is kept.
Where rows go on into expressions, which can tell -0.0 from 0.0, an interner can be told to do so too.

    columns  ->  rows of codes  ->  ids  ->  columns again

Codes of text, binaries and decimals are hashes, so what is found by them is compared by value. Rows that share all
codes and yet differ are told apart by a further code, which counts such twins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.kernels import interning as kernels
from midstream.state import rings
from midstream.state.arrow import make_contiguous, unscaled, validity_of, values_of
from midstream.state.columns import BytesColumn, PayloadColumn, make_column
from midstream.state.indexes import Ints, draw_seed
from midstream.state.keys import codes_of, is_hashed
from midstream.state.sizes import cut_into_pieces

_NULLS_PER_CODE = 62
#: The bits of doubles.
_INFINITY, _NAN = 0x7FF0000000000000, 0x7FF8000000000000


class Interner:
    """The distinct rows of some columns, each with an id: 0, 1, 2, ...; -0.0 is 0.0 unless it `tells_zeros_apart`."""

    def __init__(self, types: Sequence[pa.DataType], tells_zeros_apart: bool = False):
        self.types = tuple(types)
        self._tells_zeros_apart = tells_zeros_apart
        self._hashed = [place for place, type in enumerate(self.types) if are_hashed(type)]
        self._width = width_of(len(self.types)) + bool(self._hashed)
        self._seed = draw_seed()
        self._begin(rings.SMALLEST_CAPACITY)

    def _begin(self, capacity: int) -> None:
        self._count = 0
        self._capacity = capacity
        self._keys: Ints = np.empty((capacity, self._width), np.int64)
        self._slots: Ints = np.zeros(2 * capacity, np.int64)
        self._columns: list[PayloadColumn] = [make_column(type, capacity) for type in self.types]

    def __len__(self) -> int:
        return self._count

    @property
    def columns(self) -> list[PayloadColumn]:
        """The values by id, a column each."""
        return self._columns

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._slots.nbytes + sum(column.nbytes for column in self._columns)

    def intern(self, columns: Sequence[pa.Array], length: int) -> Ints:
        """The ids of so many rows, a new one for each row that was not there."""
        make = make_contiguous if self._tells_zeros_apart else make_plain
        plain = [make(values) for values in columns]
        codes = code_rows(plain, length, self._width, self._tells_zeros_apart)
        ids = self._add(codes, plain)
        if self._hashed:
            self._separate_twins(codes, plain, ids)
        return ids

    def _add(self, codes: Ints, columns: Sequence[pa.Array]) -> Ints:
        self._make_room(len(codes))
        ids, added = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
        first = self._count
        self._count = kernels.find_or_add(self._slots, self._keys, first, codes, self._seed, ids, added)
        if self._count > first:
            places = pa.array(added[: self._count - first])
            for kept, values in zip(self._columns, columns, strict=True):
                kept.append(first, values.take(places))
        return ids

    def _separate_twins(self, codes: Ints, columns: Sequence[pa.Array], ids: Ints) -> None:
        """Give rows that are not equal to the row whose id they were given another one."""
        rows = np.arange(len(ids))
        while len(rows := rows[self._differing(columns, ids, rows)]):
            codes[rows, -1] += 1
            places = pa.array(rows)
            ids[rows] = self._add(codes[rows], [values.take(places) for values in columns])

    def _differing(self, columns: Sequence[pa.Array], ids: Ints, rows: Ints) -> NDArray[np.bool_]:
        """Which of these rows have other values than their ids stand for."""
        differs = np.zeros(len(rows), np.bool_)
        places = None if len(rows) == len(ids) else pa.array(rows)
        for place in self._hashed:
            given = columns[place] if places is None else columns[place].take(places)
            differs |= ~are_equal(given, self.take(place, ids[rows]))
        return differs

    def take(self, place: int, ids: Ints) -> pa.Array:
        """The values of one column for some ids, which together fit into one array."""
        return self._columns[place].take(ids.reshape(-1, 1), 0)

    def take_wide(self, place: int, ids: Ints) -> pa.Array:
        """The values of one column for some ids, however large, with offsets of 64 bits where there are offsets."""
        column = self._columns[place]
        return column.take_wide(ids.reshape(-1, 1), 0) if isinstance(column, BytesColumn) else self.take(place, ids)

    def keep(self, kept: Ints) -> None:
        """Ids are given anew: the row i is the one that was kept[i]. All others are forgotten."""
        keys, columns = self._keys[kept], self._columns
        if self._hashed and keys[:, -1].any():
            keys[:, -1] = _number_twins(keys[:, :-1])
        self._begin(rings.capacity_for(max(len(kept), 1)))
        self._count = len(kept)
        self._keys[: len(kept)] = keys
        rows = kept.reshape(-1, 1)
        for column, before in zip(self._columns, columns, strict=True):
            for piece in cut_into_pieces([(before, 0)], rows):
                column.append(piece.start, before.take(rows[piece], 0))
        kernels.enter(self._slots, self._keys, self._count, self._seed)

    def _make_room(self, more: int) -> None:
        if self._count + more <= self._capacity:
            return
        capacity = rings.capacity_for(self._count + more)
        keys = np.empty((capacity, self._width), np.int64)
        keys[: self._count] = self._keys[: self._count]
        self._keys, self._slots = keys, np.zeros(2 * capacity, np.int64)
        kernels.enter(self._slots, self._keys, self._count, self._seed)
        for column in self._columns:
            column.resize(0, self._count, capacity)
        self._capacity = capacity


def _number_twins(codes: Ints) -> Ints:
    """For each row, how many equal ones come before it: no number may be missing where twins are looked for."""
    groups = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    numbers = np.empty(len(groups), np.int64)
    numbers[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers


def make_plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as one array, and -0.0 as 0.0."""
    values = make_contiguous(values)
    if pat.is_float16(values.type):
        return make_plain(values.cast(pa.float32())).cast(values.type)
    if pat.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def are_equal(values: pa.Array, others: pa.Array) -> NDArray[np.bool_]:
    """Which values of a type with hashed codes are equal. A null means nothing: codes tell nulls apart."""
    if pat.is_decimal(values.type):
        values, others = unscaled(values), unscaled(others)
    same = pc.fill_null(pc.equal(values, others), True)
    return np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)


def width_of(columns: int) -> int:
    """How many codes a row of so many values has at least; also one without values has one."""
    return max(1, columns + -(-columns // _NULLS_PER_CODE))


def code_rows(columns: Sequence[pa.Array], length: int, width: int, tells_zeros_apart: bool = False) -> Ints:
    """A row of codes for each row of plain values: a code for each value, then which of them are null, then zeros."""
    code = _exact_codes if tells_zeros_apart else codes_of
    codes = np.zeros((length, width), np.int64)
    for place, values in enumerate(columns):
        nulls, bit = len(columns) + place // _NULLS_PER_CODE, 1 << place % _NULLS_PER_CODE
        if pat.is_null(values.type):
            codes[:, nulls] += bit
            continue
        type = coded_type(values.type)
        if pat.is_decimal256(values.type):
            values = unscaled(values)
        codes[:, place] = code(values if values.type == type else values.cast(type))
        valid = validity_of(values)
        if valid is not None:
            codes[~valid, place] = 0
            codes[~valid, nulls] += bit
    return codes


def _exact_codes(values: pa.Array) -> Ints:
    """As `codes_of`, but -0.0 has another code than 0.0: the codes of floats are their bits, one code for every NaN."""
    if not pat.is_floating(values.type):
        return codes_of(values)
    bits = values_of(values, "<i8")
    is_nan = (bits & np.iinfo(np.int64).max) > _INFINITY
    return np.where(is_nan, _NAN, bits)


def are_hashed(type: pa.DataType) -> bool:
    """Whether equal codes do not yet mean equal values."""
    return is_hashed(coded_type(type))


def coded_type(type: pa.DataType) -> pa.DataType:
    """The type in which values of a type have codes."""
    if pat.is_integer(type) and not pat.is_uint64(type):
        return pa.int64()
    if pat.is_float16(type) or pat.is_float32(type):
        return pa.float64()
    if pat.is_fixed_size_binary(type):
        return pa.binary()
    if pat.is_decimal256(type):
        return pa.string()
    if pat.is_decimal(type) and not pat.is_decimal128(type):
        return pa.decimal128(type.precision, type.scale)
    return type
