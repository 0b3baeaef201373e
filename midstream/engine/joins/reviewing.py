"""Which checks of a plan are worth a sample: those that rest are reviewed now and then, between chunks.

What could be saved by keeping combinations of a node from joins follows from what these joins have done. It is shared
among the inputs of what they make: combinations of several nodes may be kept out of the same join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from midstream.engine.joins.gauge import Load, steps_of
from midstream.engine.joins.nodes import JoinNode, LeafNode, LiveNode
from midstream.engine.joins.waiting import Waiting

#: What it takes to index an entry, in lookups.
_INDEXING = 4


@dataclass
class Source:
    """A node whose combinations may wait, what for, and which of that is asked now, the nearest join first."""

    node: LiveNode
    waiting: list[Waiting] = field(default_factory=list)
    asking: list[Waiting] = field(default_factory=list)
    #: How many combinations have gone on, and in how many parts.
    passed: int = 0
    parts: int = 0

    def ask(self) -> None:
        """Find anew what is asked."""
        self.asking = [waiting for waiting in self.waiting if waiting.asked is not None]


class Reviewer:
    """Reviews what may wait at the joins of one plan; `parents` has the join above each node."""

    #: The joins have to do so many times as much as it takes to make an index before one is made.
    times_as_much = 32

    def __init__(self, joins: Sequence[JoinNode], parents: Mapping[int, JoinNode], sources: Mapping[int, Source]):
        self._joins, self._parents, self._sources = joins, parents, sources
        self._steps = 0
        self._next = 0
        #: Of what may wait, at which step it is due, and what had passed by the last review.
        self._due: dict[int, int] = {}
        self._seen: dict[int, Load] = {}
        self._work_indexed = 0.0

    def find_samples(self, rows: int) -> Iterator[Waiting]:
        """After a chunk in which so many combinations came: what could pay, going by what the joins have done."""
        self._steps += steps_of(rows)
        if self._steps < self._next:
            return
        for source in self._sources.values():
            for waiting in source.waiting:
                if waiting.asked is None and self._due.setdefault(id(waiting), waiting.gauge.pause) <= self._steps:
                    self.note_work(waiting)
                    if waiting.gauge.could_pay(self.load_of(waiting)) and self._can_index(waiting.eager):
                        yield waiting
                    self.put_off(waiting)
        self._next = min(self._due.values(), default=0)

    def put_off(self, waiting: Waiting) -> None:
        """It was reviewed, and is again after a while."""
        source = self._sources[id(waiting.node)]
        self._seen[id(waiting)] = Load(source.passed, source.parts)
        self._due[id(waiting)] = self._steps + waiting.gauge.pause

    def load_of(self, waiting: Waiting) -> Load:
        """What has passed since the last review."""
        source, seen = self._sources[id(waiting.node)], self._seen.get(id(waiting), Load(0, 0))
        return Load(source.passed - seen.rows, source.parts - seen.chunks)

    def note_work(self, waiting: Waiting) -> None:
        """Tell its gauge what the joins on the way to where it waits have done, and that one has done in vain."""
        work, node, size = 0.0, waiting.node, len(waiting.node.inputs)
        while node is not waiting.top:
            node = self._parents[id(node)]
            work += node.work * size / len(node.inputs)
        work += self._parents[id(node)].vain_work * size / len(node.inputs)
        waiting.gauge.note_work(work, self._sources[id(waiting.node)].passed)

    def _can_index(self, eager: LiveNode) -> bool:
        """Whether an index on the side that is asked costs little beside what the joins have done since the last."""
        held = eager.window if isinstance(eager, LeafNode) else eager.state
        assert held is not None
        work = float(sum(join.work for join in self._joins))
        is_little = work - self._work_indexed >= len(held) * _INDEXING * self.times_as_much
        if is_little:
            self._work_indexed = work
        return is_little
