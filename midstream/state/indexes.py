"""Indexes over a ring: a hash multimap for equal keys, sorted runs for ranges of keys.

Both take int64 keys, forget by themselves what the ring forgets, and offer the same two questions: `probe` joins
combinations with matching entries into a block, `find` names the matching ids. Neither shows evicted entries, whose end
is before every start: a hash index has the ends in its slots and is told of evictions, a sorted one reads the ring's.
"""

from __future__ import annotations

import secrets
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from midstream.kernels import chains, held_rows, partners, runs
from midstream.kernels.types import (
    AFRESH,
    COUNT,
    CURSOR_CELLS,
    EARLIEST,
    FIRST_ID,
    NEXT,
    NO_ID,
    Chains,
    Combos,
    HeldRows,
    KeyCounts,
    Layout,
    Place,
    Ring,
)
from midstream.state import rings

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
#: A place without any entry.
NOWHERE: Place = ((np.full(1, NO_ID), np.zeros((1, 4), np.int64), 0), FIRST_ID)
_BUCKETS_PER_SLOT = 2
#: What a hash index takes for a slot: its buckets, and a record of four words.
HASH_SLOT_BYTES = 8 * (_BUCKETS_PER_SLOT + 4)
_SHARED_FROM = 1 << 16


_AT_THE_BEGINNING = np.zeros(CURSOR_CELLS, np.int64)
_AT_THE_BEGINNING[NEXT] = AFRESH


def new_cursor() -> Ints:
    """A cursor at the beginning, with an empty block."""
    return _AT_THE_BEGINNING.copy()


def draw_seed() -> int:
    """A seed for one index that nobody can guess; it is never stored, and no result depends on it."""
    return secrets.randbits(63)


def find_lacking(
    places: tuple[Place, Place, Place],
    arrived: tuple[Ints, Ints, Ints],
    keys: Ints,
    intervals: tuple[Ints, Ints],
    reasons: Ints,
    reason: int,
) -> int:
    """Give a reason to each row that has none yet and has no partner; how many there are: see the kernel."""
    return int(partners.find_lacking(places, arrived, keys, intervals, reasons, reason))


