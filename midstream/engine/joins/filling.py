"""Filling holes: storing combinations that a join state should already hold.

A fill takes rows of one input, the driver, and stores every missing combination that contains one of them. It goes
through the children: the child that has the driver's rows is filled for them first, and its combinations with these
rows probe the other child, whose holes are filled as by any probe. A fill is never part of a delta and never emits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from midstream.engine.joins.access import HashPath
from midstream.engine.joins.combos import Block, Delta, selected
from midstream.engine.joins.nodes import JoinNode, LeafNode, LiveNode
from midstream.kernels import checks as check_kernels
from midstream.kernels.types import Combos
from midstream.state.indexes import Ints
from midstream.state.join_state import JoinState
from midstream.state.missing import Box, Cause, Missing
from midstream.state.window import BaseWindow, composite


class _Round:
    """The fills of one chunk that are known before any join runs, by node and input.

    They are claimed rows, and what was made for them.
    """

    def __init__(self) -> None:
        self._claimed: dict[tuple[int, int], list[Delta]] = {}
        self.made: dict[tuple[int, int], Delta] = {}

    def add(self, node: JoinNode, number: int, rows: Delta) -> None:
        if len(rows):
            self._claimed.setdefault((id(node), number), []).append(rows)

    def of(self, node: JoinNode) -> list[tuple[int, Delta]]:
        """The inputs and rows for which a node has to be filled."""
        found = []
        for (owner, number), parts in self._claimed.items():
            if owner == id(node):
                parts[:] = [Delta.concatenated(parts)]
                found.append((number, parts[0]))
        return found


class Filler:
    """Fills the states of one plan, and counts what that took."""

    def __init__(self, windows: Sequence[BaseWindow]):
        self._windows = windows
        self._round = _Round()
        self.floor = 0
        self.rows_filled = 0
        self.entries_filled = 0

    def fill_ahead(self, joins: Sequence[JoinNode], deltas: Mapping[int, Delta]) -> None:
        """Fill what the new rows will touch where they probe a state directly: level by level, each level once.

        `joins` has children first. Rows are claimed from the top down, because filling a node takes rows of the nodes
        below it, and combinations are made from the bottom up. What only deltas of joins touch is filled on demand.
        This takes one box per state; where there is a state with more, everything is filled on demand.
        """
        self._round = _Round()
        lacking = [node.state.missing for node in joins if node.state is not None and node.state.missing]
        if any(missing.only_box is None for missing in lacking):
            for node in joins:
                self._fill_for_children(node, deltas)
            return
        for node in reversed(joins):
            self._claim_for_children(node, deltas)
            for number, rows in self._round.of(node):
                self._claim_below(node, number, rows)
        for node in joins:
            claims = self._round.of(node)
            for place, (number, rows) in enumerate(claims):
                assert node.state is not None
                missing = node.state.missing
                pending = [other for other, _ in claims[place + 1 :]]
                is_filled_beside = isinstance(node.child_with(number), LeafNode)
                if is_filled_beside:
                    found = self._joined(node, rows, missing)
                else:
                    found = self._with_rows(node, number, rows.ids, missing)
                made = self._covered(missing, found, number, pending)
                store(node, made)
                self._round.made[id(node), number] = made
        for node in joins:
            for number, rows in self._round.of(node):
                self._settle(node, number, rows.ids, len(self._round.made[id(node), number]))
        self._round = _Round()

    def _claim_for_children(self, node: JoinNode, deltas: Mapping[int, Delta]) -> None:
        """What the new rows of a leaf touch in the state beside it."""
        for child, sibling in ((node.left, node.right), (node.right, node.left)):
            if isinstance(sibling, LeafNode) and sibling.number in deltas:
                self._claim(child, deltas[sibling.number])

    def _fill_for_children(self, node: JoinNode, deltas: Mapping[int, Delta]) -> None:
        for child, sibling in ((node.left, node.right), (node.right, node.left)):
            if isinstance(sibling, LeafNode) and sibling.number in deltas:
                self.fill_for(child, deltas[sibling.number])

    def _claim_below(self, node: JoinNode, number: int, rows: Delta) -> None:
        """What filling a node for rows of an input takes of its children."""
        child = node.child_with(number)
        if isinstance(child, LeafNode):
            self._claim(node.other(child), rows)
        elif self._leads_to_entries(child, number) and child.state is not None and child.state.missing:
            claimed = child.state.missing.claim(number, self._windows[number].head, rows.ids)
            self._round.add(child, number, rows.at(claimed))

    def _claim(self, node: LiveNode, probing: Delta) -> None:
        if isinstance(node, JoinNode) and node.state is not None and node.state.missing:
            assert node.path is not None
            self._round.add(node, node.path.driver, node.path.claim(probing, node.state.missing))

    def fill_for(self, node: LiveNode, probing: Delta) -> None:
        """Make a node hold every combination that a probe with this delta could find."""
        if isinstance(node, JoinNode) and node.state is not None and node.state.missing:
            assert node.path is not None
            self._complete(node, node.path.driver, node.path.claim(probing, node.state.missing).ids)

    def fill(self, node: JoinNode, number: int, ids: Ints) -> None:
        """Store every missing combination that contains one of these rows of an input."""
        if node.state is not None and node.state.missing:
            self._complete(node, number, ids[node.state.missing.claim(number, self._windows[number].head, ids)])

    def fill_some(self, node: JoinNode, limit: int, cause: Cause | None = None) -> int:
        """Fill up to so many rows of the node's driver, the newest first; how many there were.

        With a cause, only rows of boxes that have it.
        """
        if node.state is None or node.path is None:
            return 0
        number = node.path.driver
        ids = node.state.missing.newest(number, self._windows[number].head, limit, cause)
        if len(ids):
            self.fill(node, number, ids)
        return len(ids)

    def _complete(self, node: JoinNode, number: int, claimed: Ints) -> Delta | None:
        """Store the missing combinations with the claimed rows; what was stored."""
        assert node.state is not None
        made = None
        if len(claimed):
            missing = node.state.missing
            made = self._covered(missing, self._with_rows(node, number, claimed, missing), number)
            store(node, made)
        self._settle(node, number, claimed, 0 if made is None else len(made))
        return made

    def _settle(self, node: JoinNode, number: int, claimed: Ints, entries: int) -> None:
        """The claimed rows leave the boxes; those are gone of which they were the last."""
        if node.state is None or not node.state.missing:
            return
        node.state.missing.settle(number, self._windows[number].head, claimed)
        if len(claimed):
            self.rows_filled += len(claimed)
            self.entries_filled += entries

    def _covered(self, missing: Missing, delta: Delta, number: int, pending: Collection[int] = ()) -> Delta:
        """The combinations that are missing, contain a row being filled, and are still alive."""
        passed = missing.covered(delta.combos, number, self.floor, pending)
        if passed is None:
            return delta
        count = check_kernels.pack(delta.combos, 0, passed)
        return Delta(delta.inputs, Combos(*(array[:count] for array in delta.combos)), self._windows)

    def _with_rows(self, node: LiveNode, number: int, ids: Ints, target: Missing) -> Delta:
        """All combinations of a node that contain one of these rows of an input and may be in a box being filled.

        Perhaps some others too.
        """
        if isinstance(node, LeafNode):
            return Delta.of_rows(number, ids, self._windows)
        child = node.child_with(number)
        part = self._entries_with_rows(child, number, ids, target)
        if len(part):
            self.fill_for(node.other(child), part)
        return self._joined(node, part, target)

    def _joined(self, node: JoinNode, part: Delta, target: Missing) -> Delta:
        """Combinations of one child of a node with what the other one, filled for them, holds.

        Leaves leave out rows that no box being filled has.
        """
        other = node.right if part.inputs == node.left.inputs else node.left
        block = Block(len(node.inputs), max(node.least_block, len(part) + len(part) // 4), False)
        if len(part):
            before = since = None
            if isinstance(other, LeafNode):
                before, first = target.last(other.number), target.first(other.number)
                since = None if first is None else {other.number: first}
            drained(node.matches(part, other, block, before, since))
        return Delta(node.inputs, block.content(), self._windows)

    def _entries_with_rows(self, child: LiveNode, number: int, ids: Ints, target: Missing) -> Delta:
        """As `_with_rows`, from what the child has stored if its index leads there from the rows of that input."""
        if isinstance(child, LeafNode) or child.state is None or not self._leads_to_entries(child, number):
            return self._with_rows(child, number, ids, target)
        missing = child.state.missing
        if missing:
            own, theirs = missing.only_box, target.only_box
            # A twin was missing just what is to be filled, so what it stored now for these rows is all there is.
            is_twin = own is not None and theirs is not None and own.has_marks_of(theirs, number)
            claimed = ids[missing.claim(number, self._windows[number].head, ids)]
            made = self._complete(child, number, claimed)
            if is_twin and made is not None and len(claimed) == len(ids):
                return made
            in_round = self._round.made.get((id(child), number))
            if is_twin and in_round is not None and len(claimed) == 0:
                assert own is not None and theirs is not None
                return self._part_of_round(in_round, theirs, own, child, number, ids)
        return self._stored_with_rows(child, number, ids)

    def _part_of_round(self, made: Delta, target: Box, own: Box, child: JoinNode, number: int, ids: Ints) -> Delta:
        """What the child made in this round for the rows that the node is filling, and what it had of them before."""
        column = made.inputs.index(number)
        part = made.at(target.tell_filling(number, made.combos.rows[:, column])[0])
        before = ids[own.tell_filling(number, ids)[1]]
        if len(before) == 0:
            return part
        stored = self._stored_with_rows(child, number, before)
        # Entries of the same key that were made now come with those stored before: each counts once.
        old = stored.at(own.tell_filling(number, stored.combos.rows[:, column])[1])
        return Delta.concatenated([part, old])

    def _leads_to_entries(self, child: JoinNode, number: int) -> bool:
        """Whether the key under which a child's entries are found can be told from a row of an input."""
        codes = self._windows[number].codes
        return isinstance(child.path, HashPath) and all(one in codes for one in child.path.classes)

    def _stored_with_rows(self, child: JoinNode, number: int, ids: Ints) -> Delta:
        """The stored combinations of a child that have the key of one of these rows."""
        assert child.state is not None and isinstance(child.path, HashPath)
        window = self._windows[number]
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
