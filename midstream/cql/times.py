"""Event time: which column of each stream has it, of what kind it is, and how much delay is allowed.

All streams of a query tell time in one kind: timestamps of any unit, or int64 microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from midstream.cql.durations import Duration, duration
from midstream.cql.names import find_spellings, list_names
from midstream.cql.sources import Entry
from midstream.cql.syntax import Source
from midstream.cql.zones import check_zone
from midstream.errors import QueryError, did_you_mean
from midstream.tables import type_name

EventTime = str | Mapping[str, str] | None
Delay = Duration | Mapping[str, Duration]


@dataclass(frozen=True)
class Times:
    """The event time column of each source that is a stream, the type of time in results, the allowed delays.

    `assumed_zones` has the streams whose event times have no zone: for each column the zone in which it is read.
    """

    columns: dict[str, str]
    type: pa.DataType
    delays: dict[str, int]
    assumed_zones: dict[str, dict[str, str]]


def read_times(
    source: Source,
    entries: tuple[Entry, ...],
    schemas: Mapping[str, pa.Schema],
    event_time: EventTime,
    delay: Delay,
    assume_zone: str | None,
) -> Times:
    """Event times and delays of the streams in FROM."""
    if event_time is not None and not isinstance(event_time, str | Mapping):
        right = "give a column's name, or a dict with one for each stream"
        raise QueryError(f"query: event_time is {type_name(event_time)}; {right}")
    given = _per_stream(event_time, schemas, "event_time") if isinstance(event_time, Mapping) else None
    columns: dict[str, str] = {}
    types: dict[str, pa.DataType] = {}
    for entry in entries:
        if entry.window.is_static:
            if given is not None and entry.source in given:
                what = f"'{entry.source}' has an event time, so it is a stream, but no window"
                right = f"write {entry.source} [UNBOUNDED] or another window"
                raise source.error(entry.node, what, right)
            continue
        named = event_time if isinstance(event_time, str) else (given or {}).get(entry.source)
        if named is None:
            what = f"no event time is given for stream '{entry.source}'"
            right = f"every stream needs one: give event_time='column' or event_time={{'{entry.source}': 'column'}}"
            raise source.error(entry.node, what, right)
        columns[entry.source], types[entry.source] = _column(source, entry, schemas[entry.source], named)
    _check_roles(source, entries)
    first = next(entry for entry in entries if entry.source in types)
    for entry in entries:
        if entry.source in types and _kind(types[entry.source]) != _kind(types[first.source]):
            what = (
                f"event time of '{entry.source}' is {_kind(types[entry.source])}, "
                f"but of '{first.source}' {_kind(types[first.source])}"
            )
            raise source.error(entry.node, what, "all streams of a query need one kind")
    _check_zones(source, entries, types, assume_zone)
    zones = {}
    if assume_zone is not None:
        zones = {stream: {column: assume_zone} for stream, column in columns.items() if _is_plain(types[stream])}
    type = types[first.source]
    zone = None if pa.types.is_integer(type) else assume_zone if first.source in zones else type.tz
    time_type = pa.int64() if pa.types.is_integer(type) else pa.timestamp("us", zone)
    return Times(columns, time_type, _delays(delay, columns, schemas), zones)


def with_zones(schemas: Mapping[str, pa.Schema], zones: Mapping[str, Mapping[str, str]]) -> dict[str, pa.Schema]:
    """The schemas with the assumed zones in the types of their columns."""
    found = dict(schemas)
    for stream, columns in zones.items():
        for column, zone in columns.items():
            place = found[stream].get_field_index(column)
            field = found[stream].field(place)
            found[stream] = found[stream].set(place, field.with_type(pa.timestamp(field.type.unit, zone)))
    return found


def _is_plain(type: pa.DataType) -> bool:
    return pa.types.is_timestamp(type) and type.tz is None


def _check_zones(
    source: Source, entries: tuple[Entry, ...], types: Mapping[str, pa.DataType], assume_zone: str | None
) -> None:
    """Refuse a mixture of times with and without a zone without `assume_zone`, and an `assume_zone` without use."""
    plain = [entry for entry in entries if entry.source in types and _is_plain(types[entry.source])]
    if assume_zone is not None:
        check_zone(assume_zone)
        if not plain:
            raise QueryError(
                f"query: assume_zone={assume_zone!r} says how to read times without a zone, but no stream has such "
                "event times; leave it out"
            )
        return
    zoned = [entry for entry in entries if entry.source in types and entry not in plain]
    if plain and zoned:
        zone = types[zoned[0].source].tz
        what = f"event time of '{plain[0].source}' has no time zone, but that of '{zoned[0].source}' has ({zone})"
        right = f"say in which zone the times without one are, such as assume_zone='{zone}'"
        raise source.error(plain[0].node, what, right)


def _column(source: Source, entry: Entry, schema: pa.Schema, named: object) -> tuple[str, pa.DataType]:
    if not isinstance(named, str):
        raise source.error(entry.node, f"the event time of '{entry.source}' is {named!r}", "give a column's name")
    found = find_spellings(named, schema.names)
    if len(found) != 1:
        what = f"event time column '{named}' {'is ambiguous' if found else 'is not'} in stream '{entry.source}'"
        hint = "" if found else did_you_mean(named, schema.names)
        raise source.error(entry.node, what, f"{hint}columns of {entry.source}: {list_names(schema.names)}")
    type = schema.field(found[0]).type
    if not pa.types.is_timestamp(type) and type != pa.int64():
        what = f"event time '{found[0]}' of stream '{entry.source}' is {type}"
        raise source.error(entry.node, what, "it must be a timestamp or int64 microseconds")
    return found[0], type


def _check_roles(source: Source, entries: tuple[Entry, ...]) -> None:
    streams = {entry.source for entry in entries if not entry.window.is_static}
    for entry in entries:
        if entry.window.is_static and entry.source in streams:
            what = f"'{entry.source}' is a stream elsewhere in FROM, but has no window here"
            raise source.error(entry.node, what, f"write {entry.source} [UNBOUNDED] or another window")


def _kind(type: pa.DataType) -> str:
    return "int64" if pa.types.is_integer(type) else "a timestamp"


def _per_stream(given: Mapping[str, object], schemas: Mapping[str, pa.Schema], what: str) -> dict[str, object]:
    """A mapping by stream, with the schemas' spelling of the names."""
    result: dict[str, object] = {}
    for name, value in given.items():
        found = find_spellings(str(name), schemas)
        if len(found) != 1:
            hint = did_you_mean(name, schemas)
            raise QueryError(
                f"query: {what} names an unknown stream '{name}'; {hint}streams given: {list_names(schemas)}"
            )
        if found[0] in result:
            raise QueryError(f"query: {what} names stream '{found[0]}' twice; give it once")
        result[found[0]] = value
    return result


def _delays(delay: Delay, streams: Mapping[str, str], schemas: Mapping[str, pa.Schema]) -> dict[str, int]:
    given: Mapping[str, object] = (
        _per_stream(delay, schemas, "delay") if isinstance(delay, Mapping) else dict.fromkeys(streams, delay)
    )
    result = {}
    for name in streams:
        try:
            result[name] = duration(given.get(name, 0))  # type: ignore[arg-type]
        except QueryError as error:
            raise QueryError(f"query: delay of stream '{name}': {error}") from None
    return result
