"""The tree executor: takes deltas bottom-up through a plan of joins with partial states.

One chunk, at a join with children L and R whose deltas dL and dR are known:

1. fill the holes of L that dR will touch, and those of R that dL will touch;
2. join dR with L as it was before this chunk, then dL with R including dR: every new pair once;
3. store dL in L and dR in R; hand the pairs up as this join's delta, or emit them at the root.

A fill restores what a state should already hold. It is never part of a delta and never emits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from midstream.engine.access import HashPath
from midstream.engine.arrivals import InputReader
from midstream.engine.combos import Block, Delta, heads_of, selected
from midstream.engine.nodes import JoinNode, LeafNode, LiveNode, build
from midstream.engine.stats import StateStats, Work
from midstream.kernels import checks as check_kernels
from midstream.kernels import rings as kernels
from midstream.kernels.types import Combos
from midstream.plan.tree import Plan
from midstream.query.model import Query
from midstream.state.hole import Hole
from midstream.state.indexes import Ints
from midstream.state.join_state import JoinState
from midstream.state.window import BaseWindow, Renumbering, composite

_SMALLEST_BLOCK = 256
_LARGEST_RESULT_BLOCK = 1 << 17


class TreeExecutor:
    """Runs one plan over base windows that it shares with whoever else needs them."""

    def __init__(self, query: Query, plan: Plan, windows: Sequence[BaseWindow], readers: Sequence[InputReader]):
        self.plan = plan
        self._windows = windows
        self._root = build(query, plan.root, windows, readers)
        self._floor = 0

    def make_holes(self) -> None:
        """Declare every combination of the rows that the windows hold missing from every join state."""
        marks = {number: window.tail for number, window in enumerate(self._windows)}
        for node in self.joins():
            if node.state is not None:
                node.state.hole = Hole(node.inputs, marks)

    def joins(self) -> Iterator[JoinNode]:
        """The joins of the plan, children first."""

        def walk(node: LiveNode) -> Iterator[JoinNode]:
            if isinstance(node, JoinNode):
                yield from walk(node.left)
                yield from walk(node.right)
                yield node

        return walk(self._root)

    def process(self, deltas: Mapping[int, Delta], watermark: int) -> Iterator[Combos]:
        """Take rows that have just entered the windows through the plan; yields results in the order of FROM."""
        self._floor = watermark
        root = self._root
        if isinstance(root, LeafNode):
            if root.number in deltas:
                yield deltas[root.number].combos
            return
        left, right = self._delta(root.left, deltas), self._delta(root.right, deltas)
        largest = max(len(left), len(right))
        block = Block(len(root.inputs), min(_LARGEST_RESULT_BLOCK, max(_SMALLEST_BLOCK, 2 * largest)), True)
        order = np.argsort(root.inputs)
        for _ in self._pairs(root, left, right, deltas, block):
            yield _ordered(block.content(), order)
            block.count = 0
        if block.count:
            yield _ordered(block.content(), order)

    def _delta(self, node: LiveNode, deltas: Mapping[int, Delta]) -> Delta:
        """The combinations of a node that contain a new row."""
        if isinstance(node, LeafNode):
            return deltas.get(node.number) or Delta.of_rows(node.number, np.empty(0, np.int64), self._windows)
        left, right = self._delta(node.left, deltas), self._delta(node.right, deltas)
        block = Block(len(node.inputs), max(_SMALLEST_BLOCK, len(left) + len(right)), False)
        for _ in self._pairs(node, left, right, deltas, block):
            raise AssertionError("only a bounded block has to be emptied")
        return Delta(node.inputs, block.content(), self._windows)

    def _pairs(
        self, node: JoinNode, left: Delta, right: Delta, deltas: Mapping[int, Delta], block: Block
    ) -> Iterator[None]:
        if len(right):
            self._fill_for(node.left, right)
        if len(left):
            self._fill_for(node.right, left)
        if len(right):
            before = None
            if isinstance(node.left, LeafNode) and len(left):
                before = int(left.combos.rows[0, 0])
            yield from node.matches(right, node.left, block, before)
            self._store(node.right, right)
        if len(left):
            yield from node.matches(left, node.right, block)
            self._store(node.left, left)

    def _store(self, node: LiveNode, delta: Delta) -> None:
        if isinstance(node, JoinNode):
            assert node.state is not None and node.path is not None
            node.state.store(delta.combos, node.path.keys(delta))

    # Filling ---------------------------------------------------------------------------------------------------------

    def _fill_for(self, node: LiveNode, probing: Delta) -> None:
        """Make a node hold every combination that a probe with this delta could find."""
        if isinstance(node, JoinNode) and node.state is not None and node.state.hole is not None:
            assert node.path is not None
            self._fill(node, node.path.driver, node.path.touched(probing))

    def _fill(self, node: JoinNode, number: int, ids: Ints) -> None:
        """Store every missing combination that contains one of these rows of an input."""
        state = node.state
        if state is None or state.hole is None:
            return
        hole, window = state.hole, self._windows[number]
        claimed = hole.claim(number, window.head, ids)
        if len(claimed):
            made = self._covered(hole, self._with_rows(node, number, claimed), number)
            self._store(node, made)
            hole.settle(number, claimed)
        if hole.remaining(number, window.head) == 0:
            state.hole = None

    def _covered(self, hole: Hole, delta: Delta, number: int) -> Delta:
        """The combinations that are missing, contain a row being filled, and are still alive."""
        passed = np.ones(len(delta), np.bool_)
        hole.covers(delta.combos, 0, passed, number)
        kernels.live_enough(delta.combos.ends, 0, self._floor, passed)
        if passed.all():
            return delta
        count = check_kernels.pack(delta.combos, 0, passed)
        return Delta(delta.inputs, Combos(*(array[:count] for array in delta.combos)), self._windows)

    def _with_rows(self, node: LiveNode, number: int, ids: Ints) -> Delta:
        """All combinations of a node that contain one of these rows of an input; perhaps some with other rows too."""
        if isinstance(node, LeafNode):
            return Delta.of_rows(number, ids, self._windows)
        child = node.left if number in node.left.inputs else node.right
        other = node.other(child)
        part = self._entries_with_rows(child, number, ids)
        block = Block(len(node.inputs), max(_SMALLEST_BLOCK, 2 * len(part)), False)
        if len(part):
            self._fill_for(other, part)
            for _ in node.matches(part, other, block):
                raise AssertionError("only a bounded block has to be emptied")
        return Delta(node.inputs, block.content(), self._windows)

    def _entries_with_rows(self, child: LiveNode, number: int, ids: Ints) -> Delta:
        """As `_with_rows`, from what the child has stored if its index leads there from the rows of that input."""
        if isinstance(child, LeafNode) or not isinstance(child.path, HashPath):
            return self._with_rows(child, number, ids)
        window = self._windows[number]
        if child.state is None or any(key_class not in window.codes for key_class in child.path.classes):
            return self._with_rows(child, number, ids)
        self._fill(child, number, ids.copy())
        slots = ids & (window.capacity - 1)
        keys = np.unique(composite([window.codes[key_class][slots] for key_class in child.path.classes]))
        return Delta(child.inputs, _entries(child.state, keys), self._windows)

    # Between chunks --------------------------------------------------------------------------------------------------

    def purge(self, watermark: int) -> None:
        """Forget entries that can never matter again, after the windows have forgotten their rows."""
        heads = heads_of(self._windows)
        for node in self.joins():
            if node.state is not None:
                node.state.purge(watermark, heads)

    def state_stats(self) -> list[StateStats]:
        """The size of every join state, and how many rows of its driver are still in its hole."""
        found = []
        for node in self.joins():
            if node.state is not None and node.path is not None:
                name = " ".join(self.plan.aliases[number] for number in node.inputs)
                driver = node.path.driver
                hole = node.state.hole
                holes = 0 if hole is None else hole.remaining(driver, self._windows[driver].head)
                found.append(StateStats(name, "join", len(node.state), node.state.nbytes, holes))
        return found

    def work(self) -> Work:
        """What this plan's joins and states have done."""
        joins = list(self.joins())
        moved = sum(node.state.bytes_moved for node in joins if node.state is not None)
        return Work(sum(node.slots_visited for node in joins), moved)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        for node in self.joins():
            if node.state is not None:
                node.state.renumber(number, renumbering)


def _entries(state: JoinState, keys: Ints) -> Combos:
    """The entries of a state with one of these keys."""
    assert state.hash_index is not None
    ring = state.ring()
    slots = state.hash_index.find(ring.head, keys) & (len(ring.starts) - 1)
    return selected(Combos(ring.members, ring.starts, ring.ends), slots)


def _ordered(combos: Combos, order: Ints) -> Combos:
    """Results with their columns in the order of FROM."""
    return Combos(np.ascontiguousarray(combos.rows[:, order]), combos.starts, combos.ends)
