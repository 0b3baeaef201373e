"""A base window: the rows of one input that are still valid, in the order in which they entered.

Integers that joins work on (interval, key codes, band codes, arrival numbers) are rings of their own; payload waits in
columns until a result is made. Every key class and every band of the input has an index at all times, so that no change
of plan has to build one.

Rows leave at the head once they are dead. With disorder some dead rows wait behind a live one; only if that leaves the
window more than half dead when it is full is it packed, which renumbers its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from midstream.cql.windows import Window
from midstream.kernels import hashing
from midstream.kernels import rings as kernels
from midstream.kernels.types import EARLIEST, FIRST_ID, LARGEST, Ring
from midstream.state import rings
from midstream.state.arrow import chunks_of
from midstream.state.columns import BytesColumn, PayloadColumn, make_column
from midstream.state.expiry import ArrivalNumbers, Expiry, expiry_of
from midstream.state.indexes import HASH_SLOT_BYTES, HashIndex, Ints, SortedIndex
from midstream.state.meter import Meter
from midstream.state.sizes import cut_into_pieces

#: A payload column: one of the source's columns by its name, or the values behind the codes of a key class by the
#: class's number. A number is never taken for a column of the user's, whatever that is called.
PayloadName: TypeAlias = str | int


@dataclass(frozen=True)
class WindowLayout:
    """What a base window keeps of each row. Classes and bands are numbered as in the query.

    `verified` names the payload column with the values behind the codes of each hashed key class.
    """

    window: Window
    classes: tuple[int, ...]
    bands: tuple[int, ...]
    payload: tuple[tuple[PayloadName, pa.DataType], ...]
    tracks_arrivals: bool
    verified: Mapping[int, PayloadName] = field(default_factory=dict)


@dataclass
class WindowRows:
    """Rows that enter an input: integers by number of class and band, payload by name.

    `arrivals` and `ordinals` number the rows for ROWS windows; `stream_arrivals` are the numbers of all rows that came,
    those included that a filter removed, and `first_ordinal` is the first one's place in the stream. `arrival_ends` are
    the numbers up to which rows are valid that were hidden for a while; others have yet to find out.
    """

    starts: Ints
    ends: Ints
    codes: dict[int, Ints]
    band_codes: dict[int, Ints]
    payload: dict[PayloadName, pa.Array | pa.ChunkedArray]
    arrivals: Ints | None = None
    ordinals: Ints | None = None
    stream_arrivals: Ints | None = None
    first_ordinal: int = 0
    arrival_ends: Ints | None = None

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class Renumbering:
    """New ids after a window was packed: the kept rows' old ids in their order, and the first new id."""

    kept: Ints
    first: int

    def apply(self, ids: Ints) -> Ints:
        """New ids of kept rows; any other id, a bound or a mark, becomes that of the next kept row."""
        return np.searchsorted(self.kept, ids) + self.first

    def apply_to_entries(self, ids: Ints) -> Ints:
        """New ids of the rows that entries name; a row that is not kept is below the window from now on."""
        if len(self.kept) == 0:
            return np.full(len(ids), self.first - 1)
        places = np.searchsorted(self.kept, ids)
        is_kept = self.kept[np.minimum(places, len(self.kept) - 1)] == ids
        return np.where(is_kept, places, -1) + self.first


_NO_MEMBERS = np.empty((0, 1), np.int64)


