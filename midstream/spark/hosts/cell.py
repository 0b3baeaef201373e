"""A cell: one engine over the rows that are routed to it, and what one batch does to it.

A cell works alike in a host process and in a worker. A stamp identifies the committed batch after which an engine goes
on. A push names the stamp in the state store, and is refused if the engine has another one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.cql.model import Column
from midstream.engine.routing.choice import RoutingRecord
from midstream.engine.routing.policies.fixed import Fixed
from midstream.errors import EngineError, SparkError
from midstream.kernels.types import SMALLEST
from midstream.migrate.strategies.jisc import JustInTime
from midstream.options import EngineKeywords
from midstream.plan import read_plan
from midstream.session import Engine
from midstream.spark.checkpoint.ledger import SNAPSHOT_LANE
from midstream.spark.commands.messages import AddressedCommand, obey
from midstream.spark.parcels.encoding import concatenate, from_stored, from_wire, note, to_wire
from midstream.spark.spec import STEP, JoinSpec
from midstream.state.arrow import make_contiguous

_logger = logging.getLogger("midstream")

#: No watermark yet.
NONE_YET = int(SMALLEST)
#: Results leave in pieces of about so many bytes.
RESULT_BYTES = 8 << 20
#: When pieces have so many bytes they are handed on while the batch still runs, so that nobody holds all of them.
HELD_BYTES = 256 << 20
_PIECE = 8 << 20
_HEAVY_SAMPLE = 2_000
_HEAVY_SHARE = 0.25


@dataclass(frozen=True)
class Loading:
    """Where an engine has to go on: the plan, the watermark of the last batch, and the stored parcels by lane.

    `routing` is the one to go on with, if its executor has one.
    """

    plan: str | None
    watermark: int
    parcels: Iterable[tuple[int, bytes]]
    routing: RoutingRecord | None = None


@dataclass(frozen=True)
class Outcome:
    """What a batch gave: results as parcels, what the engine tells about itself, and its snapshot if one is needed.

    Results that were handed on while the batch ran are not among these. `router` is the record of its routing as JSON
    values, if it has one.
    """

    results: list[bytes]
    report: dict[str, Any]
    snapshot: list[bytes] = field(default_factory=list)
    router: dict[str, Any] | None = None


class Cell:
    """The engine of one cell."""

    def __init__(self, spec: JoinSpec):
        self._spec = spec
        self._query = spec.routing.cell_query
        self._lanes = spec.routing.lanes
        self._engine: Engine | None = None
        self._watermark = NONE_YET
        self.stamp: str | None = None

    def load(self, loading: Loading, stamp: str) -> None:
        """Go on from what was stored under this stamp. All join states start incomplete."""
        self.stamp = None
        parts: dict[int, list[pa.Table]] = {}
        snapshot: list[bytes] = []
        for lane, parcel in loading.parcels:
            if lane == SNAPSHOT_LANE:
                snapshot.append(parcel)
            else:
                parts.setdefault(lane, []).append(from_stored(parcel, f"lane {self._lanes[lane].name!r}"))
        self._watermark = loading.watermark
        options = self._spec.options.keywords() | {"memory_limit": None}
        if loading.routing is not None:
            options["routing"] = loading.routing
        if snapshot:
            self._engine = Engine.restore(self._query, b"".join(snapshot), plan=loading.plan, **options)
            if self._engine.routing is None:  # a plan that is named would hold a router to it
                self._engine.migrate(self._engine.plan, strategy=JustInTime.name)
        else:
            self._engine = self._resumed(loading, parts, options)
        self._limit_memory(self._engine)
        self.stamp = stamp

    def _limit_memory(self, engine: Engine) -> None:
        """Hold the engine to its memory limit; an error if what was stored does not fit."""
        try:
            engine.memory_limit = self._spec.options.memory_limit
        except EngineError as problem:
            told = str(problem).removeprefix("memory_limit: ")
            raise SparkError(f"cell: the rows of the checkpoint do not fit: {told}") from None

    def _resumed(self, loading: Loading, parts: Mapping[int, Sequence[pa.Table]], options: EngineKeywords) -> Engine:
        rows = {lane.name: self._table(at, parts.get(at, ())) for at, lane in enumerate(self._lanes)}
        tables = {name: rows.pop(name) for name in self._query.tables}
        if not any(table.num_rows for table in rows.values()):
            engine = Engine(self._query, plan=loading.plan, tables=tables, **options)
            engine.push({}, watermark=loading.watermark)
            return engine
        return Engine.resume(self._query, rows, loading.watermark, tables=tables, plan=loading.plan, **options)

    def _table(self, lane: int, tables: Sequence[pa.Table]) -> pa.Table:
        return concatenate(tables, self._query.schemas[self._lanes[lane].name])

    def push(
        self,
        stamp: str,
        next_stamp: str,
        watermark: int,
        parcels: Sequence[tuple[int, bytes]],
        commands: Sequence[bytes] = (),
        hand_on: Callable[[list[bytes]], None] | None = None,
    ) -> Outcome:
        """Take in a batch: commands, then the rows, judged by the watermark of the batch before, then the watermark.

        That is how Spark's own operators judge: one before the join may hand over rows between the two watermarks.
        Large results are given to `hand_on` piece by piece; the last piece is in the outcome. If a batch fails, the
        engine has to be loaded again.
        """
        if self._engine is None or self.stamp != stamp:
            raise SparkError(f"cell: the engine stands at {self.stamp!r}, the store at {stamp!r}; load it first")
        self.stamp = None
        began = time.perf_counter()
        parts: dict[int, list[pa.Table]] = {}
        for lane, parcel in parcels:
            parts.setdefault(lane, []).append(from_wire(parcel))
        rows = {self._lanes[lane].name: self._table(lane, tables) for lane, tables in parts.items()}
        self._follow_schedule(watermark)
        answers = obey([AddressedCommand.from_bytes(command) for command in commands], self._engine.migrate)
        results: list[bytes] = []
        rows_out = held = 0
        for table in self._results(rows, watermark):
            rows_out += table.num_rows
            for piece in _pieces(note(table, STEP, self._spec.stored_step)):
                results.append(to_wire(piece))
                held += len(results[-1])
            if hand_on is not None and held > HELD_BYTES:
                hand_on(results)
                results, held = [], 0
        self._watermark = watermark
        report = self._report(rows) | {"out": rows_out, "seconds": time.perf_counter() - began, "answers": answers}
        self.stamp = next_stamp
        record = self._engine.routing_record
        return Outcome(results, report, self._snapshot(), None if record is None else record.to_json())

    def _results(self, rows: dict[str, pa.Table], watermark: int) -> Iterator[pa.Table]:
        assert self._engine is not None
        yield from self._engine.push_batches(rows, watermark=watermark)
        if self._spec.is_bounded and self._query.step is not None:
            yield self._engine.finish()

    def _follow_schedule(self, watermark: int) -> None:
        assert self._engine is not None
        due = [plan for moment, plan in self._spec.schedule if self._watermark < moment <= watermark]
        if not due:
            return
        plan, routing = read_plan(due[-1], self._query), self._engine.routing
        if plan == self._engine.plan and (routing is None or routing.policy == Fixed.name):
            return
        # Whether a strategy can make a change may depend on the rows. A refusal must not end the query, which would
        # meet it again after every restart.
        for strategy in (None, JustInTime.name):
            try:
                self._engine.migrate(plan, strategy)
                return
            except EngineError as problem:
                _logger.warning("midstream: the schedule's change to %s was refused: %s", plan, problem)

    def _snapshot(self) -> list[bytes]:
        assert self._engine is not None
        if not self._spec.needs_snapshots:
            return []
        snapshot = self._engine.snapshot()
        # Plan and routing are in the ledger. Here they would make attempts differ, whose pieces a store may mix.
        kept = {name: value for name, value in snapshot.meta.items() if name != "routing"}
        content = replace(snapshot, meta=kept | {"plan": None}).to_bytes()
        return [content[at : at + _PIECE] for at in range(0, len(content), _PIECE)]

    # What it tells about itself --------------------------------------------------------------------------------------

    def _report(self, rows: dict[str, pa.Table]) -> dict[str, Any]:
        assert self._engine is not None
        stats, migration = self._engine.stats(), self._engine.migration
        report: dict[str, Any] = {"plan": str(self._engine.plan), "bytes": stats.state_bytes}
        kinds: Counter[str] = Counter()
        for state in stats.states:
            kinds[state.kind] += state.bytes
        report["kinds"] = dict(kinds)
        report["executor"] = self._engine.executor
        if (routing := self._engine.routing) is not None:
            report["policy"] = routing.policy
        if migration is not None:
            report["migration"] = {
                "strategy": migration.strategy,
                "phase": migration.phase,
                "percent": round(migration.percent, 1),
                "holes": migration.holes_left,
                "unit": migration.unit,
                "to": migration.to_plan,
            }
        if stats.memory is not None:
            report["memory"] = asdict(stats.memory)
        if stats.demand is not None:
            report["demand"] = asdict(stats.demand)
        heavy = self._heavy_key(rows)
        return report if heavy is None else report | {"heavy": heavy}

    def _heavy_key(self, rows: dict[str, pa.Table]) -> list[Any] | None:
        """A join key that many of the batch's rows have: its column, its value as text, and its share of a sample."""
        heaviest: list[Any] | None = None
        for key_class in self._query.key_classes:
            for number, key in key_class.keys:
                relation = self._query.inputs[number]
                table = rows.get(relation.source)
                if table is None or table.num_rows < _HEAVY_SAMPLE or not isinstance(key, Column):
                    continue
                places = pa.array(np.linspace(0, table.num_rows - 1, _HEAVY_SAMPLE).astype(np.int64))
                counts = pc.value_counts(make_contiguous(table[key.name]).take(places))
                most = int(np.argmax(counts.field("counts").to_numpy()))
                share = counts.field("counts")[most].as_py() / _HEAVY_SAMPLE
                if share >= _HEAVY_SHARE and (heaviest is None or share > heaviest[2]):
                    heaviest = [f"{relation.alias}.{key.name}", str(counts.field("values")[most].as_py())[:60], share]
        return heaviest


def _pieces(table: pa.Table) -> Iterable[pa.Table]:
    """The same rows in pieces of about `RESULT_BYTES`."""
    if table.num_rows == 0:
        return
    size = max(1, int(table.num_rows * min(1.0, RESULT_BYTES / max(table.nbytes, 1))))
    for begin in range(0, table.num_rows, size):
        yield table.slice(begin, size)
