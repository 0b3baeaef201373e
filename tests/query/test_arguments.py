"""What `query` takes beside the text: schemas, event times, delays, durations in their several forms."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from midstream.errors import QueryError
from midstream.query import Query, WindowKind, query
from midstream.query.durations import duration, duration_text

SCHEMA = pa.schema({"id": pa.int64(), "ts": pa.timestamp("ms", "UTC")})
TEXT = "SELECT a.id FROM s [RANGE 5 SECONDS] a, s [RANGE 1 MINUTE] b WHERE a.id = b.id"


def made(**arguments: object) -> Query:
    return query(TEXT, **{"schemas": {"s": SCHEMA}, "event_time": "ts", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, 0),
        (1_500, 1_500),
        (datetime.timedelta(seconds=2), 2_000_000),
        ("1 minute 30 seconds", 90_000_000),
        ({"S": "500 ms"}, 500_000),
        ({}, 0),
    ],
)
def test_delays(delay: object, expected: int) -> None:
    assert made(delay=delay).delays == {"s": expected}


@pytest.mark.parametrize("delay", [None, 1.5, True, "soon", "", -1, {"s": -1}, {"t": 1}, {"s": 1, "S": 2}, 2**63])
def test_bad_delays(delay: object) -> None:
    with pytest.raises(QueryError, match=r"^query: delay"):
        made(delay=delay)


def test_a_stream_under_two_aliases_is_pushed_once() -> None:
    found = made()
    assert (found.aliases, found.streams, found.tables) == (("a", "b"), ("s",), ())
    assert [one.window.kind for one in found.inputs] == [WindowKind.RANGE] * 2
    assert found.output_schema.names == ["id", "valid_from", "valid_to"]
    assert found.time_type == pa.timestamp("us", "UTC")


def test_the_text_is_a_string() -> None:
    with pytest.raises(QueryError, match="give a string"):
        query(b"SELECT 1", {"s": SCHEMA}, "ts")  # type: ignore[arg-type]


def test_schemas_are_schemas() -> None:
    with pytest.raises(QueryError, match=r"the schema of 's' is dict; give a pyarrow\.Schema"):
        made(schemas={"s": {"id": "int64"}})


def test_an_event_time_is_a_name() -> None:
    with pytest.raises(QueryError, match="give a column's name"):
        made(event_time={"s": 3})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_any_unit_of_timestamps(unit: str) -> None:
    assert made(schemas={"s": pa.schema({"id": pa.int64(), "ts": pa.timestamp(unit)})}).time_type == pa.timestamp("us")


@pytest.mark.parametrize("type", [pa.date32(), pa.int32(), pa.uint64(), pa.string(), pa.time64("us"), pa.float64()])
def test_other_types_of_event_time_are_refused(type: pa.DataType) -> None:
    with pytest.raises(QueryError, match="it must be a timestamp or int64 microseconds"):
        made(schemas={"s": pa.schema({"id": pa.int64(), "ts": type})})


@pytest.mark.parametrize("value", [1, 999, 1_000, 60_000_000, 90_000_000, 604_800_000_000, -5_000_000])
def test_a_duration_is_read_back_from_its_text(value: int) -> None:
    assert duration(duration_text(value)) == value


@pytest.mark.parametrize("text", ["1 month", "2 years", "1", "minutes", "1 minute and 3", "0.1 us", "1e3 s", "1,5 s"])
def test_texts_that_are_no_durations(text: str) -> None:
    with pytest.raises(QueryError):
        duration(text)
