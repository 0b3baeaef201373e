"""Filling holes: storing combinations that a join state should already hold.

A fill takes rows of one input, the driver, and stores every missing combination that contains one of them. It goes
through the children: the child that has the driver's rows is filled for them first, and its combinations with these
rows probe the other child, whose holes are filled as by any probe. A fill is never part of a delta and never emits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from midstream.engine.access import HashPath
from midstream.engine.combos import Block, Delta, selected
from midstream.engine.nodes import JoinNode, LeafNode, LiveNode
from midstream.kernels import checks as check_kernels
from midstream.kernels.types import Combos
from midstream.state.hole import Hole
from midstream.state.indexes import Ints
from midstream.state.join_state import JoinState
from midstream.state.window import BaseWindow, composite

_SMALLEST_BLOCK = 256


class Filler:
    """Fills the states of one plan, and counts what that took."""

    def __init__(self, windows: Sequence[BaseWindow]):
        self._windows = windows
        self.floor = 0
        self.rows_filled = 0
        self.entries_filled = 0

    def fill_for(self, node: LiveNode, probing: Delta) -> None:
        """Make a node hold every combination that a probe with this delta could find."""
        if isinstance(node, JoinNode) and node.state is not None and node.state.hole is not None:
            assert node.path is not None
            number = node.path.driver
            record = node.state.hole.record(number, self._windows[number].head)
            self._complete(node, number, node.path.claim(probing, record))

    def fill(self, node: JoinNode, number: int, ids: Ints) -> None:
        """Store every missing combination that contains one of these rows of an input."""
        if node.state is not None and node.state.hole is not None:
            self._complete(node, number, node.state.hole.claim(number, self._windows[number].head, ids))

    def fill_some(self, node: JoinNode, limit: int) -> int:
        """Fill up to so many rows of the node's driver, the newest first; how many there were."""
        if node.state is None or node.state.hole is None or node.path is None:
            return 0
        number = node.path.driver
        ids = node.state.hole.missing(number, self._windows[number].head, limit)
        if len(ids):
            self.fill(node, number, ids)
        else:
            node.state.hole = None
        return len(ids)

    def _complete(self, node: JoinNode, number: int, claimed: Ints) -> Delta | None:
        """Store the missing combinations with the claimed rows; what was stored."""
        state = node.state
        assert state is not None and state.hole is not None
        hole, made = state.hole, None
        if len(claimed):
            made = self._covered(hole, self._with_rows(node, number, claimed), number)
            store(node, made)
            hole.settle(number, claimed)
            self.rows_filled += len(claimed)
            self.entries_filled += len(made)
        if hole.remaining(number, self._windows[number].head) == 0:
            state.hole = None
        return made

    def _covered(self, hole: Hole, delta: Delta, number: int) -> Delta:
        """The combinations that are missing, contain a row being filled, and are still alive."""
        passed = hole.covered(delta.combos, number, self.floor)
        if passed is None:
            return delta
        count = check_kernels.pack(delta.combos, 0, passed)
        return Delta(delta.inputs, Combos(*(array[:count] for array in delta.combos)), self._windows)

    def _with_rows(self, node: LiveNode, number: int, ids: Ints) -> Delta:
        """All combinations of a node that contain one of these rows of an input; perhaps some with other rows too."""
        if isinstance(node, LeafNode):
            return Delta.of_rows(number, ids, self._windows)
        child = node.left if number in node.left.inputs else node.right
        other = node.other(child)
        part = self._entries_with_rows(node, child, number, ids)
        block = Block(len(node.inputs), max(_SMALLEST_BLOCK, len(part) + len(part) // 4), False)
        if len(part):
            self.fill_for(other, part)
            drained(node.matches(part, other, block))
        return Delta(node.inputs, block.content(), self._windows)

    def _entries_with_rows(self, node: JoinNode, child: LiveNode, number: int, ids: Ints) -> Delta:
        """As `_with_rows`, from what the child has stored if its index leads there from the rows of that input."""
        if isinstance(child, LeafNode) or not isinstance(child.path, HashPath) or child.state is None:
            return self._with_rows(child, number, ids)
        window = self._windows[number]
        if any(key_class not in window.codes for key_class in child.path.classes):
            return self._with_rows(child, number, ids)
        hole = child.state.hole
        if hole is not None:
            own = node.state.hole if node.state is not None else None
            is_twin = own is not None and hole.is_twin(own, number)
            claimed = hole.claim(number, window.head, ids.copy())
            made = self._complete(child, number, claimed)
            if made is not None and is_twin and len(claimed) == len(ids):
                # The child was missing just what the node is missing, so what was stored now is all there is.
                return made
        slots = ids & (window.capacity - 1)
        keys = np.unique(composite([window.codes[key_class][slots] for key_class in child.path.classes]))
        return Delta(child.inputs, _entries(child.state, keys), self._windows)


def store(node: LiveNode, delta: Delta) -> None:
    """Add combinations to a join's state; a leaf has its rows in its window."""
    if isinstance(node, JoinNode):
        assert node.state is not None and node.path is not None
        node.state.store(delta.combos, node.path.keys(delta))


def drained(steps: Iterator[None]) -> None:
    """Run to the end what writes into a block that grows."""
    for _ in steps:
        raise AssertionError("only a bounded block has to be emptied")


def _entries(state: JoinState, keys: Ints) -> Combos:
    """The entries of a state with one of these keys."""
    assert state.hash_index is not None
    ring = state.ring()
    slots = state.hash_index.find(ring.head, keys) & (len(ring.starts) - 1)
    return selected(Combos(ring.members, ring.starts, ring.ends), slots)
