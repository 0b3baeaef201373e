"""A lane: an executor, and the stage that its results go to.

    rows -> executor -> results -> stage -> tables
                          ^
       results of rows that were there before the stage began

A plan whose operators stand elsewhere needs another stage, so a migration may have two lanes for a while. Whatever the
pipeline needs to know of what runs is a question here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from midstream.engine.executors.protocol import Executor, IndexUsed
from midstream.engine.joins.backlog import Backlog
from midstream.engine.joins.combos import Delta
from midstream.engine.operators.held import HeldBack
from midstream.engine.stats import StateStats
from midstream.state.window import Renumbering

#: Of a stage's backlog, the results of so many rows are found in each push; of the rest, when a step closes.
_CAUGHT_UP_IN_A_PUSH = 1 << 13
_CAUGHT_UP_AT_ONCE = 1 << 16


class CatchUp:
    """Has a stage take the results of its backlog."""

    def __init__(self, stage: HeldBack, backlog: Backlog):
        self._stage = stage
        self._backlog = backlog
        #: How many rows have been caught up with, and how many results they had.
        self.rows = self.results = 0

    def __len__(self) -> int:
        """How many rows are left."""
        return len(self._backlog)

    def take_some(self, limit: int) -> int:
        """Take the results of up to so many rows; how many there were."""
        before = len(self)
        for combos in self._backlog.find_some(limit):
            self.results += len(combos.starts)
            for _ in self._stage.take(combos):
                raise AssertionError("a stage that starts from live results gives them out in steps")
        self.rows += before - len(self)
        return before - len(self)

    def take_all(self) -> None:
        while len(self):
            self.take_some(_CAUGHT_UP_AT_ONCE)

    def indexes_used(self) -> Iterator[IndexUsed]:
        return self._backlog.indexes_used()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        self._backlog.renumber(number, renumbering)


class Lane(Protocol):
    """Takes rows that have just entered the base windows and gives out result tables."""

    @property
    def executor(self) -> Executor:
        """What runs the plan, or the plan that a migration leads to."""

    @property
    def held(self) -> HeldBack:
        """The stage that gives results out now."""

    def executors(self) -> Iterator[Executor]:
        """All executors that rows go through."""

    @property
    def is_moving(self) -> bool:
        """Whether operators are on their way: plans run whose operators may stand in different places."""

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[pa.Table]:
        """Take rows through the plan, and its results to the stage; what ended before `horizon` is dead."""

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        """As `Stage.advance`; what the stage has to know before has been found by then."""

    def finish(self) -> Iterator[pa.Table]:
        """The end of input: give out everything that waits."""

    def purge(self, horizon: int) -> None:
        """Forget what can never matter again; the base windows have already done so."""

    def keeps_from(self) -> int:
        """As `Stage.keeps_from`."""

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""

    def after_push(self, horizon: int) -> Lane:
        """Work between two pushes; what runs from now on, itself or what it led to."""

    def catch_up_some(self) -> None:
        """Find some of the results that the stage lacks."""

    @property
    def is_catching_up(self) -> bool:
        """Whether a stage lacks results."""

    def run(self, executor: Executor) -> Lane:
        """Go on with another executor of a plan in which operators stand in the same places."""

    @property
    def plans_at_once(self) -> int:
        """How many plans each row goes through."""

    def migrations(self) -> Iterator[object]:
        """As `Executor.migrations`."""

    def indexes_used(self) -> Iterator[IndexUsed]:
        """The hash indexes of base windows that are probed."""

    @property
    def nbytes(self) -> int:
        """The bytes that it holds beyond the base windows."""

    @property
    def output_bytes(self) -> int:
        """What of these is not its executors'."""

    def state_stats(self) -> list[StateStats]:
        """The size of every state, and of the stage if it keeps anything."""


class SingleLane:
    """One executor and its stage, which first has to catch up with `catch_up`.

    Some of that is done in each push, unless a migration does it (`is_in_background`), the rest before a step closes.
    """

    def __init__(
        self,
        executor: Executor,
        stage: HeldBack,
        catch_up: CatchUp | None = None,
        is_in_background: bool = False,
    ):
        self.executor = executor
        self.held = stage
        self.catch_up = catch_up
        self._is_in_background = is_in_background
        #: How many results the executor has given.
        self.results = 0

    def executors(self) -> Iterator[Executor]:
        yield self.executor

    @property
    def is_moving(self) -> bool:
        return False

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[pa.Table]:
        for combos in self.executor.process(deltas, horizon):
            self.results += len(combos.starts)
            yield from self.held.take(combos)

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        if self.catch_up is not None and self.held.closes(watermark):
            self.catch_up.take_all()
        self._forget_backlog()
        yield from self.held.advance(watermark)

    def finish(self) -> Iterator[pa.Table]:
        if self.catch_up is not None:
            self.catch_up.take_all()
        self._forget_backlog()
        yield from self.held.finish()

    def purge(self, horizon: int) -> None:
        self.executor.purge(horizon)

    def keeps_from(self) -> int:
        return self.held.keeps_from()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        self.executor.renumber(number, renumbering)
        self.held.renumber(number, renumbering)
        if self.catch_up is not None:
            self.catch_up.renumber(number, renumbering)

    def after_push(self, horizon: int) -> SingleLane:
        self.executor = self.executor.after_push(horizon)
        return self

    def catch_up_some(self) -> None:
        if self.catch_up is not None and not self._is_in_background:
            self.catch_up.take_some(_CAUGHT_UP_IN_A_PUSH)
        self._forget_backlog()

    def _forget_backlog(self) -> None:
        if self.catch_up is not None and len(self.catch_up) == 0:
            self.catch_up = None

    @property
    def is_catching_up(self) -> bool:
        return self.catch_up is not None

    def run(self, executor: Executor) -> SingleLane:
        if executor is not self.executor:
            self.executor = executor
            self.held.follow(executor.plan)
        return self

    @property
    def plans_at_once(self) -> int:
        return self.executor.plans_at_once

    def migrations(self) -> Iterator[object]:
        return self.executor.migrations()

    def indexes_used(self) -> Iterator[IndexUsed]:
        yield from self.executor.indexes_used()
        yield from self.held.indexes_used()
        if self.catch_up is not None:
            yield from self.catch_up.indexes_used()

    @property
    def nbytes(self) -> int:
        return self.executor.nbytes + self.output_bytes

    @property
    def output_bytes(self) -> int:
        size = self.held.nbytes
        for state in self.held.state_stats():
            size += state.bytes
        return size

    def state_stats(self) -> list[StateStats]:
        kept = self.held.nbytes
        waiting = 0 if self.catch_up is None else len(self.catch_up)
        output = [StateStats("output", "output", 0, kept, waiting, ())] if kept or waiting else []
        return [*self.executor.state_stats(), *self.held.state_stats(), *output]
