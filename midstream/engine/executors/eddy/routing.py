"""Which edge a combination takes next, and what follows from that for the STAIRs.

The order is fixed: of the edges that lead out of a combination's inputs it takes the one whose join is the lowest in
the plan. So rows take the way that they take through a tree of joins, and STAIRs come to hold just what its states do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from midstream.engine.executors.eddy.edges import Edge


@dataclass(frozen=True)
class Climb:
    """How an entry of a STAIR becomes what the STAIR should hold: sets of inputs, and the edges between them."""

    sets: tuple[frozenset[int], ...]
    edges: tuple[Edge, ...]

    @cached_property
    def wanted(self) -> frozenset[int]:
        """The inputs of the entries that the STAIR should hold."""
        return self.sets[-1]


class FixedRouting:
    """`edges` are in the order in which combinations prefer them."""

    def __init__(self, edges: tuple[Edge, ...]):
        self.edges = edges
        self._next: dict[frozenset[int], Edge] = {}
        self._climbs: dict[tuple[int, Edge], Climb] = {}

    def next_edge(self, joined: frozenset[int]) -> Edge:
        """The edge that combinations of these inputs take; not for those that have all inputs."""
        edge = self._next.get(joined)
        if edge is None:
            edge = self._next[joined] = next(edge for edge in self.edges if edge.leads_out_of(joined))
        return edge

    def climb(self, stream: int, edge: Edge) -> Climb:
        """What the STAIR of a stream on an edge should hold, and how its rows get there.

        It begins with the stream. While its combinations take another edge, they have to be joined over that one first:
        with what the STAIR at its other end should hold.
        """
        key = (stream, edge)
        if key not in self._climbs:
            sets, edges = [frozenset((stream,))], list[Edge]()
            while (via := self.next_edge(sets[-1])) != edge:
                beyond = self.climb(via.other(via.inner_end(sets[-1])), via).wanted
                sets.append(sets[-1] | beyond)
                edges.append(via)
            self._climbs[key] = Climb(tuple(sets), tuple(edges))
        return self._climbs[key]
