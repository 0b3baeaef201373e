"""Which checks of a plan are worth a sample: those that rest are reviewed now and then, between chunks.

What could be saved by keeping combinations of a node from joins follows from what these joins have done. It is shared
among the inputs of what they make: combinations of several nodes may be kept out of the same join. All of it is read
from what windows and joins count anyway, so that a chunk costs nothing for it unless a review is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from midstream.engine.joins.gauge import Clock, Load
from midstream.engine.joins.nodes import JoinNode, LeafNode, LiveNode
from midstream.engine.joins.waiting import Waiting
from midstream.kernels.types import LARGEST
from midstream.state.window import BaseWindow

#: What it takes to index an entry, in lookups.
_INDEXING = 4


@dataclass
class Source:
    """A node whose combinations may wait, what for, and which of that is asked now, the nearest join first."""

    node: LiveNode
    waiting: list[Waiting] = field(default_factory=list)
    asking: list[Waiting] = field(default_factory=list)
    #: How many had to wait and have not gone on yet.
    held_back: int = 0

    def ask(self) -> None:
        """Find anew what is asked."""
        self.asking = [waiting for waiting in self.waiting if waiting.asked is not None]

    @property
    def passed(self) -> int:
        """How many combinations have gone on. Rows of a window are there also if they wait."""
        return self.node.window.tail - self.held_back if isinstance(self.node, LeafNode) else self.node.passed


class Reviewer:
    """Reviews what may wait at the joins of one plan; `parents` has the join above each node."""

    #: The joins have to do so many times as much as it takes to make an index before one is made.
    times_as_much = 32

    def __init__(
        self,
        joins: Sequence[JoinNode],
        parents: Mapping[int, JoinNode],
        sources: Mapping[int, Source],
        windows: Sequence[BaseWindow],
    ):
        self._joins, self._parents, self._sources = joins, parents, sources
        self._clock = Clock(windows)
        #: Of what may wait, at which step it is due, and what had passed by the last review.
        self._due: dict[int, int] = {}
        self._seen: dict[int, Load] = {}
        self._next = LARGEST
        self._work_indexed = self._work_of_all()
        for waiting in self._all():
            waiting.gauge.begin(self._work_for(waiting), sources[id(waiting.node)].passed)
            self.put_off(waiting)

    def _all(self) -> Iterator[Waiting]:
        for source in self._sources.values():
            yield from source.waiting

    def count_chunk(self) -> bool:
        """After a chunk: whether something that rests is to be reviewed."""
        return self._clock.count_chunk() >= self._next

    def find_samples(self) -> Iterator[Waiting]:
        """What could pay, going by what the joins have done, of that which is to be reviewed."""
        for waiting in self._all():
            if waiting.asked is None and self._due[id(waiting)] <= self._clock.steps:
                self.note_work(waiting)
                if waiting.gauge.could_pay(self.load_of(waiting)) and self._can_index(waiting.eager):
                    yield waiting
                self.put_off(waiting)
        self._next = min((self._due[id(waiting)] for waiting in self._all() if waiting.asked is None), default=LARGEST)

    def put_off(self, waiting: Waiting) -> None:
        """It was reviewed, and is again after a while."""
        self._seen[id(waiting)] = Load(self._sources[id(waiting.node)].passed, self._clock.chunks)
        self._due[id(waiting)] = self._clock.steps + waiting.gauge.pause
        self._next = min(self._next, self._due[id(waiting)])

    def load_of(self, waiting: Waiting) -> Load:
        """What has passed since the last review."""
        seen = self._seen[id(waiting)]
        return Load(self._sources[id(waiting.node)].passed - seen.rows, self._clock.chunks - seen.chunks)

    def note_work(self, waiting: Waiting) -> None:
        """Tell its gauge what the joins on the way to where it waits have done, and that one has done in vain."""
        waiting.gauge.note_work(self._work_for(waiting), self._sources[id(waiting.node)].passed)

    def _work_for(self, waiting: Waiting) -> float:
        work, node, size = 0.0, waiting.node, len(waiting.node.inputs)
        while node is not waiting.top:
            node = self._parents[id(node)]
            work += node.work * size / len(node.inputs)
        return work + self._parents[id(node)].vain_work * size / len(node.inputs)

    def _work_of_all(self) -> float:
        return float(sum(join.work for join in self._joins))

    def _can_index(self, eager: LiveNode) -> bool:
        """Whether an index on the side that is asked costs little beside what the joins have done since the last."""
        held = eager.window if isinstance(eager, LeafNode) else eager.state
        assert held is not None
        work = self._work_of_all()
        is_little = work - self._work_indexed >= len(held) * _INDEXING * self.times_as_much
        if is_little:
            self._work_indexed = work
        return is_little
