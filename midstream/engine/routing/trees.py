"""Which spanning tree rows should go along, where the query's predicates leave a choice.

A query with a cycle of predicates, or with a key that more than two inputs have, has more edges than a spanning tree.
The best tree lets rows go first where few partners are: it is made of the edges with the lowest rates. What it would
save is reckoned with the same rates as what the present one costs, as if edges were independent. Another tree means
that all STAIRs start anew, so it has to save much before it is worth that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge

Rates = Mapping[Direction, float]

#: A tree is worth thinking about if it needs at most this share of what the present one does.
_BETTER = 0.67
_DEAREST = 1 << 20


def find_tree(edges: Sequence[Edge], rates: Rates) -> tuple[Edge, ...]:
    """The spanning tree of the lowest rates; edges that come first are preferred among equal ones.

    >>> edges = Edge(0, 1), Edge(1, 2), Edge(0, 2)
    >>> rates = {(0, 1): 5.0, (1, 0): 5.0, (1, 2): 1.0, (2, 1): 1.0, (0, 2): 3.0, (2, 0): 0.5}
    >>> [(edge.left, edge.right) for edge in find_tree(edges, rates)]
    [(0, 2), (1, 2)]
    """
    part_of = {number: number for edge in edges for number in (edge.left, edge.right)}
    tree = []
    for edge in sorted(edges, key=lambda edge: min(rates[direction] for direction in edge.directions)):
        left, right = part_of[edge.left], part_of[edge.right]
        if left != right:
            tree.append(edge)
            part_of = {number: left if part == right else part for number, part in part_of.items()}
    return tuple(tree)


def expect_work(
    tree: Sequence[Edge], rates: Rates, arriving: Mapping[int, float], weights: Rates | None = None
) -> float:
    """The combinations that rows make on their way over a tree, always going where the lowest weight is.

    `arriving` has the rows of each input; without weights they go where the fewest partners are.

    >>> tree = Edge(0, 1), Edge(1, 2)
    >>> expect_work(tree, {(0, 1): 2.0, (1, 2): 3.0, (1, 0): 1.0, (2, 1): 1.0}, {0: 10.0})
    80.0
    """
    by, total = rates if weights is None else weights, 0.0
    for start, rows in arriving.items():
        joined, made = frozenset((start,)), rows
        while leading := [edge for edge in tree if edge.leads_out_of(joined)]:
            ways = [(edge.inner_end(joined), edge.other(edge.inner_end(joined))) for edge in leading]
            way = min(ways, key=lambda direction: by[direction])
            made *= rates[way]
            total += made
            joined |= {way[1]}
    return total


class TreeSearch:
    """Keeps an account of what a better tree would have saved, and says when that has paid for going over to it."""

    #: What starting anew costs for each live row, in combinations.
    price = 4.0

    def __init__(self, edges: Sequence[Edge]):
        self.edges = tuple(edges)
        #: Whether there is more than one spanning tree.
        self.has_choice = len(edges) >= len({number for edge in edges for number in (edge.left, edge.right)})
        self._best: tuple[Edge, ...] = ()
        #: What a row of each input makes on the present tree, and on the best one.
        self._work_now: Mapping[int, float] = {}
        self._work_then: Mapping[int, float] = {}
        self._saved = 0.0
        self._factor = 1.0

    def compare(self, tree: Sequence[Edge], rates: Rates) -> None:
        """Find the best tree by other rates, or beside another one."""
        self._best = find_tree(self.edges, rates)
        inputs = {number for edge in self.edges for number in (edge.left, edge.right)}
        self._work_now = {number: expect_work(tree, rates, {number: 1.0}) for number in inputs}
        self._work_then = self._work_now
        if set(self._best) != set(tree):
            self._work_then = {number: expect_work(self._best, rates, {number: 1.0}) for number in inputs}

    def find_better(self, arriving: Mapping[int, int], live_rows: int) -> tuple[Edge, ...] | None:
        """A tree that has paid for itself, after rows have arrived while `live_rows` were in the windows; else None."""
        now, then = (
            sum(rows * work[number] for number, rows in arriving.items()) for work in (self._work_now, self._work_then)
        )
        if now == 0 or then > _BETTER * now:
            return None
        self._saved += now - then
        if self._saved < self._factor * self.price * live_rows:
            return None
        self._saved = 0.0
        self._factor = min(_DEAREST, 2 * self._factor)
        return self._best
