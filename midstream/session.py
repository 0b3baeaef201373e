"""The public `Engine`: a query and a plan over batches of rows.

It checks a push whole before anything changes, sends the accepted rows through the pipeline, and keeps the watermark,
the counters and the rows that were refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from midstream.cql.durations import Duration
from midstream.cql.model import Query
from midstream.cql.parse import query as parse_query
from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.registry import find_executor
from midstream.engine.input.event_time import LATE
from midstream.engine.input.intake import Intake, Receiver, WatermarkLike, named_tables
from midstream.engine.input.watermark import NONE_YET, Watermark
from midstream.engine.pipeline import Pipeline
from midstream.engine.run import Batches, Run
from midstream.engine.snapshot.checkpoint import check_query, query_as_json
from midstream.engine.snapshot.format import BytesLike, Snapshot
from midstream.engine.stats import EngineStats
from midstream.engine.warmup import warm_up
from midstream.errors import EngineError, PlanError, shown
from midstream.migrate import DEFAULT_STRATEGY, STRATEGIES, Migration, Strategy, Transition, begin
from midstream.migrate.jisc import JustInTime
from midstream.migrate.options import read_options
from midstream.migrate.record import Recorder, Running
from midstream.notebook import engine_html, engine_line
from midstream.options import DEFAULT_LATE_LIMIT, EngineOptions, checked_query, chosen_plan
from midstream.plan import Plan
from midstream.tables import TableLike

_FINISHED = "finished: this engine takes no more rows; make a new one, or go on with Engine.restore from a snapshot"
_LEFT = "closed, because its with block has ended; make a new one, or go on with Engine.restore from a snapshot"
_UNDER_WAY = "a push is under way: take the pieces of push_batches to the end before the next call"


class Engine:
    """Runs one query.

    >>> import midstream as ms, pyarrow as pa
    >>> schema = pa.schema({"id": pa.int64(), "ts": pa.int64()})
    >>> query = ms.query(
    ...     "SELECT a.id FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.id = b.id",
    ...     schemas={"a": schema, "b": schema}, event_time="ts",
    ... )
    >>> engine = ms.Engine(query)
    >>> rows = pa.table({"id": [1, 2], "ts": [1_000_000, 2_000_000]})
    >>> engine.push({"a": rows}).num_rows
    0
    >>> engine.push({"b": rows.slice(1)}).to_pylist()
    [{'id': 2, 'valid_from': 2000000, 'valid_to': 12000000}]

    Keywords: `plan` (text such as ``"((a b) c)"``, else a sensible one), `executor` (``"tree"`` keeps what the joins of
    the plan have found, ``"stems"`` keeps nothing but the windows), `tables` (static tables by name), `late`
    (``"keep"`` to offer refused rows through `take_late`, up to `late_limit` a stream), `max_jump` (refuse rows further
    ahead of their stream than this). One thread at a time may use an engine.
    """

    def __init__(
        self,
        query: Query,
        *,
        plan: Plan | str | None = None,
        tables: Mapping[str, TableLike] | None = None,
        strategy: str = DEFAULT_STRATEGY,
        executor: str | ExecutorKind = "tree",
        demand: str = "off",
        memory_limit: int | None = None,
        adaptive: bool = False,
        late: str = "count",
        late_limit: int = DEFAULT_LATE_LIMIT,
        max_jump: Duration | None = None,
    ):
        options = EngineOptions(strategy, executor, demand, memory_limit, adaptive, late, late_limit, max_jump)
        chosen = chosen_plan(checked_query(query, "engine"), plan)
        named = named_tables(query, {} if tables is None else tables)
        self._set_up(query, chosen, options, options.kind())
        self._pipeline.load_tables(named)

    def _set_up(self, query: Query, plan: Plan, options: EngineOptions, kind: ExecutorKind) -> None:
        get_ready()
        self.query = query
        self._options = options
        self._recorders: list[Recorder] = []
        self._pipeline = Pipeline(query, plan, kind)
        self._receiver = Receiver(query, self._pipeline.readers, options.longest_jump, options.keeps_late)
        self._watermark = Watermark({stream: query.delays.get(stream, 0) for stream in query.streams}, query.time_type)
        self._rows_in = dict.fromkeys(query.streams, 0)
        self._rows_out = 0
        self._refused: dict[str, dict[str, int]] = {stream: {} for stream in query.streams}
        self._late_rows: dict[str, list[pa.Table]] = {}
        self._ended: str | None = None
        self._moves = 0

    # Rows in, results out --------------------------------------------------------------------------------------------

    def push(
        self,
        data: Mapping[str, TableLike],
        watermark: WatermarkLike | Mapping[str, WatermarkLike] | None = None,
    ) -> pa.Table:
        """Take rows in and return the results that they complete.

        `data` maps stream names to rows: pyarrow tables, pandas or polars frames, anything else that exports Arrow
        data, dicts of columns, or lists of dicts. `watermark` takes effect after the rows: a moment for the whole
        query, or one for each of some streams. A refused push raises `InputError` and changes nothing.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"))
        >>> engine.push({"a": [{"id": 7, "ts": 0}], "b": {"id": [7, 8], "ts": [5, 6]}}, watermark=6).to_pylist()
        [{'id': 7, 'valid_from': 5, 'valid_to': 3600000000}]
        """
        pieces = list(self.push_batches(data, watermark))
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_tables(pieces) if pieces else self.query.output_schema.empty_table()

    def run(self, batches: Batches) -> Run:
        """Push one batch after the other; gives an iterator over their results, one table each.

        `batches` is an iterable of what `push` takes, or an async iterable, whose results ``async for`` takes. A batch
        is pushed when its results are asked for, on the thread that asks, so that between two of them `migrate`,
        `stats` and `snapshot` work. The engine stays open: call `finish` when the input has ended.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"))
        >>> batches = [{"a": [{"id": 7, "ts": 0}]}, {"b": [{"id": 7, "ts": 5}, {"id": 8, "ts": 6}]}]
        >>> [table.num_rows for table in engine.run(batches)]
        [0, 1]
        """
        return Run(self.push, batches)

    def push_batches(
        self,
        data: Mapping[str, TableLike],
        watermark: WatermarkLike | Mapping[str, WatermarkLike] | None = None,
    ) -> Iterator[pa.Table]:
        """As `push`, with the results in pieces.

        The push is checked now, and begins when the first piece is asked for: pieces that nobody takes change nothing.
        If another push, `migrate` or `finish` has come in between, asking is an `EngineError`. Once begun, they have to
        be taken to the end; an iterator that is dropped half-way closes the engine.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"))
        >>> for table in engine.push_batches({"a": [{"id": 7, "ts": 0}], "b": [{"id": 7, "ts": 5}]}):
        ...     print(table.num_rows)
        1
        """
        self._check_open()
        intake = self._receiver.receive(data, watermark, self._watermark)
        return self._run(intake, self._moves)

    def _run(self, intake: Intake, moves: int) -> Iterator[pa.Table]:
        if self._moves != moves:
            raise EngineError(
                "push_batches: the engine has moved on since this push was checked; call push_batches again, "
                "and take its pieces before the next call"
            )
        self._check_open()
        self._ended = _UNDER_WAY
        self._moves += 1
        try:
            to_come = self._watermark.after(intake.maxima, intake.watermark)
            for table in self._pipeline.take(intake.accepted, to_come):
                self._rows_out += table.num_rows
                yield table
            self._count(intake)
            self._watermark.advance(intake.maxima, intake.watermark)
        except GeneratorExit:
            self._ended = "closed, because push_batches was not taken to its end; go on with Engine.restore"
            raise
        except BaseException as problem:
            reason = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
            self._ended = f"closed, because a push broke off ({reason}); go on with Engine.restore from a snapshot"
            raise
        if self._ended == _UNDER_WAY:  # and not closed meanwhile
            self._ended = None
        begin.give_way(self._recorders[:-1], self._pipeline.executor)
        self._deliver(self._recorders)

    @staticmethod
    def _deliver(recorders: Iterable[Recorder]) -> None:
        """Tell listeners how migrations go on, the older ones first."""
        for recorder in recorders:
            recorder.deliver()

    def _count(self, intake: Intake) -> None:
        for stream, rows in intake.accepted.items():
            self._rows_in[stream] += len(rows)
        for stream, reasons in intake.refused.items():
            counters = self._refused[stream]
            for reason, count in reasons.items():
                counters[reason] = counters.get(reason, 0) + count
        for stream, table in intake.refused_rows.items():
            kept = self._late_rows.setdefault(stream, [])
            room = self._options.late_limit - sum(one.num_rows for one in kept)
            if room > 0:
                kept.append(table.slice(0, room))

    def take_late(self) -> dict[str, pa.Table]:
        """Late and rejected rows since the last call, by stream, with a column `reason`.

        Beside a column `reason` of the stream's own, ours is called `_reason`, or `__reason`, and so on.
        They are kept only with ``late="keep"``, at most `late_limit` a stream; they are counted always.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"), late="keep")
        >>> batch = {"a": [{"id": 7, "ts": 50}], "b": [{"id": 7, "ts": 50}]}
        >>> engine.push(batch, watermark=60).num_rows, engine.push(batch).num_rows
        (1, 0)
        >>> engine.take_late()["a"].to_pylist()
        [{'id': 7, 'ts': 50, 'reason': 'late'}]
        """
        if self._ended not in (_FINISHED, _LEFT):
            self._check_open()
        taken = {stream: pa.concat_tables(tables) for stream, tables in self._late_rows.items() if tables}
        self._late_rows = {}
        return taken

    def finish(self) -> pa.Table:
        """End of input: release what is held back, end a migration and free all state.

        A second call gives an empty table.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"))
        >>> engine.push({"a": [{"id": 7, "ts": 0}]}).num_rows, engine.finish().num_rows
        (0, 0)
        >>> engine.push({"b": [{"id": 7, "ts": 5}]})
        Traceback (most recent call last):
        midstream.errors.EngineError: engine: finished: this engine takes no more rows; ...
        """
        if self._ended != _FINISHED:
            self._check_open()
            released = self._pipeline.release()
            self._rows_out += released.num_rows
            self._pipeline.clear()
            self._ended = _FINISHED
            self._moves += 1
            for recorder in self._recorders:
                recorder.end()
            self._deliver(self._recorders)
            return released
        return self.query.output_schema.empty_table()

    def __enter__(self) -> Engine:
        """``with ms.Engine(query) as engine:`` frees all state when the block ends.

        It does not finish the query: call `finish` inside the block for the last results. If results are still held
        back when a block ends without an error, that is an `EngineError`, because they would be lost.
        """
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *problem: object) -> None:
        held = self._pipeline.release().num_rows
        self._pipeline.clear()
        self._ended = _FINISHED if self._ended == _FINISHED else _LEFT
        if held and kind is None:
            raise EngineError(f"engine: {held} results were held back when the with block ended; call finish() in it")

    def _check_open(self) -> None:
        if self._ended is not None:
            raise EngineError(f"engine: {self._ended}")

    # What runs, and what it costs ------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """The plan that runs, or that a migration leads to: ``print(engine.plan)``."""
        return self._pipeline.plan

    @property
    def executor(self) -> str:
        """The name of the executor that runs the plan, or that a migration leads to."""
        return self._pipeline.executor.kind.name

    @property
    def migration(self) -> Migration | None:
        """The latest migration as it stands, or None if there was none."""
        return self._recorders[-1].current if self._recorders else None

    def migrate(
        self,
        plan: Plan | str,
        strategy: str | Strategy | None = None,
        *,
        executor: str | ExecutorKind | None = None,
        budget: int | Duration | None = None,
        hold: bool = False,
        on_event: Callable[[Migration], None] | None = None,
    ) -> Migration:
        """Change the plan of the running query; the output stays what it would have been.

        With `executor` ("tree" or "stems") the plan runs on that one from now on, be it the same plan or another.
        `strategy` is "jisc", "moving-state", "parallel-track", "genmig", "genmig-reference-point" or
        "pause-drain-resume", by default the engine's, or a `midstream.migrate.Strategy` of your own. `budget`, for jisc
        alone, is what is filled in the background after each push: a number of holes, or a time such as "5
        milliseconds"; 0 fills only what is probed. `hold`, for parallel-track alone, holds the new plan's results back
        until the old plan is dropped. Given to another strategy, either is refused. `on_event` is called with the
        migration's record when it has begun, when the first push has passed, and when it has ended: when it is done, or
        a later migration has replaced it. Its errors are logged and go no further.

        Where four plans run at once already, a strategy that would add another gives way to jisc; `note` of the record
        says so.

        >>> import midstream as ms
        >>> text = '''SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR]
        ...           WHERE a.id = b.id AND b.id = c.id'''
        >>> query = ms.query(text, schemas=dict.fromkeys("abc", {"id": int, "ts": int}), event_time="ts")
        >>> engine = ms.Engine(query, plan="(a b) c")
        >>> rows = [{"id": 7, "ts": 0}]
        >>> engine.push({"a": rows, "b": rows, "c": rows}).num_rows
        1
        >>> engine.migrate("(b c) a", budget=0)
        <midstream.Migration ((a b) c) to ((b c) a) by jisc: begun, 0% complete, 1 of 1 unfilled rows left>
        >>> engine.push({"a": rows}).num_rows, engine.plan
        (1, <midstream.Plan ((b c) a)>)
        """
        self._check_open()
        if plan is None:
            raise PlanError(
                f"migrate: plan is None; write the plan to change to, such as {str(self.plan)!r}, or give a Plan"
            )
        target = chosen_plan(self.query, plan)
        chosen = begin.find_strategy(self._options.strategy if strategy is None else strategy, STRATEGIES)
        options = read_options({"budget": budget, "hold": hold}, chosen, STRATEGIES)
        if on_event is not None and not callable(on_event):
            raise EngineError(f"migrate: on_event={shown(on_event)}; give a function that takes the migration's record")
        running = self._pipeline.executor.kind
        kind = running if executor is None else find_executor(executor, "migrate")
        recorder = Recorder(
            chosen.name,
            chosen.unit,
            Running(str(self.plan), running.name),
            Running(str(target), kind.name),
            on_event,
        )
        self._pipeline.begin(
            lambda situation: begin.begun(chosen, Transition(situation, target, kind, options, recorder), STRATEGIES)
        )
        self._moves += 1
        begin.give_way(self._recorders, self._pipeline.executor)
        followed = [*self._recorders, recorder]
        self._recorders = [one for one in self._recorders if not one.current.has_ended] + [recorder]
        self._deliver(followed)
        return recorder.current

    def stats(self) -> EngineStats:
        """Counters, and the size of every state.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"))
        >>> results = engine.push({"a": [{"id": 7, "ts": 3}]})
        >>> stats = engine.stats()
        >>> stats.rows_in, stats.held_back_by, [(state.name, state.rows) for state in stats.states]
        ({'a': 1, 'b': 0}, 'b', [('a', 1), ('b', 0)])
        """
        states = tuple(self._pipeline.stats())
        watermark = self._watermark.current
        return EngineStats(
            rows_in=dict(self._rows_in),
            rows_out=self._rows_out,
            late={stream: counters.get(LATE, 0) for stream, counters in self._refused.items()},
            rejected={
                stream: {reason: count for reason, count in counters.items() if reason != LATE}
                for stream, counters in self._refused.items()
            },
            dropped=self._pipeline.dropped(),
            watermark=None if watermark == NONE_YET else watermark,
            held_back_by=self._watermark.held_back_by(),
            state_bytes=sum(one.bytes for one in states),
            states=states,
            work=self._pipeline.work(),
        )

    def __repr__(self) -> str:
        running = self._pipeline.executor
        line = engine_line(self.query, running.plan, running.kind, self.stats(), self.migration, self._ended)
        return f"<midstream.Engine {line}>"

    def _repr_html_(self) -> str:
        """Plan, states and holes, as a notebook shows them."""
        running = self._pipeline.executor
        return engine_html(self.query, running.plan, running.kind, self.stats(), self.migration, self._ended)

    # Snapshots -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What has to survive for an engine to go on: the base windows, numbers, watermarks, counters and the plan.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"))
        >>> results = engine.push({"a": [{"id": 7, "ts": 0}]})
        >>> stored = engine.snapshot().to_bytes()
        >>> ms.Engine.restore(engine.query, stored).push({"b": [{"id": 7, "ts": 5}]}).num_rows
        1
        """
        self._check_open()
        meta: dict[str, Any] = {
            **query_as_json(self.query),
            "plan": str(self.plan),
            "executor": self.executor,
            "watermark": self._watermark.to_json(),
            "rows_in": self._rows_in,
            "rows_out": self._rows_out,
            "refused": self._refused,
        }
        return self._pipeline.snapshot(meta)

    @classmethod
    def restore(
        cls,
        query: Query,
        snapshot: Snapshot | BytesLike,
        *,
        plan: Plan | str | None = None,
        strategy: str = DEFAULT_STRATEGY,
        executor: str | ExecutorKind | None = None,
        demand: str = "off",
        memory_limit: int | None = None,
        adaptive: bool = False,
        late: str = "count",
        late_limit: int = DEFAULT_LATE_LIMIT,
        max_jump: Duration | None = None,
    ) -> Engine:
        """An engine that goes on where the snapshot was taken, by the same plan or another.

        Every join state starts as a hole and fills as it is probed. Without `executor` it is the one that ran then.

        >>> import midstream as ms
        >>> text = '''SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR]
        ...           WHERE a.id = b.id AND b.id = c.id'''
        >>> query = ms.query(text, schemas=dict.fromkeys("abc", {"id": int, "ts": int}), event_time="ts")
        >>> rows = [{"id": 7, "ts": 0}]
        >>> engine = ms.Engine(query, plan="(a b) c")
        >>> engine.push({"a": rows, "b": rows}).num_rows
        0
        >>> ms.Engine.restore(query, engine.snapshot(), plan="(b c) a").push({"c": rows}).num_rows
        1
        """
        options = EngineOptions(strategy, executor, demand, memory_limit, adaptive, late, late_limit, max_jump)
        checked_query(query, "restore")
        taken = snapshot if isinstance(snapshot, Snapshot) else Snapshot.from_bytes(snapshot)
        meta = taken.meta
        check_query(query, taken)
        engine = cls.__new__(cls)
        kind = options.kind(meta.get("executor"))
        engine._set_up(query, chosen_plan(query, meta["plan"] if plan is None else plan), options, kind)
        engine._watermark.from_json(meta["watermark"])
        engine._rows_in, engine._rows_out = dict(meta["rows_in"]), meta["rows_out"]
        engine._refused = {stream: dict(reasons) for stream, reasons in meta["refused"].items()}
        engine._pipeline.go_on(taken)
        return engine

    @classmethod
    def resume(
        cls,
        query: Query,
        rows: Mapping[str, TableLike],
        watermark: WatermarkLike,
        *,
        tables: Mapping[str, TableLike] | None = None,
        plan: Plan | str | None = None,
        strategy: str = DEFAULT_STRATEGY,
        executor: str | ExecutorKind = "tree",
    ) -> Engine:
        """An engine that goes on after rows whose results are out already, for those who keep the rows themselves.

        `rows` are those that are still in their stream's window at the watermark, which is explicit from now on. Every
        join state starts as a hole, and `migration` tells how they fill. A query with ROWS windows needs a snapshot
        instead: rows alone do not tell the order in which they came.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> query = ms.query(text, schemas={"a": row, "b": row}, event_time="ts")
        >>> engine = ms.Engine.resume(query, {"a": [{"id": 7, "ts": 20}]}, watermark=30)
        >>> engine.push({"b": [{"id": 7, "ts": 40}]}).num_rows
        1
        """
        if checked_query(query, "resume").tracks_arrivals:
            raise EngineError("resume: the query has ROWS windows; go on with Engine.restore from a snapshot")
        engine = cls(query, plan=plan, tables=tables, strategy=strategy, executor=executor)
        known = engine._receiver.receive(rows, None, engine._watermark)
        engine._watermark.advance(known.maxima, engine._receiver.moment(watermark, "resume"))
        engine._pipeline.go_on_from(known.accepted, engine._watermark.current)
        engine.migrate(engine.plan, strategy=JustInTime.name)
        return engine


_is_ready = False


def get_ready() -> None:
    """Compile the kernels or load them from the cache, once per process. The first engine does it by itself.

    >>> import midstream as ms
    >>> ms.get_ready()
    """
    global _is_ready
    if not _is_ready:
        _is_ready = True
        warm_up(_run_once)


def _run_once(text: str, schemas: dict[str, pa.Schema], pushes: list[dict[str, pa.Table]]) -> None:
    query = parse_query(text, schemas, "ts")
    engine = Engine(query, plan="(((a b) c) d)")
    for place, data in enumerate(pushes):
        if place == 2:
            engine = Engine.restore(query, engine.snapshot(), plan="((a b) (c d))")
        if place == 4:
            engine.migrate("(((d c) b) a)", budget=1)
        engine.push(data)
