"""The hidden rows of an input: they have arrived, but wait for a partner before they enter the base window.

They are kept like the rows of a base window, with the same indexes, so that a partner finds them by its key. Each has a
*reason*, a number that says what it waits for. Unlike those of a base window, rows leave from anywhere: one that leaves
gets an end before every start, so that no search finds it, and its place is free when the head has passed it or the
window is packed. Ids are of no use to anybody else.
"""

from __future__ import annotations

import numpy as np

from midstream.cql.windows import Window
from midstream.kernels import rings as kernels
from midstream.kernels.types import EARLIEST, EVICTED, Ring
from midstream.state import rings
from midstream.state.expiry import ArrivalNumbers, Expiry, expiry_of
from midstream.state.indexes import Flags, Ints
from midstream.state.window import BaseWindow, Renumbering, WindowRows


class _HiddenExpiry(Expiry):
    """Rows leave as in the base window, and those that have left before are passed over."""

    def __init__(self, window: Window, first: int):
        super().__init__(window, first)
        self._own = expiry_of(window, first)

    def rows_came(self, ring: Ring, numbers: ArrivalNumbers, entered: int, first_ordinal: int, arrivals: Ints) -> None:
        self._own.rows_came(ring, numbers, entered, first_ordinal, arrivals)

    def first_kept(self, ring: Ring, horizon: int) -> int:
        head = self._own.first_kept(ring, horizon)
        return int(kernels.first_alive(ring.ends, head, ring.tail, max(horizon, EARLIEST)))

    def alive(self, ring: Ring, horizon: int) -> Ints:
        head = self._own.first_kept(ring, horizon)
        ids: Ints = kernels.alive(ring.ends, head, ring.tail, max(horizon, EARLIEST))
        return ids

    def still_valid(self, ends: Ints, ordinals: Ints | None, horizon: int, next_ordinal: int) -> Flags:
        return self._own.still_valid(ends, ordinals, horizon, next_ordinal)


class HiddenRows(BaseWindow):
    """The hidden rows of one input; `reasons` is a ring with what each of them waits for."""

    reasons: Ints
    #: How many of the rows from head to tail have been taken out.
    _taken: int

    def _allocate(self) -> None:
        self.reasons = np.empty(self.capacity, np.int64)
        self._taken = 0
        super()._allocate()

    @property
    def waiting(self) -> int:
        """How many rows wait; those behind one that does may have expired."""
        return len(self) - self._taken

    def _make_expiry(self) -> Expiry:
        return _HiddenExpiry(self.layout.window, self.head)

    def hide(self, rows: WindowRows, reasons: Ints, horizon: int) -> None:
        """Take in rows, each with the reason why it waits."""
        self.make_room(len(rows), horizon)
        first = self.append(rows)
        rings.write(self.reasons, first, reasons)

    def reasons_of(self, ids: Ints) -> Ints:
        """What rows wait for."""
        reasons: Ints = self.reasons[ids & (self.capacity - 1)]
        return reasons

    def set_reasons(self, ids: Ints, reasons: Ints) -> None:
        """Have rows wait for something else."""
        self.reasons[ids & (self.capacity - 1)] = reasons

    def living(self, horizon: int) -> Ints:
        """The ids of all rows that wait."""
        ids = self._expiry.alive(self.ring(), horizon)
        assert ids is not None
        return ids

    def keys_of(self, ids: Ints) -> WindowRows:
        """What partners are found by of the rows with these ids."""
        slots = ids & (self.capacity - 1)
        codes = {number: ring[slots] for number, ring in self.codes.items()}
        band_codes = {number: ring[slots] for number, ring in self.band_codes.items()}
        return WindowRows(self.starts[slots], self.ends[slots], codes, band_codes, {})

    def take(self, ids: Ints) -> WindowRows:
        """Take rows out, by their ids in order."""
        rows = self.held(ids)
        self.ends[ids & (self.capacity - 1)] = EVICTED
        self._taken += len(ids)
        for index in self.hash_indexes.values():
            index.evict(ids)
        return rows

    def trim(self, times: int) -> None:
        """Have room for no more than so many times the rows that wait."""
        capacity = rings.capacity_for(times * self.waiting)
        if self._taken and capacity < self.capacity:
            self._pack(self.living(EARLIEST), capacity)
        else:
            super().trim(times)

    def _forget_before(self, head: int) -> None:
        self._taken -= int(np.count_nonzero(rings.read(self.ends, self.head, head) == EVICTED))
        super()._forget_before(head)

    def _resize(self, capacity: int) -> None:
        self.reasons = rings.resize(self.reasons, self.head, self.tail, capacity)
        super()._resize(capacity)

    def _pack(self, kept: Ints, capacity: int) -> Renumbering:
        reasons = self.reasons_of(kept)
        renumbering = super()._pack(kept, capacity)
        rings.write(self.reasons, renumbering.first, reasons)
        return renumbering

    def _count_fixed(self) -> int:
        return super()._count_fixed() + self.reasons.nbytes
