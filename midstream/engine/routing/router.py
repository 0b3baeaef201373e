"""Asks a policy once a chunk in which order directions are preferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midstream.engine.routing.edges import Edge
from midstream.engine.routing.policy import Field, Policy, Weights
from midstream.engine.routing.rates import Direction, MatchRates
from midstream.engine.routing.report import RoutingReport, StreamRouting, describe_reason

#: All directions, the one that is taken first at the front.
Order = tuple[Direction, ...]


class Router:
    """Decides for one executor, over its own field, by rates that it shares with others."""

    def __init__(self, policy: Policy, field: Field, rates: MatchRates):
        self.policy, self.field = policy, field
        self._rates = rates
        self._version: int | None = None
        self.changes = 0
        self.weights: Weights = field.by_plan
        self.order: Order = _sort(field.by_plan, field.by_plan)
        if policy.looks_at_rates:
            rates.watch(field.edges)

    @property
    def holds_to_plan(self) -> bool:
        """Whether nothing but the plan counts."""
        return not self.policy.looks_at_rates

    def decide(self) -> bool:
        """Decide for the next chunk; whether the order is another than before."""
        if self.policy.looks_at_rates:
            self._rates.watch(self.field.edges)
        if self._version == self._rates.version and not self.policy.draws:
            return False
        self._version = self._rates.version
        self.weights = self.policy.weigh(self.field, self._rates)
        before, self.order = self.order, _sort(self.weights, self.field.by_plan, self._stalled())
        self.changes += self.order != before
        return self.order != before

    def _stalled(self) -> frozenset[int]:
        """Inputs that rows go to last: as none of theirs come, what the others make is there when they come again."""
        return self._rates.stalled if self.policy.looks_at_rates else frozenset()

    def report(self, aliases: Sequence[str], tree: Sequence[Edge], way_of: Callable[[int], str]) -> RoutingReport:
        """What users see; `way_of` writes the way that rows of an input take."""
        inputs = sorted({start for start, _ in self.order})
        return RoutingReport(
            policy=self.policy.name,
            tree=tuple((aliases[edge.left], aliases[edge.right]) for edge in tree),
            streams=tuple(
                StreamRouting(aliases[start], way_of(start), 1.0, self._reason(aliases, start)) for start in inputs
            ),
            changes=self.changes,
        )

    def _reason(self, aliases: Sequence[str], start: int) -> str:
        if self.holds_to_plan:
            return "as the plan says"
        if self.weights is self.field.by_plan:
            return "as the plan says, until every edge was seen"
        return describe_reason(
            [(aliases[end], self.weights[begin, end]) for begin, end in self.order if begin == start]
        )


def _sort(weights: Weights, by_plan: Weights, last: frozenset[int] = frozenset()) -> Order:
    def place(direction: Direction) -> tuple[bool, float, float, Direction]:
        return direction[1] in last, weights[direction], by_plan[direction], direction

    return tuple(sorted(by_plan, key=place))
