"""Routes: from combinations of some inputs to their partners in the base windows of others, without any join state.

    rows of B  ->  A's window  ->  C's window  ->  D's window  ->  combinations of B, A, C, D

Each step probes one window. Which window comes next is up to the caller, but one that a key or a band leads to comes
first, and one without any predicate last: all its rows are partners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.access import path_into
from midstream.engine.joins.combos import LARGEST_BLOCK, Block, Delta
from midstream.engine.joins.nodes import INDEXED_AT_ONCE, JoinNode, build_tree, indexes_used
from midstream.plan.nodes import Join, Leaf, Node
from midstream.state.join_state import Access
from midstream.state.window import BaseWindow


class Route:
    """The way of combinations over the inputs `start` through the windows of all `others`, preferably in their order.

    `inputs` are those of what comes out, in the order of its columns. It counts on an index on a composite key where a
    window has one or at most `indexed_at_once` rows; `indexes_used` names those to add.
    """

    def __init__(
        self,
        query: Query,
        start: tuple[int, ...],
        others: Sequence[int],
        windows: Sequence[BaseWindow],
        indexed_at_once: int = INDEXED_AT_ONCE,
    ):
        self.inputs = (*start, *_visiting_order(query, start, others, windows))
        #: Of columns, to have them in the order of FROM.
        self.order = np.argsort(self.inputs)
        self._windows = windows
        tree: Node = Leaf(self.inputs[0])
        for number in self.inputs[1:]:
            tree = Join(tree, Leaf(number))
        self._steps = _chain(build_tree(query, tree, windows, indexed_at_once))[len(start) - 1 :]

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that it probes."""
        return indexes_used(self._steps)

    @property
    def least_block(self) -> int:
        """The room that its last probe needs at least."""
        return self._steps[-1].least_block

    def matches(
        self, delta: Delta, block: Block, before: Mapping[int, int] | None, since: Mapping[int, int] | None = None
    ) -> Iterator[None]:
        """Write every combination that has a combination of the delta into `block`.

        Yields whenever the block has to be emptied. Of an input in `before`, rows from that id on are left out;
        of one in `since`, those below that id.
        """
        return self._extended(self._steps, delta, block, before, since)

    def _extended(
        self,
        steps: Sequence[JoinNode],
        delta: Delta,
        block: Block,
        before: Mapping[int, int] | None,
        since: Mapping[int, int] | None,
    ) -> Iterator[None]:
        """Go on through the last steps. What lies between two of them is bounded: it is taken on piece by piece."""
        step, *others = steps
        if not others:
            yield from step.matches(delta, step.right, block, before, since)
            return
        capacity = min(LARGEST_BLOCK, max(step.least_block, 2 * len(delta)))
        found = Block(len(step.inputs), capacity, capacity)
        for _ in step.matches(delta, step.right, found, before, since):
            part = Delta(step.inputs, found.content(), self._windows)
            yield from self._extended(others, part, block, before, since)
            found.count = 0
        if found.count:
            part = Delta(step.inputs, found.content(), self._windows)
            yield from self._extended(others, part, block, before, since)


def _chain(node: object) -> list[JoinNode]:
    """The joins of a left-deep tree, the first one first; nothing is ever stored in them."""
    steps: list[JoinNode] = []
    while isinstance(node, JoinNode):
        steps.insert(0, node)
        node = node.left
    return steps


def _visiting_order(
    query: Query, start: tuple[int, ...], others: Sequence[int], windows: Sequence[BaseWindow]
) -> list[int]:
    """The other inputs in their order, but those first that a predicate leads to from what is known by then."""
    left, visited = list(others), list[int]()
    while left:
        known = (*start, *visited)
        chosen = min(left, key=lambda number: _distance(query, number, known, windows))
        visited.append(chosen)
        left.remove(chosen)
    return visited


def _distance(query: Query, number: int, known: tuple[int, ...], windows: Sequence[BaseWindow]) -> int:
    """0 if an index leads from known inputs to another one, 1 if a predicate at least chooses its rows, else 2."""
    if path_into(query, (number,), known, windows).access is not Access.LOOP:
        return 0
    bound = {*known, number}
    return 1 if any(number in theta.inputs and theta.inputs <= bound for theta in query.thetas) else 2
