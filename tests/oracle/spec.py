"""What a test case is: a query, its input, plans, and a description that the oracles read instead of the text."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import types

from .expr import Expr, Value

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

Watermark = int | dict[str, int] | None

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Window:
    """`kind` is range, tumble, rows, unbounded or static; `size` is rows for rows, else microseconds."""

    kind: str
    size: int = 0


@dataclass(frozen=True)
class Row:
    """A row of a stream (or static table). `id` is its place in the whole input; tables have ids below zero."""

    id: int
    source: str
    values: dict[str, Value] = field(hash=False)


@dataclass(frozen=True)
class Source:
    """A stream or a static table; `delay` is the allowed delay in microseconds."""

    name: str
    schema: pa.Schema
    event_time: str | None
    delay: int = 0
    table_rows: tuple[Row, ...] = ()

    @property
    def is_static(self) -> bool:
        return self.event_time is None


@dataclass(frozen=True)
class Input:
    """One entry of FROM."""

    alias: str
    source: str
    window: Window
    filters: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Output:
    name: str
    expr: Expr


@dataclass(frozen=True)
class Push:
    """Rows in the order in which they stand in their streams' tables, and the watermark given with them."""

    rows: tuple[Row, ...]
    watermark: Watermark = None


@dataclass(frozen=True)
class Case:
    """`predicates` are the conjuncts over two or more inputs. `free` says that no way of cutting makes a row late.

    `max_jump` is that of the engine, in microseconds. `shape` is what was asked of the generator, as options of the
    command line that replays the case. `clocks` are the streams that are pushed without a zone, see `clocks`.
    """

    seed: int
    kind: str
    text: str
    sources: dict[str, Source]
    inputs: tuple[Input, ...]
    predicates: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    pushes: tuple[Push, ...]
    plans: tuple[str, ...]
    zone: str | None
    time_is_int: bool
    free: bool
    max_jump: int | None = None
    shape: str = ""
    clocks: tuple[str, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams in the order of FROM, each once."""
        return tuple(
            dict.fromkeys(relation.source for relation in self.inputs if not self.sources[relation.source].is_static)
        )

    @property
    def has_rows_windows(self) -> bool:
        return any(relation.window.kind == "rows" for relation in self.inputs)

    @property
    def time_type(self) -> pa.DataType:
        return pa.int64() if self.time_is_int else pa.timestamp("us", self.zone)

    def with_pushes(self, pushes: Iterable[Push]) -> Case:
        return dataclasses.replace(self, pushes=tuple(pushes))

    def with_feed(self, pushes: Iterable[Push], free: bool, max_jump: int | None) -> Case:
        return dataclasses.replace(self, pushes=tuple(pushes), free=free, max_jump=max_jump)

    def with_plans(self, plans: Iterable[str], shape: str = "") -> Case:
        return dataclasses.replace(self, plans=tuple(plans), shape=shape)

    def query_arguments(self) -> dict[str, Any]:
        """The keyword arguments of `ms.query`."""
        times = {name: self.sources[name].event_time for name in self.streams}
        delays = {name: f"{self.sources[name].delay} microseconds" for name in self.streams}
        one_time, one_delay = len(set(times.values())) == 1, len(set(delays.values())) == 1
        zone = {"assume_zone": self.zone} if set(self.clocks) & set(self.streams) else {}
        return {
            "schemas": {name: self.pushed_schema(name) for name in self.sources},
            "event_time": next(iter(times.values())) if one_time else times,
            "delay": next(iter(delays.values())) if one_delay else delays,
            **zone,
        }

    def pushed_schema(self, name: str) -> pa.Schema:
        """The schema of a source as the engine is told it."""
        source = self.sources[name]
        if name not in self.clocks:
            return source.schema
        place = source.schema.get_field_index(source.event_time)
        field = source.schema.field(place)
        return source.schema.set(place, field.with_type(pa.timestamp(field.type.unit)))

    def tables(self) -> dict[str, pa.Table]:
        """The static tables."""
        return {s.name: table_of(s, s.table_rows) for s in self.sources.values() if s.is_static}


def to_microseconds(value: Value, type_: pa.DataType) -> int | None:
    """Event time inside the engine: an integer of microseconds; nanoseconds are cut."""
    if value is None:
        return None
    if type_ == pa.int64():
        return int(value)
    return int(value // 1000 if type_.unit == "ns" else value)


def clock_value(value: Value, type_: pa.DataType, zone: str) -> Value:
    """What a clock in a zone shows at an instant, in the unit that the oracle has it in."""
    if value is None:
        return None
    moment = to_microseconds(value, type_)
    assert moment is not None
    offset = (EPOCH + moment * MICROSECOND).astimezone(ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return value + offset // MICROSECOND * (1000 if type_.unit == "ns" else 1)


def array_of(values: Sequence[Value], type_: pa.DataType) -> pa.Array:
    """An Arrow array of oracle values (timestamps are integers of microseconds, or of nanoseconds if the type is)."""
    if types.is_timestamp(type_) and type_.unit != "ns":
        size = MICROSECONDS[type_.unit]
        values = [None if value is None else value // size for value in values]
    return pa.array(values, type_)


def table_of(source: Source, rows: Iterable[Row], schema: pa.Schema | None = None) -> pa.Table:
    """The rows as a table of the source's schema."""
    schema = schema or source.schema
    listed = list(rows)
    arrays = [array_of([row.values[column.name] for row in listed], column.type) for column in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def push_tables(case: Case, push: Push) -> dict[str, pa.Table]:
    """A push as `engine.push` takes it: a table for each stream that has rows in it."""
    by_stream: dict[str, list[Row]] = {}
    for row in push.rows:
        by_stream.setdefault(row.source, []).append(row)
    return {name: pushed_table(case, name, rows) for name, rows in by_stream.items()}


def pushed_table(case: Case, name: str, rows: Sequence[Row]) -> pa.Table:
    """Rows of a stream as they are pushed: with what a clock shows, if the stream is one."""
    if name in case.clocks:
        column = str(case.sources[name].event_time)
        type_ = case.sources[name].schema.field(column).type
        shown = [clock_value(row.values[column], type_, str(case.zone)) for row in rows]
        rows = [
            dataclasses.replace(row, values={**row.values, column: value})
            for row, value in zip(rows, shown, strict=True)
        ]
    return table_of(case.sources[name], rows, case.pushed_schema(name))
