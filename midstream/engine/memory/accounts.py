"""What a join state is worth: how often it is probed, what refilling it would cost, and what it takes.

An account follows one state from chunk to chunk. The state whose probes times cost of a refill per byte is the least is
the first to shrink. It gives up entries until what is left fits into rings of half the size; which ones go first is the
state's to say. If more has to go than that leaves, all of it goes.

A state that, twice in a row, loses more entries in a round than there were probes since the last one is switched off:
its entries go before they are used. It is tried again after a while, each time after twice as long, if there is room.
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.engine.executors.protocol import Holding
from midstream.state import rings
from midstream.state.window import BaseWindow

_STRIKES = 2
#: How full the rings of a state are after a round, so that it has some time until the next.
_FULL = 3 / 4
_FIRST_WAIT, _LONGEST_WAIT = 16, 1 << 12
_OLD_PROBES = 3 / 4


class Account:
    """What is known of one join's state."""

    def __init__(self, holding: Holding, windows: Sequence[BaseWindow]):
        self.holding = holding
        self._windows = windows
        self._state = holding.state
        self._probes_seen, self._stored_seen = holding.probes, holding.state.stored_in_all
        self._probes = 0.0
        self._stored = 0
        self._probes_at_round = holding.probes
        self._strikes = 0
        self._wait, self._waited = _FIRST_WAIT, 0
        self._bytes_when_on = 0

    def follow(self) -> None:
        """A chunk has passed."""
        if self.holding.is_off:
            self._waited += 1
            return
        if self._state is not self.holding.state:  # the holding has begun a new one
            self._state, self._stored_seen = self.holding.state, 0
        self._probes = self._probes * _OLD_PROBES + self.holding.probes - self._probes_seen
        self._stored = self._state.stored_in_all - self._stored_seen
        self._probes_seen, self._stored_seen = self.holding.probes, self._state.stored_in_all

    @property
    def worth(self) -> float:
        """Probes of the state times the cost of a refill, per byte: a probe for each driver row, and for each entry."""
        state = self.holding.state
        refill = len(self._windows[self.holding.stream]) + len(state) * (len(state.inputs) - 1)
        return self._probes * refill / state.nbytes

    @property
    def growth(self) -> int:
        """The bytes by which another chunk like the last one would make it grow, if it could do without."""
        state = self.holding.state
        if self.holding.is_off or self._stored > state.capacity // 2:
            return 0
        return (max(state.capacity, rings.capacity_for(state.slots + self._stored)) - state.capacity) * state.slot_bytes

    @property
    def wanted(self) -> int:
        """The bytes that it has and would grow by."""
        return self.holding.state.nbytes + self.growth

    @property
    def slack(self) -> int:
        """The bytes of the rings that no entry uses yet."""
        state = self.holding.state
        return 0 if self.holding.is_off else (state.capacity - state.slots) * state.slot_bytes

    @property
    def can_shrink(self) -> bool:
        """Whether it holds more than the least that a state takes."""
        is_least = self.holding.state.capacity <= rings.SMALLEST_CAPACITY
        return not self.holding.is_off and (not is_least or self.growth > 0)

    def shrink(self, horizon: int) -> int:
        """Make it half as large, or keep it from doubling; how many entries that took."""
        holding = self.holding
        self._bytes_when_on = holding.state.nbytes
        evicted = self._evict(horizon) if holding.is_useful_in_part else len(holding.state)
        probes, self._probes_at_round = holding.probes - self._probes_at_round, holding.probes
        self._strikes = self._strikes + 1 if evicted > probes else 0
        if self._strikes >= _STRIKES or not holding.is_useful_in_part:
            self._switch_off()
        return evicted

    def empty(self) -> int:
        """Give up all entries; how many there were."""
        return 0 if self.holding.is_off else self.holding.evict_all()

    def _evict(self, horizon: int) -> int:
        state = self.holding.state
        room = max(state.capacity, rings.capacity_for(state.slots + self._stored)) // 2
        left = int(min(_FULL * room, room - self._stored)) if self.growth else int(_FULL * room)
        return self.holding.evict(left, horizon)

    def _switch_off(self) -> None:
        self.holding.switch_off()
        self._strikes = self._waited = 0
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def switch_on_if_it_fits(self, room: int) -> None:
        """Try again whether the state pays, if there is room for what it last took."""
        if self.holding.is_off and self._waited >= self._wait and self._bytes_when_on <= room:
            self.holding.switch_on()
            self._probes_at_round = self._probes_seen = self.holding.probes
            self._stored = 0
