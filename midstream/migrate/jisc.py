"""JISC, just-in-time state completion: states that are new in the plan start empty and fill as they are probed.

After each push more holes are filled in the background if probes have filled few, so that the migration comes to an end
even if some rows are never probed. With a budget of 0 it is pure JISC: what is never probed is never filled, and
expires.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from midstream.engine.executors.protocol import Executor, IndexUsed
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.joins.combos import Delta
from midstream.engine.stats import StateStats
from midstream.engine.transition import Situation
from midstream.kernels.types import Combos
from midstream.migrate.record import Recorder
from midstream.migrate.strategy import Options, Transition
from midstream.plan.tree import Plan
from midstream.state.missing import Cause
from midstream.state.window import Renumbering

#: Without a budget of the caller's: holes filled by a push, per row of the push, and at least so many. What probes have
#: filled counts, so that a push whose rows fill much by themselves does not fill more on top.
HOLES_PER_ROW = 1 / 16
LEAST_HOLES = 64
#: Rows filled at a time: few where a time has to be kept, more where only their number counts.
_SLICE, _LARGE_SLICE = 512, 1 << 13


class JustInTime:
    """Keep what both plans have in common; declare the rest missing."""

    name = "jisc"
    runs_beside = False

    def refusal(self, situation: Situation, plan: Plan) -> str | None:
        return None

    def begin(self, transition: Transition) -> Executor:
        cause = Cause("migration")
        executor = successor(transition, cause)
        holes = executor.holes(cause)
        transition.recorder.begin(holes)
        if holes:
            return Filling(executor, cause, transition.options, transition.recorder)
        transition.recorder.end()
        return executor


def successor(transition: Transition, cause: Cause) -> TreeExecutor:
    """An executor for the new plan that keeps what it can of what runs; what it lacks, it lacks for this cause.

    Of a migration that runs several plans nothing is kept: the base windows are enough.
    """
    running = transition.situation.executor
    if isinstance(running, Filling):
        running = running.executor
    if isinstance(running, TreeExecutor) and running.knows_all_rows:
        return running.successor(transition.plan, cause)
    executor = transition.fresh()
    executor.declare_all_missing(cause)
    return executor


class Filling:
    """A plan whose states lack something because of this migration; after each push some of it is filled."""

    def __init__(self, executor: TreeExecutor, cause: Cause, options: Options, recorder: Recorder):
        self.executor = executor
        self._cause = cause
        self._options = options
        self.recorder = recorder
        self._rows = 0
        self._filled_before = executor.filler.rows_filled

    @property
    def plan(self) -> Plan:
        return self.executor.plan

    def process(self, deltas: Mapping[int, Delta], floor: int) -> Iterator[Combos]:
        self._rows += sum(len(delta) for delta in deltas.values())
        return self.executor.process(deltas, floor)

    def purge(self, watermark: int) -> None:
        self.executor.purge(watermark)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        self.executor.renumber(number, renumbering)

    def after_push(self, watermark: int) -> Executor:
        began = time.perf_counter()
        self._fill_in_the_background(began, watermark)
        filler, holes = self.executor.filler, self.executor.holes(self._cause)
        self._rows = 0
        self._filled_before = filler.rows_filled
        self.recorder.spend(began)
        self.recorder.batch(holes, filler.rows_filled, filler.entries_filled, self.executor.missing_bytes())
        if holes:
            return self
        self.recorder.end()
        return self.executor

    def _fill_in_the_background(self, began: float, watermark: int) -> None:
        seconds, holes = self._options.budget_seconds, self._options.budget_holes
        if seconds is None and holes is None:
            probed = self.executor.filler.rows_filled - self._filled_before
            holes = max(LEAST_HOLES, int(self._rows * HOLES_PER_ROW)) - probed
        for node in self.executor.joins():
            while node.state is not None and node.state.missing.is_due_to(self._cause):
                if seconds is not None and time.perf_counter() - began >= seconds:
                    return
                limit = _SLICE if holes is None else min(_LARGE_SLICE, holes)
                if limit <= 0:
                    return
                filled = self.executor.filler.fill_some(node, limit, watermark, self._cause)
                if holes is not None:
                    holes -= filled

    @property
    def plans_at_once(self) -> int:
        return 1

    def indexes_used(self) -> Iterator[IndexUsed]:
        return self.executor.indexes_used()

    def state_stats(self) -> list[StateStats]:
        return self.executor.state_stats()
