"""Which edges are worth their checks: gauges that rest are reviewed now and then, those at work decide by themselves.

What could be saved along an edge follows from what joins have done for rows of its input before they have met the
neighbour: see `Evicting.work_without`. How many rows have entered the windows tell, so that a chunk costs nothing for
it unless a review is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from midstream.engine.demand.edges import Edge
from midstream.engine.joins.gauge import Clock, Gauge, Load
from midstream.kernels.types import LARGEST
from midstream.state.window import BaseWindow, WindowRows

#: What joins have done, in lookups, that rows of one input without a partner in another take part in.
Work = Callable[[int, int], float]
#: How many calls the checks along one edge take in a chunk, with those for what waits and wakes.
_CALLS_A_CHUNK = 4


class EdgeReviews:
    """The gauges of edges by their number, and when they are reviewed."""

    def __init__(self, edges: Sequence[Edge], windows: Sequence[BaseWindow], is_adaptive: bool):
        self.gauges = [Gauge(is_adaptive, _CALLS_A_CHUNK) for _ in edges]
        self._edges, self._windows, self._is_adaptive = edges, windows, is_adaptive
        #: By input, how many rows have arrived that have not entered.
        self._held_back = [0] * len(windows)
        self._clock = Clock(windows)
        #: By the number of an edge, at which step it is reviewed, and what had arrived by the last time.
        self._due = [gauge.pause for gauge in self.gauges]
        self._seen = [Load(0, 0)] * len(edges)
        self._next = min(self._due, default=LARGEST)

    @property
    def chunks(self) -> int:
        """How many chunks have come."""
        return self._clock.chunks

    def count_chunk(self) -> None:
        """A chunk arrives."""
        if self._clock.chunks == 0:
            self._begin()
        self._clock.count_chunk()

    def _begin(self) -> None:
        """Rows that a restart has put into the windows do not count."""
        self._clock.begin()
        for edge in self._edges:
            tail = self._windows[edge.number].tail
            self.gauges[edge.reason].begin(0.0, tail)
            self._seen[edge.reason] = Load(tail, 0)

    def count_held_back(self, arrived: Mapping[int, WindowRows], entering: Mapping[int, WindowRows]) -> None:
        """Of these rows that have arrived these enter now, with others that were held back before."""
        for number, rows in arrived.items():
            self._held_back[number] += len(rows)
        for number, rows in entering.items():
            self._held_back[number] -= len(rows)

    @property
    def are_due(self) -> bool:
        """Whether a gauge that rests is to be reviewed."""
        return self._is_adaptive and self._clock.steps >= self._next

    def find_promising(self, edges: Sequence[Edge], work: Work) -> Iterator[Edge]:
        """Those of the edges that are reviewed now and for which a sample is worth its while; `weigh` has to follow."""
        for edge in edges:
            gauge = self.gauges[edge.reason]
            if gauge.is_resting and self._due[edge.reason] <= self._clock.steps:
                self._note_work(edge, work)
                if gauge.could_pay(self._load_of(edge)):
                    yield edge
                else:
                    self._put_off(edge)
        self.follow(edges)

    def follow(self, edges: Sequence[Edge]) -> None:
        """These are the edges that count now: the next review is that of the first of them."""
        resting = [self._due[edge.reason] for edge in edges if self.gauges[edge.reason].is_resting]
        self._next = min(resting, default=LARGEST)

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
        self.gauges[edge.reason].note_work(work(edge.number, edge.neighbour), self._windows[edge.number].tail)

    def _count_arrived(self, edge: Edge) -> int:
        return self._windows[edge.number].tail + self._held_back[edge.number]

    def _load_of(self, edge: Edge) -> Load:
        """What has arrived since the last review."""
        seen = self._seen[edge.reason]
        return Load(self._count_arrived(edge) - seen.rows, self._clock.chunks - seen.chunks)

    def _put_off(self, edge: Edge) -> None:
        """It was reviewed, and is again after a while."""
        self._seen[edge.reason] = Load(self._count_arrived(edge), self._clock.chunks)
        self._due[edge.reason] = self._clock.steps + self.gauges[edge.reason].pause