@dataclass
class BaseWindow:
    """The rows of one input. `head` and `tail` bound the ids that it holds."""

    layout: WindowLayout
    head: int = FIRST_ID
    tail: int = FIRST_ID
    capacity: int = rings.SMALLEST_CAPACITY
    starts: Ints = field(init=False)
    ends: Ints = field(init=False)
    codes: dict[int, Ints] = field(init=False)
    band_codes: dict[int, Ints] = field(init=False)
    arrivals: Ints = field(init=False)
    arrival_ends: Ints = field(init=False)
    columns: dict[PayloadName, PayloadColumn] = field(init=False)
    hash_indexes: dict[tuple[int, ...], HashIndex] = field(init=False)
    sorted_indexes: dict[int, SortedIndex] = field(init=False)
    meter: Meter = field(default_factory=Meter)
    #: Whether there is memory for indexes that it can do without: on composite keys.
    may_add_index: Callable[[], bool] = lambda: True
    #: Capacity, number of hash indexes, and the bytes that follow from these.
    _fixed: tuple[int, int, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._allocate()

    def _allocate(self) -> None:
        layout, capacity = self.layout, self.capacity
        self.starts, self.ends = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self.codes = {number: np.empty(capacity, np.int64) for number in layout.classes}
        self.band_codes = {number: np.empty(capacity, np.int64) for number in layout.bands}
        numbered = capacity if layout.tracks_arrivals else 1
        self.arrivals: Ints = np.empty(numbered, np.int64)
        self._ordinals: Ints = np.empty(numbered, np.int64)
        self.arrival_ends: Ints = np.empty(numbered, np.int64)
        self._expiry = self._make_expiry()
        self.columns = {name: make_column(type, capacity) for name, type in layout.payload}
        self.hash_indexes = {(number,): HashIndex(capacity) for number in layout.classes}
        self.sorted_indexes = {number: SortedIndex(capacity) for number in layout.bands}
        self._row_bytes = self.nbytes // capacity
        self.slot_bytes = self._count_slot_bytes()

    def _count_slot_bytes(self) -> int:
        """What a slot takes without indexes on composite keys, and with a flag for nulls in each column.

        It follows from the layout alone. Texts, lists and sorted indexes are not in it.
        """
        fresh = [array.nbytes for array in (self.starts, self.ends, *self.codes.values(), *self.band_codes.values())]
        if self.layout.tracks_arrivals:
            fresh += [array.nbytes for array in (self.arrivals, self._ordinals, self.arrival_ends)]
        for column in self.columns.values():
            fresh.append(column.nbytes - (column.heap_bytes if isinstance(column, BytesColumn) else 0))
        per_slot = sum(fresh) // self.capacity
        return per_slot + len(self.hash_indexes) * HASH_SLOT_BYTES + len(self.columns)

    @property
    def composite_slot_bytes(self) -> int:
        """What a slot takes in indexes on composite keys."""
        return HASH_SLOT_BYTES * sum(len(classes) > 1 for classes in self.hash_indexes)

    def _make_expiry(self) -> Expiry:
        return expiry_of(self.layout.window, self.head)

    def __len__(self) -> int:
        return self.tail - self.head

    def ring(self, tail: int | None = None, since: int | None = None) -> Ring:
        """What a probe reads: all rows, or those that entered from `since` on and before `tail`."""
        head = self.head if since is None else max(self.head, since)
        return Ring(self.starts, self.ends, _NO_MEMBERS, head, self.tail if tail is None else tail)

    def make_room(self, size: int, horizon: int) -> Renumbering | None:
        """Make room for rows to come; the renumbering, if the window was packed for it."""
        needed = len(self) + size
        if needed <= self.capacity:
            return None
        kept = self._expiry.alive(self.ring(), horizon)
        if kept is not None and 2 * len(kept) < len(self):
            return self._pack(kept, rings.capacity_for(2 * (len(kept) + size)))
        self._resize(rings.capacity_for(needed))
        return None

    def append(self, rows: WindowRows) -> int:
        """Take in rows, for which `make_room` has made room, and index them; the first one's id."""
        first = self.tail
        rings.write(self.starts, first, rows.starts)
        rings.write(self.ends, first, rows.ends)
        for number, codes in rows.codes.items():
            rings.write(self.codes[number], first, codes)
            self.hash_indexes[(number,)].insert(first, codes, rows.starts, rows.ends, self.head)
        for classes, index in self.hash_indexes.items():
            if len(classes) > 1:
                keys = composite([rows.codes[number] for number in classes])
                index.insert(first, keys, rows.starts, rows.ends, self.head)
        for number, codes in rows.band_codes.items():
            rings.write(self.band_codes[number], first, codes)
            self.sorted_indexes[number].insert(first, codes, rows.starts, rows.ends)
        for name, column in self.columns.items():
            at = first
            for values in chunks_of(rows.payload[name]):
                column.append(at, values)
                at += len(values)
        self.tail = first + len(rows)
        self.meter.bytes_moved += len(rows) * self._row_bytes
        if self.layout.tracks_arrivals:
            self._number(first, rows)
        return first

    def _number(self, first: int, rows: WindowRows) -> None:
        assert rows.arrivals is not None and rows.ordinals is not None and rows.stream_arrivals is not None
        rings.write(self.arrivals, first, rows.arrivals)
        rings.write(self._ordinals, first, rows.ordinals)
        ends = np.full(len(rows), LARGEST) if rows.arrival_ends is None else rows.arrival_ends
        rings.write(self.arrival_ends, first, ends)
        numbers = ArrivalNumbers(self._ordinals, self.arrival_ends)
        self._expiry.rows_came(self.ring(), numbers, first, rows.first_ordinal, rows.stream_arrivals)

    def may_be_indexed(self, classes: tuple[int, ...], at_once: int) -> bool:
        """Whether there is an index on these key classes, or may be: for at most `at_once` rows, if there is room."""
        return classes in self.hash_indexes or (len(self) <= at_once and self.may_add_index())

    def add_index(self, classes: tuple[int, ...]) -> None:
        """Index the rows by a composite key, unless they are."""
        if classes not in self.hash_indexes:
            index = HashIndex(self.capacity)
            codes = composite([rings.read(self.codes[number], self.head, self.tail) for number in classes])
            index.insert(self.head, codes, *self._intervals())
            self.hash_indexes[classes] = index

    def keep_composites(self, used: Collection[tuple[int, ...]]) -> None:
        """Forget indexes on composite keys but these: each costs memory, and time whenever rows enter.

        A large window does not get one again: a plan that would use it then finds rows by one class and checks others.
        """
        self.hash_indexes = {key: index for key, index in self.hash_indexes.items() if len(key) == 1 or key in used}

    def _intervals(self) -> tuple[Ints, Ints]:
        return rings.read(self.starts, self.head, self.tail), rings.read(self.ends, self.head, self.tail)

    def purge(self, horizon: int) -> None:
        """Forget the rows at the head that can never matter again. Only between batches, for ROWS windows."""
        head = self._expiry.first_kept(self.ring(), horizon)
        if head != self.head:
            self._forget_before(head)

    def _forget_before(self, head: int) -> None:
        self.head = head
        for column in self.columns.values():
            column.forget(head)
        for index in self.sorted_indexes.values():
            index.forget(head, self.tail)
        if self.capacity > 16 * max(len(self), rings.SMALLEST_CAPACITY):
            self._resize(rings.capacity_for(4 * len(self) + 1))

    @property
    def holds_large(self) -> bool:
        """Whether values may be of any length."""
        return any(column.largest for column in self.columns.values())

    def find_living(self, horizon: int) -> Ints:
        """The ids of the rows that can still matter, as a snapshot has them."""
        ids: Ints = kernels.alive(self.ends, self.head, self.tail, max(horizon, EARLIEST))
        if self.layout.window.counts_rows:
            ids = ids[self.arrival_ends[ids & (self.capacity - 1)] == LARGEST]
        return ids

    def pack(self, horizon: int) -> Renumbering | None:
        """Take no more memory than the rows that are alive need; the renumbering, if rows have got new ids."""
        kept = self._expiry.alive(self.ring(), horizon)
        if kept is None:
            return None
        capacity = rings.capacity_for(len(kept))
        heaps = [column for column in self.columns.values() if isinstance(column, BytesColumn)]
        is_loose = any(rings.capacity_for(2 * heap.used_bytes + 1) < heap.heap_bytes for heap in heaps)
        return self._pack(kept, capacity) if is_loose or capacity < self.capacity else None

    def trim(self, times: int) -> None:
        """Have room for no more than so many times the rows that it has."""
        capacity = rings.capacity_for(times * len(self))
        if capacity < self.capacity:
            self._resize(capacity)

    def _resize(self, capacity: int) -> None:
        head, tail = self.head, self.tail
        self.starts = rings.resize(self.starts, head, tail, capacity)
        self.ends = rings.resize(self.ends, head, tail, capacity)
        self.codes = {number: rings.resize(ring, head, tail, capacity) for number, ring in self.codes.items()}
        self.band_codes = {number: rings.resize(ring, head, tail, capacity) for number, ring in self.band_codes.items()}
        if self.layout.tracks_arrivals:
            self.arrivals = rings.resize(self.arrivals, head, tail, capacity)
            self._ordinals = rings.resize(self._ordinals, head, tail, capacity)
            self.arrival_ends = rings.resize(self.arrival_ends, head, tail, capacity)
        parts: Iterable[PayloadColumn | HashIndex] = (*self.columns.values(), *self.hash_indexes.values())
        for part in parts:
            part.resize(head, tail, capacity)
        self.meter.bytes_moved += len(self) * self._row_bytes
        self.capacity = capacity

    def held(self, ids: Ints) -> WindowRows:
        """The rows with these ids, as if they arrived."""
        slots = ids & (self.capacity - 1)
        matrix = np.ascontiguousarray(ids.reshape(-1, 1))
        return WindowRows(
            self.starts[slots],
            self.ends[slots],
            {number: ring[slots] for number, ring in self.codes.items()},
            {number: ring[slots] for number, ring in self.band_codes.items()},
            {name: _take(column, matrix) for name, column in self.columns.items()},
            self.arrivals[slots] if self.layout.tracks_arrivals else None,
            self._ordinals[slots] if self.layout.tracks_arrivals else None,
            arrival_ends=self.arrival_ends[slots] if self.layout.tracks_arrivals else None,
        )

    def _pack(self, kept: Ints, capacity: int) -> Renumbering:
        """Keep only these rows, with the highest ids below the tail, in their order."""
        rows = self.held(kept)
        rows.stream_arrivals = np.empty(0, np.int64)
        composites = [classes for classes in self.hash_indexes if len(classes) > 1]
        first = self.tail - len(kept)
        self.head = self.tail = first
        self.capacity = capacity
        self._allocate()
        for classes in composites:
            self.hash_indexes[classes] = HashIndex(capacity)
        self.append(rows)
        return Renumbering(kept, first)

    @property
    def nbytes(self) -> int:
        if self._fixed is None or self._fixed[:2] != (self.capacity, len(self.hash_indexes)):
            self._fixed = self.capacity, len(self.hash_indexes), self._count_fixed()
        size = self._fixed[2]
        for column in self.columns.values():
            size += column.nbytes
        for index in self.sorted_indexes.values():
            size += index.nbytes
        return size

    def _count_fixed(self) -> int:
        """The bytes of what changes its size with the capacity alone."""
        integers = (self.starts, self.ends, self.arrivals, self._ordinals, self.arrival_ends)
        own = sum(array.nbytes for array in (*integers, *self.codes.values(), *self.band_codes.values()))
        return own + sum(index.nbytes for index in self.hash_indexes.values())


def _take(column: PayloadColumn, ids: Ints) -> pa.Array | pa.ChunkedArray:
    """The values of many rows, in as many arrays as their type needs for them."""
    taken = [column.take(ids[piece], 0) for piece in cut_into_pieces([(column, 0)], ids)]
    return taken[0] if len(taken) == 1 else pa.chunked_array(taken, column.type)


def composite(codes: list[Ints]) -> Ints:
    """The code of a key of several attributes; that of a single one is its own."""
    if len(codes) == 1:
        return codes[0]
    combined = codes[0].copy()
    for more in codes[1:]:
        hashing.combine(combined, more)
    return combined
