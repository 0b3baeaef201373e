"""What users call: DataFrames in, a DataFrame out."""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from midstream.cql.durations import Duration
from midstream.cql.names import find_spellings
from midstream.cql.steps import warn_of_long_step
from midstream.engine.executors.registry import check_keys
from midstream.errors import QueryError, SparkError
from midstream.plan import read_plan
from midstream.spark.arguments import (
    Durations,
    check_count,
    check_delays,
    check_duration,
    check_engine,
    check_event_time,
    check_flag,
    check_folder,
    check_frames,
    check_hot_keys,
    check_limit,
    check_mapping,
    check_name,
    check_overload,
    check_schedule,
    check_schedule_works,
    check_step,
    check_text,
)
from midstream.spark.commands.control_folder import ControlFolder
from midstream.spark.commands.messages import CHECK
from midstream.spark.compat import check_version, qualified, start_state_stores
from midstream.spark.join_text import JoinText
from midstream.spark.listener import listen
from midstream.spark.operator import (
    DataFrame,
    build_join,
    check_watermark,
    is_aggregated,
    schema_of,
    travels_narrow,
    watermark_delay,
)
from midstream.spark.parcels.result_ids import COLUMN
from midstream.spark.settings import cores, prepare
from midstream.spark.spec import JoinSpec

_logger = logging.getLogger("midstream")

Moment = int | datetime.datetime
_SWITCH_ON = (
    "give control=PATH before the first start to have it: Spark refuses a checkpoint whose sources have changed"
)


