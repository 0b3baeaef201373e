"""Streaming DataFrames -> one streaming DataFrame: the plan that Spark runs for a join.

::

    each stream:  watermark -> needed columns -> mapInArrow (pack by cell)
    control:      command files -> mapInArrow (one parcel per addressed cell)
    each table:   needed columns -> mapInArrow (pack by cell) -> initial state of the operator
    all:          union -> groupBy(cell) -> transformWithState (one engine per cell) -> observe -> mapInArrow (unpack)

With steps cells give out parts of results, and behind `observe` comes, once or twice::

    mapInArrow (split) -> repartition by group or row -> mapInArrow (put together)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F
from pyspark.sql.types import IntegralType, TimestampNTZType, TimestampType

from midstream.cql.names import free_name
from midstream.errors import SparkError
from midstream.spark import compat
from midstream.spark.commands.messages import make_command_packer
from midstream.spark.parcels import result_ids
from midstream.spark.parcels.finishing import PARTS_DDL, make_last_round, make_round, make_splitter
from midstream.spark.parcels.packing import PACKED_DDL, RESULT_DDL, make_opener, make_packer
from midstream.spark.processor import JoinProcessor
from midstream.spark.reports.totals import OBSERVATION, OPERATOR, column_of
from midstream.spark.routing.cell_numbers import cell_number
from midstream.spark.spec import JoinSpec

_WATERMARK_KEY = "spark.watermarkDelayMs"
_WATERMARK_NODE = re.compile(r"^\W*EventTimeWatermark\b", re.MULTILINE)
_AGGREGATE_NODE = re.compile(r"^\W*Aggregate\b", re.MULTILINE)
_DERIVED = "midstream_event_time"

DataFrame = Any


def schema_of(name: str, frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a DataFrame's columns."""
    try:
        return compat.to_arrow(frame.schema)
    except Exception as problem:
        raise SparkError(f"streams: the columns of {name!r} have no Arrow type; {problem}") from problem


def build_join(
    spec: JoinSpec,
    frames: Mapping[str, DataFrame],
    delays: Mapping[str, int],
    commands: str | None,
    with_ids: bool,
    name: str,
    partitions: int,
) -> DataFrame:
    """The results of a join as a DataFrame; `commands` is the folder that it is controlled through.

    `name` tells its reports from those of another join in the same query. What the cells give out in steps is put
    together in so many `partitions`.
    """
    # Spark tells the sources of a checkpoint apart by their places: another order in FROM must not exchange them.
    streams = sorted(spec.query.streams, key=str.casefold)
    packed = _union([_pack(spec, source, frames[source], delays.get(source)) for source in streams])
    if commands is not None:
        packed = packed.union(_commands(spec, packed.sparkSession, commands))
    tables = [_pack(spec, source, frames[source], None) for source in spec.query.tables]
    results = packed.groupBy("cell").transformWithState(
        JoinProcessor(spec),
        RESULT_DDL,
        "Append",
        "EventTime",
        initialState=_union(tables).groupBy("cell") if tables else None,
    )
    reports = [
        F.max(F.when(F.col("cell") == cell_number(cell), F.col("report"))).alias(column_of(cell))
        for cell in range(spec.cells)
    ]
    observed = results.observe(f"{OBSERVATION}_{name}", *reports).alias(f"{OPERATOR}_{spec.operator}")
    schema = spec.query.output_schema
    if with_ids:
        schema = schema.append(pa.field(result_ids.COLUMN, pa.string()))
    spark_schema = compat.from_arrow(schema)
    arrow_schema = compat.to_arrow(spark_schema)
    if not spec.rounds:
        return observed.mapInArrow(make_opener(arrow_schema, with_ids), spark_schema)
    chosen = [1 if current.is_in_one_place else partitions for current in spec.rounds]
    frame = observed.mapInArrow(make_splitter(spec.rounds[0], chosen[0]), PARTS_DDL)
    for place, current in enumerate(spec.rounds[:-1], 1):
        frame = frame.repartition(chosen[place - 1], "partition")
        frame = frame.mapInArrow(make_round(current, spec.rounds[place], chosen[place]), PARTS_DDL)
    last = make_last_round(spec.rounds[-1], arrow_schema, with_ids)
    return frame.repartition(chosen[-1], "partition").mapInArrow(last, spark_schema)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return functools.reduce(lambda united, frame: united.union(frame), frames)


def travels_narrow(spec: JoinSpec) -> bool:
    """Whether all columns that go to Python have values of a fixed size."""
    sources = {lane.source for lane in spec.routing.lanes}
    types = [spec.schemas[source].field(name).type for source in sources for name in _needed(spec, source)]
    return all(pa.types.is_primitive(type) or pa.types.is_decimal(type) for type in types)


def _pack(spec: JoinSpec, source: str, frame: DataFrame, delay: int | None) -> DataFrame:
    """A source's rows as parcels."""
    event_time = next(relation.event_time for relation in spec.query.inputs if relation.source == source)
    names = _needed(spec, source)
    # `mapInArrow` fails on names with a dot or a backtick, so columns travel under plain ones.
    columns = [F.col(_quote(name)).alias(f"c{place}") for place, name in enumerate(names)]
    if frame.isStreaming:
        assert event_time is not None
        zone = spec.query.assumed_zones.get(source, {}).get(event_time)
        frame = _with_watermark(frame, event_time, delay, zone)
    return frame.select(*columns).mapInArrow(make_packer(spec, source, names), PACKED_DDL)


