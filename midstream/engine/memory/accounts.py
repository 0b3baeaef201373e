"""What a join state is worth: how often it is probed, what refilling it would cost, and what it takes.

An account follows one state from chunk to chunk. The state whose probes times cost of a refill per byte is the least is
the first to shrink. It gives up its oldest driver rows, by sixteenths of the driver's window, until what is left fits
into rings of half the size; rows that probes have filled in since the last round stay for this one. If more has to go
than that leaves, all of it goes.

A state that, twice in a row, loses more entries in a round than there were probes since the last one is switched off:
its entries go before they are used. It is tried again after a while, each time after twice as long, if there is room.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from midstream.engine.executors.protocol import Evicting
from midstream.engine.joins.combos import heads_of
from midstream.engine.joins.nodes import JoinNode
from midstream.state import rings
from midstream.state.indexes import Ints
from midstream.state.join_state import Access, JoinState
from midstream.state.window import BaseWindow

_SLICES = 16
_STRIKES = 2
#: How full the rings of a state are after a round, so that it has some time until the next.
_FULL = 3 / 4
_FIRST_WAIT, _LONGEST_WAIT = 16, 1 << 12
_OLD_PROBES = 3 / 4


class Account:
    """What is known of one join's state."""

    def __init__(self, owner: Evicting, node: JoinNode, windows: Sequence[BaseWindow]):
        assert node.state is not None and node.path is not None
        self.owner, self.node = owner, node
        self._state: JoinState = node.state
        self._driver = node.path.driver
        self._windows = windows
        self._probes_seen, self._stored_seen = node.probes, node.state.stored_in_all
        self._probes = 0.0
        self._stored = 0
        self._probes_at_round = node.probes
        self._strikes = 0
        self._wait, self._waited = _FIRST_WAIT, 0
        self._bytes_when_on = 0

    def follow(self) -> None:
        """A chunk has passed."""
        self._probes = self._probes * _OLD_PROBES + self.node.probes - self._probes_seen
        self._stored = self._state.stored_in_all - self._stored_seen
        self._probes_seen, self._stored_seen = self.node.probes, self._state.stored_in_all
        self._waited += self.node.is_off

    @property
    def worth(self) -> float:
        """Probes of the state times the cost of a refill, per byte: a probe for each driver row, and for each entry."""
        refill = len(self._windows[self._driver]) + len(self._state) * (len(self.node.inputs) - 1)
        return self._probes * refill / self._state.nbytes

    @property
    def growth(self) -> int:
        """The bytes by which another chunk like the last one would make it grow, if it could do without."""
        slots, capacity = self._state.slots, self._state.capacity
        if self.node.is_off or self._stored > capacity // 2:
            return 0
        return (max(capacity, rings.capacity_for(slots + self._stored)) - capacity) * self._state.slot_bytes

    @property
    def wanted(self) -> int:
        """The bytes that it has and would grow by."""
        return self._state.nbytes + self.growth

    @property
    def slack(self) -> int:
        """The bytes of the rings that no entry uses yet."""
        return (self._state.capacity - self._state.slots) * self._state.slot_bytes

    @property
    def can_shrink(self) -> bool:
        """Whether it holds more than the least that a state takes."""
        return not self.node.is_off and (self._state.capacity > rings.SMALLEST_CAPACITY or self.growth > 0)

    def shrink(self, horizon: int) -> int:
        """Make it half as large, or keep it from doubling; how many entries that took."""
        assert self.node.path is not None
        self._bytes_when_on = self._state.nbytes
        evicted = len(self._state) if self.node.path.access is Access.LOOP else self._evict_oldest(horizon)
        probes, self._probes_at_round = self.node.probes - self._probes_at_round, self.node.probes
        self._strikes = self._strikes + 1 if evicted > probes else 0
        # Without an index nothing says which entries a probe lacks: a part of such a state is of no use.
        if self._strikes >= _STRIKES or self.node.path.access is Access.LOOP:
            self._switch_off()
        return evicted

    def empty(self) -> int:
        """Give up all entries; how many there were."""
        return 0 if self.node.is_off else self.owner.evict_all(self.node)

    def _evict_oldest(self, horizon: int) -> int:
        heads = heads_of(self._windows)
        room = max(self._state.capacity, rings.capacity_for(self._state.slots + self._stored)) // 2
        goal = int(min(_FULL * room, room - self._stored)) if self.growth else int(_FULL * room)
        ids = self._state.living(horizon, heads)
        surplus = len(ids) - goal
        evicted = 0
        if surplus > 0:
            rows = self._find_oldest(self._state.rows_of(self._driver, ids), surplus)
            evicted = self.owner.evict_all(self.node) if rows is None else self._evict(rows)
        self._state.pack(horizon, heads)
        return evicted

    def _evict(self, rows: Ints) -> int:
        return self.owner.evict(self.node, self._driver, rows)

    def _find_oldest(self, held: Ints, surplus: int) -> Ints | None:
        """The oldest sixteenths of driver rows that have so many of the entries, given by their driver rows.

        None if only all of them are enough.
        """
        window = self._windows[self._driver]
        rows = np.arange(window.head, window.tail)
        entries = np.bincount(held - window.head, minlength=len(rows))
        entries[self._find_refilled(window) - window.head] = 0
        ends = np.unique(np.arange(1, _SLICES) * len(rows) // _SLICES)
        ends = ends[ends > 0]
        before = np.cumsum(entries)[ends - 1]
        enough = np.flatnonzero(before >= surplus)
        if len(enough) == 0 or surplus >= len(held):
            return None
        last = ends[enough[0]]
        chosen: Ints = rows[:last][entries[:last] > 0]
        return chosen

    def _find_refilled(self, window: BaseWindow) -> Ints:
        """Driver rows that were evicted in the last round and are there again."""
        found = [box.refilled(self._driver) for box in self._state.missing if box.was_evicted_by(self._driver)]
        refilled: Ints = np.concatenate([np.empty(0, np.int64), *found])
        return refilled[refilled >= window.head]

    def _switch_off(self) -> None:
        self.owner.switch_off(self.node)
        self._strikes = self._waited = 0
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def switch_on_if_it_fits(self, room: int) -> None:
        """Try again whether the state pays, if there is room for what it last took."""
        if self.node.is_off and self._waited >= self._wait and self._bytes_when_on <= room:
            self.owner.switch_on(self.node)
            self._probes_at_round = self.node.probes
