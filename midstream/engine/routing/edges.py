"""The edges that rows go along: a spanning tree of the query's inputs, with one edge for each join of a plan.

An edge between two inputs is as good as what leads from one to the other: all their equalities as one key, else a band,
else a theta, and where there is no predicate at all, nothing: then every row of the other side is tried. Predicates
that are on no edge are tested as soon as a combination has their inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, product

from midstream.cql.model import Query
from midstream.engine.joins.access import BandPath, HashPath, LoopPath, Path
from midstream.plan.tree import Plan
from midstream.state.window import BaseWindow


@dataclass(frozen=True)
class Edge:
    """Two inputs, the lower number first, with the key classes that both have, or the band between them."""

    left: int
    right: int
    classes: tuple[int, ...] = ()
    band: int | None = None

    def __post_init__(self) -> None:
        # Edges are looked up several times in every chunk.
        object.__setattr__(self, "_hash", hash((self.left, self.right, self.classes, self.band)))

    def __hash__(self) -> int:
        found: int = self._hash  # type: ignore[attr-defined]
        return found

    @property
    def directions(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """From either end to the other."""
        return (self.left, self.right), (self.right, self.left)

    def leads_out_of(self, joined: frozenset[int]) -> bool:
        """Whether one end is among these inputs and the other is not."""
        return (self.left in joined) != (self.right in joined)

    def inner_end(self, joined: frozenset[int]) -> int:
        """The end among the inputs that it leads out of."""
        return self.left if self.left in joined else self.right

    def other(self, end: int) -> int:
        """The other end."""
        return self.right if end == self.left else self.left


def make_edge(query: Query, *ends: int) -> Edge:
    """The edge between two inputs."""
    left, right = sorted(ends)
    classes = tuple(at for at, key_class in enumerate(query.key_classes) if {left, right} <= key_class.inputs)
    bands = [
        (band.low is None or band.high is None, at)
        for at, band in enumerate(query.bands)
        if {band.left_input, band.right_input} == {left, right}
    ]
    return Edge(left, right, classes, min(bands)[1] if bands and not classes else None)


def find_edges(query: Query, inputs: Set[int]) -> tuple[Edge, ...]:
    """All edges between these inputs that a predicate leads along."""
    edges = (make_edge(query, left, right) for left, right in combinations(sorted(inputs), 2))
    return tuple(edge for edge in edges if _effort(query, edge)[0] < _NO_PREDICATE)


#: The effort of an edge without any predicate.
_NO_PREDICATE = 4


def _effort(query: Query, edge: Edge) -> tuple[int, int, int, int]:
    """The lower, the better an edge leads to partners; no two edges are equal."""
    if edge.classes:
        return (0, -len(edge.classes), edge.left, edge.right)
    if edge.band is not None:
        band = query.bands[edge.band]
        return (1 if band.low is not None and band.high is not None else 2, 0, edge.left, edge.right)
    has_theta = any(theta.inputs == {edge.left, edge.right} for theta in query.thetas)
    return (3 if has_theta else _NO_PREDICATE, 0, edge.left, edge.right)


def choose_edges(query: Query, plan: Plan) -> tuple[Edge, ...]:
    """The best edge for each join of a plan, in the order of its joins; together they are a spanning tree."""
    chosen = []
    for join in plan.joins():
        edges = (make_edge(query, left, right) for left, right in product(join.left.inputs, join.right.inputs))
        chosen.append(min(edges, key=lambda edge: _effort(query, edge)))
    return tuple(chosen)


def recall_edges(query: Query, plan: Plan, pairs: Set[tuple[int, int]]) -> tuple[Edge, ...]:
    """Edges between these pairs of inputs if they are a spanning tree that a plan can follow, else the best for it."""
    inputs = plan.root.inputs
    edges = [make_edge(query, left, right) for left, right in sorted(pairs) if {left, right} <= inputs]
    recalled = order_edges(edges, plan) if len(edges) == len(inputs) - 1 else None
    return choose_edges(query, plan) if recalled is None else recalled


def order_edges(edges: Iterable[Edge], plan: Plan) -> tuple[Edge, ...] | None:
    """The edges of a spanning tree in the order of a plan's joins; None if a join has no edge there."""
    left = list(edges)
    ordered = []
    for join in plan.joins():
        edge = next((edge for edge in left if _joins(edge, join.left.inputs, join.right.inputs)), None)
        if edge is None:
            return None
        ordered.append(edge)
    return tuple(ordered)


def _joins(edge: Edge, left: frozenset[int], right: frozenset[int]) -> bool:
    return (edge.left in left and edge.right in right) or (edge.left in right and edge.right in left)


def path_along(query: Query, edge: Edge, end: int, windows: Sequence[BaseWindow]) -> Path:
    """How entries that have the row of one end are found by combinations that have a row of the other."""
    if edge.classes:
        return HashPath(query, (end,), edge.classes, windows)
    if edge.band is not None:
        return BandPath((end,), edge.band, query.bands[edge.band], windows)
    return LoopPath((end,), windows)
