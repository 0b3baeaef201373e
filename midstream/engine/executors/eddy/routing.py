"""Which edge a combination takes next, and what follows from that for the STAIRs and as a plan.

Of the edges that lead out of a combination's inputs it takes the one whose direction is the first in an order. In the
order of a plan's joins rows take the way that they take through a tree of joins, and STAIRs come to hold just what its
states do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.router import Order
from midstream.plan.nodes import Join, Leaf, Node


@dataclass(frozen=True)
class Climb:
    """How an entry of a STAIR becomes what the STAIR should hold: sets of inputs, and the edges between them."""

    sets: tuple[frozenset[int], ...]
    edges: tuple[Edge, ...]

    @cached_property
    def wanted(self) -> frozenset[int]:
        """The inputs of the entries that the STAIR should hold."""
        return self.sets[-1]


class Routing:
    """`edges` are those of a spanning tree; `order` has both directions of each, the preferred ones first.

    It is that of one class of rows. Combinations that have none of the inputs `keyed` do not show their class yet, and
    go by the order `before`. The STAIRs `off` should hold rows alone, whatever the order.
    """

    def __init__(
        self,
        edges: Sequence[Edge],
        order: Order,
        keyed: frozenset[int] = frozenset(),
        before: Order | None = None,
        off: Collection[tuple[int, Edge]] = (),
    ):
        self.edges = tuple(edges)
        self._off = frozenset(off)
        self._places: Mapping[Direction, int] = {direction: place for place, direction in enumerate(order)}
        self._places_before = self._places
        if before is not None:
            self._places_before = {direction: place for place, direction in enumerate(before)}
        self._keyed = keyed
        self._inputs = frozenset(number for direction in order for number in direction)
        self._next: dict[frozenset[int], Edge] = {}
        self._climbs: dict[tuple[int, Edge], Climb] = {}

    def next_edge(self, joined: frozenset[int]) -> Edge:
        """The edge that combinations of these inputs take; not for those that have all inputs."""
        edge = self._next.get(joined)
        if edge is None:
            leading = (edge for edge in self.edges if edge.leads_out_of(joined))
            edge = self._next[joined] = min(leading, key=lambda edge: self._place(joined, edge))
        return edge

    def _place(self, joined: frozenset[int], edge: Edge) -> int:
        end = edge.inner_end(joined)
        places = self._places_before if joined.isdisjoint(self._keyed) else self._places
        return places[end, edge.other(end)]

    def climb(self, stream: int, edge: Edge) -> Climb:
        """What the STAIR of a stream on an edge should hold, and how its rows get there.

        It begins with the stream. While its combinations take another edge, they have to be joined over that one first:
        with what the STAIR at its other end should hold.
        """
        key = (stream, edge)
        if key not in self._climbs:
            sets, edges = [frozenset((stream,))], list[Edge]()
            while key not in self._off and (via := self.next_edge(sets[-1])) != edge:
                beyond = self.climb(via.other(via.inner_end(sets[-1])), via).wanted
                sets.append(sets[-1] | beyond)
                edges.append(via)
            self._climbs[key] = Climb(tuple(sets), tuple(edges))
        return self._climbs[key]

    def tree_from(self, stream: int) -> Node:
        """The tree of joins that rows of a stream go through, if every STAIR holds what it should."""
        node: Node = Leaf(stream)
        while node.inputs != self._inputs:
            node = self._joined(node, self.next_edge(node.inputs))
        return node

    def _joined(self, node: Node, via: Edge) -> Node:
        """A tree, joined with what the STAIR beyond an edge should hold."""
        beyond = via.other(via.inner_end(node.inputs))
        held: Node = Leaf(beyond)
        for edge in self.climb(beyond, via).edges:
            held = self._joined(held, edge)
        return Join(node, held)
