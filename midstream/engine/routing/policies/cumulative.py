"""Cumulative: next comes the edge beyond which, all inputs there taken together, the fewest partners are.

What is stored on the way makes the difference to `rank`. An input with many partners may be worth going to first if a
selective one lies behind it: what is stored then has passed both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.policy import Decision, Field
from midstream.engine.routing.rates import MatchRates


class Cumulative:
    """The lowest product of rates over everything beyond an edge of the spanning tree."""

    name = "cumulative"
    looks_at_rates = True
    looks_at_content = False
    draws = False

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        known = field.rates(rates)
        if known is None:
            return Decision((field.by_plan,))
        return Decision((field.weigh(known | accumulate(field.tree, known), known),))


def accumulate(tree: Sequence[Edge], rates: Mapping[Direction, float]) -> dict[Direction, float]:
    """The product of the rates of each direction and all that lead on from it."""
    neighbours: defaultdict[int, list[int]] = defaultdict(list)
    for edge in tree:
        neighbours[edge.left].append(edge.right)
        neighbours[edge.right].append(edge.left)
    products: dict[Direction, float] = {}

    def product(start: int, end: int) -> float:
        if (start, end) not in products:
            beyond = (product(end, other) for other in neighbours[end] if other != start)
            products[start, end] = rates[start, end] * math.prod(beyond)
        return products[start, end]

    for edge in tree:
        for direction in edge.directions:
            product(*direction)
    return products
