"""Which edges are worth their checks: gauges that rest are reviewed now and then, those at work decide by themselves.

What could be saved along an edge follows from what joins have done for rows of its input before they have met the
neighbour: see `Evicting.work_without`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from midstream.engine.demand.edges import Edge
from midstream.engine.joins.gauge import Gauge, Load, steps_of
from midstream.state.window import WindowRows

#: What joins have done, in lookups, that rows of one input without a partner in another take part in.
Work = Callable[[int, int], float]
#: How many calls the checks along one edge take in a chunk, with those for what waits and wakes.
_CALLS_A_CHUNK = 4


class EdgeReviews:
    """The gauges of edges by their number, and what has arrived and entered so far."""

    def __init__(self, edges: int, inputs: int, is_adaptive: bool):
        self.gauges = [Gauge(is_adaptive, _CALLS_A_CHUNK) for _ in range(edges)]
        self._is_adaptive = is_adaptive
        self._steps = 0
        self.chunks = 0
        self._arrived = [0] * inputs
        self._entered = [0] * inputs
        #: By the number of an edge, at which step it is reviewed, and what had arrived by the last time.
        self._due = [gauge.pause for gauge in self.gauges]
        self._seen = [Load(0, 0)] * edges
        self._next = min(self._due, default=0)

    def count_arrived(self, arrived: Mapping[int, WindowRows]) -> None:
        """A chunk of these rows has arrived."""
        self.chunks += 1
        total = 0
        for number, rows in arrived.items():
            self._arrived[number] += len(rows)
            total += len(rows)
        self._steps += steps_of(total)

    def count_entered(self, entering: Mapping[int, WindowRows]) -> None:
        """These rows enter now."""
        for number, rows in entering.items():
            self._entered[number] += len(rows)

    @property
    def are_due(self) -> bool:
        """Whether a gauge that rests is to be reviewed."""
        return self._is_adaptive and self._steps >= self._next

    def find_promising(self, edges: Sequence[Edge], work: Work) -> Iterator[Edge]:
        """Those of the edges that are reviewed now and for which a sample is worth its while; `weigh` has to follow."""
        for edge in edges:
            gauge = self.gauges[edge.reason]
            if gauge.is_resting and self._due[edge.reason] <= self._steps:
                self._note_work(edge, work)
                if gauge.could_pay(self._load_of(edge)):
                    yield edge
                else:
                    self._put_off(edge)
        self._next = min((self._due[edge.reason] for edge in edges), default=0)

    def weigh(self, edge: Edge) -> bool:
        """Whether checks along an edge would pay going by its sample; they begin then. Too small a sample goes on."""
        gauge = self.gauges[edge.reason]
        if not gauge.has_sampled:
            return False
        is_worth_it = gauge.wake_up(self._load_of(edge))
        self._put_off(edge)
        return is_worth_it

    def find_ceased(self, edges: Sequence[Edge], work: Work) -> list[Edge]:
        """Those of the edges along which checks have ceased to pay; they rest from now on."""
        ceased = []
        for edge in edges:
            gauge = self.gauges[edge.reason]
            if gauge.is_ripe:
                self._note_work(edge, work)
                if gauge.cease():
                    ceased.append(edge)
                    self._put_off(edge)
                    self._next = min(self._next, self._due[edge.reason])
        return ceased

    def _note_work(self, edge: Edge, work: Work) -> None:
        self.gauges[edge.reason].note_work(work(edge.number, edge.neighbour), self._entered[edge.number])

    def _load_of(self, edge: Edge) -> Load:
        """What has arrived since the last review."""
        seen = self._seen[edge.reason]
        return Load(self._arrived[edge.number] - seen.rows, self.chunks - seen.chunks)

    def _put_off(self, edge: Edge) -> None:
        """It was reviewed, and is again after a while."""
        self._seen[edge.reason] = Load(self._arrived[edge.number], self.chunks)
        self._due[edge.reason] = self._steps + self.gauges[edge.reason].pause
