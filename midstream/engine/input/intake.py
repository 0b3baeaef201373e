"""A push -> accepted rows, or a refusal. Nothing of the engine changes here."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from midstream.cql.model import Query
from midstream.cql.names import free_name
from midstream.cql.plain import plain_type
from midstream.cql.zones import instants
from midstream.engine.input.arrivals import InputReader
from midstream.engine.input.batch import StreamRows
from midstream.engine.input.binding import TableBinding
from midstream.engine.input.casting import CAST_ERRORS, cast_in_pieces, cast_without_loss
from midstream.engine.input.computed_text import find_computed_text
from midstream.engine.input.event_time import LATE, Judgement, judge
from midstream.engine.input.watermark import Watermark
from midstream.errors import InputError, did_you_mean, shown
from midstream.kernels.types import LARGEST
from midstream.state.arrow import chunks_of
from midstream.state.sizes import wide_type
from midstream.tables import ARROW_TABLES, NotATable, TableLike, as_table, type_name

WatermarkLike: TypeAlias = int | datetime.datetime
Given = TypeVar("Given")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Intake:
    """A checked push: accepted rows, largest event times, and refused rows with their reason, by stream."""

    accepted: dict[str, StreamRows]
    maxima: dict[str, int]
    refused: dict[str, dict[str, int]]
    refused_rows: dict[str, pa.Table]
    watermark: int | dict[str, int] | None

    @property
    def late(self) -> dict[str, int]:
        return {stream: reasons[LATE] for stream, reasons in self.refused.items() if LATE in reasons}


class Receiver:
    """Checks pushes of one query."""

    def __init__(self, query: Query, readers: Sequence[InputReader], max_jump: int | None, keeps_refused: bool):
        self._query = query
        self._max_jump = max_jump
        self._keeps_refused = keeps_refused
        self._names = {name.casefold(): name for name in query.streams}
        self._declared = {stream: query.declared_schema(stream) for stream in query.streams}
        texts = find_computed_text(query)
        self._event_times: dict[str, str] = {}
        self._bindings: dict[str, TableBinding] = {}
        for stream in query.streams:
            numbers = [number for number, relation in enumerate(query.inputs) if relation.source == stream]
            event_time = query.inputs[numbers[0]].event_time
            assert event_time is not None
            needed = dict.fromkeys([event_time, *(name for number in numbers for name in readers[number].needed)])
            self._event_times[stream] = event_time
            zones = query.assumed_zones.get(stream)
            self._bindings[stream] = TableBinding(
                stream, query.schemas[stream], tuple(needed), zones, texts.get(stream, ())
            )

    def receive(
        self,
        data: Mapping[str, TableLike],
        watermark: WatermarkLike | Mapping[str, WatermarkLike] | None,
        watermarks: Watermark,
    ) -> Intake:
        """Check a push against what the streams have watermarks."""
        given = self._given(watermark)
        watermarks.check(given)
        accepted: dict[str, StreamRows] = {}
        maxima: dict[str, int] = {}
        refused: dict[str, dict[str, int]] = {}
        rows: dict[str, pa.Table] = {}
        tables = self._by_stream(self._entries(data))
        for stream, binding in self._bindings.items():
            if stream not in tables:
                continue
            table = tables[stream]
            if not isinstance(table, ARROW_TABLES):
                table = _to_table(f"push: {stream!r}", table, self._declared[stream])
            columns = binding.columns(table)
            latest = self._find_latest(stream, watermarks)
            judged = judge(columns[self._event_times[stream]], watermarks.current, latest)
            accepted[stream] = _take_accepted(columns, binding.large, judged)
            if judged.newest is not None:
                maxima[stream] = judged.newest
            if judged.refused:
                refused[stream] = {reason: int(np.count_nonzero(mask)) for reason, mask in judged.refused.items()}
                if self._keeps_refused:
                    rows[stream] = _refused_rows(table, self._declared[stream], judged)
        return Intake(accepted, maxima, refused, rows, given)

    def _find_latest(self, stream: str, watermarks: Watermark) -> int | None:
        """The largest event time that a row of a stream may have now, if that is limited.

        It goes by the rows of earlier pushes. Those of one push are not compared with each other, so that their order
        does not matter.
        """
        if self._max_jump is None:
            return None
        newest = watermarks.maxima.get(stream, max(watermarks.maxima.values(), default=None))
        if newest is None or newest > LARGEST - self._max_jump:
            return None
        return newest + self._max_jump

    def _entries(self, data: Mapping[str, TableLike]) -> list[tuple[str, TableLike]]:
        if not isinstance(data, Mapping):
            raise InputError(f"push: got {type(data).__name__}; give a mapping of stream names to tables")
        return list(data.items())

    def _by_stream(self, entries: list[tuple[str, Given]]) -> dict[str, Given]:
        """What was given, under the names that the query has for its streams; each may be given once."""
        named: dict[str, Given] = {}
        for name, value in entries:
            stream = self._stream(name)
            if stream in named:
                raise InputError(f"push: stream {stream!r} is given twice, under different spellings; give it once")
            named[stream] = value
        return named

    def _stream(self, name: str) -> str:
        stream = self._names.get(str(name).casefold())
        if stream is not None:
            return stream
        known = ", ".join(self._query.streams)
        if str(name).casefold() in (table.casefold() for table in self._query.tables):
            raise InputError(
                f"push: {name!r} is a static table, which is given once as Engine(query, tables=...); streams: {known}"
            )
        aliases = {relation.alias.casefold(): relation.source for relation in self._query.inputs}
        hint = aliases.get(str(name).casefold())
        note = f" ({name!r} is an alias of stream {hint!r}: rows are pushed under the stream's name)" if hint else ""
        meant = "" if hint else did_you_mean(name, self._query.streams)
        raise InputError(f"push: unknown stream {shown(name)}{note}; {meant}streams: {known}")

    def _given(self, watermark: WatermarkLike | Mapping[str, WatermarkLike] | None) -> int | dict[str, int] | None:
        if watermark is None:
            return None
        if isinstance(watermark, Mapping):
            return {stream: self.moment(value) for stream, value in self._by_stream(list(watermark.items())).items()}
        return self.moment(watermark)

    def moment(self, value: WatermarkLike, call: str = "push") -> int:
        """A given watermark in microseconds; without a zone it is read as event times without one are."""
        zones = [zone for columns in self._query.assumed_zones.values() for zone in columns.values()]
        return to_microseconds(value, call, zones[0] if zones else None)


def to_microseconds(value: WatermarkLike, call: str = "push", assumed_zone: str | None = None) -> int:
    """A moment in microseconds since 1970; a datetime without a zone is in the assumed one, or UTC."""
    if isinstance(value, datetime.datetime) and value == value:  # pandas' NaT is a datetime too
        moment = value if value.utcoffset() is not None else value.replace(tzinfo=datetime.timezone.utc)
        if assumed_zone is not None and moment is not value:
            return int(instants(pa.array([value], pa.timestamp("us")), assumed_zone).cast(pa.int64())[0].as_py())
        return int((moment - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and -(2**63) <= int(value) < 2**63:
        return int(value)
    raise InputError(f"{call}: watermark {shown(value)} is not a moment; give a datetime or int64 microseconds")


def _to_table(place: str, given: TableLike, schema: pa.Schema) -> pa.Table | pa.RecordBatch:
    try:
        return as_table(given, schema)
    except NotATable as problem:
        raise InputError(f"{place} {problem}") from problem.__cause__


def _take_accepted(columns: dict[str, pa.Array], large: Mapping[str, pa.DataType], judged: Judgement) -> StreamRows:
    if judged.taken is None:
        return StreamRows(judged.times, columns, large)
    chosen = pa.array(judged.taken)
    taken = {name: values.filter(chosen) for name, values in columns.items()}
    return StreamRows(judged.times[judged.taken], taken, large)


def _refused_rows(table: pa.Table | pa.RecordBatch, schema: pa.Schema, judged: Judgement) -> pa.Table:
    """The refused rows with the stream's own columns, as far as they were given, and the reason."""
    names = {name.casefold(): place for place, name in reversed(list(enumerate(table.schema.names)))}
    parts = []
    for reason, mask in judged.refused.items():
        columns = []
        for field in schema:
            wanted = plain_type(field.type)
            place = names.get(field.name.casefold())
            missing = pa.nulls(int(np.count_nonzero(mask)), wanted)
            try:
                columns.append(missing if place is None else _select(table.column(place), mask, wanted))
            except CAST_ERRORS:
                columns.append(missing)
        columns.append(pa.array([reason] * int(np.count_nonzero(mask)), pa.string()))
        parts.append(pa.table(columns, names=[*schema.names, free_name("reason", schema.names)]))
    return pa.concat_tables(parts)