def sql(
    text: str,
    streams: Mapping[str, DataFrame],
    event_time: str | Mapping[str, str],
    delay: Durations | None = None,
    *,
    partitions: int | None = None,
    cells: int | None = None,
    plan: str | None = None,
    strategy: str | None = None,
    executor: str = "tree",
    routing: str | None = None,
    seed: int | None = None,
    schedule: Sequence[tuple[Moment, str]] = (),
    rates: Mapping[str, float] | None = None,
    hot_keys: Mapping[str, Sequence[Any]] | None = None,
    allow_incomplete: bool = False,
    host_idle: Duration = "15 minutes",
    memory_limit: int | str | None = None,
    overload: str = "refuse",
    demand: str = "auto",
    control: str | os.PathLike[str] | None = None,
    result_id: bool = False,
    assume_zone: str | None = None,
    step: Duration | None = None,
    name: str | None = None,
) -> DataFrame:
    """Join streaming DataFrames by a query; the result is a streaming DataFrame.

    `streams` gives the DataFrames by the names that the query has for them. `event_time` names the column with the
    event time, for all or for each stream: a timestamp, a timestamp without zone (taken as UTC), or an integer of
    microseconds. If only some event times have a zone, `assume_zone` is the zone of the others, such as
    ``Europe/Berlin``. `delay` is how late rows may be, for all or for each stream, ``"30 seconds"`` or a `timedelta`;
    streams that have a watermark keep theirs.

    A name that the query has without a window is a static table: a batch DataFrame, which is read once, in the first
    batch, and kept in the checkpoint.

    `partitions` is how many partitions work in parallel (default: the session's cores), `cells` the number of engines
    that share them (default: one each), a multiple that lets `repartition` spread them over more partitions later.
    `cells`, `rates` (relative rates of the streams) and `hot_keys` (values of key columns whose rows are spread over
    cells) decide where rows go. They stay fixed for the life of a checkpoint.

    `plan` is the plan to start with, `schedule` lists moments of event time with the plans that cells change to when
    the watermark reaches them, by `strategy`. If the plan in the code changed before a restart, the new one is used.
    Otherwise the query goes on with the plan that was running.

    `executor`, `routing` and `seed` are those of `Engine`: by what the cells run the plan and, on all but the tree, who
    decides chunk by chunk which way rows take. Each cell routes alone, and goes on after a restart with what it has
    counted. The plan is where routers begin; a command or a schedule that names a plan holds cells to it. A restart may
    change all three.

    `allow_incomplete` accepts a larger window than the
    checkpoint's, although the older rows are missing. `host_idle` is how long an engine waits for its next batch before
    its memory is freed.

    `memory_limit` is what the engine of each cell may keep: a number of bytes or text such as ``"2GB"``. What does not
    fit is computed again when it is needed. If the rows of the windows alone are more, the query fails: `overload` has
    to be ``"refuse"``, because Spark stores rows before a cell sees them.

    `demand` is that of `Engine`: with ``"on"``, rows that have no partner yet in their cell wait until one comes, with
    ``"auto"`` only where that pays, and with ``"off"`` none do. They are stored as all others are. A restart may change
    it.

    `control` is a durable folder that driver and executors see, the same on every restart, through which
    `midstream.spark.control` changes the plan while the query runs. Give it from the first start on: it is one more
    source of the query, and Spark refuses a checkpoint whose number of sources has changed. The default is a folder
    under ``spark.sql.streaming.checkpointLocation``; if that is not set, or cannot be written from here, the join
    cannot be controlled.

    `result_id` adds a column of that name, which stays the same when a batch is run again: sinks that may get a batch
    twice, such as Kafka's, can drop what they have already.

    `name` identifies the join in `progress` and `cell_reports`, if a query has several.

    A query with DISTINCT, GROUP BY, aggregates, TUMBLE windows, UNION, EXCEPT or INTERSECT gives results in steps of
    event time: all results of a step come in the batch whose watermark reaches its end. `step` is how long one is, such
    as ``"1 minute"``. The default is the least common multiple of the TUMBLE windows, or else a tenth of the longest
    RANGE window.

    If all DataFrames are batch DataFrames, the result is one too, with the results of all their rows.

    With streaming DataFrames `orders`, `payments` and `shipments`, each with a column `ts`::

        joined = ms.spark.sql(
            '''SELECT o.customer, p.amount, s.carrier
               FROM orders [RANGE 10 MINUTES] o, payments [RANGE 10 MINUTES] p, shipments [RANGE 1 HOUR] s
               WHERE o.id = p.id AND o.id = s.id''',
            streams={"orders": orders, "payments": payments, "shipments": shipments},
            event_time="ts",
            delay="30 seconds",
            control=f"{folder}/control",
        )
        writer = joined.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.start(f"{folder}/results")
    """
    check_text("sql", text, "a query: SELECT ... FROM ... WHERE ...")
    frames = check_frames(streams)
    session = next(iter(frames.values())).sparkSession
    check_version(session)
    waits = check_delays(delay, list(frames))
    chosen = cores(session) if partitions is None else check_count("partitions", partitions, "partitions")
    spec = JoinSpec(
        text=text,
        schemas={name: schema_of(name, frame) for name, frame in frames.items()},
        event_time=check_event_time(event_time),
        cells=_cells(cells, chosen),
        rates=check_mapping("rates", rates, "relative rates by stream: {'orders': 10}"),
        hot_keys=check_hot_keys(hot_keys),
        plan=None if plan is None else check_text("plan", plan, "a plan such as '((a b) c)'"),
        options=check_engine(
            strategy=strategy,
            executor=executor,
            routing=routing,
            seed=seed,
            memory_limit=check_limit(memory_limit),
            overload=check_overload(overload),
            demand=demand,
        ),
        schedule=check_schedule(schedule),
        allow_incomplete=check_flag("allow_incomplete", allow_incomplete),
        host_idle=_host_idle(host_idle),
        operator=uuid.uuid4().hex[:8],
        assume_zone=assume_zone,
        delays=waits | {name: wait for name, frame in frames.items() if (wait := watermark_delay(frame)) is not None},
        aggregated=tuple(name for name, frame in frames.items() if frame.isStreaming and is_aggregated(frame)),
        step=check_step(step),
        is_bounded=not any(frame.isStreaming for frame in frames.values()),
    )
    place = None if control is None else check_folder("control", control)
    check_flag("result_id", result_id)
    _check(spec, frames, waits)
    if not spec.is_bounded:
        warn_of_long_step(spec.query)
    if result_id and find_spellings(COLUMN, spec.query.output_schema.names):
        raise SparkError(f"result_id: the query has a column {COLUMN!r} already; rename it with AS")
    known_as = spec.operator if name is None else check_name(name)
    prepare(session, chosen, travels_narrow(spec), is_to_start=not spec.is_bounded)
    if spec.is_bounded:
        start_state_stores(session)
        return build_join(spec, frames, waits, None, result_id, known_as, chosen)
    if place is None:
        # It is a new one where the join cannot go on from its checkpoint, so that no command has it checked.
        folder, has_check = _default_folder(session, spec, name), False
    else:
        folder = ControlFolder(place)
        has_check = _introduce(folder, spec)
    joined = build_join(spec, frames, waits, None if folder is None else folder.commands, result_id, known_as, chosen)
    listen(session).expect(spec, known_as, None if folder is None else folder.path, has_check)
    return joined


def join(
    streams: Mapping[str, DataFrame],
    on: str | Sequence[str],
    within: Durations,
    event_time: str | Mapping[str, str],
    delay: Durations | None = None,
    *,
    select: str | Sequence[str] = ("*",),
    **options: Any,
) -> DataFrame:
    """Join streaming DataFrames without writing a query.

    `on` is a column that all have and that must be equal, or conditions such as ``["o.id = p.order_id", "p.amount >
    10"]``, all of which must hold. `within` is the window of all or of each stream, ``"10 minutes"`` or a `timedelta`.
    `select` are the columns of the result, `*` for all, named `stream_column`. Other options are those of `sql`.

    ::

        joined = ms.spark.join(
            {"orders": orders, "payments": payments},
            on="id",
            within={"orders": "10 minutes", "payments": "1 hour"},
            event_time="ts",
            delay="30 seconds",
            select=["orders.customer", "payments.amount"],
        )
    """
    written = JoinText(check_frames(streams), on, within, select)
    try:
        return sql(written.text, streams, event_time, delay, **options)
    except QueryError as problem:
        raise written.explained(problem) from None


