"""Holds an engine to its memory limit: after every chunk, what is held fits, and the next chunk is cut to fit too.

If it does not fit, windows give back room that they do not need, and then the join states that are worth least shrink
(`accounts`), one after the other, until it does. If that is not enough, windows are packed, and hidden rows enter where
window and hidden rows take less together than side by side: a push is taken if they fit together (`forecast`). Base
windows, results that wait and kept late rows cannot be given up. What they take beyond the limit, and what a chunk has
added before it was evicted, is reported as `over`.

A state whose rings are full would double with the next chunk. Where that would break the limit, it is kept from it
ahead, so that the limit holds without growing and shrinking again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from midstream.engine.executors.protocol import Evicting, Executor, Holding
from midstream.engine.input.arrivals import InputReader
from midstream.engine.lane import Lane
from midstream.engine.memory.accounts import Account
from midstream.engine.memory.counting import MemoryUse
from midstream.engine.stats import MemoryStats
from midstream.state.meter import Meter
from midstream.state.window import BaseWindow

#: Background filling stops here, and states that are off may come back below it.
_FILLED_TO = 9 / 10
#: Rows of each stream in the smallest chunk.
LEAST_ROWS = 64
#: How much of what the last chunks took counts, when the next one is sized.
_OLD_CHUNKS = 1 / 2


class Held(Protocol):
    """What a keeper watches."""

    @property
    def windows(self) -> Sequence[BaseWindow]: ...

    @property
    def hidden(self) -> Mapping[int, BaseWindow]:
        """What is kept of rows that wait in front of their windows, by input."""
        ...

    @property
    def lane(self) -> Lane: ...

    @property
    def horizon(self) -> int: ...

    @property
    def meter(self) -> Meter: ...

    @property
    def readers(self) -> Sequence[InputReader]: ...

    def pack_windows(self) -> None:
        """Have windows take no more than the rows that are alive need."""

    def let_hidden_in(self, numbers: Collection[int]) -> None:
        """Have all hidden rows of these inputs enter."""


class Keeper:
    """Keeps one engine below a limit of bytes. `count` tells what everything takes now.

    `find_loose` tells for which inputs window and hidden rows would take less together.
    """

    def __init__(
        self,
        limit: int,
        held: Held,
        count: Callable[[], MemoryUse],
        find_loose: Callable[[], Collection[int]],
        streams: int,
    ):
        self.limit = limit
        self._held = held
        self._count = count
        self._find_loose = find_loose
        self.least_rows = LEAST_ROWS * streams
        #: Whether a chunk has passed since everything was last made to fit.
        self.has_unmeasured = False
        self._accounts: dict[Holding, Account] = {}
        self._row_bytes = 0.0
        self._over = self._rounds = self._evicted = 0

    def hold(self, is_new: bool = False) -> None:
        """Give up entries until everything fits; what was held before a new limit does not count as over it."""
        accounts = self._find_accounts()
        if self.has_unmeasured:
            self.has_unmeasured = False
            for account in accounts:
                account.follow()
        use = self._count()
        if not is_new:
            self._over = max(self._over, use.total - self.limit)
        if use.total + _growth(accounts) > self.limit:
            self._trim_windows(2)
            self._evict(accounts)
            if self._count().total > self.limit:
                self._trim_windows(1)
            if self._count().total > self.limit:
                self._pack(accounts)
            if self._count().total > self.limit:
                self._give_up_rest()
        else:
            room = int(_FILLED_TO * self.limit) - use.total
            for account in accounts:
                account.switch_on_if_it_fits(room)

    def end(self) -> None:
        """There is no limit any more: what was switched off for it goes on as new states."""
        for account in self._find_accounts():
            if account.holding.is_off:
                account.holding.switch_on()

    def _owners(self) -> Iterator[Evicting]:
        for executor in self._held.lane.executors():
            yield from executor.evicting()

    def _find_accounts(self) -> list[Account]:
        """One for each state, those that are off included; what was known of a state that is still there is kept."""
        holdings = [holding for owner in self._owners() for holding in owner.holdings()]
        if holdings != list(self._accounts):
            known, windows = self._accounts, self._held.windows
            self._accounts = {holding: known.get(holding) or Account(holding, windows) for holding in holdings}
        return list(self._accounts.values())

    def _evict(self, accounts: Sequence[Account]) -> None:
        candidates = [account for account in accounts if account.can_shrink]
        while candidates and self._count().total + _growth(accounts) > self.limit:
            account = min(candidates, key=lambda account: account.worth)
            before = account.wanted
            evicted = account.shrink(self._held.horizon)
            if account.wanted >= before:  # the record of what is missing takes as much as was given up
                evicted += account.empty()
                candidates.remove(account)
            elif not account.can_shrink:
                candidates.remove(account)
            self._count_evicted(evicted)

    def _pack(self, accounts: Sequence[Account]) -> None:
        """Have windows and hidden rows take no more than they have to."""
        self._held.pack_windows()
        if self._count().total > self.limit and (loose := self._find_loose()):
            self._held.let_hidden_in(loose)
            self._trim_windows(1)
            self._evict(accounts)

    def _give_up_rest(self) -> None:
        for owner in self._owners():
            self._count_evicted(owner.give_up_rest())

    def _count_evicted(self, evicted: int) -> None:
        self._rounds += evicted > 0
        self._evicted += evicted

    def _trim_windows(self, times: int) -> None:
        """Have no window keep room for more than so many times the rows that it has."""
        for window in (*self._held.windows, *self._held.hidden.values()):
            window.trim(times)

    def may_fill(self, beginning: Executor | None = None) -> bool:
        """Whether there is room to compute what is missing before anybody asks for it.

        With an executor, that one is about to take the place of the one that runs.
        """
        use = self._count()
        total = use.total if beginning is None else use.total - use.states + beginning.nbytes
        return total <= _FILLED_TO * self.limit

    # The size of chunks ----------------------------------------------------------------------------------------------

    def measure(self, rows: int, moved: int) -> None:
        """A chunk of so many rows has passed, for which so many bytes were written.

        One whose rows were all dropped tells nothing about what a row takes that is not.
        """
        self.has_unmeasured = True
        if rows and moved:
            self._row_bytes = self._row_bytes * _OLD_CHUNKS + moved / rows * (1 - _OLD_CHUNKS)

    def next_rows(self) -> int:
        """How many rows the next chunk may have, by what rows of the last ones took and by what is free."""
        if self._row_bytes == 0.0:
            return self.least_rows
        free = self.limit - self._count().total
        free += sum(account.slack for account in self._accounts.values())
        return max(self.least_rows, int(free / self._row_bytes))

    def stats(self, kept_share: float) -> MemoryStats:
        """What it has done so far, what is held now, and which share of rows is kept at present."""
        use = self._count()
        holdings = [holding for owner in self._owners() for holding in owner.holdings()]
        return MemoryStats(
            limit=self.limit,
            windows=use.windows,
            states=use.states,
            holes=sum(holding.state.missing.nbytes for holding in holdings),
            output=use.output,
            late=use.late,
            over=max(self._over, 0),
            evictions=self._rounds,
            evicted=self._evicted,
            refilled=self._held.meter.entries_filled,
            states_off=sum(holding.is_off for holding in holdings),
            kept_share=kept_share,
        )


def _growth(accounts: Sequence[Account]) -> int:
    """The bytes by which states would grow with another chunk like the last one."""
    return sum(account.growth for account in accounts)
