"""A sample of the data, run under one plan while rows, results and entries are counted, as far as another plan needs.

Rows go in by event time, the streams together. At any moment the states of the plan that runs can be counted, and those
of another plan computed from the base windows, just as Moving State does it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.adapt.load import Inputs
from midstream.cql.model import Query
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.input.binding import TableBinding
from midstream.engine.input.casting import make_plain
from midstream.engine.input.event_time import judge
from midstream.engine.input.watermark import NONE_YET
from midstream.engine.joins.combos import Delta, heads_of
from midstream.engine.joins.nodes import JoinNode
from midstream.engine.lane import Lane
from midstream.engine.pipeline import Pipeline
from midstream.engine.push_loop import PushLoop
from midstream.engine.transition import Situation
from midstream.errors import InputError
from midstream.kernels.types import Combos
from midstream.plan.tree import Plan
from midstream.state.indexes import Ints
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow


@dataclass(frozen=True)
class ComputedState:
    """A state that was computed: its entries, the entries of its two sides, and the pairs that were looked at."""

    entries: int
    sides: tuple[int, int]
    visited: int

    @property
    def work(self) -> int:
        """Everything that was touched."""
        return sum(self.sides) + self.visited + self.entries


@dataclass(frozen=True)
class Moment:
    """The rows of each window, the entries of the states of both plans, and what computing the new ones took."""

    rows: tuple[int, ...]
    held: Mapping[Inputs, int]
    computed: Mapping[Inputs, ComputedState]
    seconds: float


class Sample:
    """Data that are pushed bit by bit under a plan."""

    def __init__(self, query: Query, plan: Plan, data: Mapping[str, pa.Table]):
        given = _name_data(query, data)
        self.query = query
        self._loop = PushLoop(query, plan, TreeExecutor.kind)
        self._executor = _install_counting(self._loop.pipeline, plan)
        self._loop.pipeline.load_tables({name: given[name] for name in query.tables})
        self._streams = {stream: _sort_stream(query, stream, given[stream]) for stream in query.streams}
        self._times = np.sort(np.concatenate([ordered.times for ordered in self._streams.values()]))
        if self.rows_given < 2 or self._times[0] == self._times[-1]:
            raise InputError("measure: the data have fewer than two event times, which give no rate; give more rows")
        self.pushed = dict.fromkeys(query.streams, 0)
        self.seconds = 0.0

    @property
    def rows_given(self) -> int:
        return len(self._times)

    @property
    def entered(self) -> Sequence[int]:
        """Rows that have entered each input's window, which filters and null keys may have kept others from."""
        return self._executor.entered

    @property
    def results(self) -> int:
        """Results so far."""
        return self._executor.results

    def seconds_at(self, rows: int) -> float:
        """The event time that the first so many rows span."""
        return float(self._times[rows - 1] - self._times[0]) / 1e6

    def push_up_to(self, rows: int) -> None:
        """Push what is left of the first so many rows, and of those with the event time of the last."""
        push = {}
        for stream, ordered in self._streams.items():
            end = int(np.searchsorted(ordered.times, self._times[rows - 1], side="right"))
            push[stream] = ordered.table.slice(self.pushed[stream], end - self.pushed[stream])
            self.pushed[stream] = end
        for _ in self._loop.take(self._loop.receive(push)):
            raise AssertionError("results are counted and go no further")
        self.seconds = max(self.seconds_at(rows), 1e-6)

    def moment(self, other: Plan) -> Moment:
        """What there is now, and what the states of another plan would be."""
        windows, horizon = self._executor.windows, self._loop.watermark.current
        held = {
            frozenset(node.inputs): _count_alive(node, windows, horizon)
            for node in self._executor.joins()
            if node.state is not None
        }
        began = time.perf_counter()
        filled = TreeExecutor(self.query, other, windows)
        cause = Cause("migration")
        filled.start(cause)
        filled.complete(cause, horizon)
        seconds = time.perf_counter() - began
        rows = tuple(len(window) for window in windows)
        sizes = {frozenset((number,)): held for number, held in enumerate(rows)}
        computed = {}
        for node in filled.joins():
            if node.state is not None:
                sides = (sizes[frozenset(node.left.inputs)], sizes[frozenset(node.right.inputs)])
                sizes[frozenset(node.inputs)] = len(node.state)
                computed[frozenset(node.inputs)] = ComputedState(len(node.state), sides, node.lookups)
        return Moment(rows, held, computed, seconds)


class _CountingExecutor(TreeExecutor):
    """Runs a plan, counts the rows that enter and the results, and keeps the results to itself."""

    def __init__(self, situation: Situation, plan: Plan):
        super().__init__(situation.query, plan, situation.windows)
        self.windows = situation.windows
        self.entered = [0] * len(situation.windows)
        self.results = 0

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        for number, delta in deltas.items():
            self.entered[number] += len(delta)
        for combos in super().process(deltas, horizon):
            self.results += len(combos.starts)
        return iter(())


def _install_counting(pipeline: Pipeline, plan: Plan) -> _CountingExecutor:
    """Put a counting executor into a pipeline."""
    made: list[_CountingExecutor] = []

    def begin(situation: Situation) -> Lane:
        executor = _CountingExecutor(situation, plan)
        executor.start(Cause("restore"))
        made.append(executor)
        return situation.lane.run(executor)

    pipeline.begin(begin)
    return made[0]


def _count_alive(node: JoinNode, windows: Sequence[BaseWindow], horizon: int) -> int:
    """The entries of a state that have not died; dead ones may stay in it for a while."""
    assert node.state is not None
    combos, heads = node.state.entries(node.inputs), heads_of(windows)
    alive = combos.ends >= horizon
    for column, number in enumerate(node.inputs):
        alive &= combos.rows[:, column] >= heads[number]
    return int(np.count_nonzero(alive))


@dataclass(frozen=True)
class _OrderedStream:
    """The rows of a stream by event time."""

    table: pa.Table
    times: Ints


def _sort_stream(query: Query, stream: str, table: Any) -> _OrderedStream:
    column = next(relation.event_time for relation in query.inputs if relation.source == stream)
    assert column is not None
    times = TableBinding(stream, query.schemas[stream], (column,), query.assumed_zones.get(stream)).columns(table)[
        column
    ]
    judged = judge(times, NONE_YET)
    places = np.arange(len(judged.times)) if judged.taken is None else np.flatnonzero(judged.taken)
    places = places[np.argsort(judged.times[places], kind="stable")]
    return _OrderedStream(make_plain(table).take(pa.array(places)), judged.times[places])


def _name_data(query: Query, data: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The data under the names that the query has for them."""
    wanted = (*query.streams, *query.tables)
    names = {name.casefold(): name for name in wanted}
    for name in data:
        if name.casefold() not in names:
            raise InputError(f"measure: {name!r} is not in the query; it has {', '.join(wanted)}")
    found = {names[name.casefold()]: table for name, table in data.items()}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InputError(f"measure: no data for {', '.join(missing)}; give rows of every stream and table of the query")
    return found
