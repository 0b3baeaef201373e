"""What users see of a routing: `engine.routing`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StreamRouting:
    """The way that rows of one input and class take, if everything is where the routing wants it.

    `number` is that of the class, 0 where rows are not told apart, and `share` the class's share of the rows. `order`
    is written as a plan; `reason` tells what the first step was chosen by.
    """

    alias: str
    number: int
    order: str
    share: float
    reason: str


@dataclass(frozen=True)
class RoutingReport:
    """By which policy rows are routed, over which pairs of inputs, and which way those of each input take.

    `plan` is where the router began; it decides between equals. `tree` is empty on SteMs, which go from any input to
    any other. `changes` counts how often a router has decided on another order.
    """

    policy: str
    plan: str
    tree: tuple[tuple[str, str], ...]
    streams: tuple[StreamRouting, ...]
    changes: int

    def __str__(self) -> str:
        lines = [self.policy + "".join(f", {left}-{right}" for left, right in self.tree)]
        has_classes = any(way.number for way in self.streams)
        for way in self.streams:
            name = f"{way.alias}, class {way.number}" if has_classes else way.alias
            lines.append(f"  {name}: {way.order}  ({way.share:.0%}; {way.reason})")
        return "\n".join(lines)


def merge_reports(plan: str, reports: Sequence[RoutingReport | None]) -> RoutingReport | None:
    """One report on the fragments of a plan, which share no inputs; None if they go as the plan says."""
    there = [report for report in reports if report is not None]
    if not there:
        return None
    return RoutingReport(
        there[0].policy,
        plan,
        tuple(pair for report in there for pair in report.tree),
        tuple(way for report in there for way in report.streams),
        sum(report.changes for report in there),
    )


def describe_reason(weights: Sequence[tuple[str, float]]) -> str:
    """What the inputs that rows could go to next were weighed at, the chosen one first.

    >>> describe_reason([("s", 0.25), ("t", 3.0)])
    's 0.25, t 3'
    """
    return ", ".join(f"{alias} {weight:.3g}" for alias, weight in weights)
