"""A join state: combinations of the rows of several inputs, and what it lacks of them.

Entries stand in a ring in the order in which they were stored. They die in another order, because an entry lives as
long as the shortest-lived of its rows. Dead entries leave at the head; when a sample shows that about half of the ring
is dead, or a quarter of a ring that is nearly full, live entries at the head are moved to the tail, a few per stored
entry, so that no batch pays for all and the ring does not grow for the sake of the dead. Nobody refers to an entry by
its id, so moving is free of consequences.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import numpy as np

from midstream.kernels import rings as kernels
from midstream.kernels.types import FIRST_ID, Combos, Ring
from midstream.state import rings
from midstream.state.indexes import HashIndex, Ints, SortedIndex
from midstream.state.meter import Meter
from midstream.state.missing import Missing
from midstream.state.window import Renumbering

_SAMPLES = 32
_LEAST_MOVES = 64


class Access(enum.Enum):
    """How the entries of a state are found by the join above it."""

    HASH = "hash"
    SORTED = "sorted"
    LOOP = "loop"


class JoinState:
    """The entries of one inner node of a plan, found through one index.

    There is reserve for as many entries as are expected, so that the state grows in place; it costs nothing until used.
    """

    def __init__(self, inputs: tuple[int, ...], access: Access, expected: int = 0, meter: Meter | None = None):
        self.inputs = inputs
        self.missing = Missing()
        self._access = access
        self.meter = Meter() if meter is None else meter
        capacity, reserve = rings.SMALLEST_CAPACITY, rings.capacity_for(expected)
        self._starts: Ints = rings.room(capacity, reserve=reserve)
        self._ends: Ints = rings.room(capacity, reserve=reserve)
        self._members: Ints = rings.room(capacity, len(inputs), reserve=reserve)
        self._keys: Ints = rings.room(capacity, reserve=reserve)
        self._head = self._tail = FIRST_ID
        self._stored = 0
        self._entry_bytes = 8 * (len(self.inputs) + (7 if self._access is Access.HASH else 3))
        self.hash_index = HashIndex(capacity, expected) if self._access is Access.HASH else None
        self.sorted_index = SortedIndex(capacity) if self._access is Access.SORTED else None

    @classmethod
    def in_place_of(cls, dropped: JoinState, inputs: tuple[int, ...]) -> JoinState:
        """An empty state in the memory of one that nobody uses any more, found in the same way.

        Its ids go on where those ended, so that all this memory holds is below the head and every chain ends at once:
        nothing has to be cleared, or given back to the system and asked for again page by page.
        """
        state = cls(inputs, dropped._access, meter=dropped.meter)
        state._starts, state._ends, state._keys = dropped._starts, dropped._ends, dropped._keys
        state._members = rings.reshaped(dropped._members, len(inputs))
        # The first slot again: those at the end may never have been written, and cost when they first are.
        state._head = state._tail = -(-dropped._tail // dropped.capacity) * dropped.capacity
        if dropped.hash_index is not None:
            state.hash_index = dropped.hash_index
        return state

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def access(self) -> Access:
        """How the entries are found."""
        return self._access

    @property
    def capacity(self) -> int:
        """How many entries there is room for."""
        return len(self._starts)

    def ring(self) -> Ring:
        """What a probe reads."""
        return Ring(self._starts, self._ends, self._members, self._head, self._tail)

    def store(self, combos: Combos, keys: Ints) -> None:
        """Add entries; `keys` are those of the join above, and mean nothing where that has no index."""
        size = len(combos.starts)
        if len(self) + size > len(self._starts):
            self._resize(rings.capacity_for(len(self) + size))
        first = self._tail
        if self.hash_index is not None:
            self.hash_index.store(self.ring(), self._keys, keys, combos)
        else:
            rings.write(self._starts, first, combos.starts)
            rings.write(self._ends, first, combos.ends)
            rings.write(self._members, first, combos.rows)
            rings.write(self._keys, first, keys)
            self._index(first, keys, combos.starts, combos.ends)
        self._tail += size
        self._stored += size
        self.meter.bytes_moved += size * self._entry_bytes

    def _index(self, first: int, keys: Ints, starts: Ints, ends: Ints) -> None:
        if self.hash_index is not None:
            self.hash_index.insert(first, keys, starts, ends)
        elif self.sorted_index is not None:
            self.sorted_index.insert(first, keys, starts, ends)

    def purge(self, watermark: int, heads: Mapping[int, int]) -> None:
        """Forget what is dead: entries that ended before the watermark or have a row below its window's head."""
        self.missing.forget(heads)
        if len(self) == 0:
            return
        floors = np.array([heads[number] for number in self.inputs], np.int64)
        dead = kernels.dead_of_sample(self.ring(), watermark, floors, _SAMPLES, self._tail)
        is_tight = len(self) > self.capacity - self.capacity // 8
        budget = 2 * self._stored + _LEAST_MOVES if (4 if is_tight else 2) * dead > _SAMPLES else 0
        self._stored = 0
        first = self._tail
        self._head, self._tail = kernels.collect(self.ring(), self._keys, watermark, floors, budget)
        if self._tail > first:
            moved = (rings.read(ring, first, self._tail) for ring in (self._keys, self._starts, self._ends))
            self._index(first, *moved)
            self.meter.bytes_moved += (self._tail - first) * self._entry_bytes
        if self.sorted_index is not None:
            self.sorted_index.forget(self._head, self._tail)
        # What lacks something may be about to grow.
        if not self.missing and len(self._starts) > 16 * max(len(self), rings.SMALLEST_CAPACITY):
            self._resize(rings.capacity_for(4 * len(self) + 1))

    def _resize(self, capacity: int) -> None:
        head, tail = self._head, self._tail
        self._starts = rings.resized(self._starts, head, tail, capacity)
        self._ends = rings.resized(self._ends, head, tail, capacity)
        self._members = rings.resized(self._members, head, tail, capacity)
        self._keys = rings.resized(self._keys, head, tail, capacity)
        if self.hash_index is not None:
            self.hash_index.resize(head, tail, capacity)
        self.meter.bytes_moved += len(self) * self._entry_bytes

    def entries(self, inputs: tuple[int, ...]) -> Combos:
        """A copy of all entries, their columns in the order of `inputs`."""
        order = [self.inputs.index(number) for number in inputs]
        rows = rings.read(self._members, self._head, self._tail)[:, order]
        intervals = (rings.read(ring, self._head, self._tail) for ring in (self._starts, self._ends))
        return Combos(np.ascontiguousarray(rows), *(np.array(one) for one in intervals))

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input have new ids."""
        if number not in self.inputs:
            return
        column = self.inputs.index(number)
        self._members[:, column] = renumbering.apply(self._members[:, column])
        self.missing.renumber(number, renumbering)

    @property
    def nbytes(self) -> int:
        own = self._starts.nbytes + self._ends.nbytes + self._members.nbytes + self._keys.nbytes
        parts = (self.hash_index, self.sorted_index, self.missing)
        return own + sum(part.nbytes for part in parts if part is not None)
