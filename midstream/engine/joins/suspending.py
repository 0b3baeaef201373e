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

States may lack something or be off meanwhile. An eager side is asked as far as it tells for sure (`waiting`). What is
open, because a part of it waits, is left out of whatever is found in the windows instead (`openness`). What climbs is
not stored where it is missing anyway: there it is filled in with the rest. Before a change of plan, whatever waits
becomes missing, as if it were evicted from the states on its way, and is filled when it is needed.

With ``demand="auto"`` nothing is asked at first. Between chunks each gauge that rests is reviewed now and then. Where
much could be saved, the side that is asked gets an index, and a sample of what comes next is checked by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.access import path_into
from midstream.engine.joins.checks import Checks
from midstream.engine.joins.combos import Delta, heads_of, make_block
from midstream.engine.joins.evicting import evict_all, lose
from midstream.engine.joins.filling import Filler, store
from midstream.engine.joins.gauge import SAMPLE, Gauge
from midstream.engine.joins.idling import IdleJoins
from midstream.engine.joins.nodes import JoinNode, LeafNode, LiveNode, keep_ways, lazy_side
from midstream.engine.joins.probing import Prober
from midstream.engine.joins.reviewing import Reviewer, Source
from midstream.engine.joins.waiting import NotWaiting, Split, Waiting
from midstream.kernels.types import Combos
from midstream.state.indexes import Ints
from midstream.state.join_state import Access
from midstream.state.row_set import RowSet
from midstream.state.window import BaseWindow, Renumbering


class Sight(NamedTuple):
    """What a climb sees of windows: of an input in `before`, no rows from that id on; of one in `since`, none below.

    What ended before `horizon` is dead.
    """

    before: Mapping[int, int] | None
    since: Mapping[int, int] | None
    horizon: int


#: How many calls the checks of one node for one join take in a chunk, with those for what waits and wakes.
_CALLS_A_CHUNK = 8


