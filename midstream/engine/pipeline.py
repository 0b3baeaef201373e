"""Chunks of accepted rows -> result tables: base windows, what runs over them, and the order of a chunk.

A chunk's rows enter the base windows, their deltas pass through the plan once, and the stage makes Arrow of the
results: the executor and the stage are a *lane*. Between chunks the stage is told how far the watermark has come, and
what can never matter again is purged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.demand.entrance import Entrance
from midstream.engine.executors.fragmented import make_executor
from midstream.engine.executors.protocol import Executor, ExecutorKind
from midstream.engine.input.arrivals import InputReader, Numbers, Reading
from midstream.engine.input.batch import Chunk, StreamRows, cut_by_bytes, number_arrivals, sort_by_time
from midstream.engine.input.binding import TableBinding
from midstream.engine.input.computed_text import find_computed_text
from midstream.engine.input.dropped import Dropped
from midstream.engine.input.watermark import NONE_YET
from midstream.engine.joins.backlog import Backlog, is_static
from midstream.engine.joins.combos import Delta
from midstream.engine.lane import CatchUp, Lane, SingleLane
from midstream.engine.memory.manager import MemoryManager
from midstream.engine.memory.shedding import Admission
from midstream.engine.operators.held import HeldBack
from midstream.engine.operators.lower import LowerOperators
from midstream.engine.operators.results import ResultBuilder
from midstream.engine.operators.stage import MakeStage, Stage, StoredStage
from midstream.engine.operators.stepped import Stepped
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.sampling import Sampler
from midstream.engine.snapshot.checkpoint import cut_by_content, living_rows, make_window_table, read_stored_rows
from midstream.engine.snapshot.format import Snapshot
from midstream.engine.stats import DemandStats, StateStats, Work
from midstream.engine.transition import Situation, begin_at
from midstream.errors import EngineError
from midstream.plan import Plan
from midstream.plan.nodes import quoted
from midstream.state.meter import Meter
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow, WindowRows


def make_output_stage(query: Query, windows: Sequence[BaseWindow], plan: Plan) -> Stage:
    """The stage that the results of a query go to: at once, or step by step, perhaps through operators below joins."""
    if query.step is None:
        return ResultBuilder(query, windows)
    return LowerOperators(query, plan, windows) if plan.has_lower_operators else Stepped(query, windows)


class Pipeline:
    """The live part of an engine. Everything that it keeps is either in `snapshot` or derived from it.

    `make_stage` makes the output stage that the results go to; `late_bytes` tells what kept late rows take; `rates`
    are those of the edges between inputs, for executors that route. Unless `demand` is off, rows without a partner are
    hidden until one comes, and with ``"auto"`` only where that pays; those without one in a static table are dropped.
    `may_shed` says whether rows may be shed for a memory limit.
    """

    def __init__(
        self,
        query: Query,
        plan: Plan,
        kind: ExecutorKind,
        make_stage: MakeStage = make_output_stage,
        late_bytes: Callable[[], int] = lambda: 0,
        rates: MatchRates | None = None,
        demand: str = "off",
        may_shed: bool = False,
    ):
        self._query = query
        self.rates = MatchRates() if rates is None else rates
        self._demand = demand
        self._make_stage = make_stage
        self.readers = [InputReader(query, number) for number in range(len(query.inputs))]
        self.memory = MemoryManager(query, self, late_bytes, may_shed)
        self.meter = Meter()
        self._dropped = Dropped(query.streams)
        self._begin_empty(plan, kind)

    def _begin_empty(self, plan: Plan, kind: ExecutorKind) -> None:
        query = self._query
        self._windows = [
            BaseWindow(reader.layout, meter=self.meter, may_add_index=self.memory.may_add_index)
            for reader in self.readers
        ]
        self._sampler = Sampler(query, self._windows, self.rates)
        self._lane: Lane = SingleLane(self._started(plan, kind), self._new_stage(plan))
        self._entrance = None
        if self._demand != "off":
            self._entrance = Entrance(query, self._windows, [plan], self._is_adaptive)
        self._horizon = NONE_YET
        self._next_arrival = 0
        self._next_ordinals = dict.fromkeys(query.streams, 0)

    def clear(self) -> None:
        """Free all state. What was counted stays."""
        self._begin_empty(self.plan, self.executor.kind)
        self.memory.hold()

    def _new_stage(self, plan: Plan) -> HeldBack:
        stage = HeldBack(self._make_stage(self._query, self._windows, plan))
        stage.follow(plan)
        return stage

    @property
    def plan(self) -> Plan:
        """The plan that runs, or that a migration leads to."""
        return self.executor.plan

    def begin(self, transition: Callable[[Situation], Lane]) -> None:
        """Go on with the lane that a transition makes of the one that runs. Only between pushes."""
        before = self._running
        situation = Situation(
            self._query,
            self._windows,
            self._lane,
            self._horizon,
            self._new_stage,
            self.memory.may_fill,
            is_limited=self.memory.limit is not None,
        )
        self._lane = transition(situation)
        if self._running != before:
            self._follow_lane()
        self.memory.hold()

    def _follow_lane(self) -> None:
        """Other plans run from now on. Rows that are hidden for a reason that does not count for them enter."""
        self._suspend()
        self._forget_unused_indexes()
        if self._entrance is not None:
            self._entrance.follow([executor.plan for executor in self._lane.executors()])
            self._let_in(self._entrance.release(self._horizon))

    def _let_in(self, released: Mapping[int, WindowRows]) -> None:
        """Have rows enter that need not wait any more, although they have no partner."""
        if released:
            for _ in self._enter(released):
                raise AssertionError("no result with a hidden row is due")

    def _suspend(self) -> None:
        """Have combinations without a partner wait in every plan."""
        if self._entrance is not None:
            has_left_indexes = False
            for executor in self._lane.executors():
                for owner in executor.evicting():
                    has_left_indexes |= owner.suspend(is_on=True, is_adaptive=self._is_adaptive)
            if has_left_indexes:
                self._forget_unused_indexes()

    def _work_without(self, number: int, neighbour: int) -> float:
        """As `Evicting.work_without`, of all executors; of those that keep nothing, what all probes have looked at."""
        owners = [owner for executor in self._lane.executors() for owner in executor.evicting()]
        if not owners:
            return self.meter.lookups / len(self._query.inputs)
        return sum(owner.work_without(number, neighbour) for owner in owners)

    @property
    def _is_adaptive(self) -> bool:
        """Whether rows and combinations wait only where that pays."""
        return self._demand == "auto"

    def _forget_unused_indexes(self) -> None:
        """What only plans that do not run any more needed of the windows is not kept."""
        used = set(self._lane.indexes_used())
        for number, window in enumerate(self._windows):
            window.keep_composites({classes for of, classes in used if of == number})

    @property
    def executor(self) -> Executor:
        """What runs the plan, or the plan that a migration leads to."""
        return self._lane.executor

    @property
    def lane(self) -> Lane:
        """What runs, with the stage that its results go to."""
        return self._lane

    @property
    def windows(self) -> Sequence[BaseWindow]:
        """The base windows, by input."""
        return self._windows

    @property
    def hidden(self) -> Mapping[int, BaseWindow]:
        """What is kept of rows that have arrived and not entered, by input."""
        return {} if self._entrance is None else self._entrance.hidden

    @property
    def horizon(self) -> int:
        """The time before which everything is dead."""
        return self._horizon

    def pack_windows(self) -> None:
        """Have windows take no more than the rows that are alive need."""
        for number, window in enumerate(self._windows):
            renumbering = window.pack(self._horizon)
            if renumbering is not None:
                self._lane.renumber(number, renumbering)
        for hidden in self.hidden.values():
            hidden.pack(self._horizon)

    def let_hidden_in(self, numbers: Collection[int]) -> None:
        """Have all hidden rows of these inputs enter."""
        if self._entrance is not None:
            self._let_in(self._entrance.release_all(numbers, self._horizon))
            self._entrance.forget_empty()

    def migrations(self) -> Iterator[object]:
        """A token for each migration under way, the newest first; compare them by `is`."""
        return self._lane.migrations()

    def release(self) -> pa.Table:
        """Everything that waits at the end of input, as one table."""
        return pa.concat_tables([self._query.no_results, *self._lane.finish()])

    def load_tables(self, tables: Mapping[str, pa.Table | pa.RecordBatch]) -> None:
        """Take in the static tables, by name; they are there before the first row of a stream."""
        for number, relation in enumerate(self._query.inputs):
            if not relation.is_static:
                continue
            schema, reader = self._query.schemas[relation.source], self.readers[number]
            needed = reader.needed or schema.names[:1]
            texts = find_computed_text(self._query).get(relation.source, ())
            binding = TableBinding(relation.source, schema, needed, computed_text=texts)
            columns = binding.columns(tables[relation.source])
            # Not sampled: no row of a stream is there yet, so what they would find tells nothing.
            timeless = np.zeros(tables[relation.source].num_rows, np.int64)
            for chunk in cut_by_bytes(Chunk({relation.source: StreamRows(timeless, columns, binding.large)})):
                rows = chunk.rows[relation.source]
                reading = reader.read(rows.columns, None, Numbers.of_table(len(rows)))
                for _ in self._enter({number: reading.rows}, is_sampled=False):
                    raise AssertionError("static tables alone have no results")

    def take(self, admission: Admission, watermark: int) -> Iterator[pa.Table]:
        """Take in the rows of a push, after which the watermark will be `watermark`; yields result tables."""
        before, windows = self._running, self._windows
        self._suspend()
        if self._query.tracks_arrivals and admission.accepted:
            accepted = {stream: sort_by_time(rows) for stream, rows in admission.accepted.items()}
            number_arrivals(accepted, self._next_arrival)
            self._next_arrival += sum(len(rows) for rows in accepted.values())
            admission = replace(admission, accepted=accepted)
        for chunk in self.memory.take_chunks(admission):
            if self._windows is not windows:
                raise EngineError(
                    "engine: its with block has ended in the middle of a push, whose other results are lost; take the "
                    "pieces of push_batches to the end inside the block"
                )
            readings = self._read(chunk.rows)
            self._count_dropped(chunk.rows, readings)
            arrived = {number: reading.rows for number, reading in readings.items()}
            yield from self._process(arrived)
            if self._entrance is not None:
                self._entrance.sample(self._work_without)
            chunk_watermark = min(watermark, chunk.unprocessed_from)
            yield from self._lane.advance(chunk_watermark)
            self._purge(chunk_watermark)
            if self._entrance is not None:
                self._let_in(self._entrance.find_resting(self._horizon, self._work_without))
        self._lane = self._lane.after_push(self._horizon)
        yield from self._lane.advance(watermark)
        self._lane.catch_up_some()
        if self._running != before:
            self._follow_lane()
        self.memory.hold()

    @property
    def _running(self) -> tuple[Lane, Executor, bool]:
        """What decides which indexes are used."""
        return self._lane, self.executor, self._lane.is_catching_up

    def _read(self, rows_of: Mapping[str, StreamRows]) -> dict[int, Reading]:
        readings: dict[int, Reading] = {}
        for number, relation in enumerate(self._query.inputs):
            rows = rows_of.get(relation.source)
            if rows is None or len(rows) == 0:
                continue
            numbers = None
            if rows.arrivals is not None:
                numbers = Numbers(rows.arrivals, self._next_ordinals[relation.source])
            readings[number] = self.readers[number].read(rows.columns, rows.times, numbers, rows.kept)
        for stream, rows in rows_of.items():
            self._next_ordinals[stream] += len(rows)
        return readings

    def _count_dropped(self, rows_of: Mapping[str, StreamRows], readings: Mapping[int, Reading]) -> None:
        if all(reading.kept is None for reading in readings.values()):
            return
        for number, reading in readings.items():
            self.memory.shedder.note_shed(number, rows_of[self._query.inputs[number].source], reading, self._horizon)
        for stream, rows in rows_of.items():
            if len(rows):
                own = [reading for number, reading in readings.items() if self._query.inputs[number].source == stream]
                self._dropped.count(stream, len(rows), own)

    def _process(self, arrived: Mapping[int, WindowRows]) -> Iterator[pa.Table]:
        return self._enter(arrived if self._entrance is None else self._entrance.admit(arrived, self._horizon))

    def _enter(self, arrived: Mapping[int, WindowRows], is_sampled: bool = True) -> Iterator[pa.Table]:
        for number, rows in arrived.items():
            renumbering = self._windows[number].make_room(len(rows), self._horizon)
            if renumbering is not None:
                self._lane.renumber(number, renumbering)
        deltas: dict[int, Delta] = {}
        may_be_old = self._entrance is not None and self._entrance.hides_any
        for number, rows in arrived.items():
            first = self._windows[number].append(rows)
            deltas[number] = Delta.of_window_rows(number, first, rows, self._windows)
            if may_be_old:
                deltas[number] = deltas[number].begin_at(self._horizon)
        if is_sampled:
            self._sampler.see(deltas)
        yield from self._lane.process(deltas, self._horizon)

    def _purge(self, watermark: int) -> None:
        self._horizon = max(self._horizon, min(watermark, self._lane.keeps_from()))
        for window in self._windows:
            window.purge(self._horizon)
        self._lane.purge(self._horizon)
        if self._entrance is not None:
            self._entrance.purge(self._horizon)

    def stats(self) -> list[StateStats]:
        """The size of every base window and join state, and of the output stage and late rows if any are kept."""
        windows = [
            StateStats(quoted(relation.alias), "window", len(window), window.nbytes, 0, (relation.alias,))
            for relation, window in zip(self._query.inputs, self._windows, strict=True)
        ]
        if self._entrance is not None:
            windows += self._entrance.state_stats()
        late = self.memory.count().late
        kept = [StateStats("late", "late", 0, late, 0, ())] if late else []
        return windows + self._lane.state_stats() + kept

    def demand_stats(self) -> DemandStats | None:
        """What became of rows for which there was no demand, unless that is not asked."""
        return None if self._entrance is None else self._entrance.stats()

    def work(self) -> Work:
        """What windows, joins and states have done so far."""
        return Work(self.meter.slots_visited, self.meter.bytes_moved, self.meter.rows_moved)

    def dropped(self) -> dict[str, dict[str, int]]:
        """Accepted rows that no alias of their stream has kept, by stream and reason."""
        return self._dropped.to_json()

    def count_shed(self) -> int:
        """How many rows were shed."""
        return self._dropped.shed

    def snapshot(self, meta: dict[str, Any]) -> Snapshot:
        """What `go_on` needs, with what others remember in `meta`."""
        numbers = {
            "purged_to": self._horizon,
            "next_arrival": self._next_arrival,
            "next_ordinals": self._next_ordinals,
            "dropped": self._dropped.to_json(),
            "shedding": self.memory.shedder.to_json(),
        }
        tables = {}
        for number, relation in enumerate(self._query.inputs):
            window, ordinal = self._windows[number], self._next_ordinals.get(relation.source, 0)
            parts = [living_rows(window, self._horizon)]
            if self._entrance is not None:
                parts = self._entrance.rows_to_store(number, parts[0], self._horizon)
            table = make_window_table(window.layout, parts, self._horizon, ordinal)
            # As they are, pieces would tell which rows were hidden; two engines with the same rows store the same.
            tables[relation.alias] = table if self._entrance is None else cut_by_content(table)
        return Snapshot.of(meta | {"numbers": numbers}, tables, *self._lane.held.snapshot())

    def go_on(self, snapshot: Snapshot, watermark: int) -> None:
        """Go on where a snapshot was taken, and the watermark was this, every join state being a hole."""
        numbers = snapshot.meta["numbers"]
        self._horizon = numbers["purged_to"]
        self._next_arrival = numbers["next_arrival"]
        self._next_ordinals = dict(numbers["next_ordinals"])
        self._dropped.from_json(numbers["dropped"])
        if "shedding" in numbers:
            self.memory.shedder.from_json(numbers["shedding"])
        # First the static tables, which tell what of the others can be in a result.
        for number, relation in sorted(enumerate(self._query.inputs), key=lambda numbered: not numbered[1].is_static):
            ordinal, stored = self._next_ordinals.get(relation.source, 0), snapshot.windows[relation.alias]
            rows = read_stored_rows(self.readers[number], relation.alias, stored, self._horizon, ordinal)
            self._put_back(number, rows)
        self._lane.held.restore(StoredStage(snapshot.held, snapshot.stage))
        if self._lane.held.starts_from_live_results:
            begin_at(self._lane.held, watermark)
        self._start_again(self.plan.fragment_inputs)

    def _start_again(self, fragments: Iterable[tuple[int, ...]]) -> None:
        """Go on with the windows alone; if the stage starts from live results, with those of some fragments."""
        limit = self.memory.limit_to_come
        if limit is not None and self.memory.count().windows > limit:
            for window in self._windows:
                window.keep_composites(())
        stage, catch_up = self._lane.held, None
        if stage.starts_from_live_results:
            catch_up = CatchUp(stage, Backlog(self._query, self._windows, fragments))
        self._lane = SingleLane(self._started(self.plan, self.executor.kind), stage, catch_up)

    def go_on_from(self, accepted: Mapping[str, StreamRows], watermark: int) -> None:
        """Go on after rows whose results are out already, every join state being a hole."""
        assert not self._query.tracks_arrivals, "rows alone do not tell their arrival numbers"
        begin_at(self._lane.held, watermark)
        self._horizon = min(watermark, self._lane.keeps_from())
        for chunk in cut_by_bytes(Chunk(dict(accepted))):
            for number, reading in self._read(chunk.rows).items():
                self._put_back(number, reading.rows)
        # What consists of static tables alone the stage has taken.
        self._start_again([inputs for inputs in self.plan.fragment_inputs if not is_static(self._query, inputs)])

    def _put_back(self, number: int, rows: WindowRows) -> None:
        """Have rows in a window whose results are out already."""
        if self._entrance is not None:
            rows = self._entrance.keep_possible(number, rows)
        self._windows[number].make_room(len(rows), self._horizon)
        self._windows[number].append(rows)

    def _started(self, plan: Plan, kind: ExecutorKind) -> Executor:
        """An executor that has nothing but the windows: whatever its states should hold is missing."""
        executor = make_executor(kind, self._query, plan, self._windows)
        executor.start(Cause("restore"))
        return executor
