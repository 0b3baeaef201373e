"""JISC, just-in-time state completion: states that are new in the plan start empty and fill as they are probed.

After each push more holes are filled in the background if probes have filled few, so that the migration comes to an end
even if some rows are never probed. With a budget of 0 it is pure JISC: what is never probed is never filled, and
expires.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from midstream.engine.executors.protocol import Executor, ExecutorKind, HandedOver, IndexUsed, PlanExecutor
from midstream.engine.joins.combos import Delta
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.migrate.options import BUDGET, Options
from midstream.migrate.record import UNFILLED_ROWS, Recorder
from midstream.migrate.strategy import CostModel, Strategy, Transition
from midstream.plan.tree import Plan
from midstream.state.missing import Cause
from midstream.state.window import Renumbering

#: Without a budget of the caller's: holes filled by a push, per row of the push, and at least so many. What probes have
#: filled counts, so that a push whose rows fill much by themselves does not fill more on top.
HOLES_PER_ROW = 1 / 16
LEAST_HOLES = 64
#: Rows filled at a time: few where a time has to be kept, more where only their number counts.
_SLICE, _LARGE_SLICE = 512, 1 << 13


class JustInTime(Strategy):
    """Keep what both plans have in common; declare the rest missing."""

    name = "jisc"
    unit = UNFILLED_ROWS
    cost_model = CostModel.OVER_PUSHES
    options = (BUDGET,)

    def begin(self, transition: Transition) -> Executor:
        cause = Cause("migration")
        executor = transition.successor(cause)
        holes = executor.holes(cause)
        transition.recorder.begin(holes)
        if holes:
            return Filling(executor, cause, transition.options, transition.recorder)
        transition.recorder.end()
        return executor


class Filling:
    """A plan whose states lack something because of this migration; after each push some of it is filled."""

    def __init__(self, executor: PlanExecutor, cause: Cause, options: Options, recorder: Recorder):
        self.executor = executor
        self._cause = cause
        self._options = options
        self.recorder = recorder
        self._rows = 0
        self._filled_before = executor.filled.rows

    @property
    def kind(self) -> ExecutorKind:
        return self.executor.kind

    @property
    def plan(self) -> Plan:
        return self.executor.plan

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        self._rows += sum(len(delta) for delta in deltas.values())
        return self.executor.process(deltas, horizon)

    def purge(self, horizon: int) -> None:
        self.executor.purge(horizon)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        self.executor.renumber(number, renumbering)

    def after_push(self, horizon: int) -> Executor:
        began = time.perf_counter()
        self._fill_in_the_background(began, horizon)
        filled, holes = self.executor.filled, self.executor.holes(self._cause)
        self._rows = 0
        self._filled_before = filled.rows
        self.recorder.spend(began)
        self.recorder.count_push(holes, filled.rows, filled.entries, self.executor.missing_bytes())
        if holes:
            return self
        self.recorder.end()
        return self.executor

    def _fill_in_the_background(self, began: float, horizon: int) -> None:
        seconds, holes = self._options.budget_seconds, self._options.budget_holes
        if seconds is None and holes is None:
            probed = self.executor.filled.rows - self._filled_before
            holes = max(LEAST_HOLES, int(self._rows * HOLES_PER_ROW)) - probed
        while self.executor.lacks_entries(self._cause):
            if seconds is not None and time.perf_counter() - began >= seconds:
                return
            limit = _SLICE if holes is None else min(_LARGE_SLICE, holes)
            if limit <= 0:
                return
            filled = self.executor.fill_some(limit, horizon, self._cause)
            if holes is not None:
                holes -= filled

    @property
    def plans_at_once(self) -> int:
        return self.executor.plans_at_once

    def migrations(self) -> Iterator[object]:
        yield self.recorder

    @property
    def knows_all_rows(self) -> bool:
        return self.executor.knows_all_rows

    def refusal(self, plan: Plan, strategy: str | None) -> str | None:
        return self.executor.refusal(plan, strategy)

    def hand_over(self) -> Sequence[HandedOver]:
        return self.executor.hand_over()

    @property
    def nbytes(self) -> int:
        return self.executor.nbytes

    def indexes_used(self) -> Iterator[IndexUsed]:
        return self.executor.indexes_used()

    def state_stats(self) -> list[StateStats]:
        return self.executor.state_stats()