def explain(
    text: str,
    streams: Mapping[str, DataFrame],
    event_time: str | Mapping[str, str],
    *,
    partitions: int,
    rates: Mapping[str, float] | None = None,
    hot_keys: Mapping[str, Sequence[Any]] | None = None,
    memory_limit: int | str | None = None,
    assume_zone: str | None = None,
    step: Duration | None = None,
    executor: str = "tree",
    routing: str | None = None,
    demand: str = "auto",
) -> str:
    """Where rows would go: the dimensions with their shares, and the copies that each stream pays.

    Also by which executor, routing and demand the cells would run the plan, and with a `memory_limit` what all of them
    together may take.

    With set operations that is told of every branch, which is called by its aliases. For a query with steps it also
    tells how the cells' parts of results are put together.

    ::

        text = "SELECT o.id FROM orders [RANGE 1 HOUR] o, payments [RANGE 1 HOUR] p WHERE o.id = p.id"
        print(ms.spark.explain(text, {"orders": orders, "payments": payments}, "ts", partitions=4))
    """
    check_text("explain", text, "a query: SELECT ... FROM ... WHERE ...")
    schemas = {name: schema_of(name, frame) for name, frame in check_frames(streams).items()}
    spec = JoinSpec(
        text=text,
        schemas=schemas,
        event_time=check_event_time(event_time),
        cells=check_count("partitions", partitions, "partitions"),
        rates=check_mapping("rates", rates, "relative rates by stream: {'orders': 10}"),
        hot_keys=check_hot_keys(hot_keys),
        options=check_engine(executor=executor, routing=routing, demand=demand),
        assume_zone=assume_zone,
        step=check_step(step),
    )
    check_keys(spec.query, spec.policy, "engine")
    return spec.explain(check_limit(memory_limit))


def _default_folder(session: Any, spec: JoinSpec, name: str | None) -> ControlFolder | None:
    """A folder for control beside the session's checkpoints; None if there can be none, and control is off.

    It follows from what may not change while a checkpoint lives, so that a query finds it again.
    """
    place = session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if not place:
        _logger.info("midstream: control is off; %s", _SWITCH_ON)
        return None
    key = spec.lasting if name is None else f"{name} {spec.lasting}"
    called = hashlib.sha256(key.encode()).hexdigest()[:16]
    try:
        folder = ControlFolder(f"{qualified(session, place).rstrip('/')}/midstream-control/{called}")
        _introduce(folder, spec)
    except SparkError as problem:
        _logger.info("midstream: control is off: %s; %s", problem, _SWITCH_ON)
        return None
    return folder


def _introduce(folder: ControlFolder, spec: JoinSpec) -> bool:
    """Make a control folder and write into it what is joined; whether it has told of a join before.

    If that was another one, a checkpoint may refuse this one, and a command has that found out without new rows.
    """
    folder.make()
    told = {
        "text": spec.text,
        "aliases": list(spec.query.aliases),
        "has_sets": spec.query.combination is not None,
        "cells": spec.cells,
        "join": spec.fingerprint,
    }
    before = folder.read("status/query.json")
    if before is not None and before.get("join") != spec.fingerprint:
        folder.write("commands", f"{time.time_ns():020d}-check.json", CHECK)
    folder.write("status", "query.json", json.dumps(told))
    return before is not None


def _cells(cells: int | None, partitions: int) -> int:
    if cells is None:
        return partitions
    if check_count("cells", cells, "cells") % partitions:
        raise SparkError(f"cells: {cells} is not a multiple of {partitions} partitions; give one, such as {partitions}")
    return cells


def _host_idle(value: Duration) -> float:
    """In seconds."""
    length = check_duration("host_idle", value)
    if length == 0:
        raise SparkError("host_idle: a host that does not wait is of no use; give more than 0 seconds")
    return length / 1e6


def _check(spec: JoinSpec, frames: Mapping[str, DataFrame], waits: Mapping[str, int]) -> None:
    """Raise every error that can be found before a query starts."""
    query = spec.query
    spec.routing.fingerprint()
    for plan in [*([] if spec.plan is None else [spec.plan]), *(plan for _, plan in spec.schedule)]:
        read_plan(plan, query)
    check_keys(query, spec.policy, "engine")
    if spec.schedule:
        check_schedule_works(spec.routing.cell_query, spec.options, spec.plan, spec.schedule)
    for name in query.tables:
        if frames[name].isStreaming:
            raise SparkError(
                f"streams: {name!r} is a streaming DataFrame and has no window; "
                "give it one, such as [RANGE 1 HOUR] or [UNBOUNDED]"
            )
    is_streaming = {name: frames[name].isStreaming for name in query.streams}
    if len(set(is_streaming.values())) > 1:
        batch = next(name for name, streams in is_streaming.items() if not streams)
        raise SparkError(
            f"streams: {batch!r} is a batch DataFrame with a window, beside streaming ones; "
            "use spark.readStream for it, or leave its window out to make it a static table"
        )
    for relation in query.inputs:
        if frames[relation.source].isStreaming and relation.event_time is not None:
            check_watermark(frames[relation.source], relation.source, relation.event_time, waits.get(relation.source))