def _commands(spec: JoinSpec, session: Any, folder: str) -> DataFrame:
    """Commands as parcels: the last source of the plan, even if unused, because a checkpoint counts the sources."""
    reader = compat.name_source(session, session.readStream, "midstream_control")
    reader = reader.format("text").option("wholetext", "true")
    return reader.load(folder).mapInArrow(make_command_packer(spec.cells), PACKED_DDL)


def _needed(spec: JoinSpec, source: str) -> list[str]:
    """The columns of a source that go to Python."""
    read = {name for lane in spec.routing.lanes if lane.source == source for name in _read(spec, lane)}
    return [name for name in spec.schemas[source].names if name in read]


def _read(spec: JoinSpec, lane: Any) -> set[str]:
    """The columns that are read to filter and route, and those that travel."""
    from midstream.cql.model import columns_of

    read = [*lane.filters, *(step.key for step in lane.steps if step.key is not None)]
    return {*lane.columns, *lane.keys, *(column.name for expr in read for column in columns_of(expr))}


def watermark_delay(frame: DataFrame) -> int | None:
    """The delay, in microseconds, of the watermark that a DataFrame has already."""
    marks = [(field.metadata or {}).get(_WATERMARK_KEY) for field in frame.schema.fields]
    return next((int(mark) * 1000 for mark in marks if mark is not None), None)


def check_watermark(frame: DataFrame, source: str, event_time: str, delay: int | None) -> None:
    """A watermark that a streaming DataFrame has already must be on its event time."""
    marked = _watermark_columns(frame)
    if event_time not in marked and (marked or _has_watermark(frame)):
        place = f" on {marked[0]!r}" if marked else ""
        raise SparkError(
            f"streams: {source!r} has a watermark{place}, but its event time is {event_time!r}, and Spark takes only "
            "one watermark; put it on the event time, or leave it to delay=; after groupBy(window(...)) take "
            "window_time(window) as the event time"
        )
    if event_time in marked and delay is not None:
        raise SparkError(
            f"streams: {source!r} has a watermark already, and Spark takes only one; leave {source!r} out of delay="
        )


def _watermark_columns(frame: DataFrame) -> list[str]:
    """The columns that a watermark is on."""
    return [field.name for field in frame.schema.fields if _WATERMARK_KEY in (field.metadata or {})]


def _has_watermark(frame: DataFrame) -> bool:
    """Whether a watermark was put on a DataFrame's rows, even if its column is gone since."""
    return _WATERMARK_NODE.search(compat.plan_of_frame(frame)) is not None


def is_aggregated(frame: DataFrame) -> bool:
    """Whether the rows of a DataFrame are aggregates that wait for its watermark."""
    plan = compat.plan_of_frame(frame)
    watermark, aggregate = _WATERMARK_NODE.search(plan), _AGGREGATE_NODE.search(plan)
    return watermark is not None and aggregate is not None and aggregate.start() < watermark.start()


def _with_watermark(frame: DataFrame, event_time: str, delay: int | None, zone: str | None) -> DataFrame:
    """The rows with Spark's watermark on their event time, unless the DataFrame has one already.

    `zone` is that of event times without one, or None if they are in UTC.
    """
    if event_time in _watermark_columns(frame):
        return frame
    kind = frame.schema[event_time].dataType
    wait = f"{delay or 0} microseconds"
    if isinstance(kind, TimestampType):
        return frame.withWatermark(_quote(event_time), wait)
    derived = free_name(_DERIVED, frame.columns)
    if zone is not None:
        frame, event_time = frame.withColumn(derived, in_utc(event_time, zone)), derived
    return frame.withColumn(derived, as_timestamp(event_time, kind)).withWatermark(derived, wait)


def in_utc(name: str, zone: str) -> Any:
    """An event time of a clock in a zone, converted to UTC; gaps and folds as in `cql.zones`."""
    return F.convert_timezone(F.lit(zone), F.lit("UTC"), F.col(_quote(name)))


def as_timestamp(name: str, kind: Any) -> Any:
    """An event time as a timestamp, for types that Spark's watermark does not accept."""
    quoted = _quote(name)
    if isinstance(kind, IntegralType):
        return F.timestamp_micros(F.col(quoted).cast("bigint"))
    assert isinstance(kind, TimestampNTZType)
    # Taken as UTC, whatever the session's time zone is; a cast would go by that, with a gap and a fold every year.
    day = F.unix_date(F.to_date(F.col(quoted))).cast("bigint") * 86_400_000_000
    time = F.expr(f"(hour({quoted}) * 3600 + minute({quoted}) * 60) * 1000000L")
    seconds = F.expr(f"CAST(extract(SECOND FROM {quoted}) * 1000000 AS BIGINT)")
    return F.timestamp_micros(day + time + seconds)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
