"""The public `Engine`: a query and a plan over batches of rows.

It says what users may call when, and what with. Rows take their way in `engine.push_loop`, and migrations theirs in
`migrate.under_way`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from midstream.cql.durations import Duration
from midstream.cql.model import Query
from midstream.cql.parse import query as parse_query
from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.registry import check_keys, check_routing, find_executor, go_by_routing
from midstream.engine.input.intake import WatermarkLike, name_tables
from midstream.engine.life import Life, problem_text
from midstream.engine.memory.limit import read_limit
from midstream.engine.push_loop import Checked, PushLoop
from midstream.engine.routing.choice import RoutingRecord
from midstream.engine.routing.policies.fixed import Fixed
from midstream.engine.routing.policy import Policy
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.report import RoutingReport
from midstream.engine.run import Batches, Run
from midstream.engine.snapshot.checkpoint import check_query, query_as_json
from midstream.engine.snapshot.format import BytesLike, Snapshot
from midstream.engine.stats import EngineStats
from midstream.engine.warmup import warm_up
from midstream.errors import EngineError, PlanError
from midstream.migrate import STRATEGIES, Migration, Strategy, find_strategy
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.under_way import Migrations
from midstream.notebook import engine_html, engine_line
from midstream.options import EngineKeywords, EngineOptions, choose_plan, require_query, spell_out_keywords
from midstream.plan import Plan
from midstream.tables import TableLike

if TYPE_CHECKING:
    from typing_extensions import Unpack


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

    Keywords: `plan` (text such as ``"((a b) c)"``, else a sensible one), `executor` (``"tree"`` keeps what the joins
    of the plan have found, ``"stems"`` keeps nothing but the windows, ``"eddy"`` and ``"stairs"`` send rows from
    input to input), `routing` (on all but the tree: ``"rank"``, ``"cost"``, ``"cumulative"``, ``"lottery"``,
    ``"content"`` or ``"fixed"`` decides chunk by chunk which way rows take; the plan is the first one), `seed` (of
    what is drawn there), `strategy` (how `migrate` changes the plan, unless it is told), `tables` (static tables by
    name), `late` (``"keep"`` to offer refused rows through `take_late`, up to `late_limit` a stream), `max_jump`
    (refuse rows further ahead of their stream than this), `memory_limit` (bytes that everything it keeps may take, or
    text such as ``"2GB"``), `overload` (``"shed"`` to drop rows for which that is too little, where ``"refuse"``
    refuses the push), `demand` (``"on"`` hides rows that have no partner yet until one comes, ``"auto"``, the
    default, only where that pays, ``"off"`` none). One thread at a time may use an engine.
    """

    def __init__(
        self,
        query: Query,
        *,
        plan: Plan | str | None = None,
        tables: Mapping[str, TableLike] | None = None,
        **options: Unpack[EngineKeywords],
    ):
        checked = EngineOptions.of(options)
        chosen = choose_plan(require_query(query, "engine"), plan)
        named = name_tables(query, {} if tables is None else tables)
        check_keys(query, checked.routing, "engine")
        rates = MatchRates()
        self._set_up(query, chosen, checked, checked.kind(rates), rates)
        self._pipeline.load_tables(named)
        # From here on: static tables are there before the first row, whatever rows of streams have found.
        checked.record().recall_rates(rates, checked.seed)
        self._pipeline.memory.set_limit(checked.most_bytes, "engine")

    def _set_up(self, query: Query, plan: Plan, options: EngineOptions, kind: ExecutorKind, rates: MatchRates) -> None:
        get_ready()
        self.query = query
        self._options = options
        jump, kept = options.longest_jump, options.rows_kept
        self._loop = PushLoop(
            query,
            plan,
            kind,
            longest_jump=jump,
            late_limit=kept,
            rates=rates,
            demand=options.demand,
            may_shed=options.overload == "shed",
        )
        self._pipeline = self._loop.pipeline
        self._migrations = Migrations(STRATEGIES)
        self._life = Life.OPEN
        self._problem = ""
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
            return self._loop.note_shed(pieces[0])
        return self._loop.note_shed(pa.concat_tables(pieces) if pieces else self.query.no_results)

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
        return self._run(self._loop.receive(data, watermark), self._moves)

    def _run(self, checked: Checked, moves: int) -> Iterator[pa.Table]:
        if self._moves != moves:
            raise EngineError(
                "push_batches: the engine has moved on since this push was checked; call push_batches again, "
                "and take its pieces before the next call"
            )
        self._check_open()
        self._life = Life.PUSHING
        self._moves += 1
        try:
            with self._closed_by_errors():
                yield from self._loop.take(checked)
        except GeneratorExit:
            self._life, self._problem = Life.ABANDONED, ""
            raise
        if self._life is Life.PUSHING:  # and not closed meanwhile
            self._life = Life.OPEN
        self._migrations.after_push(self._pipeline)
        self._migrations.deliver()

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
        if not self._life.has_ended_well:
            self._check_open()
        return self._loop.take_late()

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
        if self._life is Life.FINISHED:
            return self.query.no_results
        self._check_open()
        with self._closed_by_errors():
            released = self._loop.finish()
        self._life = Life.FINISHED
        self._moves += 1
        self._migrations.finish()
        self._migrations.deliver()
        return released

    def __enter__(self) -> Engine:
        """``with ms.Engine(query) as engine:`` frees all state when the block ends.

        It does not finish the query: call `finish` inside the block for the last results. If results still wait, held
        back or in an open step, when a block ends without an error, that is an `EngineError`: they would be lost.
        """
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *problem: object) -> None:
        try:
            held = self._pipeline.release().num_rows if kind is None and self._life is Life.OPEN else 0
        finally:
            self._pipeline.clear()
            if self._life is not Life.FINISHED:
                self._life, self._problem = Life.LEFT, ""
        if held:
            raise EngineError(f"engine: results still waited when the with block ended: {held}; call finish() in it")

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        """An error in here has left the engine half-way, so that it takes no more calls."""
        try:
            yield
        except BaseException as problem:
            self._life, self._problem = Life.BROKEN, problem_text(problem)
            raise

    def _check_open(self) -> None:
        if self._life is not Life.OPEN:
            raise EngineError(f"engine: {self._life.reason(self._problem)}")

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
    def routing(self) -> RoutingReport | None:
        """Which way rows take from input to input, and why; None on the tree: there they go as the plan says.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> query = ms.query(text, schemas={"a": row, "b": row}, event_time="ts")
        >>> print(ms.Engine(query, executor="stems", routing="fixed").routing)
        fixed
          a: a b  (100%; as the plan says)
          b: b a  (100%; as the plan says)
        """
        return self._pipeline.executor.routing_report()

    @property
    def routing_record(self) -> RoutingRecord | None:
        """What another engine needs to route as this one would, if it is given as its `routing`; None on the tree.

        A snapshot has it. It is for those who keep the rows themselves, beside them: it is small, and `to_json` and
        `from_json` make text of it and back. The other engine begins with the plan that it names.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> query = ms.query(text, schemas={"a": row, "b": row}, event_time="ts")
        >>> rows = {"a": [{"id": 7, "ts": 0}]}
        >>> engine = ms.Engine(query, executor="stems")
        >>> results = engine.push(rows, watermark=0)
        >>> record = engine.routing_record
        >>> other = ms.Engine.resume(query, rows, 0, plan=record.plan, executor="stems", routing=record)
        >>> other.routing_record == record
        True
        """
        if (routing := self.routing) is None:
            return None
        places = {alias: number for number, alias in enumerate(self.query.aliases)}
        tree = frozenset((places[left], places[right]) for left, right in routing.tree)
        rates = self._pipeline.rates
        return RoutingRecord(self.executor, routing.policy, routing.plan, tree, rates.cell, rates.to_json())

    @property
    def memory_limit(self) -> int | None:
        """The bytes that everything the engine keeps may take, or None; it may be set between two pushes.

        It is given as a number of bytes or as text, such as ``"2GB"`` or ``"2GiB"``. One that is below what the base
        windows take is refused, and the old one stays.

        >>> import midstream as ms
        >>> row = {"id": int, "ts": int}
        >>> text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
        >>> engine = ms.Engine(ms.query(text, schemas={"a": row, "b": row}, event_time="ts"), memory_limit="2GB")
        >>> engine.memory_limit = "1GB"
        >>> engine.memory_limit
        1000000000
        """
        return self._pipeline.memory.limit

    @memory_limit.setter
    def memory_limit(self, limit: int | str | None) -> None:
        self._check_open()
        most = None if limit is None else read_limit(limit, "memory_limit")
        self._pipeline.memory.set_limit(most, "memory_limit", self._closed_by_errors)
        self._moves += 1

    @property
    def migration(self) -> Migration | None:
        """The latest migration as it stands, or None if there was none."""
        return self._migrations.latest

    def migrate(
        self,
        plan: Plan | str | None = None,
        strategy: str | Strategy | None = None,
        *,
        executor: str | ExecutorKind | None = None,
        routing: str | Policy | None = None,
        budget: int | Duration | None = None,
        hold: bool = False,
        on_event: Callable[[Migration], None] | None = None,
    ) -> Migration:
        """Change the plan of the running query; the output stays what it would have been.

        With `executor` ("tree", "stems", "eddy" or "stairs") the plan runs on that one from now on, be it the same plan
        or another. From eddy to eddy only the routing of new rows changes, and no strategy may be named. On all but the
        tree a plan is held to from now on; with `routing` ("rank", "cost", "cumulative", "lottery", "content" or
        "fixed") it is where a router begins, and may be left out.
        `strategy` is "jisc", "moving-state", "parallel-track", "genmig", "genmig-reference-point",
        "pause-drain-resume" or, on stairs, "staged", by default the engine's, or a `midstream.migrate.Strategy` of your
        own. `budget`, for jisc alone, is what is filled in the background after each push: a number of holes, or a time
        such as "5 milliseconds"; 0 fills only what is probed. `hold`, for parallel-track alone, holds the new plan's
        results back until the old plan is dropped. Given to another strategy, either is refused. `on_event` is called
        with the migration's record when it has begun, when the first push has passed, and when it has ended: when it is
        done, or a later migration has replaced it. Its errors are logged and go no further.

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
        if plan is None and executor is None and routing is None:
            raise PlanError(
                f"migrate: plan is None; write the plan to change to, such as {str(self.plan)!r}, or give a Plan"
            )
        target = self.plan if plan is None else choose_plan(self.query, plan)
        found = self._pipeline.executor.kind if executor is None else find_executor(executor, "migrate")
        check_routing(found, routing, "migrate")
        check_keys(self.query, routing, "migrate")
        if plan is not None and routing is None:
            routing = Fixed.name
        default = self._options.strategy_on(found)
        chosen = default if strategy is None else find_strategy(strategy, STRATEGIES)
        kind = go_by_routing(found, routing, self._pipeline.rates, chosen.moves)
        given = {"budget": budget, "hold": hold}
        recorder = self._migrations.begin(
            self._pipeline, target, kind, strategy, default, given, on_event, self._closed_by_errors
        )
        self._moves += 1
        self._migrations.deliver()
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
        return self._loop.stats()

    def __repr__(self) -> str:
        running, why = self._pipeline.executor, self._life.reason(self._problem)
        line = engine_line(self.query, running.plan, running.kind, self.stats(), self.migration, why)
        return f"<midstream.Engine {line}>"

    def _repr_html_(self) -> str:
        """Plan, states and holes, as a notebook shows them."""
        running, why = self._pipeline.executor, self._life.reason(self._problem)
        at_once = self._pipeline.lane.plans_at_once
        return engine_html(self.query, running, at_once, self.stats(), self.migration, why)

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
        running: dict[str, Any] = {"plan": str(self.plan), "executor": self.executor}
        if (record := self.routing_record) is not None:
            running["routing"] = record.to_json()
        return self._pipeline.snapshot(query_as_json(self.query) | running | self._loop.to_json())

    @classmethod
    def restore(
        cls,
        query: Query,
        snapshot: Snapshot | BytesLike,
        *,
        plan: Plan | str | None = None,
        **options: Unpack[EngineKeywords],
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
        checked = EngineOptions.of({"executor": None, **options})
        require_query(query, "restore")
        taken = snapshot if isinstance(snapshot, Snapshot) else Snapshot.from_bytes(snapshot)
        query = check_query(query, taken)
        check_keys(query, checked.routing, "restore")
        engine = cls.__new__(cls)
        stored = RoutingRecord(taken.meta.get("executor") or "tree")
        if "routing" in taken.meta:
            stored = RoutingRecord.from_json(taken.meta["routing"])
        rates = MatchRates()
        checked.record(stored).recall_rates(rates, checked.seed)
        kind = checked.kind(rates, stored)
        if plan is None:
            plan = stored.plan if kind.name == stored.executor and stored.plan else taken.meta["plan"]
        engine._set_up(query, choose_plan(query, plan), checked, kind, rates)
        engine._loop.from_json(taken.meta)
        engine._pipeline.memory.limit_to_come = checked.most_bytes
        engine._pipeline.go_on(taken, engine._loop.watermark.current)
        engine._pipeline.memory.set_limit(checked.most_bytes, "restore")
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
        **options: Unpack[EngineKeywords],
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
        if require_query(query, "resume").tracks_arrivals:
            raise EngineError("resume: the query has ROWS windows; go on with Engine.restore from a snapshot")
        limit = EngineOptions.of(options).most_bytes
        engine = cls(query, plan=plan, tables=tables, **options | {"memory_limit": None})
        engine._pipeline.memory.limit_to_come = limit
        engine._loop.go_on_from(rows, watermark)
        engine._pipeline.memory.set_limit(limit, "resume")
        kind = engine._pipeline.executor.kind
        engine._migrations.begin(engine._pipeline, engine.plan, kind, None, JustInTime.name, {}, None)
        return engine


spell_out_keywords(Engine.__init__)
spell_out_keywords(Engine.restore, executor=None)
spell_out_keywords(Engine.resume)

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
    engine.finish()
