"""The executor of a plan with several fragments: one executor for each of them, over the same base windows.

    rows of o, p    ->  executor of (o p)     ->  results of fragment 0  ->  o  p  .  .
    rows of o_2, s  ->  executor of (o_2 s)   ->  results of fragment 1  ->  .  .  o_2  s

The branches of a set operation are fragments, and so are the joins below and beside an operator that stands below a
join. Fragments share no input and no state, and each knows its inputs by the numbers of the whole query; so states,
marks and causes need no translation. A result has a column for every input. Those of other fragments hold `OF_OTHERS`,
which is higher than every row id: it makes a result neither old nor keeps it from being new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from midstream.cql.model import Query
from midstream.engine.executors.protocol import Evicting, ExecutorKind, FillCounts, HandedOver, IndexUsed, PlanExecutor
from midstream.engine.joins.combos import Delta, widen
from midstream.engine.routing.report import RoutingReport, merge_reports
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan.tree import Plan
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow, Renumbering

Found = TypeVar("Found")


def make_executor(
    kind: ExecutorKind,
    query: Query,
    plan: Plan,
    windows: Sequence[BaseWindow],
    since: Mapping[int, int] | None = None,
) -> PlanExecutor:
    """An executor of a kind for a plan, which may have several fragments; as `ExecutorKind.make`."""
    if plan.fragments == (plan,):
        return kind.make(query, plan, windows, since)
    return FragmentedExecutor(kind, query, plan, windows, since)


class FragmentedExecutor:
    """Runs the plans of all fragments side by side."""

    def __init__(
        self,
        kind: ExecutorKind,
        query: Query,
        plan: Plan,
        windows: Sequence[BaseWindow],
        since: Mapping[int, int] | None = None,
    ):
        self.kind = kind
        self.plan = plan
        self._inputs = plan.fragment_inputs
        self.executors = [
            kind.make(query, fragment, windows, None if since is None else _of_inputs(since, inputs))
            for fragment, inputs in zip(plan.fragments, self._inputs, strict=True)
        ]
        self._width = len(windows)

    def start(self, cause: Cause, handed_over: Sequence[HandedOver] = ()) -> None:
        for executor, inputs in zip(self.executors, self._inputs, strict=True):
            own = [held for held in handed_over if held.inputs <= set(inputs)]
            executor.start(cause, own)

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        for executor, inputs in zip(self.executors, self._inputs, strict=True):
            if own := _of_inputs(deltas, inputs):
                for combos in executor.process(own, horizon):
                    yield widen(combos, inputs, self._width)

    def purge(self, horizon: int) -> None:
        for executor in self.executors:
            executor.purge(horizon)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        for executor, inputs in zip(self.executors, self._inputs, strict=True):
            if number in inputs:
                executor.renumber(number, renumbering)

    def after_push(self, horizon: int) -> FragmentedExecutor:
        for executor in self.executors:
            following = executor.after_push(horizon)
            assert following is executor, "a plan runs until it is changed"
        return self

    @property
    def plans_at_once(self) -> int:
        """One: each row goes through the plan of its fragment."""
        return 1

    def migrations(self) -> Iterator[object]:
        return iter(())

    @property
    def knows_all_rows(self) -> bool:
        return all(executor.knows_all_rows for executor in self.executors)

    def indexes_used(self) -> Iterator[IndexUsed]:
        for executor in self.executors:
            yield from executor.indexes_used()

    def evicting(self) -> Iterator[Evicting]:
        for executor in self.executors:
            yield from executor.evicting()

    def refusal(self, plan: Plan, strategy: str | None) -> str | None:
        """Of fragments that the plan has too; others would start anew."""
        own = dict(zip(self._inputs, self.executors, strict=True))
        fragments = zip(plan.fragment_inputs, plan.fragments, strict=True)
        refusals = (own[inputs].refusal(fragment, strategy) for inputs, fragment in fragments if inputs in own)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def routing_report(self) -> RoutingReport | None:
        return merge_reports(str(self.plan), [executor.routing_report() for executor in self.executors])

    def hand_over(self) -> list[HandedOver]:
        return [held for executor in self.executors for held in executor.hand_over()]

    @property
    def nbytes(self) -> int:
        return sum(executor.nbytes for executor in self.executors)

    def state_stats(self) -> list[StateStats]:
        return [stats for executor in self.executors for stats in executor.state_stats()]

    # What is missing -------------------------------------------------------------------------------------------------

    def lacks_entries(self, cause: Cause) -> bool:
        return any(executor.lacks_entries(cause) for executor in self.executors)

    def holes(self, cause: Cause) -> int:
        return sum(executor.holes(cause) for executor in self.executors)

    def missing_bytes(self) -> int:
        return sum(executor.missing_bytes() for executor in self.executors)

    @property
    def filled(self) -> FillCounts:
        counts = [executor.filled for executor in self.executors]
        return FillCounts(sum(count.rows for count in counts), sum(count.entries for count in counts))

    def fill_some(self, limit: int, horizon: int, cause: Cause) -> int:
        lacking = next(executor for executor in self.executors if executor.lacks_entries(cause))
        return lacking.fill_some(limit, horizon, cause)

    def give_up(self, cause: Cause) -> None:
        for executor in self.executors:
            executor.give_up(cause)

    def complete(self, cause: Cause, horizon: int) -> None:
        for executor in self.executors:
            executor.complete(cause, horizon)


def _of_inputs(by_input: Mapping[int, Found], inputs: Sequence[int]) -> dict[int, Found]:
    return {number: found for number, found in by_input.items() if number in inputs}
