"""What paper 003 could save beyond the product, counted on the way of an engine that is not timed.

Mark-result feedback (for sub-tuples across both children of a join, Type II): a combination of three or more rows is
made below a join that has no partner for it. The paper makes the first one with the same sub-tuple too, so the count is
a bound: no more than these could be saved.

Suspension in mid-life: a row or combination has been joined, then its last partner further up expired. The paper takes
it, and all entries that have it, out of the states; here they stay until they expire. What is counted are these
entries, every few purges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from midstream.cql.model import Query
from midstream.engine.executors.tree import Tree, TreeExecutor
from midstream.engine.joins.access import HashPath
from midstream.engine.joins.checks import Mask
from midstream.engine.joins.combos import Delta, heads_of
from midstream.engine.joins.nodes import LeafNode, LiveNode, lazy_side
from midstream.engine.joins.waiting import Waiting
from midstream.plan.tree import Plan
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow

_PURGES_A_LOOK = 4


@dataclass(frozen=True)
class LeftOut:
    """Combinations made without a partner that mark-result feedback might save; entries that mid-life could remove.

    `entries` were held at the moments at which `outlived` of them were found.
    """

    without_partner: int = 0
    outlived: int = 0
    entries: int = 0

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(
            self.without_partner + other.without_partner, self.outlived + other.outlived, self.entries + other.entries
        )

    def __sub__(self, other: LeftOut) -> LeftOut:
        return self + LeftOut(-other.without_partner, -other.outlived, -other.entries)


class CountingTree(Tree):
    """A tree executor that counts what is left out of demand."""

    name = "tree, counting"

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> TreeExecutor:
        return CountingExecutor(query, plan, windows, since)


class CountingExecutor(TreeExecutor):
    """Looks at what passes, and changes nothing."""

    def __init__(self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None):
        super().__init__(query, plan, windows, since)
        self.left_out = LeftOut()
        self._purges = 0
        self._parents = {id(child): join for join in self.joins() for child in (join.left, join.right)}

    def _in_demand(self, node: LiveNode, delta: Delta) -> Iterator[Delta]:
        for part in super()._in_demand(node, delta):
            parent = self._parents[id(node)]
            if len(node.inputs) > 2 and node is lazy_side(parent):
                found = _find_partners(part, parent.other(node))
                self.left_out += LeftOut(without_partner=int(np.count_nonzero(~found)))
            yield part

    def purge(self, horizon: int) -> None:
        super().purge(horizon)
        self._purges += 1
        if self._suspender is not None and self._purges % _PURGES_A_LOOK == 0:
            self._count_outlived(list(self._suspender._all()), horizon)

    def _count_outlived(self, waits: Sequence[Waiting], horizon: int) -> None:
        heads = heads_of(self._windows)
        held = {
            id(join): join.state.combos_at(join.state.living(horizon, heads)).rows
            for join in self.joins()
            if join.state is not None
        }
        outlived: dict[int, Mask] = {key: np.zeros(len(rows), np.bool_) for key, rows in held.items()}
        for waiting in waits:
            lacking = self._find_lacking(waiting, horizon, heads)
            node: LiveNode = waiting.node
            while len(lacking) and node is not waiting.top:
                node = self._parents[id(node)]
                columns = [node.inputs.index(number) for number in waiting.node.inputs]
                outlived[id(node)] |= np.isin(_as_keys(held[id(node)][:, columns]), _as_keys(lacking))
        self.left_out += LeftOut(
            outlived=sum(int(np.count_nonzero(mask)) for mask in outlived.values()),
            entries=sum(len(rows) for rows in held.values()),
        )

    def _find_lacking(self, waiting: Waiting, horizon: int, heads: Mapping[int, int]) -> Ints:
        """The rows or combinations of a node that do not wait, though they have no partner any more."""
        node = waiting.node
        if isinstance(node, LeafNode):
            assert self._suspender is not None
            ids = np.arange(node.window.head, node.window.tail)
            ids = ids[~self._suspender._waiting_rows[node.number].has(ids)]
            delta = Delta.of_rows(node.number, ids, self._windows)
        else:
            assert node.state is not None
            combos = node.state.combos_at(node.state.living(horizon, heads))
            delta = Delta(node.inputs, combos, self._windows)
        lacking: Ints = delta.combos.rows[waiting.split(delta.begin_at(horizon)).lacking]
        return lacking


def _find_partners(delta: Delta, child: LiveNode) -> Mask:
    """Which combinations have a partner in the other child of a join, as far as its index tells."""
    found = np.zeros(len(delta), np.bool_)
    held = child.window if isinstance(child, LeafNode) else child.state
    assert held is not None and isinstance(child.path, HashPath)
    intervals = (delta.combos.starts, delta.combos.ends)
    child.path.index(held).find_partners(held.ring(), delta.keys(child.path.classes), intervals, found)
    return found


def _as_keys(rows: Ints) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Each combination of row ids as one value."""
    packed = np.ascontiguousarray(rows)
    return packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).reshape(-1)


def left_out_of(executor: object) -> LeftOut:
    """What a counting executor has found; nothing for any other."""
    return executor.left_out if isinstance(executor, CountingExecutor) else LeftOut()
