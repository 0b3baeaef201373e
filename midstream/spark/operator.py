"""Streaming DataFrames -> one streaming DataFrame: the plan that Spark runs for a join.

::

    each source:  watermark -> needed columns -> mapInArrow (pack by cell)
    all:          union -> groupBy(cell) -> transformWithState (one engine per cell) -> observe -> mapInArrow (unpack)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import IntegralType, TimestampNTZType, TimestampType

from midstream.errors import SparkError
from midstream.spark.cells import cell_number
from midstream.spark.packing import PACKED_DDL, RESULT_DDL, opener, packer
from midstream.spark.processor import JoinProcessor
from midstream.spark.progress import OBSERVATION, column_of
from midstream.spark.spec import JoinSpec

_WATERMARK_KEY = "spark.watermarkDelayMs"
_DERIVED = "midstream_event_time"

DataFrame = Any


def schema_of(name: str, frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a DataFrame's columns."""
    try:
        return to_arrow_schema(frame.schema, timezone="UTC")
    except Exception as problem:
        raise SparkError(f"streams: the columns of {name!r} have no Arrow type; {problem}") from problem


def joined(spec: JoinSpec, frames: Mapping[str, DataFrame], delays: Mapping[str, str]) -> DataFrame:
    """The results of a join as a DataFrame."""
    packed = None
    for source in dict.fromkeys(one.source for one in spec.query.inputs):
        one = _packed(spec, source, frames[source], delays.get(source))
        packed = one if packed is None else packed.union(one)
    assert packed is not None
    results = packed.groupBy("cell").transformWithState(JoinProcessor(spec), RESULT_DDL, "Append", "EventTime")
    reports = [
        F.max(F.when(F.col("cell") == cell_number(cell), F.col("report"))).alias(column_of(cell))
        for cell in range(spec.cells)
    ]
    observed = results.observe(f"{OBSERVATION}_{spec.operator}", *reports)
    schema = spec.query.output_schema
    spark_schema = from_arrow_schema(schema)
    return observed.mapInArrow(opener(to_arrow_schema(spark_schema, timezone="UTC")), spark_schema)


def _packed(spec: JoinSpec, source: str, frame: DataFrame, delay: str | None) -> DataFrame:
    """A source's rows as parcels."""
    event_time = spec.event_time[source]
    needed = {name for lane in spec.routing.lanes if lane.source == source for name in _read(spec, lane)}
    columns = [F.col(_quoted(name)) for name in frame.columns if name in needed]
    if frame.isStreaming:
        frame = with_watermark(frame, source, event_time, delay)
    return frame.select(*columns).mapInArrow(packer(spec, source), PACKED_DDL)


def _read(spec: JoinSpec, lane: Any) -> set[str]:
    """The columns that are read to filter and route, and those that travel."""
    from midstream.query.model import columns_of

    read = [*lane.filters, *(step.key for step in lane.steps if step.key is not None)]
    return {*lane.columns, *lane.keys, *(column.name for expr in read for column in columns_of(expr))}


def with_watermark(frame: DataFrame, source: str, event_time: str, delay: str | None) -> DataFrame:
    """The rows with Spark's watermark on their event time, unless the DataFrame has one already."""
    kind = frame.schema[event_time].dataType
    marked = [field.name for field in frame.schema.fields if _WATERMARK_KEY in (field.metadata or {})]
    if marked:
        if isinstance(kind, TimestampType) and event_time not in marked:
            raise SparkError(
                f"streams: {source!r} has a watermark on {marked[0]!r}, but its event time is {event_time!r}; "
                "put the watermark on the event time, or leave it to delay="
            )
        if delay is not None:
            raise SparkError(
                f"streams: {source!r} has a watermark already, and Spark takes only one; leave {source!r} out of delay="
            )
        return frame
    wait = delay or "0 seconds"
    if isinstance(kind, TimestampType):
        return frame.withWatermark(event_time, wait)
    return frame.withColumn(_DERIVED, as_timestamp(event_time, kind)).withWatermark(_DERIVED, wait)


def as_timestamp(name: str, kind: Any) -> Any:
    """The moment of an event time that Spark does not take for a watermark itself."""
    quoted = _quoted(name)
    if isinstance(kind, IntegralType):
        return F.timestamp_micros(F.col(quoted).cast("bigint"))
    assert isinstance(kind, TimestampNTZType)
    # Taken as UTC, whatever the session's time zone is; a cast would go by that, with a gap and a fold every year.
    day = F.unix_date(F.to_date(F.col(quoted))).cast("bigint") * 86_400_000_000
    time = F.expr(f"(hour({quoted}) * 3600 + minute({quoted}) * 60) * 1000000L")
    seconds = F.expr(f"CAST(extract(SECOND FROM {quoted}) * 1000000 AS BIGINT)")
    return F.timestamp_micros(day + time + seconds)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
