"""The entrance: in front of every executor, it lets in the rows that have a partner in each neighbouring input.

    rows arrive  ->  a partner for each edge   ->  the base window, and through the plan
                     none for one of them      ->  hidden; woken when a row arrives that is one
                     none in a static table    ->  dropped: there will never be one

Partners are rows that have arrived and are alive, hidden or not. What a hidden row waits for is one edge: as long as
no row of that neighbour matches, there is no result with it. When one arrives, all its edges are asked again. So when
the last row of a result has arrived, each of its rows has a partner for each of its edges, and all of them have entered
by the end of that chunk: results come in the same push as without an entrance.

A row that enters gets its id then, like one that has just arrived. It keeps its interval and its arrival number. No
plan, state or migration has to know that rows were ever hidden.

An edge counts only as long as both its inputs are in the same fragment of every plan that runs: what a fragment gives
to an operator below a join must be there when the operator closes its step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from midstream.cql.model import Query
from midstream.engine.demand.chunk import IndexedChunk
from midstream.engine.demand.edges import Edge, Stores, find_edges, keys_at
from midstream.engine.demand.reviews import EdgeReviews, Work
from midstream.engine.joins.gauge import SAMPLE
from midstream.engine.stats import DemandStats, StateStats
from midstream.kernels.types import NO_REASON
from midstream.plan.nodes import quoted
from midstream.plan.tree import Plan
from midstream.state.hidden import HiddenRows
from midstream.state.indexes import Ints
from midstream.state.row_parts import join_rows, select_rows
from midstream.state.window import BaseWindow, WindowRows

#: After so many chunks it is decided anew which edges are asked first.
_ORDERED_AFTER = 32


@dataclass
class _Counts:
    """What the entrance has done so far."""

    hidden: int = 0
    woken: int = 0
    released: int = 0
    dropped: int = 0


class Entrance:
    """Lets rows into the base windows of one query; with `is_adaptive`, rows wait for partners only where that pays.

    Rows without a partner in a static table are dropped in any case, so that what is in the windows follows from rows
    alone as long as none wait.
    """

    def __init__(self, query: Query, windows: Sequence[BaseWindow], plans: Iterable[Plan], is_adaptive: bool = False):
        self._query = query
        self._windows = windows
        self._edges = find_edges(query, windows)
        #: Rows that wait, by input; of inputs that have none there may be nothing.
        self._hidden: dict[int, HiddenRows] = {}
        #: Of each edge, how many rows may wait for it: those that have expired meanwhile are counted too.
        self._waiting = [0] * len(self._edges)
        self._reviews = EdgeReviews(self._edges, windows, is_adaptive)
        self._gauges = self._reviews.gauges
        #: Whether rows may have to wait for a partner along some edge; `follow` says so.
        self._asks_any = False
        #: What has arrived in the last chunk and is not dropped, until it is sampled.
        self._arrived: Mapping[int, WindowRows] = {}
        self._counts = _Counts()
        self._meter = windows[0].meter
        self._edges_of: dict[int, list[Edge]] = {}
        self._drops_by: dict[int, list[Edge]] = {}
        self.follow(plans)

    @property
    def hidden(self) -> Mapping[int, HiddenRows]:
        """What is kept of hidden rows, by input."""
        return self._hidden

    def rows_to_store(self, number: int, entered: WindowRows, horizon: int) -> list[WindowRows]:
        """What a snapshot keeps of an input: of the rows that have entered, and of those that are hidden.

        Those without a partner in a static table are left out, although they may have entered under another plan. So
        what is stored follows from the rows alone.
        """
        hidden = self._hidden.get(number)
        parts = [entered] if hidden is None else [entered, hidden.held(hidden.living(horizon))]
        return [self.keep_possible(number, rows) for rows in parts]

    def keep_possible(self, number: int, rows: WindowRows) -> WindowRows:
        """The rows of an input without those that have no partner in a static table."""
        for edge in self._drops_by.get(number, ()):
            found = np.zeros(len(rows), np.bool_)
            edge.find_partners(rows, self._windows[edge.neighbour], found)
            if np.count_nonzero(found) < len(found):
                rows = select_rows(rows, np.flatnonzero(found))
        return rows

    @property
    def hides_any(self) -> bool:
        """Whether rows are hidden, or were since rows were last purged."""
        return bool(self._hidden) and any(len(hidden) for hidden in self._hidden.values())

    def follow(self, plans: Iterable[Plan]) -> None:
        """Go by the edges that count while these plans run; what waits for others has to be released."""
        fragments = [[frozenset(inputs) for inputs in plan.fragment_inputs] for plan in plans]
        counting = [
            edge
            for edge in self._edges
            if all(any({edge.number, edge.neighbour} <= inputs for inputs in found) for found in fragments)
        ]
        self._edges_of, self._drops_by = {}, {}
        for edge in counting:
            is_static = self._query.inputs[edge.neighbour].is_static
            (self._drops_by if is_static else self._edges_of).setdefault(edge.number, []).append(edge)
        self._counting = [edge for edges in self._edges_of.values() for edge in edges]
        self._asks_any = self._finds_work()
        self._reviews.follow(self._counting)

    def _finds_work(self) -> bool:
        return any(not self._gauges[edge.reason].is_resting for edge in self._counting)

    def release(self, horizon: int) -> dict[int, WindowRows]:
        """Take out the hidden rows that wait for an edge that does not count any more, or whose checks do not pay."""
        released = {}
        for number, hidden in self._hidden.items():
            if len(hidden) == 0:
                continue
            ids = hidden.living(horizon)
            resting = [edge.reason for edge in self._edges_of.get(number, ()) if self._gauges[edge.reason].is_resting]
            counting = [edge.reason for edge in self._edges_of.get(number, ()) if edge.reason not in resting]
            for reason in resting:
                self._waiting[reason] = 0
            ids = ids[~np.isin(hidden.reasons_of(ids), counting)]
            if len(ids):
                released[number] = _as_arrived(hidden.take(ids))
                self._counts.released += len(ids)
        self._reviews.count_held_back({}, released)
        return released

    def release_all(self, numbers: Collection[int], horizon: int) -> dict[int, WindowRows]:
        """Take out all hidden rows of these inputs."""
        released = {}
        for number in numbers:
            ids = self._hidden[number].living(horizon)
            for edge in self._edges_of.get(number, ()):
                self._waiting[edge.reason] = 0
            if len(ids):
                released[number] = _as_arrived(self._hidden[number].take(ids))
                self._counts.released += len(ids)
        self._reviews.count_held_back({}, released)
        return released

    def forget_empty(self) -> None:
        """Keep nothing for inputs of which no row waits."""
        for number in [number for number, hidden in self._hidden.items() if hidden.waiting == 0]:
            del self._hidden[number]

    def sample(self, work: Work) -> None:
        """After rows have entered, check a sample of them along edges that rest, where that could pay."""
        arrived, self._arrived = self._arrived, {}
        if not self._reviews.are_due:
            return
        for edge in self._reviews.find_promising(self._counting, work):
            if edge.number in arrived:
                self._check_sample(edge, arrived[edge.number])
            self._asks_any |= self._reviews.weigh(edge)

    def _check_sample(self, edge: Edge, rows: WindowRows) -> None:
        keys = keys_at(rows, slice(SAMPLE))
        found = np.zeros(len(keys), np.bool_)
        for store in self._stores_of(edge.neighbour):
            if store is not None and len(store):
                edge.find_partners(keys, store, found)
        self._count_checks(edge, len(found), len(found) - int(np.count_nonzero(found)), 1)

    def find_resting(self, horizon: int, work: Work) -> dict[int, WindowRows]:
        """Decide where checks have ceased to pay; take out the hidden rows that wait there."""
        if not self._asks_any:
            return {}
        ceased = self._reviews.find_ceased(self._counting, work)
        self._asks_any = self._finds_work()
        return self.release(horizon) if any(self._waiting[edge.reason] for edge in ceased) else {}

    # Rows that arrive ------------------------------------------------------------------------------------------------

    def admit(self, arrived: Mapping[int, WindowRows], horizon: int) -> Mapping[int, WindowRows]:
        """The rows that enter now, by input: of those that have just arrived, and of those that were hidden."""
        self._reviews.count_chunk()
        kept = self._arrived = self._drop(arrived) if self._drops_by else arrived
        if not self._asks_any and not self.hides_any:
            return kept
        chunk = IndexedChunk(kept)
        # First it is found out what becomes of all rows, then they are moved: all of them are there to be found.
        waking = self._find_waking(chunk)
        self._order_edges()
        reasons = {number: self._find_reasons(number, rows, chunk) for number, rows in chunk.rows.items()}
        woken = {number: _as_arrived(self._hidden[number].take(ids)) for number, ids in waking.items()}
        self._counts.woken += sum(len(rows) for rows in woken.values())
        entering = {number: self._hide(number, rows, reasons.get(number), horizon) for number, rows in kept.items()}
        for number, rows in woken.items():
            entering[number] = join_rows(rows, entering[number]) if number in entering else rows
        self._reviews.count_held_back(kept, entering)
        return entering

    def _drop(self, arrived: Mapping[int, WindowRows]) -> dict[int, WindowRows]:
        """The rows that arrive without those that have no partner in a static table."""
        kept = dict(arrived)
        for number in self._drops_by:
            rows = arrived.get(number)
            if rows is not None:
                kept[number] = self.keep_possible(number, rows)
                dropped = len(rows) - len(kept[number])
                self._meter.demand_checks += len(rows)
                self._meter.demand_hits += dropped
                self._counts.dropped += dropped
        return kept

    def _find_waking(self, chunk: IndexedChunk) -> dict[int, Ints]:
        """The ids of the hidden rows that have all partners now, by input."""
        woken: dict[int, list[Ints]] = {}
        for number, edges in self._edges_of.items():
            for edge in edges:
                arrived = chunk.rows.get(edge.neighbour)
                if arrived is not None and self._waiting[edge.reason] and number in self._hidden:
                    ids = edge.wake(arrived, self._hidden[number])
                    self._waiting[edge.reason] -= len(ids)
                    self._gauges[edge.reason].count_woken(len(ids))
                    woken.setdefault(number, []).append(ids)
        waking = {}
        for number, parts in woken.items():
            ids = np.sort(np.concatenate(parts))
            if len(ids):
                ids = ids[self._wait_again(number, ids, chunk)]
            if len(ids):
                waking[number] = ids
        return waking

    def _wait_again(self, number: int, ids: Ints, chunk: IndexedChunk) -> Ints:
        """Have those of the hidden rows that lack another partner wait for that one; the places of the others."""
        hidden = self._hidden[number]
        reasons = self._find_reasons(number, hidden.keys_of(ids), chunk)
        hidden.set_reasons(ids, reasons)
        return np.flatnonzero(reasons == NO_REASON)

    def _hide(self, number: int, rows: WindowRows, reasons: Ints | None, horizon: int) -> WindowRows:
        """Keep those of the rows that have to wait; the others."""
        waiting = np.empty(0, np.int64) if reasons is None else np.flatnonzero(reasons != NO_REASON)
        hidden = self._hidden.get(number)
        if hidden is None:
            if len(waiting) == 0:
                return rows
            window = self._windows[number]
            hidden = self._hidden[number] = HiddenRows(window.layout, meter=window.meter)
        # Where rows are counted also without any: those that are there have to know how many have come.
        if len(waiting) or (len(hidden) and hidden.layout.window.counts_rows):
            own = np.empty(0, np.int64) if reasons is None else reasons[waiting]
            hidden.hide(select_rows(rows, waiting), own, horizon)
            self._counts.hidden += len(waiting)
        return rows if reasons is None else select_rows(rows, np.flatnonzero(reasons == NO_REASON))

    def _find_reasons(self, number: int, rows: WindowRows, chunk: IndexedChunk) -> Ints:
        """For each row of an input, the first edge for which it has no partner, and has to wait from now on."""
        reasons = np.full(len(rows), NO_REASON)
        left = len(rows)
        for edge in self._edges_of.get(number, ()):
            if self._gauges[edge.reason].is_resting:
                continue
            lacking = edge.find_lacking(rows, self._stores_of(edge.neighbour), chunk, reasons)
            self._count_checks(edge, left, lacking, 1)
            self._waiting[edge.reason] += lacking
            left -= lacking
            if left == 0:
                break
        return reasons

    def _count_checks(self, edge: Edge, checks: int, hits: int, calls: int) -> None:
        self._gauges[edge.reason].count(checks, hits, calls)
        self._meter.demand_checks += checks
        self._meter.demand_hits += hits

    def _order_edges(self) -> None:
        """Now and then, have the edges first for which most rows lack a partner: fewer rows are left for the others."""
        if self._reviews.chunks % _ORDERED_AFTER == 0:
            for edges in self._edges_of.values():
                edges.sort(key=lambda edge: self._gauges[edge.reason].hit_share, reverse=True)

    def _stores_of(self, number: int) -> Stores:
        """Where rows of an input are that have arrived before."""
        return Stores(self._windows[number], self._hidden.get(number))

    def purge(self, horizon: int) -> None:
        """Forget hidden rows for which no partner can come any more."""
        if not self._hidden:
            return
        for number, hidden in list(self._hidden.items()):
            if len(hidden) == 0 and not self._asks_any:
                del self._hidden[number]
            elif len(hidden):
                hidden.purge(horizon)
                if len(hidden) == 0:
                    for edge in self._edges_of.get(number, ()):
                        self._waiting[edge.reason] = 0

    # What it tells ---------------------------------------------------------------------------------------------------

    def stats(self) -> DemandStats:
        """What it, and the plan behind it, have done so far."""
        counts, meter = self._counts, self._meter
        return DemandStats(
            hidden=counts.hidden,
            waiting=sum(hidden.waiting for hidden in self._hidden.values()),
            woken=counts.woken,
            released=counts.released,
            dropped=counts.dropped,
            suspended=meter.suspended,
            resumed=meter.resumed,
            checks=meter.demand_checks,
            hits=meter.demand_hits,
            idle=meter.idle_rows,
        )

    def state_stats(self) -> list[StateStats]:
        """The size of what is kept of hidden rows, for each input that has some."""
        found = []
        for number, hidden in self._hidden.items():
            if len(hidden):
                alias = self._query.inputs[number].alias
                found.append(StateStats(quoted(alias), "hidden", hidden.waiting, hidden.nbytes, 0, (alias,)))
        return found


def _as_arrived(rows: WindowRows) -> WindowRows:
    """Rows that enter without any others of their stream."""
    rows.stream_arrivals = None if rows.arrivals is None else np.empty(0, np.int64)
    return rows
