"""Asks a policy once a chunk in which order directions are preferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midstream.engine.routing.classes import KeyClasses
from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.policy import Decision, Field, Policy, Weights
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.report import RoutingReport, StreamRouting, describe_reason
from midstream.plan.tree import Plan

#: All directions, the one that is taken first at the front.
Order = tuple[Direction, ...]


class Router:
    """Decides for one executor, over its own field, by rates that it shares with others."""

    def __init__(self, policy: Policy, field: Field, rates: MatchRates):
        self.policy, self.field = policy, field
        self._rates = rates
        self._version: tuple[int, int] | None = None
        self.changes = 0
        self.decision = Decision((field.by_plan,))
        #: One order for each class of rows.
        self.orders: tuple[Order, ...] = (_sort(field.by_plan, field.by_plan),)
        self._watch()

    def _watch(self) -> None:
        if self.policy.looks_at_rates:
            self._rates.watch(self.field.edges, self.policy.looks_at_content)

    @property
    def classes(self) -> KeyClasses | None:
        """How rows are told apart, unless they are not."""
        return self.decision.classes

    @property
    def shares(self) -> Sequence[float]:
        """The share of each class."""
        return [1.0] if self.classes is None else self._rates.by_class.shares(self.classes)

    @property
    def largest_class(self) -> int:
        """The number of the class with the largest share."""
        shares = self.shares
        return max(range(len(shares)), key=lambda number: shares[number])

    def decide(self) -> bool:
        """Decide for the next chunk; whether an order is another than before."""
        self._watch()
        if self._version == self._rates.version and not self.policy.draws:
            return False
        self._version = self._rates.version
        before = self.orders, self.classes
        self.decision = self.policy.decide(self.field, self._rates)
        last = self._last()
        self.orders = tuple(_sort(weights, self.field.by_plan, last) for weights in self.decision.weights)
        has_changed = before != (self.orders, self.classes)
        self.changes += has_changed
        return has_changed

    def _last(self) -> frozenset[int]:
        """Inputs that rows go to last: they pause now and then, and find what the others have made meanwhile."""
        return frozenset(self._rates.awaited) if self.policy.looks_at_rates else frozenset()

    def report(self, plan: Plan, tree: Sequence[Edge], way_of: Callable[[int, int], str]) -> RoutingReport:
        """What users see; it began with `plan`, and `way_of` writes the way that rows of an input and a class take."""
        aliases = plan.aliases
        inputs = sorted({start for start, _ in self.field.by_plan})
        ways = [
            StreamRouting(aliases[start], number, way_of(start, number), share, self._reason(aliases, start, number))
            for start in inputs
            for number, share in enumerate(self.shares)
        ]
        return RoutingReport(
            policy=self.policy.name,
            plan=str(plan),
            tree=tuple((aliases[edge.left], aliases[edge.right]) for edge in tree),
            streams=tuple(ways),
            changes=self.changes,
        )

    def _reason(self, aliases: Sequence[str], start: int, number: int) -> str:
        if not self.policy.looks_at_rates:
            return "as the plan says"
        weights = self.decision.weights[number]
        if weights is self.field.by_plan:
            is_seen = self.field.rates(self._rates) is not None
            return f"as the plan says, {'as others save little' if is_seen else 'until every edge was seen'}"
        if self.decision.reason:
            return self.decision.reason
        ends = [end for begin, end in self.orders[number] if begin == start]
        return describe_reason([(aliases[end], weights[start, end]) for end in ends])


def _sort(weights: Weights, by_plan: Weights, last: frozenset[int] = frozenset()) -> Order:
    def place(direction: Direction) -> tuple[bool, float, float, Direction]:
        return direction[1] in last, weights[direction], by_plan[direction], direction

    return tuple(sorted(by_plan, key=place))
