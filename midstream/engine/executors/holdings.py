"""The join states of a tree as a memory limit sees them: which of their entries go first.

Entries go by rows of the driver, the input through which missing ones are filled in again: the oldest first, in
sixteenths of its window. Rows that probes have filled in since the last time stay once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from midstream.engine.joins.combos import heads_of
from midstream.engine.joins.nodes import JoinNode
from midstream.state.indexes import Ints
from midstream.state.join_state import Access, JoinState
from midstream.state.window import BaseWindow

_SLICES = 16


class Owner(Protocol):
    """Who runs the joins."""

    def evict(self, node: JoinNode, number: int, rows: Ints) -> int: ...

    def evict_all(self, node: JoinNode) -> int: ...

    def switch_off(self, node: JoinNode) -> None: ...

    def switch_on(self, node: JoinNode) -> None: ...


class NodeHolding:
    """The state of one join of a tree."""

    def __init__(self, owner: Owner, node: JoinNode, windows: Sequence[BaseWindow]):
        assert node.path is not None, "the entries of a state are found somehow"
        self._owner, self._node, self._windows = owner, node, windows
        self.stream = node.path.driver
        # Without an index nothing says which entries a probe lacks: a part of such a state is of no use.
        self.is_useful_in_part = node.path.access is not Access.LOOP

    @property
    def state(self) -> JoinState:
        assert self._node.state is not None, "the root of a plan keeps no state"
        return self._node.state

    @property
    def probes(self) -> int:
        return self._node.probes

    @property
    def is_off(self) -> bool:
        return self._node.is_off

    def evict(self, left: int, horizon: int) -> int:
        """Give up the oldest driver rows."""
        state, heads = self.state, heads_of(self._windows)
        living = state.living(horizon, heads)
        evicted = 0
        if len(living) > left:
            rows = self._find_oldest(state.rows_of(self.stream, living), len(living) - left)
            evicted = self.evict_all() if rows is None else self._owner.evict(self._node, self.stream, rows)
        self.state.pack(horizon, heads)
        return evicted

    def evict_all(self) -> int:
        return self._owner.evict_all(self._node)

    def switch_off(self) -> None:
        self._owner.switch_off(self._node)

    def switch_on(self) -> None:
        self._owner.switch_on(self._node)

    def _find_oldest(self, held: Ints, surplus: int) -> Ints | None:
        """The oldest sixteenths of driver rows that have so many of the entries, given by their driver rows.

        None if only all of them are enough.
        """
        window = self._windows[self.stream]
        rows = np.arange(window.head, window.tail)
        entries = np.bincount(held - window.head, minlength=len(rows))
        entries[self._find_refilled(window) - window.head] = 0
        ends = np.unique(np.arange(1, _SLICES) * len(rows) // _SLICES)
        ends = ends[ends > 0]
        before = np.cumsum(entries)[ends - 1]
        enough = np.flatnonzero(before >= surplus)
        if len(enough) == 0 or surplus >= len(held):
            return None
        last = ends[enough[0]]
        chosen: Ints = rows[:last][entries[:last] > 0]
        return chosen

    def _find_refilled(self, window: BaseWindow) -> Ints:
        """Driver rows that were evicted in the last round and are there again."""
        found = [box.refilled(self.stream) for box in self.state.missing if box.was_evicted_by(self.stream)]
        refilled: Ints = np.concatenate([np.empty(0, np.int64), *found])
        return refilled[refilled >= window.head]
