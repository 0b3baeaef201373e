"""Probing a child of a join: by its path, or from the base windows alone.

A state that is switched off holds nothing, and is probed from the windows for good. What is open there, because a part
of it waits, is left out.

A state that only nested loops lead to has no rows that a probe could fill by: its first probe would have to fill all of
it. As long as such a state lacks something, a probe goes through the windows instead, which hold everything, and finds
just what the complete state would give. Nothing is stored, and the boxes stay as they are, until the background has
filled them or their rows have expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.combos import Block, Delta
from midstream.engine.joins.nodes import JoinNode, LiveNode
from midstream.engine.joins.openness import OpenCombinations
from midstream.engine.joins.routes import Route
from midstream.kernels import checks as check_kernels
from midstream.state.window import BaseWindow

#: Routes serve for a while only: they make do with the indexes that there are.
_NO_NEW_INDEX = -1


class Prober:
    """Probes the children of one plan's joins; it keeps the routes that it has needed."""

    def __init__(self, query: Query, windows: Sequence[BaseWindow]):
        self._query = query
        self._windows = windows
        self.open = OpenCombinations(windows)
        self._routes: dict[tuple[tuple[int, ...], tuple[int, ...]], Route] = {}

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that the routes probe."""
        for route in self._routes.values():
            yield from route.indexes_used()

    def matches(
        self,
        node: JoinNode,
        delta: Delta,
        child: LiveNode,
        block: Block,
        before: Mapping[int, int] | None = None,
        since: Mapping[int, int] | None = None,
    ) -> Iterator[None]:
        """Join a delta of the other child of a node with what `child` should hold, into `block`.

        As `JoinNode.matches`. What a state holds is up to the caller; `before` and `since` bound the rows of windows.
        """
        if isinstance(child, JoinNode) and child.is_probed_by_route:
            return self._from_windows(node, delta, child, block, before, since)
        return node.matches(delta, child, block, before, since)

    def _from_windows(
        self,
        node: JoinNode,
        delta: Delta,
        child: JoinNode,
        block: Block,
        before: Mapping[int, int] | None,
        since: Mapping[int, int] | None,
    ) -> Iterator[None]:
        route = self._route(delta.inputs, child.inputs)
        order = np.array([route.inputs.index(number) for number in node.inputs])
        capacity = max(len(block.combos.starts), route.least_block)
        found = Block(len(node.inputs), capacity, capacity)
        for _ in route.matches(delta, found, before, since):
            self._leave_out_open(route, found)
            yield from block.take(found, order)
        self._leave_out_open(route, found)
        yield from block.take(found, order)

    def _leave_out_open(self, route: Route, found: Block) -> None:
        others = self.open.find_others(route.inputs, found.content())
        if others is not None:
            found.count = check_kernels.pack(found.combos, 0, others)

    def _route(self, start: tuple[int, ...], others: tuple[int, ...]) -> Route:
        key = (start, others)
        if key not in self._routes:
            self._routes[key] = Route(self._query, start, others, self._windows, _NO_NEW_INDEX)
        return self._routes[key]