def _select(column: pa.ChunkedArray | pa.Array, mask: NDArray[np.bool_], wanted: pa.DataType) -> pa.ChunkedArray:
    """The values of a column where a mask is set, in another type and in as many arrays as that needs."""
    parts: list[pa.Array] = []
    begin = 0
    for chunk in chunks_of(column):
        chosen = pa.array(mask[begin : begin + len(chunk)])
        parts += cast_in_pieces(cast_without_loss(chunk, wide_type(wanted)).filter(chosen), wanted)
        begin += len(chunk)
    return pa.chunked_array(parts, wanted)


def name_tables(query: Query, tables: Mapping[str, TableLike]) -> dict[str, pa.Table | pa.RecordBatch]:
    """The given static tables as Arrow, under the names that the query has for them."""
    if not isinstance(tables, Mapping):
        raise InputError(
            f"tables: got {type_name(tables)}; give a dict with a table for each static table of the query"
        )
    names = {name.casefold(): name for name in query.tables}
    named: dict[str, TableLike] = {}
    for name, table in tables.items():
        if not isinstance(name, str) or name.casefold() not in names:
            hint = did_you_mean(name, query.tables)
            raise InputError(
                f"tables: {shown(name)} is no static table of the query; "
                f"{hint}static tables: {', '.join(query.tables) or 'none'}"
            )
        if names[name.casefold()] in named:
            known = names[name.casefold()]
            raise InputError(f"tables: {known!r} is given twice, under different spellings; give it once")
        named[names[name.casefold()]] = table
    for name in query.tables:
        if name not in named:
            raise InputError(
                f"tables: static table {name!r} is missing; give it as Engine(query, tables={{{name!r}: ...}}), "
                "or give it a window such as [UNBOUNDED] if it is a stream"
            )
    return {name: _to_table(f"tables: {name!r}", table, query.schemas[name]) for name, table in named.items()}
