"""Filling: storing combinations that a join state should already hold. This is the plain recursion.

    fill(Q, s, rows):       claimed = those of the rows of input s that are in a box of Q
                            store the combinations of Q with a claimed row that a box of Q has and that are alive
                            the claimed rows leave all boxes of Q

    combinations(Q, s, rows):   C = the child of Q that has s;  fill(C, s, rows)
                                each combination of C with one of the rows probes the other child of Q,
                                which is filled for it first, like for any probe

A state that only nested loops lead to is not filled for a probe: that goes through the windows (`probing`).

A fill restores what a state should have had all along. It is never part of a delta and never emits. Any number of boxes
is right, also such that overlap: each candidate is made once, and counts if one of the boxes has it. What is open,
because a part of it waits (`openness`), is not stored: it comes when that goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from midstream.engine.joins.access import HashPath
from midstream.engine.joins.combos import Block, Delta, select
from midstream.engine.joins.nodes import JoinNode, LeafNode, LiveNode
from midstream.engine.joins.probing import Prober
from midstream.kernels import checks as check_kernels
from midstream.kernels.types import Combos
from midstream.state.indexes import Ints
from midstream.state.join_state import JoinState
from midstream.state.missing import Cause, Missing
from midstream.state.window import BaseWindow, composite


class Bounds(NamedTuple):
    """What bounds a fill: combinations that ended before `horizon` are dead, and all others are in the boxes `missing`.

    So of an input only the rows from the first on that a box has, and before the last mark, have to be looked at.
    """

    horizon: int
    missing: Missing

    def first_rows(self, inputs: Sequence[int]) -> dict[int, int]:
        """The first row of each of these inputs that may be in a box, where that is known."""
        firsts = {number: self.missing.first(number) for number in inputs}
        return {number: first for number, first in firsts.items() if first is not None}

    def last_rows(self, inputs: Sequence[int]) -> dict[int, int]:
        """For each of these inputs an id from which on no row is in a box, where there is one."""
        lasts = {number: self.missing.last(number) for number in inputs}
        return {number: last for number, last in lasts.items() if last is not None}


class Filler:
    """Fills the states of one plan, and counts what that took."""

    def __init__(self, windows: Sequence[BaseWindow], prober: Prober):
        self._windows = windows
        self._prober = prober
        self.rows_filled = 0
        self.entries_filled = 0

    def fill_ahead(self, joins: Sequence[JoinNode], deltas: Mapping[int, Delta], horizon: int) -> None:
        """Fill what new rows will touch where they probe a state directly, as the sibling of a leaf.

        `joins` has children first. What deltas of joins touch is filled when they are known.
        """
        for node in joins:
            for child, sibling in ((node.left, node.right), (node.right, node.left)):
                if isinstance(sibling, LeafNode) and sibling.number in deltas:
                    self.fill_for(child, deltas[sibling.number], horizon)

    def fill_for(self, node: LiveNode, probing: Delta, horizon: int) -> None:
        """Make a node hold every combination that a probe with this delta could find in its state."""
        if isinstance(node, JoinNode) and node.lacks_entries:
            assert node.path is not None and node.state is not None
            claimed = node.path.claim(probing, node.state.missing)
            self._complete(node, node.path.driver, claimed.ids, horizon)

    def fill(self, node: JoinNode, number: int, ids: Ints, horizon: int) -> None:
        """Store every missing combination that contains one of these rows of an input."""
        if node.lacks_entries:
            self._complete(node, number, self._claim(node, number, ids), horizon)

    def fill_some(self, node: JoinNode, limit: int, horizon: int, cause: Cause | None = None) -> int:
        """Fill up to so many rows of the node's driver, the newest first; how many there were.

        With a cause, only rows of boxes that have it.
        """
        if node.state is None or node.path is None:
            return 0
        number = node.path.driver
        ids = node.state.missing.newest(number, self._windows[number].head, limit, cause)
        if len(ids):
            self.fill(node, number, ids, horizon)
        return len(ids)

    def _claim(self, node: JoinNode, number: int, ids: Ints) -> Ints:
        """Those of the rows that are in a box; from now on they are being filled."""
        assert node.state is not None
        return ids[node.state.missing.claim(number, self._windows[number].head, ids)]

    def _complete(self, node: JoinNode, number: int, claimed: Ints, horizon: int) -> Delta | None:
        """Store the missing combinations with the claimed rows, which then leave the boxes; what was stored."""
        assert node.state is not None
        made = None
        if len(claimed):
            bounds = Bounds(horizon, node.state.missing)
            made = self._covered(self._combinations(node, number, claimed, bounds), number, bounds)
            store(node, made)
        self._settle(node, number, claimed, 0 if made is None else len(made))
        return made

    def _settle(self, node: JoinNode, number: int, claimed: Ints, entries: int) -> None:
        """The claimed rows leave the boxes; those are gone of which they were the last."""
        assert node.state is not None
        if node.lacks_entries:
            node.state.missing.settle(number, self._windows[number].head, claimed)
            self.rows_filled += len(claimed)
            self.entries_filled += entries
            self._windows[number].meter.entries_filled += entries

    def _covered(self, found: Delta, number: int, bounds: Bounds, pending: Collection[int] = ()) -> Delta:
        """The combinations that are missing, have a row of an input that is being filled, live, and are not open."""
        passed = bounds.missing.covered(found.combos, number, bounds.horizon, pending)
        others = self._prober.open.find_others(found.inputs, found.combos)
        if others is not None:
            passed = others if passed is None else passed & others
        if passed is None:
            return found
        count = check_kernels.pack(found.combos, 0, passed)
        return found.with_combos(Combos(*(array[:count] for array in found.combos)))

    def _combinations(self, node: JoinNode, number: int, ids: Ints, bounds: Bounds) -> Delta:
        """All combinations of a node within the bounds that have one of these rows; a superset, `_covered` chooses."""
        child = node.child_with(number)
        part = self._child_combinations(child, number, ids, bounds)
        if len(part):
            self.fill_for(node.other(child), part, bounds.horizon)
        return self._joined(node, part, bounds)

    def _child_combinations(self, child: LiveNode, number: int, ids: Ints, bounds: Bounds) -> Delta:
        """As `_combinations`, of a child: what it has stored, if its index leads there from the rows of that input."""
        if isinstance(child, LeafNode):
            return Delta.of_rows(number, ids, self._windows)
        if not self._leads_to_entries(child, number):
            return self._combinations(child, number, ids, bounds)
        self.fill(child, number, ids, bounds.horizon)
        return self._stored_with_rows(child, number, ids)

    def _joined(self, node: JoinNode, part: Delta, bounds: Bounds) -> Delta:
        """Combinations of one child of a node with what the other one, filled for them, holds within the bounds."""
        other = node.right if part.inputs == node.left.inputs else node.left
        block = Block(len(node.inputs), max(node.least_block, len(part) + len(part) // 4))
        if len(part):
            before, since = bounds.last_rows(other.inputs), bounds.first_rows(other.inputs)
            drain(self._prober.matches(node, part, other, block, before, since))
        return Delta(node.inputs, block.content(), self._windows)

    def _leads_to_entries(self, child: JoinNode, number: int) -> bool:
        """Whether the key under which a child's entries are found can be told from a row of an input."""
        codes = self._windows[number].codes
        return (
            not child.is_off
            and isinstance(child.path, HashPath)
            and all(key_class in codes for key_class in child.path.classes)
        )

    def _stored_with_rows(self, child: JoinNode, number: int, ids: Ints) -> Delta:
        """The stored combinations of a child that have the key of one of these rows; a superset."""
        assert child.state is not None and isinstance(child.path, HashPath)
        window = self._windows[number]
        slots = ids & (window.capacity - 1)
        keys = np.unique(composite([window.codes[key_class][slots] for key_class in child.path.classes]))
        return Delta(child.inputs, _entries(child.state, child.path, keys), self._windows)


def store(node: LiveNode, delta: Delta) -> None:
    """Add combinations to a join's state, unless it is switched off; a leaf has its rows in its window."""
    if isinstance(node, JoinNode):
        if node.is_off:
            node.passed_off += len(delta)
            return
        assert node.state is not None and node.path is not None
        keys = {path.signature: path.keys(delta) for path in (node.path, *node.asked)}
        node.state.store(delta.combos, keys)


def drain(steps: Iterator[None]) -> None:
    """Run to the end what writes into a block that grows."""
    for _ in steps:
        raise AssertionError("only a block with a largest size has to be emptied")


def _entries(state: JoinState, path: HashPath, keys: Ints) -> Combos:
    """The entries of a state with one of these keys."""
    ring = state.ring()
    slots = path.index(state).find(ring.head, keys) & (len(ring.starts) - 1)
    return select(Combos(ring.members, ring.starts, ring.ends), slots)
