"""What `query` takes beside the text: schemas, event times, delays, durations in their several forms."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql import Query, query
from midstream.cql.durations import Duration, duration, duration_text, parse_signed_duration
from midstream.errors import QueryError

SCHEMA = pa.schema({"id": pa.int64(), "ts": pa.timestamp("ms", "UTC")})
TEXT = "SELECT a.id FROM s [RANGE 5 SECONDS] a, s [RANGE 1 MINUTE] b WHERE a.id = b.id"


def make_query(**arguments: object) -> Query:
    return query(TEXT, **{"schemas": {"s": SCHEMA}, "event_time": "ts", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, 0),
        ("0 s", 0),
        ("INTERVAL '1' MINUTE", 60_000_000),
        ({"s": datetime.timedelta(microseconds=7)}, 7),
        (datetime.timedelta(seconds=2), 2_000_000),
        ("1 minute 30 seconds", 90_000_000),
        ({"S": "500 ms"}, 500_000),
        ({}, 0),
    ],
)
def test_delays(delay: object, expected: int) -> None:
    assert make_query(delay=delay).delays == {"s": expected}


@pytest.mark.parametrize(
    "delay",
    [
        *(None, 30, 1.5, math.nan, True, [5], 2**63, datetime.timedelta(-1)),
        *("30", "soon", "", "-1 s", "99999999999999 weeks"),
        *({"s": 1}, {"t": 0}, {"s": 0, "S": 0}),
    ],
)
def test_bad_delays(delay: object) -> None:
    with pytest.raises(QueryError, match=r"^query: delay"):
        make_query(delay=delay)


def test_a_stream_under_two_aliases_is_pushed_once() -> None:
    found = make_query()
    assert (found.aliases, found.streams, found.tables) == (("a", "b"), ("s",), ())
    assert [relation.window.kind.value for relation in found.inputs] == ["range"] * 2
    assert found.output_schema.names == ["id", "valid_from", "valid_to"]
    assert found.time_type == pa.timestamp("us", "UTC")


def test_the_text_is_a_string() -> None:
    with pytest.raises(QueryError, match="give a string"):
        query(b"SELECT 1", {"s": SCHEMA}, "ts")  # type: ignore[arg-type]


def test_schemas_are_schemas() -> None:
    with pytest.raises(QueryError, match="the schema of 's' is int; give a pyarrow schema, a dict of columns with"):
        make_query(schemas={"s": 3})
    with pytest.raises(QueryError, match="schemas is list; give a dict with a schema for each name in FROM"):
        make_query(schemas=[SCHEMA])


def test_an_event_time_is_a_name() -> None:
    with pytest.raises(QueryError, match="give a column's name"):
        make_query(event_time={"s": 3})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_any_unit_of_timestamps(unit: str) -> None:
    schema = pa.schema({"id": pa.int64(), "ts": pa.timestamp(unit)})
    assert make_query(schemas={"s": schema}).time_type == pa.timestamp("us")


@pytest.mark.parametrize("type", [pa.date32(), pa.int32(), pa.uint64(), pa.string(), pa.time64("us"), pa.float64()])
def test_other_types_of_event_time_are_refused(type: pa.DataType) -> None:
    with pytest.raises(QueryError, match="it must be a timestamp or int64 microseconds"):
        make_query(schemas={"s": pa.schema({"id": pa.int64(), "ts": type})})


@pytest.mark.parametrize("value", [1, 999, 1_000, 60_000_000, 90_000_000, 604_800_000_000, -5_000_000])
def test_a_duration_is_read_back_from_its_text(value: int) -> None:
    assert parse_signed_duration(duration_text(value)) == value


@pytest.mark.parametrize(
    "number", [30, -5, 1.5, 2**70, pytest.param(10**5000, id="huge"), np.int64(3), np.float32(0.5)]
)
def test_a_number_alone_is_no_duration(number: float) -> None:
    with pytest.raises(QueryError, match="has no unit; write text such as '30 seconds', or give a timedelta"):
        duration(number)  # type: ignore[arg-type]
    with pytest.raises(ms.EngineError, match=r"engine: max_jump: .* has no unit"):
        ms.Engine(make_query(), max_jump=number)  # type: ignore[arg-type]


@pytest.mark.parametrize("nothing", [0, 0.0, np.int64(0), "0 seconds", datetime.timedelta()])
def test_zero_needs_no_unit(nothing: Duration) -> None:
    assert duration(nothing) == 0


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("7us", "7 µs", "7 usecs", "7 microseconds", "INTERVAL '7' MICROSECONDS"), 7),
        (("500ms", "500 msec", "0.5s", "interval 500 milliseconds"), 500_000),
        (("30s", "30 sec", "30 SECS", "30 seconds", "+30 second", "INTERVAL '30 sec'"), 30_000_000),
        (("5min", "5 min", "5 mins", "5 Minutes", "INTERVAL 5 MINUTE", "INTERVAL '5' MINUTE"), 300_000_000),
        (("1h", "1 hr", "1hrs", "60 min", "INTERVAL '1' HOUR", "INTERVAL '30 minutes 30' MINUTES"), 3_600_000_000),
        (("90 min", "1h30min", "1 hour 30 minutes", "INTERVAL '1 hour 30 minutes'", "INTERVAL 1 HOUR 30 MIN"), 5.4e9),
        (("2d", "2 D", "48 hours"), 172_800_000_000),
        (("1w", "1 week", "7 days"), 604_800_000_000),
    ],
)
def test_durations_as_people_write_them(texts: tuple[str, ...], expected: int) -> None:
    for text in texts:
        assert duration(text) == expected, text
        window = query(TEXT.replace("5 SECONDS", text), {"s": SCHEMA}, "ts").inputs[0].window
        assert window.size == expected, text


@pytest.mark.parametrize(
    "text",
    [
        "INTERVAL",
        "INTERVAL '1'",
        "INTERVAL '1 minute",
        "'1' minute",
        "1 interval",
        "5m",
        "1 month",
        "2 years",
        "1",
        "minutes",
        "1 minute and 3",
        "0.1 us",
        "1e3 s",
        "1,5 s",
    ],
)
def test_texts_that_are_no_durations(text: str) -> None:
    with pytest.raises(QueryError):
        duration(text)


GROUPED = "SELECT id, count(*) AS n FROM s [RANGE 50 SECONDS] GROUP BY id"


@pytest.mark.parametrize(
    ("step", "expected", "is_given"),
    [
        (None, 5_000_000, False),
        ("5 s", 5_000_000, True),
        ("INTERVAL '1' MINUTE", 60_000_000, True),
        (datetime.timedelta(milliseconds=7), 7_000, True),
    ],
)
def test_steps(step: Duration | None, expected: int, is_given: bool) -> None:
    found = query(GROUPED, {"s": SCHEMA}, "ts", step=step)
    assert (found.step, found.step_is_given) == (expected, is_given)
    assert (make_query().step, make_query().step_is_given) == (None, False)


@pytest.mark.parametrize(
    "step",
    [0, 30, 1.5, math.nan, True, [5], 2**70, datetime.timedelta(-1), datetime.timedelta(microseconds=1), "", "m"],
)
def test_bad_steps(step: object) -> None:
    for text in (GROUPED, TEXT):
        with pytest.raises(QueryError, match=r"^query: step.*; "):
            query(text, {"s": SCHEMA}, "ts", step=step)  # type: ignore[arg-type]


def told_of(caplog: pytest.LogCaptureFixture, text: str, step: str | None = None) -> list[str]:
    caplog.clear()
    schema = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us")})
    query(text, {"a": schema, "b": schema}, "ts", step=step)
    return [record.getMessage() for record in caplog.records]


def test_a_long_step_that_nobody_asked_for_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A tenth of a long window is long to wait for results."""
    text = "SELECT count(*) AS n FROM a [RANGE 1 HOUR], b [RANGE 1 DAY] WHERE a.k = b.k"
    (told,) = told_of(caplog, text)
    assert told == (
        "midstream: results go out in steps of 144 minutes, a tenth of [RANGE 1 DAY] of 'b', and wait until the "
        "watermark has passed the end of their step; to get them sooner, give a step, such as step='1 minute'"
    )
    assert told_of(caplog, text, "1 minute") == told_of(caplog, text, "3 hours") == []
    assert told_of(caplog, text.replace("1 DAY", "9 HOURS")) == []
    assert "step='53 minutes'" in told_of(caplog, text.replace("1 DAY", "52 WEEKS"))[0]
    assert told_of(caplog, text.replace("52 WEEKS", "1 DAY"), "53 minutes") == []
    assert told_of(caplog, text.replace("RANGE", "TUMBLE")) == [], "a bucket is to be waited for"
    assert told_of(caplog, text.replace("count(*) AS n", "a.k")) == [], "a plain join has no step"
