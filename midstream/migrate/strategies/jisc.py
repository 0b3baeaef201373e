"""JISC, just-in-time state completion: states that are new in the plan start empty and fill as they are probed.

Where operators move, what they keep starts empty too, and takes the live results that the base windows have: some after
each push, the rest before a step closes.

After each push more holes are filled in the background if probes have filled few, so that the migration comes to an end
even if some rows are never probed. With a budget of 0 it is pure JISC: what is never probed is never filled, and
expires. Near the memory limit nothing more is filled: what is missing then waits for probes alone, and the migration
is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from midstream.engine.executors.protocol import (
    Evicting,
    Executor,
    ExecutorKind,
    FillCounts,
    HandedOver,
    IndexUsed,
    PlanExecutor,
)
from midstream.engine.joins.combos import Delta
from midstream.engine.lane import CatchUp, Lane, SingleLane
from midstream.engine.routing.choice import Moves
from midstream.engine.routing.report import RoutingReport
from midstream.engine.stats import StateStats
from midstream.engine.transition import MayFill, Proposal
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
    moves = Moves.ON_DEMAND

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        return None

    def begin(self, transition: Transition) -> Executor:
        return fill(transition, transition.options)

    def begin_moving(self, transition: Transition) -> Lane:
        """A new stage starts from the live results, as after a restore; they are filled beside the states."""
        stage, catch_up = transition.successor_stage()
        return SingleLane(fill(transition, transition.options, catch_up), stage, catch_up, is_in_background=True)


def fill(transition: Transition, options: Options, catch_up: CatchUp | None = None) -> Executor:
    """The new plan, whose states lack something; what a new stage has to catch up with is filled beside them."""
    cause = Cause("migration")
    may_fill = transition.situation.may_fill
    filling = Filling(transition.successor(cause), cause, options, transition.recorder, may_fill, catch_up)
    holes = filling.holes()
    transition.recorder.begin(holes)
    if holes:
        return filling
    transition.recorder.end()
    return filling.executor


class Filling:
    """A plan whose states lack something because of this migration; after each push some of it is filled.

    So is what a new stage has to catch up with.
    """

    def __init__(
        self,
        executor: PlanExecutor,
        cause: Cause,
        options: Options,
        recorder: Recorder,
        may_fill: MayFill,
        catch_up: CatchUp | None = None,
    ):
        self.executor = executor
        self._cause = cause
        self._catch_up = catch_up
        self._options = options
        self.recorder = recorder
        self._may_fill = may_fill
        self._rows = 0
        self._filled_before = self._filled.rows

    @property
    def _filled(self) -> FillCounts:
        filled, caught = self.executor.filled, self._catch_up
        return filled if caught is None else FillCounts(filled.rows + caught.rows, filled.entries + caught.results)

    def holes(self) -> int:
        """What is left to fill."""
        waiting = 0 if self._catch_up is None else len(self._catch_up)
        return self.executor.holes(self._cause) + waiting

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
        filled, holes = self._filled, self.holes()
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
            probed = self._filled.rows - self._filled_before
            holes = max(LEAST_HOLES, int(self._rows * HOLES_PER_ROW)) - probed
        while self.executor.lacks_entries(self._cause) or self._catch_up:
            if not self._may_fill():
                self.executor.give_up(self._cause)
                return
            if seconds is not None and time.perf_counter() - began >= seconds:
                return
            limit = _SLICE if holes is None else min(_LARGE_SLICE, holes)
            if limit <= 0:
                return
            filled = self._fill_some(limit, horizon)
            if holes is not None:
                holes -= filled

    def _fill_some(self, limit: int, horizon: int) -> int:
        if self.executor.lacks_entries(self._cause):
            return self.executor.fill_some(limit, horizon, self._cause)
        assert self._catch_up is not None
        return self._catch_up.take_some(limit)

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

    def evicting(self) -> Iterator[Evicting]:
        return self.executor.evicting()

    def routing_report(self) -> RoutingReport | None:
        return self.executor.routing_report()

    def hand_over(self) -> Sequence[HandedOver]:
        return self.executor.hand_over()

    @property
    def nbytes(self) -> int:
        return self.executor.nbytes

    def indexes_used(self) -> Iterator[IndexUsed]:
        return self.executor.indexes_used()

    def state_stats(self) -> list[StateStats]:
        return self.executor.state_stats()
