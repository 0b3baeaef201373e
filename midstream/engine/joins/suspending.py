"""Suspension: combinations for which a join further up has no partner are not joined on the way there.

         J              X = (a b) finds no partner in D, whose index is asked before X is joined with C.
       /   \\            It waits at J, and neither (a b c) nor its place in the state of X is made.
     P       D          When a row of D arrives that matches, it climbs: it is stored in the state of X,
   /   \\                joined with C, and the result is stored in the state of P, as if it had always been there.
  X     C               Then J joins the row of D with what P holds. A climb gives out nothing.

Each join has one *lazy* side, whose combinations may wait for the other, the *eager* one. So no two of them can wait
for each other. X is any node below the lazy side that is not the side itself.

A combination that waits is in no state. Rows of a window that wait are still in the window, and the join above leaves
them out. All that wakes of one node climbs together: no combination has two of them. What climbs is an arrival for
those who wait for it on the way, and they climb first.

Suspension needs complete states, since it asks them. While something is missing from a state, or one is switched off,
nothing is suspended. Before such a change, whatever waits becomes missing, as if it were evicted from the states on its
way, and is filled when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.access import HashPath, path_into
from midstream.engine.joins.checks import Mask
from midstream.engine.joins.combos import Delta, heads_of, make_block
from midstream.engine.joins.evicting import lose
from midstream.engine.joins.filling import store
from midstream.engine.joins.gauge import Gauge
from midstream.engine.joins.nodes import INDEXED_AT_ONCE, JoinNode, LeafNode, LiveNode, add_way, indexed_path
from midstream.engine.joins.probing import Prober
from midstream.kernels.types import Combos
from midstream.state.indexes import Ints
from midstream.state.join_state import Access, JoinState
from midstream.state.row_set import RowSet
from midstream.state.window import BaseWindow, Renumbering


class Sight(NamedTuple):
    """What a climb sees of windows: of an input in `before`, no rows from that id on; of one in `since`, none below.

    What ended before `horizon` is dead.
    """

    before: Mapping[int, int] | None
    since: Mapping[int, int] | None
    horizon: int


class NotWaiting:
    """The row of an input does not wait for a join further up."""

    def __init__(self, column: int, rows: RowSet):
        self._column, self._rows = column, rows

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        if len(self._rows):
            passed &= ~self._rows.has(combos.rows[first : first + len(passed), self._column])


class Waiting:
    """The combinations of `node` that wait at a join, below its lazy child `top`, for its other child `eager`."""

    def __init__(
        self,
        query: Query,
        node: LiveNode,
        top: JoinNode,
        eager: LiveNode,
        windows: Sequence[BaseWindow],
        gauge: Gauge,
    ):
        self.node, self.top, self.eager, self.gauge = node, top, eager, gauge
        path = path_into(query, node.inputs, eager.inputs, windows)
        assert isinstance(path, HashPath)
        self._path = path
        #: How the eager side is asked; a large window may have no index on all classes.
        asked = indexed_path(query, eager.inputs, node.inputs, windows, INDEXED_AT_ONCE)
        assert isinstance(asked, HashPath)
        self.asked = asked
        self.state = JoinState(node.inputs, {path.signature: Access.HASH}, meter=windows[0].meter)

    def has_partner(self, delta: Delta) -> Mask:
        """Which combinations have a partner in the eager side, as far as its index tells."""
        held = self.eager.window if isinstance(self.eager, LeafNode) else self.eager.state
        assert held is not None
        found = np.zeros(len(delta), np.bool_)
        intervals = (delta.combos.starts, delta.combos.ends)
        self.asked.index(held).find_partners(held.ring(), delta.keys(self.asked.classes), intervals, found)
        return found

    def add(self, delta: Delta) -> None:
        """Have combinations wait."""
        self.state.store(delta.combos, {self._path.signature: self._path.keys(delta)})

    def take(self, arrived: Delta) -> Combos:
        """Take out the combinations that combinations of the eager side may match."""
        keys = np.unique(arrived.keys(self._path.classes))
        ids = self._path.index(self.state).find(self.state.ring().head, keys)
        combos = self.state.combos_at(ids)
        # The key of each is one of many; that one of them is there at the time of this very one is not asked.
        meets = (combos.starts <= arrived.combos.ends.max()) & (combos.ends >= arrived.combos.starts.min())
        ids = ids[meets]
        self.state.remove(ids)
        return Combos(*(np.ascontiguousarray(array[meets]) for array in combos))

    def take_living(self, horizon: int, heads: Mapping[int, int]) -> Combos:
        """Take out everything that is not dead, and forget the rest."""
        combos = self.state.combos_at(self.state.living(horizon, heads))
        self.state.clear()
        return combos

    def take_all(self) -> Combos:
        combos = self.state.entries(self.node.inputs)
        self.state.clear()
        return combos


class Suspender:
    """Suspends combinations of one plan, and has them climb; one that `is_adaptive`, only where that pays."""

    def __init__(
        self,
        query: Query,
        joins: Sequence[JoinNode],
        windows: Sequence[BaseWindow],
        prober: Prober,
        is_adaptive: bool = False,
    ):
        self._joins = joins
        self._windows = windows
        self._prober = prober
        self._is_adaptive = is_adaptive
        self._meter = windows[0].meter
        self._parents = {id(child): join for join in joins for child in (join.left, join.right)}
        self._by_node: dict[int, list[Waiting]] = {}
        self._by_join: dict[int, list[Waiting]] = {}
        #: Whether something was checked since the last purge, or may wait.
        self._is_busy = False
        #: Rows of windows that wait, by input.
        self._waiting_rows: dict[int, RowSet] = {}
        for join in reversed(joins):
            self._add_waiting(query, join)

    def _add_waiting(self, query: Query, join: JoinNode) -> None:
        top = lazy_side(join)
        if not isinstance(top, JoinNode):
            return
        eager = join.other(top)
        for node in _below(top):
            # Rows of a window that have no partner in another do not even enter.
            is_asked_before = isinstance(node, LeafNode) and isinstance(eager, LeafNode)
            path = path_into(query, node.inputs, eager.inputs, self._windows)
            if is_asked_before or path.access is not Access.HASH:
                continue
            waiting = Waiting(query, node, top, eager, self._windows, Gauge(self._is_adaptive))
            # The nearest join is asked first.
            self._by_node.setdefault(id(node), []).insert(0, waiting)
            self._by_join.setdefault(id(join), []).append(waiting)
            if isinstance(node, LeafNode) and node.number not in self._waiting_rows:
                rows = self._waiting_rows[node.number] = RowSet()
                parent = self._parents[id(node)]
                parent.checks = parent.checks.after(NotWaiting(parent.inputs.index(node.number), rows))

    def _all(self) -> Iterator[Waiting]:
        for waiting in self._by_join.values():
            yield from waiting

    def prepare(self) -> None:
        """Give the states that are asked the indexes for it."""
        for waiting in self._all():
            if isinstance(waiting.eager, JoinNode):
                add_way(waiting.eager, waiting.asked, self._windows)

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that are asked."""
        for waiting in self._all():
            if isinstance(waiting.eager, LeafNode):
                yield waiting.eager.number, waiting.asked.classes

    # Suspending and waking -------------------------------------------------------------------------------------------

    def suspend(self, node: LiveNode, delta: Delta) -> Delta:
        """The new combinations of a node but for those that have to wait for a join further up."""
        for waiting in self._by_node.get(id(node), ()):
            if len(delta) == 0:
                break
            if not waiting.gauge.asks():
                continue
            self._is_busy = True
            found = waiting.has_partner(delta)
            lacking = np.flatnonzero(~found)
            self._meter.demand_checks += len(delta)
            self._meter.demand_hits += len(lacking)
            waiting.gauge.count(len(delta), len(lacking))
            if len(lacking) and not waiting.gauge.is_resting:
                waits = delta.at(lacking)
                waiting.add(waits)
                self._meter.suspended += len(waits)
                if isinstance(node, LeafNode):
                    self._waiting_rows[node.number].add(waits.ids)
                delta = delta.at(np.flatnonzero(found))
        return delta

    def wake(self, join: JoinNode, arrived: Delta, sight: Sight) -> None:
        """Have everything climb to the lazy child of a join that waits for these combinations of the eager one."""
        for waiting in self._by_join.get(id(join), ()):
            if len(waiting.state) and len(arrived):
                combos = waiting.take(arrived)
                if len(combos.starts):
                    waiting.gauge.count_woken(len(combos.starts))
                    self._resume(waiting, combos, sight)

    def _resume(self, waiting: Waiting, combos: Combos, sight: Sight) -> None:
        node = waiting.node
        self._meter.resumed += len(combos.starts)
        if isinstance(node, LeafNode):
            self._waiting_rows[node.number].discard(combos.rows[:, 0])
        delta = Delta(node.inputs, combos, self._windows).begin_at(sight.horizon)
        self._climb(node, delta, waiting.top, sight)

    def _climb(self, node: LiveNode, delta: Delta, top: JoinNode, sight: Sight) -> None:
        store(node, delta)
        if node is top:
            return
        parent = self._parents[id(node)]
        sibling = parent.other(node)
        if sibling is lazy_side(parent):
            self.wake(parent, delta, sight)
        block = make_block(len(parent.inputs), parent.least_block, len(delta))
        for _ in self._prober.matches(parent, delta, sibling, block, sight.before, sight.since):
            self._climb(parent, Delta(parent.inputs, block.content(), self._windows), top, sight)
            block.count = 0
        if block.count:
            self._climb(parent, Delta(parent.inputs, block.content(), self._windows), top, sight)

    # Before states change --------------------------------------------------------------------------------------------

    def give_up(self, since: Mapping[int, int] | None) -> None:
        """Nothing waits any more: what did is missing from the states on its way."""
        lost: list[tuple[Waiting, Ints]] = []
        for waiting in self._all():
            if len(waiting.state):
                combos, node = waiting.take_all(), waiting.node
                store(node, Delta(node.inputs, combos, self._windows))
                lost.append((waiting, np.unique(combos.rows[:, 0])))
        # Only now: what is stored must not be in a box.
        for waiting, rows in lost:
            node = waiting.node
            while node is not waiting.top:
                node = self._parents[id(node)]
                lose(node, waiting.node.inputs[0], rows, self._windows, since)
        for waiting_rows in self._waiting_rows.values():
            waiting_rows.discard(waiting_rows.ids())

    def purge(self, horizon: int, since: Mapping[int, int] | None) -> None:
        """Forget what can never match any more, and have what waits go on where that has ceased to pay."""
        if not self._is_busy:
            return
        heads = heads_of(self._windows)
        for waiting in self._all():
            waiting.state.purge(horizon, heads)
        for number, rows in self._waiting_rows.items():
            rows.forget(heads[number])
        for waiting in self._all():
            parent = self._parents[id(waiting.node)]
            # As long as hardly anything was joined, it is not known what that takes.
            is_known = parent.rows_matched >= Gauge.least_checks
            if is_known and waiting.gauge.decide(parent.slots_visited / parent.rows_matched) and len(waiting.state):
                self._resume(waiting, waiting.take_living(horizon, heads), Sight(None, since, horizon))
        self._is_busy = self.waiting > 0

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        for waiting in self._all():
            waiting.state.renumber(number, renumbering)
        if number in self._waiting_rows:
            self._waiting_rows[number].renumber(renumbering)

    @property
    def waiting(self) -> int:
        """How many combinations wait."""
        return sum(len(waiting.state) for waiting in self._all())

    @property
    def nbytes(self) -> int:
        own = sum(rows.nbytes for rows in self._waiting_rows.values())
        return own + sum(waiting.state.nbytes for waiting in self._all())


def lazy_side(join: JoinNode) -> LiveNode:
    """The child of a join whose combinations may wait for those of the other: the one with more inputs, or the left."""
    return join.right if len(join.right.inputs) > len(join.left.inputs) else join.left


def _below(node: LiveNode) -> Iterator[LiveNode]:
    """The nodes below a node."""
    if isinstance(node, JoinNode):
        for child in (node.left, node.right):
            yield child
            yield from _below(child)
