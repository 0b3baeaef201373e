"""Idle joins: while the eager side of a join is empty, nothing is joined below its lazy side.

         J              D has no row, so J gives out nothing, whatever X and P would make.
       /   \\            New rows of a, b and c enter their windows, and neither X nor P looks at them.
     P       D          The states of X and P lack all combinations with one of these rows.
   /   \\                When a row of D arrives, that becomes a hole of each state, like the holes that eviction
  X     C               leaves. The row of D probes P, and what it can find there is filled in first, nothing else.
 / \\
a   b

No predicate between D and the other inputs is needed for this. It is decided between chunks which joins are idle.

* If D is a window, its rows are known when a chunk begins: then the hole is made before the chunk.
* If D is a join, its first combination comes in the middle of a chunk. It finds that chunk's own rows of a, b and c in
  the hole, too, because what is passed over makes no combinations of its own any more in that chunk.

In a chunk in which a join is idle, or was at its beginning, rows that are passed over count as if they had come before
the chunk: whatever looks into windows finds them, since they come no other way.

What waits below an idle join would miss its partners, since nobody looks at them. So nothing waits there: it becomes a
hole when the join becomes idle. That may give something to the eager side of another idle join below. So no idle join
is below another one: what the lower one has left out becomes a hole before. Whoever changes a state from outside, or
takes it away, has to `stop` first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from midstream.engine.joins.combos import Delta, tails_of
from midstream.engine.joins.evicting import withhold
from midstream.engine.joins.nodes import JoinNode, LeafNode, LiveNode, lazy_side
from midstream.state.window import BaseWindow, Renumbering

_LONGEST_PATIENCE = 1024


@dataclass
class _Place:
    """A join that may be idle: its lazy child `top`, with the joins of that, and its eager child."""

    join: JoinNode
    top: JoinNode
    eager: LiveNode
    below: tuple[JoinNode, ...]
    #: For how many chunks the eager side has to be empty, and for how many it has been.
    patience: int
    empty_for: int = 0
    #: While the join is idle, the first row of each input below its lazy side that was not joined.
    firsts: dict[int, int] | None = None

    def __post_init__(self) -> None:
        self.below_ids = {id(node) for node in self.below}
        self.nodes_below = {id(node) for join in self.below for node in (join, join.left, join.right)}

    @property
    def is_eager_empty(self) -> bool:
        """Whether the eager side has nothing, and lacks nothing."""
        if isinstance(self.eager, LeafNode):
            return len(self.eager.window) == 0
        state = self.eager.state
        return state is not None and not (len(state) or self.eager.lacks_entries or self.eager.is_off)


class IdleJoins:
    """Which joins of one plan are idle. If `is_adaptive`, an eager side has to be empty for a while first."""

    #: For how many chunks it has to be empty at first. Each time that a row comes after all, it is doubled. Also if it
    #: is not adaptive, as long as something waits below: that would be filled in with more than can be used.
    first_patience = 16

    def __init__(self, joins: Sequence[JoinNode], windows: Sequence[BaseWindow], is_adaptive: bool):
        self._windows = windows
        self._is_adaptive = is_adaptive
        patience = self.first_patience if is_adaptive else 0
        #: The highest join first.
        self._places = [
            _Place(join, top, join.other(top), tuple(_joins_of(top)), patience)
            for join in reversed(joins)
            if isinstance(top := lazy_side(join), JoinNode)
        ]
        self._meter = windows[0].meter
        self._idle: dict[int, _Place] = {}
        #: In this chunk, the ids of the joins that make no combinations of their own.
        self._passed_over: set[int] = set()

    # In a chunk ------------------------------------------------------------------------------------------------------

    def begin_chunk(self, deltas: Mapping[int, Delta], since: Mapping[int, int] | None) -> Mapping[int, Delta]:
        """Take note of rows that have just entered; the deltas that are joined with anything in this chunk."""
        if not (self._idle or self._passed_over):
            return deltas
        self._wake_by_rows(deltas, since)
        idle = list(self._idle.values())
        self._passed_over = set().union(*(place.below_ids for place in idle))
        inputs = {number for place in idle for number in place.top.inputs}
        self._meter.idle_rows += sum(len(delta) for number, delta in deltas.items() if number in inputs)
        return {number: delta for number, delta in deltas.items() if number not in inputs}

    def _wake_by_rows(self, deltas: Mapping[int, Delta], since: Mapping[int, int] | None) -> None:
        """Joins to whose eager side rows have come are idle no longer; the chunk finds them as they were before it."""
        tails = tails_of(self._windows)
        lasts = {**tails, **{number: int(delta.combos.rows[0, 0]) for number, delta in deltas.items()}}
        for place in list(self._idle.values()):
            if isinstance(place.eager, LeafNode) and place.eager.number in deltas:
                self._wake(place, lasts, since)

    def find_passed_over(self, join: JoinNode) -> LiveNode | None:
        """The lazy child of a join that is idle in this chunk; it makes no combinations of its own in it."""
        lazy = lazy_side(join) if self._passed_over else None
        return lazy if id(lazy) in self._passed_over else None

    def wake(self, join: JoinNode, since: Mapping[int, int] | None) -> None:
        """Combinations come to the eager side of a join: if it is idle, it is so no longer."""
        place = self._idle.get(id(join))
        if place is not None:
            self._wake(place, tails_of(self._windows), since)

    def _wake(self, place: _Place, lasts: Mapping[int, int], since: Mapping[int, int] | None) -> None:
        self._end(place, lasts, since)
        if self._is_adaptive:
            place.patience = min(2 * max(1, place.patience), _LONGEST_PATIENCE)

    # Between chunks --------------------------------------------------------------------------------------------------

    def begin(self, since: Mapping[int, int] | None, waiting: Set[int] = frozenset()) -> Set[int]:
        """Find joins that are idle from now on; the nodes below them by their ids, where nothing may wait any more.

        `waiting` are the ids of the nodes of which something waits.
        """
        begun: set[int] = set()
        covered: set[int] = set()
        for place in self._places:
            if id(place.join) in covered:
                continue
            if place.firsts is None:
                place.empty_for = place.empty_for + 1 if place.is_eager_empty else 0
                least = 0 if place.nodes_below.isdisjoint(waiting) else self.first_patience
                if place.empty_for <= max(place.patience, least):
                    continue
                for lower in [other for other in self._idle.values() if id(other.join) in place.below_ids]:
                    self._end(lower, tails_of(self._windows), since)
                place.firsts = {number: self._windows[number].tail for number in place.top.inputs}
                self._idle[id(place.join)] = place
                begun |= place.nodes_below
            covered |= place.below_ids
        return begun

    def stop(self, since: Mapping[int, int] | None) -> None:
        """No join is idle any more."""
        for place in list(self._idle.values()):
            self._end(place, tails_of(self._windows), since)

    def _end(self, place: _Place, lasts: Mapping[int, int], since: Mapping[int, int] | None) -> None:
        """Say in holes what the states below an idle join lack of the rows before the ids `lasts`."""
        assert place.firsts is not None
        for node in place.below:
            if not node.is_off:
                withhold(node, place.firsts, lasts, self._windows, since)
        place.firsts = None
        place.empty_for = 0
        del self._idle[id(place.join)]

    def lacking(self, node: JoinNode) -> Mapping[int, int]:
        """Of each input the first row that a join's state has nothing with, although no box says so."""
        for place in self._idle.values():
            if place.firsts is not None and id(node) in place.below_ids:
                return {number: place.firsts[number] for number in node.inputs}
        return {}

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        for place in self._idle.values():
            if place.firsts is not None and number in place.firsts:
                place.firsts[number] = int(renumbering.apply(np.array([place.firsts[number]]))[0])


def _joins_of(node: LiveNode) -> Iterator[JoinNode]:
    """A join and all joins below it, children first."""
    if isinstance(node, JoinNode):
        yield from _joins_of(node.left)
        yield from _joins_of(node.right)
        yield node
