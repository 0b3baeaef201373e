"""Cost: rows take the way through the tree of joins that makes the fewest combinations in all.

`rank` and `cumulative` ask at each step where one row finds the fewest partners. Where combinations are stored, what
counts is how many are made of the rows of all inputs together, and rows that come often count more. A join makes the
same combinations whatever the joins below it are, so the best tree of a set of inputs is made of the best trees of two
parts of it.

On SteMs, which store no combinations, rows of each input may take an order of their own: there it decides as `rank`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.policies.cumulative import accumulate
from midstream.engine.routing.policy import Decision, Field, Weights
from midstream.engine.routing.rates import MatchRates

#: With more edges there are too many parts to look at; then it decides as `cumulative`.
_MOST_EDGES = 8


class Cost:
    """The place of an edge among the joins of the tree that costs the least."""

    name = "cost"
    looks_at_rates = True
    looks_at_content = False
    draws = False
    #: What each row costs on any tree, in combinations: where these are few, one tree is as good as another. Another
    #: tree than the plan's is taken if it leaves less than a `Field.worth` of the work.
    row_cost = 0.2

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        known = field.rates(rates)
        if known is None:
            return Decision((field.by_plan,))
        if not field.keeps:
            return Decision((field.weigh(known, known),))
        if len(field.tree) > _MOST_EDGES:
            return Decision((field.weigh(known | accumulate(field.tree, known), known),))
        trees = Trees(field.tree, known, rates.arrivals.shares)
        planned, best = trees.cost_of(field.by_plan), trees.find_best()
        if self.row_cost + best.cost >= field.worth * (self.row_cost + planned):
            return Decision((field.by_plan,))
        weights = {way: place for place, edge in enumerate(best.edges) for way in edge.directions}
        return Decision((weights,), reason=f"{best.cost:.3g} combinations a row, {planned:.3g} by the plan")


class Tree(NamedTuple):
    """The combinations that the joins of a tree make for each row that comes, and their edges, the lowest first."""

    cost: float
    edges: tuple[Edge, ...]


class Trees:
    """The trees of joins over a spanning tree, by the rates of its edges and the shares of the rows that come.

    >>> edges = Edge(0, 1), Edge(1, 2)
    >>> rates = {(0, 1): 5.0, (1, 0): 5.0, (1, 2): 0.5, (2, 1): 0.5}
    >>> Trees(edges, rates, {0: 0.5, 1: 0.25, 2: 0.25}).find_best()
    Tree(cost=2.75, edges=(Edge(left=1, right=2, classes=(), band=None), Edge(left=0, right=1, classes=(), band=None)))
    """

    def __init__(self, edges: Sequence[Edge], rates: Mapping[Direction, float], shares: Mapping[int, float]):
        self._edges, self._rates, self._shares = edges, rates, shares
        self._neighbours: defaultdict[int, list[int]] = defaultdict(list)
        for edge in edges:
            self._neighbours[edge.left].append(edge.right)
            self._neighbours[edge.right].append(edge.left)
        self._best: dict[frozenset[int], Tree] = {}

    def find_best(self) -> Tree:
        """The tree that costs the least."""
        return self._best_of(frozenset(self._neighbours))

    def cost_of(self, weights: Weights) -> float:
        """What the tree costs whose joins have the edges of the lowest weights at the bottom."""
        total, parts = 0.0, {number: frozenset((number,)) for number in self._neighbours}
        for edge in sorted(self._edges, key=lambda edge: weights[edge.left, edge.right]):
            joined = parts[edge.left] | parts[edge.right]
            parts |= dict.fromkeys(joined, joined)
            total += self._made(joined)
        return total

    def _best_of(self, inputs: frozenset[int]) -> Tree:
        if len(inputs) == 1:
            return Tree(0.0, ())
        if inputs not in self._best:
            trees = [self._join_at(edge, inputs) for edge in self._edges if {edge.left, edge.right} <= inputs]
            self._best[inputs] = min(trees, key=lambda tree: tree.cost)
        return self._best[inputs]

    def _join_at(self, edge: Edge, inputs: frozenset[int]) -> Tree:
        """The best tree of these inputs whose topmost join has this edge."""
        left = self._reach(edge.left, inputs, edge.right)
        parts = self._best_of(left), self._best_of(inputs - left)
        return Tree(sum(part.cost for part in parts) + self._made(inputs), (*parts[0].edges, *parts[1].edges, edge))

    def _reach(self, start: int, inputs: frozenset[int], before: int) -> frozenset[int]:
        """Those of the inputs that are connected with one of them otherwise than through another."""
        further = (number for number in self._neighbours[start] if number in inputs and number != before)
        return frozenset((start,)).union(*(self._reach(number, inputs, start) for number in further))

    def _made(self, inputs: frozenset[int]) -> float:
        """The combinations of these inputs that a row makes on average, whichever input it is of."""
        return sum(self._shares.get(number, 0.0) * self._found(number, inputs, number) for number in inputs)

    def _found(self, start: int, inputs: frozenset[int], before: int) -> float:
        """The combinations that a row finds beyond its input, but not back where it comes from."""
        found = 1.0
        for number in self._neighbours[start]:
            if number in inputs and number != before:
                found *= self._rates[start, number] * self._found(number, inputs, start)
        return found