class Suspender:
    """Suspends combinations of one plan, and has them climb; one that `is_adaptive`, only where that pays."""

    def __init__(
        self,
        query: Query,
        joins: Sequence[JoinNode],
        windows: Sequence[BaseWindow],
        prober: Prober,
        filler: Filler,
        is_adaptive: bool = False,
    ):
        self._joins = joins
        self._windows = windows
        self._prober, self._filler = prober, filler
        self._is_adaptive = is_adaptive
        self._meter = windows[0].meter
        self._parents = {id(child): join for join in joins for child in (join.left, join.right)}
        self._sources: dict[int, Source] = {}
        self._by_join: dict[int, list[Waiting]] = {}
        #: Whether something is asked or waits. It changes between chunks alone.
        self.is_busy = False
        #: Whether a window may have an index that is not used any more.
        self.has_left_indexes = False
        #: Rows of windows that wait, by input.
        self._waiting_rows: dict[int, RowSet] = {}
        #: The checks of joins above leaves if no row waits.
        self._checks: dict[int, Checks] = {}
        for join in reversed(joins):
            self._add_waiting(query, join)
        self._reviewer = Reviewer(joins, self._parents, self._sources, windows)
        prober.open.parts = list(self._all())
        self.idle = IdleJoins(joins, windows, is_adaptive)

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
            gauge = Gauge(self._is_adaptive, _CALLS_A_CHUNK)
            waiting = Waiting(query, node, top, eager, self._windows, gauge)
            # The nearest join is asked first.
            self._sources.setdefault(id(node), Source(node)).waiting.insert(0, waiting)
            self._by_join.setdefault(id(join), []).append(waiting)
            if isinstance(node, LeafNode) and node.number not in self._waiting_rows:
                self._waiting_rows[node.number] = RowSet()
                parent = self._parents[id(node)]
                self._checks[id(parent)] = parent.checks

    def _all(self) -> Iterator[Waiting]:
        for source in self._sources.values():
            yield from source.waiting

    def _asking(self) -> Iterator[Waiting]:
        for source in self._sources.values():
            yield from source.asking

    def prepare(self) -> None:
        """Give the nodes that are asked the indexes for it, and find what is idle from the beginning."""
        for waiting in self._all():
            if not waiting.gauge.is_resting:
                waiting.prepare()
        self._follow()
        self.idle.begin(None)

    def _follow(self) -> None:
        """Go by what is asked now."""
        for source in self._sources.values():
            source.ask()
        leaves = [source for source in self._sources.values() if isinstance(source.node, LeafNode)]
        for source in leaves:
            parent = self._parents[id(source.node)]
            parent.checks = self._checks[id(parent)]
        for source in leaves:
            if any(not waiting.gauge.is_resting for waiting in source.asking):
                parent, (number,) = self._parents[id(source.node)], source.node.inputs
                none_waits = NotWaiting(parent.inputs.index(number), self._waiting_rows[number])
                parent.checks = parent.checks.after(none_waits)
        self.is_busy = any(source.asking for source in self._sources.values())

    def _retire(self, retired: Sequence[Waiting]) -> None:
        """What is asked no more needs no index."""
        for waiting in retired:
            self.has_left_indexes |= any(True for _ in waiting.indexes_used())
            waiting.retire()
        self._follow()
        for eager in [waiting.eager for waiting in retired]:
            if isinstance(eager, JoinNode):
                asked = [waiting.asked for waiting in self._asking() if waiting.eager is eager]
                keep_ways(eager, [path.signature for path in asked if path is not None])

    def end(self) -> None:
        """Nothing waits, and nothing is asked from now on."""
        self._retire(list(self._asking()))
        self._prober.open.parts = ()

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that are asked."""
        for waiting in self._asking():
            yield from waiting.indexes_used()

    # Suspending and waking -------------------------------------------------------------------------------------------

    def suspend(self, node: LiveNode, delta: Delta) -> Delta:
        """The new combinations of a node but for those that have to wait for a join further up."""
        source = self._sources.get(id(node))
        if source is None:
            return delta
        for waiting in source.asking:
            if len(delta) == 0:
                break
            if not waiting.can_ask:
                continue
            if waiting.gauge.is_resting:
                self._check(waiting, delta.at(np.arange(min(len(delta), SAMPLE))))
                continue
            split = self._check(waiting, delta)
            if len(split.lacking):
                waiting.add(delta, split)
                source.held_back += len(split.lacking)
                self._meter.suspended += len(split.lacking)
                if isinstance(node, LeafNode):
                    self._waiting_rows[node.number].add(delta.ids[split.lacking])
                delta = delta.at(split.having)
        return delta

    def _check(self, waiting: Waiting, delta: Delta) -> Split:
        split = waiting.split(delta)
        self._meter.demand_checks += len(delta)
        self._meter.demand_hits += len(split.lacking)
        waiting.gauge.count(len(delta), len(split.lacking), calls=3 if len(split.lacking) else 1)
        return split

    def wake(self, join: JoinNode, arrived: Delta, sight: Sight) -> None:
        """Have everything climb to the lazy child of a join that waits for these combinations of the eager one."""
        if len(arrived) == 0:
            return
        for waiting in self._by_join.get(id(join), ()):
            if len(waiting):
                combos = waiting.take(arrived)
                woken = len(combos.starts)
                waiting.gauge.count_woken(woken, calls=5 if woken else 1)
                if woken:
                    self._resume(waiting, combos, sight)

    def _resume(self, waiting: Waiting, combos: Combos, sight: Sight) -> None:
        node = waiting.node
        self._meter.resumed += len(combos.starts)
        self._sources[id(node)].held_back -= len(combos.starts)
        if isinstance(node, LeafNode):
            self._waiting_rows[node.number].discard(combos.rows[:, 0])
        delta = Delta(node.inputs, combos, self._windows).begin_at(sight.horizon)
        self._climb(node, delta, waiting.top, sight)

    def _climb(self, node: LiveNode, delta: Delta, top: JoinNode, sight: Sight) -> None:
        _store_present(node, delta)
        if node is top:
            return
        parent = self._parents[id(node)]
        sibling = parent.other(node)
        if sibling is lazy_side(parent):
            self.idle.wake(parent, sight.since)
            self.wake(parent, delta, sight)
        self._filler.fill_for(sibling, delta, sight.horizon)
        block = make_block(len(parent.inputs), parent.least_block, len(delta))
        for _ in self._prober.matches(parent, delta, sibling, block, sight.before, sight.since):
            self._climb(parent, Delta(parent.inputs, block.content(), self._windows), top, sight)
            block.count = 0
        if block.count:
            self._climb(parent, Delta(parent.inputs, block.content(), self._windows), top, sight)

    # Between chunks --------------------------------------------------------------------------------------------------

    def give_up(self, since: Mapping[int, int] | None) -> None:
        """Nothing waits any more, and no join is idle: what did is missing from the states on its way."""
        self.idle.stop(since)
        self._let_go(list(self._all()), since)

    def _let_go(self, given_up: Sequence[Waiting], since: Mapping[int, int] | None) -> None:
        """What waits here becomes missing from the states on its way."""
        lost: list[tuple[Waiting, Ints]] = []
        for waiting in given_up:
            if len(waiting):
                combos, node = waiting.take_all(), waiting.node
                _store_present(node, Delta(node.inputs, combos, self._windows))
                lost.append((waiting, np.unique(combos.rows[:, 0])))
        # Only now: what is stored must not be in a box.
        for waiting, rows in lost:
            for node in self._way(waiting):
                lose(node, waiting.node.inputs[0], rows, self._windows, since)
        self._let_rows_go({waiting.node.inputs for waiting in given_up})

    def drop(self, since: Mapping[int, int] | None) -> int:
        """Nothing waits any more, and the states on its way are empty, so that all this takes nothing; how much did."""
        self.idle.stop(since)
        dropped = 0
        emptied: dict[int, JoinNode] = {}
        for waiting in self._all():
            if len(waiting):
                dropped += len(waiting)
                waiting.state.clear()
                emptied |= {
                    id(node): node for node in (waiting.node, *self._way(waiting)) if isinstance(node, JoinNode)
                }
        for node in emptied.values():
            if not node.is_off:
                dropped += evict_all(node, self._windows, since)
        self._let_rows_go({waiting.node.inputs for waiting in self._all()})
        return dropped

    def _way(self, waiting: Waiting) -> Iterator[JoinNode]:
        """The joins that it would come to until it is where it waits; not those that are off."""
        node = waiting.node
        while node is not waiting.top:
            node = self._parents[id(node)]
            if not node.is_off:
                yield node

    def _let_rows_go(self, nodes: Collection[tuple[int, ...]]) -> None:
        """No row of a window waits any more that is one of these nodes, given by their inputs."""
        for number, rows in self._waiting_rows.items():
            if (number,) in nodes:
                rows.discard(rows.ids())

    def purge(self, horizon: int, since: Mapping[int, int] | None) -> None:
        """Forget what can never match any more, and have what waits go on where that has ceased to pay."""
        self._prober.open.horizon = horizon
        is_review_due = self._is_adaptive and self._reviewer.count_chunk()
        if self.is_busy:
            heads = heads_of(self._windows)
            for waiting in self._asking():
                waiting.purge(horizon, heads)
            for number, rows in self._waiting_rows.items():
                rows.forget(heads[number])
            if self._is_adaptive:
                self._decide(Sight(None, since, horizon))
        if is_review_due:
            samples = list(self._reviewer.find_samples())
            for waiting in samples:
                waiting.prepare()
            if samples:
                self._follow()
        self._find_idle(since)

    def _find_idle(self, since: Mapping[int, int] | None) -> None:
        """Find joins that are idle from now on; what waits below them has to go on without anybody looking at it."""
        below = self.idle.begin(since, {id(waiting.node) for waiting in self._asking() if len(waiting)})
        if below:
            self._let_go([waiting for waiting in self._asking() if id(waiting.node) in below], since)

    def _decide(self, sight: Sight) -> None:
        """Find out where checks pay going by a sample, and where they have ceased to."""
        retired, is_changed = [], False
        for waiting in list(self._asking()):
            gauge = waiting.gauge
            is_sampled = gauge.is_resting and gauge.has_sampled
            if not (is_sampled or gauge.is_ripe):
                continue
            self._reviewer.note_work(waiting)
            if is_sampled:
                is_changed = True
                if not gauge.wake_up(self._reviewer.load_of(waiting)):
                    retired.append(waiting)
            elif gauge.cease():
                if len(waiting):
                    living = waiting.take_living(sight.horizon, heads_of(self._windows))
                    self._resume(waiting, living, sight)
                retired.append(waiting)
        for waiting in retired:
            self._reviewer.put_off(waiting)
        if retired:
            self._retire(retired)
        elif is_changed:
            self._follow()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        self.idle.renumber(number, renumbering)
        for waiting in self._asking():
            if len(waiting):
                waiting.state.renumber(number, renumbering)
        if number in self._waiting_rows:
            self._waiting_rows[number].renumber(renumbering)

    @property
    def waiting(self) -> int:
        """How many combinations wait."""
        return sum(len(waiting) for waiting in self._asking())

    @property
    def nbytes(self) -> int:
        own = sum(rows.nbytes for rows in self._waiting_rows.values())
        return own + sum(waiting.nbytes for waiting in self._asking())


def _store_present(node: LiveNode, delta: Delta) -> None:
    """Store combinations but for those that are missing from a join's state, and will be filled in with the rest."""
    if isinstance(node, JoinNode) and node.state is not None:
        missing = node.state.missing.has(delta.combos) if node.state.missing else None
        store(node, delta if missing is None else delta.at(np.flatnonzero(~missing)))


def _below(node: LiveNode) -> Iterator[LiveNode]:
    """The nodes below a node."""
    if isinstance(node, JoinNode):
        for child in (node.left, node.right):
            yield child
            yield from _below(child)
