"""A join state: combinations of the rows of several inputs, the ways to find them, and what is missing of them.

Entries stand in a ring in the order in which they were stored, and any number of indexes lead to them, each by keys of
its own. Nobody refers to an entry by its id, so moving one is free of consequences.

Entries leave in two ways.

* They expire, in another order than they came, because an entry lives as long as the shortest-lived of its rows. Dead
  entries leave at the head; when a sample shows that about half of the ring is dead, or a quarter of a ring that is
  nearly full, live entries at the head are moved to the tail, a few per stored entry, so that no batch pays for all and
  the ring does not grow for the sake of the dead.
* They are evicted: one pass over the ring sets their end to a time before every start, so that the interval test that
  every probe makes anyway refuses them. They are counted, and once they are a quarter of the ring, the next purge goes
  round the ring once, indexes the rest anew and gives the memory back; `pack` does so at once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import numpy as np

from midstream.kernels import rings as kernels
from midstream.kernels.types import EARLIEST, EVICTED, FIRST_ID, Combos, Ring
from midstream.state import rings
from midstream.state.indexes import Flags, HashIndex, Ints, SortedIndex
from midstream.state.meter import Meter
from midstream.state.missing import Missing
from midstream.state.window import Renumbering

#: What tells one way to find entries from another: two joins with the same signature can use the same index.
Signature: TypeAlias = tuple[object, ...]

_SAMPLES = 32
_LEAST_MOVES = 64
_EVICTED_SHARE = 1 / 4
#: Up to so many slots for each row that is looked for, one pass over the ring takes less than following their keys.
_SCANNED_A_ROW = 16


class Access(enum.Enum):
    """How the entries of a state are found by the join above it."""

    HASH = "hash"
    SORTED = "sorted"
    LOOP = "loop"


class JoinState:
    """The entries of one inner node of a plan; `ways` says how they are found.

    There is reserve for as many entries as are expected, so that the state grows in place; it costs nothing until used.
    """

    def __init__(
        self,
        inputs: tuple[int, ...],
        ways: Mapping[Signature, Access],
        expected: int = 0,
        meter: Meter | None = None,
    ):
        self.inputs = inputs
        self.missing = Missing()
        self.meter = Meter() if meter is None else meter
        self._head = self._tail = FIRST_ID
        self._stored = 0
        self._evicted = 0
        #: How many entries were ever stored here.
        self.stored_in_all = 0
        #: How entries are found; nested loops need no index.
        self.indexes: dict[Signature, HashIndex | SortedIndex] = {}
        #: A sorted index cannot tell the key of an entry that has to move; these rings can.
        self._sorted_keys: dict[Signature, Ints] = {}
        self._allocate(rings.SMALLEST_CAPACITY, expected)
        for signature, access in ways.items():
            self._make_index(signature, access, expected)

    def _allocate(self, capacity: int, expected: int) -> None:
        self._inherited_bytes = 0
        reserve = rings.capacity_for(expected)
        self._starts: Ints = rings.make_ring(capacity, reserve=reserve)
        self._ends: Ints = rings.make_ring(capacity, reserve=reserve)
        self._members: Ints = rings.make_ring(capacity, len(self.inputs), reserve=reserve)

    def _make_index(self, signature: Signature, access: Access, expected: int) -> None:
        if access is Access.HASH:
            self.indexes[signature] = HashIndex(self.capacity, expected)
        elif access is Access.SORTED:
            self.indexes[signature] = SortedIndex(self.capacity)
            self._sorted_keys[signature] = rings.make_ring(self.capacity, reserve=rings.capacity_for(expected))
        self._measure()

    def _measure(self) -> None:
        words = sum(4 if isinstance(index, HashIndex) else 3 for index in self.indexes.values())
        self._entry_bytes = 8 * (2 + len(self.inputs) + words)

    @classmethod
    def in_place_of(cls, dropped: JoinState, inputs: tuple[int, ...], ways: Mapping[Signature, Access]) -> JoinState:
        """An empty state in the memory of one that nobody uses any more.

        Its ids go on where those ended, so that all this memory holds is below the head and every chain ends at once:
        nothing has to be cleared, or given back to the system and asked for again page by page.
        """
        state = cls(inputs, {}, meter=dropped.meter)
        state._starts, state._ends = dropped._starts, dropped._ends
        state._members = rings.reshape(dropped._members, len(inputs))
        # Narrower entries take a part of memory that was used whole.
        state._inherited_bytes = max(dropped._members.nbytes, dropped._inherited_bytes)
        # The first slot again: those at the end may never have been written, and cost when they first are.
        state._head = state._tail = -(-dropped._tail // dropped.capacity) * dropped.capacity
        reused = [index for index in dropped.indexes.values() if isinstance(index, HashIndex)]
        for signature, access in ways.items():
            if access is Access.HASH and reused:
                state.indexes[signature] = reused.pop()
            else:
                state._make_index(signature, access, 0)
        state._measure()
        return state

    def __len__(self) -> int:
        """How many entries there are: not those evicted, but those that have expired and were not collected yet."""
        return self._tail - self._head - self._evicted

    @property
    def capacity(self) -> int:
        """How many entries there is room for."""
        return len(self._starts)

    @property
    def has_evicted(self) -> bool:
        """Whether slots of the ring are taken by entries that were evicted."""
        return self._evicted > 0

    @property
    def has_hash_index(self) -> bool:
        """Whether there is a hash index, whose memory another state could use."""
        return any(isinstance(index, HashIndex) for index in self.indexes.values())

    def ring(self) -> Ring:
        """What a probe reads."""
        return Ring(self._starts, self._ends, self._members, self._head, self._tail)

    def add_index(self, signature: Signature, access: Access, keys: Ints) -> None:
        """One more way to find the entries; `keys` are those of what `entries` gives."""
        if self._evicted:
            self._pack(EARLIEST, np.zeros(0, np.int64))
        self._make_index(signature, access, 0)
        if signature in self.indexes:
            starts, ends = (rings.read(ring, self._head, self._tail) for ring in (self._starts, self._ends))
            self._insert(signature, self._head, keys, starts, ends)
            self.meter.bytes_moved += len(self) * self._entry_bytes

    def keep_indexes(self, used: Collection[Signature]) -> None:
        """Forget the other indexes: each costs memory, and time whenever entries are stored."""
        self.indexes = {signature: index for signature, index in self.indexes.items() if signature in used}
        self._sorted_keys = {signature: keys for signature, keys in self._sorted_keys.items() if signature in used}
        self._measure()

    def store(self, combos: Combos, keys: Mapping[Signature, Ints]) -> None:
        """Add entries, with the keys by which each index finds them."""
        size, held = len(combos.starts), self._tail - self._head
        if held + size > self.capacity:
            self._resize(rings.capacity_for(held + size))
        is_written = False
        for signature, index in self.indexes.items():
            if isinstance(index, HashIndex) and not is_written:
                # The usual case: ring and index in one pass.
                index.store(self.ring(), keys[signature], combos)
                is_written = True
            else:
                self._insert(signature, self._tail, keys[signature], combos.starts, combos.ends)
        if not is_written:
            rings.write(self._starts, self._tail, combos.starts)
            rings.write(self._ends, self._tail, combos.ends)
            rings.write(self._members, self._tail, combos.rows)
        self._tail += size
        self._stored += size
        self.stored_in_all += size
        self.meter.bytes_moved += size * self._entry_bytes

    def _insert(self, signature: Signature, first: int, keys: Ints, starts: Ints, ends: Ints) -> None:
        index = self.indexes[signature]
        if isinstance(index, HashIndex):
            index.insert(first, keys, starts, ends, self._head)
        else:
            index.insert(first, keys, starts, ends)
        if signature in self._sorted_keys:
            rings.write(self._sorted_keys[signature], first, keys)

    def _keys_of(self, signature: Signature, ids: Ints) -> Ints:
        index = self.indexes[signature]
        if isinstance(index, HashIndex):
            return index.keys_of(ids)
        keys: Ints = self._sorted_keys[signature][ids & (self.capacity - 1)]
        return keys

    def evict(self, number: int, rows: Ints) -> int:
        """Drop the entries that have one of these rows of an input; how many there were.

        It is the caller who then says that they are missing.
        """
        if len(rows) == 0:
            return 0
        ids = kernels.evict(self.ring(), self.inputs.index(number), *_choose(rows))
        self._index_evicted(ids)
        return len(ids)

    def remove(self, ids: Ints) -> None:
        """Drop the entries with these ids, which are different and there."""
        self._ends[ids & (self.capacity - 1)] = EVICTED
        self._index_evicted(ids)

    def take(self, signature: Signature, keys: Ints, intervals: tuple[Ints, Ints]) -> Combos:
        """Drop the entries that one of these keys leads to, at a time when they are valid; a copy of them.

        There is no other index.
        """
        (index,) = self.indexes.values()
        assert isinstance(index, HashIndex) and signature in self.indexes
        taken = index.take(self.ring(), keys, intervals)
        self._evicted += len(taken.starts)
        return taken

    def _index_evicted(self, ids: Ints) -> None:
        for index in self.indexes.values():
            if isinstance(index, HashIndex):
                index.evict(ids)
        self._evicted += len(ids)

    def ids(self) -> Ints:
        """The ids of all entries; evicted ones are left out. They hold until the next change."""
        ids: Ints = kernels.living(self.ring(), EARLIEST, np.zeros(0, np.int64))
        return ids

    def first(self, limit: int) -> Ints:
        """The ids of entries at the head, up to so many and at least one if there are any; evicted ones are left out.

        As long as nothing but the head is evicted, it looks at no more than so many.
        """
        size, found = limit, np.empty(0, np.int64)
        while len(found) == 0 < len(self):
            part = self.ring()._replace(tail=min(self._head + size, self._tail))
            found, size = kernels.living(part, EARLIEST, np.zeros(0, np.int64)), 2 * size
        return found[:limit]

    def living(self, horizon: int, heads: Mapping[int, int]) -> Ints:
        """The ids of the entries that are not dead, see `purge`."""
        first_rows = np.array([heads[number] for number in self.inputs], np.int64)
        ids: Ints = kernels.living(self.ring(), max(horizon, EARLIEST), first_rows)
        return ids

    def find_members(self, signature: Signature, number: int, rows: Ints, find_keys: Callable[[], Ints]) -> Ints:
        """The ids of the entries that have one of these rows of an input; `find_keys` has the rows' under an index."""
        column, index = self.inputs.index(number), self.indexes.get(signature)
        if len(rows) and self.slots < _SCANNED_A_ROW * len(rows):
            scanned: Ints = kernels.find_rows(self.ring(), column, *_choose(rows))
            return scanned
        if isinstance(index, HashIndex):
            return index.find_members(self.ring(), column, rows, find_keys())
        found = self.ids()
        if index is not None:
            wanted = np.unique(find_keys())
            found = index.find(self.ring(), wanted, wanted)
        return found[np.isin(self.members_at(found)[:, column], rows)]

    def members_at(self, ids: Ints) -> Ints:
        """The rows of the entries with these ids, a column for each input."""
        members: Ints = self._members[ids & (self.capacity - 1)]
        return members

    def combos_at(self, ids: Ints) -> Combos:
        """A copy of the entries with these ids."""
        slots = ids & (self.capacity - 1)
        return Combos(self._members[slots], self._starts[slots], self._ends[slots])

    def rows_of(self, number: int, ids: Ints) -> Ints:
        """The rows of an input that these entries have."""
        rows: Ints = self._members[ids & (self.capacity - 1), self.inputs.index(number)]
        return rows

    def pack(self, horizon: int, heads: Mapping[int, int]) -> None:
        """Give back the memory of everything that is evicted or dead."""
        self._pack(max(horizon, EARLIEST), np.array([heads[number] for number in self.inputs], np.int64))
        if rings.capacity_for(self.slots) < self.capacity:  # room was kept for what has expired
            self._resize(rings.capacity_for(self.slots))

    def clear(self) -> None:
        """Drop all entries, and what is known to be missing; it is the caller who then says what is."""
        self._head = self._tail
        self._allocate(rings.SMALLEST_CAPACITY, 0)
        for signature, index in list(self.indexes.items()):
            self._make_index(signature, Access.HASH if isinstance(index, HashIndex) else Access.SORTED, 0)
        self._evicted = self._stored = 0
        self.missing = Missing()

    @property
    def slots(self) -> int:
        """How many slots of the ring are taken, also by what is evicted or dead."""
        return self._tail - self._head

    @property
    def slot_bytes(self) -> int:
        """The bytes that the room for one entry takes."""
        buckets = sum(isinstance(index, HashIndex) for index in self.indexes.values())
        return self._entry_bytes + 16 * buckets

    def purge(self, horizon: int, heads: Mapping[int, int]) -> None:
        """Forget what is dead: entries that ended before the horizon or have a row below its window's head."""
        self.missing.forget(heads)
        held = self._tail - self._head
        if held == 0:
            return
        first_rows = np.array([heads[number] for number in self.inputs], np.int64)
        # Also before there is a horizon, evicted entries have ended.
        horizon = max(horizon, EARLIEST)
        if self._evicted >= max(_EVICTED_SHARE * held, 1):
            self._pack(horizon, first_rows)
            return
        is_tight = held > self.capacity - self.capacity // 8
        most_dead, budget = _SAMPLES // (4 if is_tight else 2), 2 * self._stored + _LEAST_MOVES
        self._stored = 0
        ring = tuple(self.ring())
        self._head, evicted, moved = kernels.collect(ring, horizon, first_rows, _SAMPLES, most_dead + 1, budget)
        self._evicted -= evicted
        if len(moved):
            self._index_moved(moved)
        self._forget_below_head()
        # What lacks something may be about to grow.
        if not self.missing and self.capacity > 16 * max(self._tail - self._head, rings.SMALLEST_CAPACITY):
            self._resize(rings.capacity_for(4 * (self._tail - self._head) + 1))

    def _index_moved(self, moved: Ints) -> None:
        """Entries with these former ids stand at the ids from the tail on."""
        first, tail = self._tail, self._tail + len(moved)
        starts, ends = (rings.read(ring, first, tail) for ring in (self._starts, self._ends))
        for signature in self.indexes:
            self._insert(signature, first, self._keys_of(signature, moved), starts, ends)
        self._tail = tail
        self.meter.bytes_moved += len(moved) * self._entry_bytes

    def _forget_below_head(self) -> None:
        for index in self.indexes.values():
            if isinstance(index, SortedIndex):
                index.forget(self._head, self._tail)

    def _pack(self, horizon: int, first_rows: Ints) -> None:
        """Keep only the entries that are not dead, in rings no larger than they need, and index them anew."""
        indexes = list(self.indexes.values())
        if len(indexes) == 1 and isinstance(indexes[0], HashIndex):
            self._pack_in_one_pass(indexes[0], horizon, first_rows)
            return
        kept = kernels.living(self.ring(), horizon, first_rows)
        slots = kept & (self.capacity - 1)
        combos = Combos(self._members[slots], self._starts[slots], self._ends[slots])
        keys = {signature: self._keys_of(signature, kept) for signature in self.indexes}
        self._allocate(rings.capacity_for(len(kept)), 2 * len(kept))
        for signature, index in list(self.indexes.items()):
            access = Access.HASH if isinstance(index, HashIndex) else Access.SORTED
            self._make_index(signature, access, 2 * len(kept))
        self._head = self._tail
        self._evicted = 0
        self.store(combos, keys)
        self._stored = 0
        self.stored_in_all -= len(kept)

    def _pack_in_one_pass(self, index: HashIndex, horizon: int, first_rows: Ints) -> None:
        """The usual case: entries with one hash index, in the memory that they have if they need as much."""
        before, most = self.ring(), len(self)
        capacity = rings.capacity_for(most)
        if capacity < self.capacity:
            self._allocate(capacity, 2 * most)
            (signature,) = self.indexes
            self.indexes[signature] = packed_index = HashIndex(capacity, 2 * most)
        else:
            packed_index = index
        packed = self.ring()._replace(tail=before.head)
        kept = index.pack(before, packed_index, packed, horizon, first_rows)
        self._tail = self._head + kept
        self._evicted = self._stored = 0
        self.meter.bytes_moved += kept * self._entry_bytes

    def _resize(self, capacity: int) -> None:
        head, tail = self._head, self._tail
        self._starts = rings.resize(self._starts, head, tail, capacity)
        self._ends = rings.resize(self._ends, head, tail, capacity)
        self._members = rings.resize(self._members, head, tail, capacity)
        self._inherited_bytes = 0
        for signature, keys in self._sorted_keys.items():
            self._sorted_keys[signature] = rings.resize(keys, head, tail, capacity)
        for index in self.indexes.values():
            index.resize(head, tail, capacity)
        self.meter.bytes_moved += (tail - head) * self._entry_bytes

    def entries(self, inputs: tuple[int, ...]) -> Combos:
        """A copy of all entries, their columns in the order of `inputs`; evicted ones are left out."""
        order = [self.inputs.index(number) for number in inputs]
        rows = rings.read(self._members, self._head, self._tail)[:, order]
        starts, ends = (rings.read(ring, self._head, self._tail) for ring in (self._starts, self._ends))
        if self._evicted:
            stays = ends != EVICTED
            rows, starts, ends = rows[stays], starts[stays], ends[stays]
        return Combos(np.array(rows, order="C"), np.array(starts), np.array(ends))

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input have new ids."""
        if number not in self.inputs:
            return
        column = self.inputs.index(number)
        self._members[:, column] = renumbering.apply_to_entries(self._members[:, column])
        self.missing.renumber(number, renumbering)

    @property
    def nbytes(self) -> int:
        # Asked after every chunk where memory is limited: loops are cheaper than sums of what is mostly one thing.
        size = self._starts.nbytes + self._ends.nbytes + max(self._members.nbytes, self._inherited_bytes)
        for keys in self._sorted_keys.values():
            size += keys.nbytes
        for index in self.indexes.values():
            size += index.nbytes
        return size + self.missing.nbytes if self.missing else size


def _choose(rows: Ints) -> tuple[Flags, int]:
    """Flags of rows, from the lowest on, and which that is."""
    base = int(rows.min())
    chosen = np.zeros(int(rows.max()) - base + 1, np.bool_)
    chosen[rows - base] = True
    return chosen, base