class HashIndex:
    """Entries by equal key."""

    def __init__(self, capacity: int, expected: int = 0):
        reserve = rings.capacity_for(max(capacity, expected))
        buckets = rings.make_ring(_BUCKETS_PER_SLOT * capacity, reserve=_BUCKETS_PER_SLOT * reserve)
        buckets[:] = NO_ID
        self._chains = Chains(buckets, rings.make_ring(capacity, 4, reserve=reserve), draw_seed())

    def insert(self, first: int, keys: Ints, starts: Ints, ends: Ints, head: int = FIRST_ID) -> None:
        """Insert entries with the ids from `first` on; those below `head` have left the ring."""
        chains.insert(tuple(self._chains), head, first, keys, starts, ends)

    def store(self, ring: Ring, keys: Ints, combos: Combos) -> None:
        """Write combinations into a ring from its tail on, and insert them with their keys."""
        chains.store(tuple(self._chains), tuple(ring), keys, tuple(combos))

    def pack(self, ring: Ring, into: HashIndex, packed: Ring, horizon: int, first_rows: Ints) -> int:
        """Write what is not dead of a ring into another from its tail on, and into its index; how many entries.

        The index may be this one, if the rings are in the same memory.
        """
        into._chains.buckets[:] = NO_ID
        return int(chains.pack(self._chains, ring, into._chains, packed, horizon, first_rows))

    def keys_of(self, ids: Ints) -> Ints:
        """The keys of entries."""
        slots = self._chains.slots
        keys: Ints = slots[ids & (len(slots) - 1), 0]
        return keys

    def evict(self, ids: Ints) -> None:
        """The entries with these ids were evicted."""
        chains.end(tuple(self._chains), ids)

    def probe(self, ring: Ring, keys: Ints, combos: Combos, out: Combos, cursor: Ints, layout: Layout) -> bool:
        """Join into `out`; False if it is full, and then to be called again with the same cursor."""
        records = tuple(self._chains), tuple(ring), keys, tuple(combos), tuple(out), cursor, tuple(layout)
        return bool(chains.probe(*records))

    def probe_held(
        self, keys: Ints, combos: Combos, out: Combos, cursor: Ints, layout: Layout, held: HeldRows, filter: KeyCounts
    ) -> bool:
        """As `probe`, with the rows of a window that are in a set and have one of the keys of a filter."""
        records = (
            tuple(self._chains),
            keys,
            tuple(combos),
            tuple(out),
            cursor,
            tuple(layout),
            tuple(held),
            tuple(filter),
        )
        return bool(held_rows.probe(*records))

    def claim(self, head: int, keys: Ints, mark: int, states: NDArray[np.uint8], base: int) -> Combos:
        """The entries with one of these keys that a record has as missing; they are being filled from now on."""
        claimed: Combos = chains.claim(tuple(self._chains), head, keys, mark, states, base)
        return claimed

    def find(self, head: int, keys: Ints) -> Ints:
        """The ids of the entries with one of these keys."""
        cursor = new_cursor()
        found: Ints = np.empty(2 * len(keys) + 64, np.int64)
        while not chains.find(self._chains, head, keys, found, cursor):
            found = np.concatenate((found, np.empty(len(found), np.int64)))
        return found[: cursor[COUNT]]

    def find_held(self, keys: Ints, held: HeldRows, filter: KeyCounts) -> Ints:
        """The ids of the rows of a set with one of these keys, each once; as `probe_held`."""
        found: Ints = held_rows.find(tuple(self._chains), keys, tuple(held), tuple(filter))
        return found

    def find_members(self, ring: Ring, column: int, rows: Ints, keys: Ints) -> Ints:
        """The ids of the entries that have one of these rows, which have these keys, in a column; each once."""
        found: Ints = held_rows.find_members(tuple(self._chains), tuple(ring), column, rows, keys)
        return found

    def find_partners(self, ring: Ring, keys: Ints, intervals: tuple[Ints, Ints], found: Flags) -> None:
        """Set those flags whose row has the key of an entry and an interval that intersects the entry's."""
        partners.find_partners(tuple(self._chains), ring.head, keys, intervals, found)

    def place(self, head: int) -> Place:
        """Where partners may be, as `find_lacking` takes it: the entries from `head` on."""
        buckets, slots, seed = self._chains
        return (buckets, slots, seed), head

    def find_same(self, ring: Ring, keys: Ints, rows: Ints, horizon: int, found: Flags) -> None:
        """Set those flags whose combination has the key and the rows of an entry that ends at the horizon or later."""
        chains.find_same(self._chains, ring, keys, rows, max(horizon, EARLIEST), found)

    def split_by_partner(self, ring: Ring, keys: Ints, intervals: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
        """The places of the rows that have a partner, as in `find_partners`, and of those that have none."""
        having, lacking = partners.split(tuple(self._chains), ring.head, keys, intervals)
        return having, lacking

    def take(self, ring: Ring, keys: Ints, intervals: tuple[Ints, Ints]) -> Combos:
        """Evict the entries with the key and time of a row from a ring with this index alone; a copy of them."""
        taken: Combos = partners.take(self._chains, ring, keys, intervals)
        return taken

    def count_partners(
        self, ring: Ring, keys: Ints, intervals: tuple[Ints, Ints], places: Ints, enough: int, counts: Ints
    ) -> tuple[int, int, int]:
        """Count the entries with the key and time of rows at some places until they are enough; see the kernel."""
        rows, visited, found = partners.count_partners(
            tuple(self._chains), ring.head, keys, intervals, places, enough, counts
        )
        return int(rows), int(visited), int(found)

    def wake(self, ring: Ring, keys: Ints, intervals: tuple[Ints, Ints], reasons: Ints, reason: int) -> Ints:
        """The ids of the entries that wait for a reason and have the key and time of a row; see `partners.wake`."""
        woken: Ints = partners.wake(tuple(self._chains), ring.head, keys, intervals, reasons, reason)
        return woken

    def resize(self, head: int, tail: int, capacity: int) -> None:
        """Change the ring's capacity.

        A large index that grows is not built anew: each new bucket begins with the chain of the old one that it was
        part of. Such a chain has keys of other buckets too, which a probe passes over until they have left the ring.
        """
        buckets, slots, seed = self._chains
        is_shared = len(slots) >= _SHARED_FROM and capacity > len(slots)
        slots = rings.resize(slots, head, tail, capacity)
        if is_shared:
            self._chains = Chains(rings.repeat(buckets, _BUCKETS_PER_SLOT * capacity), slots, seed)
        else:
            self._chains = Chains(rings.make_ring(_BUCKETS_PER_SLOT * capacity), slots, seed)
            chains.relink(self._chains, head, tail)

    @property
    def nbytes(self) -> int:
        return self._chains.buckets.nbytes + self._chains.slots.nbytes


class SortedIndex:
    """Entries by ranges of keys, as sorted runs that are merged when they are of like size."""

    def __init__(self, capacity: int):
        self._runs: list[tuple[Ints, Ints]] = []
        self._newest: list[int] = []
        self._head = 0

    def insert(self, first: int, keys: Ints, starts: Ints, ends: Ints) -> None:
        if len(keys) == 0:
            return
        order = np.argsort(keys, kind="stable")
        self._runs.append((keys[order], order + first))
        self._newest.append(first + len(keys) - 1)
        while len(self._runs) > 1 and 2 * len(self._runs[-1][0]) >= len(self._runs[-2][0]):
            self._merge_last_two()

    def _merge_last_two(self) -> None:
        values, ids = self._runs.pop()
        self._runs[-1] = runs.merge(*self._runs[-1], values, ids, self._head)
        newest = self._newest.pop()
        self._newest[-1] = max(newest, self._newest[-1])

    def forget(self, head: int, tail: int) -> None:
        """Ids below `head` are gone: drop runs that have no others, and merge all when most of what is kept is dead."""
        self._head = head
        kept = [at for at, newest in enumerate(self._newest) if newest >= head]
        if len(kept) < len(self._runs):
            self._runs = [self._runs[at] for at in kept]
            self._newest = [self._newest[at] for at in kept]
        if sum(len(ids) for _, ids in self._runs) > 2 * (tail - head) + rings.SMALLEST_CAPACITY:
            if len(self._runs) == 1:
                nothing = np.empty(0, np.int64)
                self._runs.append((nothing, nothing))
                self._newest.append(NO_ID)
            while len(self._runs) > 1:
                self._merge_last_two()

    def probe(
        self, run: int, ring: Ring, ranges: tuple[Ints, Ints], combos: Combos, out: Combos, cursor: Ints, layout: Layout
    ) -> bool:
        """Join with one run into `out`; False if it is full, and then to be called again with the same cursor."""
        return bool(runs.probe(self._runs[run], ring, ranges, combos, out, cursor, layout))

    @property
    def run_count(self) -> int:
        return len(self._runs)

    def find(self, ring: Ring, lows: Ints, highs: Ints) -> Ints:
        """The ids of the entries with a key in one of these ranges, each once."""
        lows, highs = unite_ranges(lows, highs)
        parts: list[Ints] = [np.empty(0, np.int64)]
        for run in self._runs:
            cursor = new_cursor()
            found: Ints = np.empty(2 * len(lows) + 64, np.int64)
            while not runs.find(run, ring, lows, highs, found, cursor):
                found = np.concatenate((found, np.empty(len(found), np.int64)))
            parts.append(found[: cursor[COUNT]])
        return np.concatenate(parts)

    def find_partners(self, ring: Ring, ranges: tuple[Ints, Ints], intervals: tuple[Ints, Ints], found: Flags) -> None:
        """Set those flags whose row has an entry in its range, and an interval that intersects the entry's."""
        for run in self._runs:
            runs.find_partners(run, ring, ranges, intervals, found)

    def wake(
        self, ring: Ring, ranges: tuple[Ints, Ints], intervals: tuple[Ints, Ints], reasons: Ints, reason: int
    ) -> Ints:
        """The ids of the entries that wait for a reason and lie in the range and time of a row; see `runs.wake`."""
        woken = [runs.wake(run, ring, ranges, intervals, reasons, reason) for run in self._runs]
        return np.concatenate([np.empty(0, np.int64), *woken])

    def resize(self, head: int, tail: int, capacity: int) -> None:
        pass

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes + ids.nbytes for values, ids in self._runs)


def unite_ranges(lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
    """Ranges that have the same numbers, and none in common; a low end above the high one has no numbers.

    >>> [ends.tolist() for ends in unite_ranges(np.array([5, 1, 9, 3]), np.array([7, 4, 8, 3]))]
    [[1, 5], [4, 7]]
    """
    there = lows <= highs
    lows, highs = lows[there], highs[there]
    order = np.argsort(lows)
    lows, highs = lows[order], np.maximum.accumulate(highs[order])
    begins = np.flatnonzero(np.concatenate(([True], lows[1:] > highs[:-1]))[: len(lows)])
    ends = np.append(begins[1:], len(lows))[: len(begins)] - 1
    return lows[begins], highs[ends]
