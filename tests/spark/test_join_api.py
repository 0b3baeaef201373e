"""What `sql` and `join` take, and what they refuse before anything runs."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark
from midstream.spark.join_text import JoinText

from . import streams
from .streams import NUMBER, SECOND, Input

WINDOWS: dict[str, int | None] = {"a": 4 * SECOND, "b": 4 * SECOND}
TEXT = streams.join_text(WINDOWS)
ROWS = [(k, k * 10 + at, at * SECOND) for k in range(4) for at in range(6)]


@pytest.fixture(scope="module")
def frames(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return Input({"a": [ROWS[::2], ROWS[1::2]], "b": [ROWS[3:], ROWS[:3]]}).frames(spark, tmp_path_factory.mktemp("in"))


def watermarks(frame: Any) -> list[str]:
    """The watermarks in a frame's plan."""
    plan = frame._jdf.queryExecution().analyzed().toString()
    return [line.partition("EventTimeWatermark")[2] for line in plan.splitlines() if "EventTimeWatermark" in line]


# What `join` writes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "within", "select", "text"),
    [
        ("id", "10 minutes", ["*"], "SELECT * FROM o [RANGE 10 MINUTES], p [RANGE 10 MINUTES] WHERE o.id = p.id"),
        (
            ["o.id = p.order_id", "p.amount > 10 OR p.rush"],
            {"o": "1 hour", "p": "5 seconds"},
            ["o.id", "p.amount AS paid"],
            "SELECT o.id, p.amount AS paid FROM o [RANGE 1 HOUR], p [RANGE 5 SECONDS] "
            "WHERE (o.id = p.order_id) AND (p.amount > 10 OR p.rush)",
        ),
        ("o.id = p.id", "1 day", ["o.id"], "SELECT o.id FROM o [RANGE 1 DAY], p [RANGE 1 DAY] WHERE o.id = p.id"),
    ],
)
def test_the_query_of_a_join(on: Any, within: Any, select: list[str], text: str) -> None:
    assert JoinText({"o": 0, "p": 0}, on, within, select).text == text


def test_joins_that_cannot_be_written() -> None:
    with pytest.raises(ms.SparkError, match="join: give at least two streams"):
        JoinText({"o": 0}, "id", "1 hour", ["*"])
    with pytest.raises(ms.SparkError, match=r"join: no window for stream 'p'; give within=\{'p': '10 minutes'\}"):
        JoinText({"o": 0, "p": 0}, "id", {"o": "1 hour"}, ["*"])
    with pytest.raises(ms.SparkError, match="join: within names an unknown stream 'q'; streams: o, p"):
        JoinText({"o": 0, "p": 0}, "id", {"o": "1 hour", "p": "1 hour", "q": "1 hour"}, ["*"])


SCHEMAS = {"o": {"id": int, "ts": int}, "p": {"order_id": int, "amount": float, "ts": int}}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a column of on": (
        {"on": ["o.id = p.oder_id", "p.amount > 10"]},
        r"^join: unknown column 'oder_id' in on='o.id = p.oder_id'; did you mean 'order_id'\? columns of p: order_id",
    ),
    "a column that not all have": ({"on": "id"}, "^join: unknown column 'id' in on='id'; columns of p: order_id"),
    "a stream of on": ({"on": "o.id = q.id"}, "^join: unknown alias 'q' in on='o.id = q.id'; aliases in FROM: o, p"),
    "a column of select": (
        {"select": ["o.id", "p.amont"]},
        r"^join: unknown column 'amont' in select='p.amont'; did you",
    ),
    "a syntax error": ({"on": ["o.id = p.order_id", "p.amount >"]}, r"^join: .* in on='p.amount >'"),
    "a parenthesis": ({"on": ["o.id = p.order_id", "(p.amount > 1"]}, r"^join: '\)' is missing"),
    "no connection": ({"on": ["o.id > 1"]}, r"^join: no predicate connects \(o\) and \(p\); add a condition to on=$"),
    "a window": ({"within": "10 minuts"}, "^join: within of stream 'o': 'minuts' is not a unit of fixed length"),
    "a window without unit": ({"within": {"o": "1 h", "p": 60}}, "^join: within of stream 'p': 60 has no unit; write"),
    "nothing selected": ({"select": []}, r"^join: select=\[\]; give text or a list of texts"),
    "a number of conditions": ({"on": 5}, "^join: on=5; give text or a list of texts"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_speak_of_the_arguments(name: str) -> None:
    given, message = WRONG[name]
    arguments = {"on": "o.id = p.order_id", "within": "1 hour", "select": ["*"], **given}
    with pytest.raises(ms.MidstreamError, match=message) as caught:
        _understand(arguments)
    assert "line 1" not in str(caught.value)


def _understand(arguments: dict[str, Any]) -> None:
    """What `join` does without DataFrames."""
    written = JoinText({"o": 0, "p": 0}, **arguments)
    try:
        ms.query(written.text, SCHEMAS, "ts")
    except ms.QueryError as problem:
        raise written.explained(problem) from None


def test_windows_as_a_timedelta_and_names_that_need_quotes() -> None:
    written = JoinText({"my orders": 0, "p": 0}, "id", datetime.timedelta(minutes=90), "p.id")
    assert written.text == (
        "SELECT p.id FROM `my orders` [RANGE 90 MINUTES], p [RANGE 90 MINUTES] WHERE `my orders`.id = p.id"
    )


def test_a_join_without_text_and_inside_transform(spark: Any, frames: dict[str, Any], tmp_path: Path) -> None:
    """`transform` hands over one DataFrame; the others come from outside."""
    joined = frames["a"].transform(
        lambda a: ms.spark.join({"a": a, "b": frames["b"]}, on="k", within="4 seconds", event_time="ts", delay="1 day")
    )
    assert joined.isStreaming
    assert joined.columns == ["a_k", "a_v", "a_ts", "b_k", "b_v", "b_ts", "valid_from", "valid_to"]
    ran = streams.run(joined.select("a_v", "b_v", "valid_from", "valid_to"), tmp_path / "checkpoint")
    streams.check(ran, streams.expect(Input({"a": [ROWS[::2], ROWS[1::2]], "b": [ROWS[3:], ROWS[:3]]}), WINDOWS))


# Event times and delays ----------------------------------------------------------------------------------------------


def test_event_time_and_delay_of_each_stream(frames: dict[str, Any]) -> None:
    both = {"a": frames["a"], "b": frames["b"].withColumnRenamed("ts", "at")}
    frame = ms.spark.sql(TEXT, both, {"a": "ts", "b": "at"}, {"a": "3 seconds", "b": "2 minutes"}, partitions=1)
    told = watermarks(frame)
    assert len(told) == 2 and "ts" in told[0] and "3 seconds" in told[0] and "at" in told[1] and "2 minutes" in told[1]
    assert "0 seconds" in watermarks(ms.spark.sql(TEXT, frames, "ts", partitions=1))[0]


def test_names_match_without_regard_to_case(frames: dict[str, Any]) -> None:
    both = {"A": frames["a"].withColumnRenamed("ts", "Ts"), "B": frames["b"]}
    frame = ms.spark.sql(TEXT, both, "TS", {"a": "3 seconds", "b": "9 seconds"}, partitions=1)
    assert frame.columns == ["a_v", "b_v", "valid_from", "valid_to"]
    assert ["3 seconds" in watermark for watermark in watermarks(frame)] == [True, False]


def test_columns_with_odd_names(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"a key": [1, 2], "v.v": [1, 2], "t`s": pa.array([0, SECOND], NUMBER)})
    for name in WINDOWS:
        streams.write(tmp_path / name, [table])
    inputs = {name: streams.stream(spark, tmp_path / name) for name in WINDOWS}
    text = 'SELECT a."v.v" AS x, b."v.v" AS y FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a."a key" = b."a key"'
    ran = streams.run(ms.spark.sql(text, inputs, "t`s", "1 day", partitions=1), tmp_path / "checkpoint")
    hour = 3600 * SECOND
    assert ran.rows == {(1, 1, 0, hour): 1, (2, 2, SECOND, SECOND + hour): 1}


def test_a_watermark_that_is_there_is_kept(frames: dict[str, Any]) -> None:
    marked = {"a": frames["a"].withWatermark("ts", "77 seconds"), "b": frames["b"]}
    told = watermarks(ms.spark.sql(TEXT, marked, "ts", {"b": "5 seconds"}, partitions=1))
    assert len(told) == 2 and "1 minutes 17 seconds" in told[0] and "5 seconds" in told[1]
    with pytest.raises(ms.SparkError, match="'a' has a watermark already, and Spark takes only one; leave 'a' out"):
        ms.spark.sql(TEXT, marked, "ts", "5 seconds", partitions=1)
    other = {"a": frames["a"].withColumn("at", frames["a"].ts).withWatermark("at", "1 second"), "b": frames["b"]}
    with pytest.raises(ms.SparkError, match="'a' has a watermark on 'at', but its event time is 'ts', and Spark"):
        ms.spark.sql(TEXT, other, "ts", partitions=1)


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partitions": 0}, "is not a number of partitions"),
        ({"partitions": -3}, "is not a number of partitions"),
        ({"partitions": "2"}, "is not a number of partitions"),
        ({"strategy": "magic"}, "strategy: unknown strategy 'magic'; strategies: jisc"),
        ({"plan": "(a q)"}, "q"),
        ({"plan": "((a"}, "plan"),
        ({"schedule": [(0, "(a a)")]}, "a"),
        (
            {"schedule": [(0, "(b a)")], "strategy": "staged"},
            "schedule: staged moves entries of STAIRs.*Use jisc",
        ),
        ({"rates": {"q": 1}}, "rates: unknown stream 'q'"),
        ({"rates": {"a": 0}}, "is not a rate"),
        ({"hot_keys": {"a.v": [1]}}, "hot_keys"),
        ({"delay": {"q": "1 second"}}, "delay: unknown stream 'q'; streams: a, b"),
        ({"delay": "soon"}, "delay: .*soon.*is not a duration"),
        ({"delay": "-5 seconds"}, "delay: "),
        ({"delay": {"a": "1 month"}}, "delay of 'a': 'month' is not a unit of fixed length"),
        ({"event_time": "when"}, "when"),
        ({"event_time": "v"}, None),
        ({"event_time": {"a": "ts"}}, "b"),
        ({"event_time": {"a": "ts", "b": "ts", "q": "ts"}}, "q"),
        ({"host_idle": "later"}, "host_idle|duration"),
        ({"memory_limit": "1KB"}, "memory_limit='1KB' is below the least, 1,000,000 bytes"),
        ({"memory_limit": "1GB", "executor": "eddy"}, "executor 'eddy' cannot give up what it keeps"),
        ({"demand": "onn"}, "engine: demand='onn' is not available; did you mean 'on'\\? use 'off' or 'on' or 'auto'"),
        ({"demand": False}, "engine: demand=False is not available; use 'off' or 'on' or 'auto'"),
        ({"overload": "shed"}, "overload: 'shed' is for embedded engines: Spark stores rows before a cell sees them"),
    ],
)
def test_options_that_cannot_work(frames: dict[str, Any], options: dict[str, Any], told: str | None) -> None:
    settings: dict[str, Any] = {"event_time": "ts", "partitions": 2, **options}
    if told is None:
        assert ms.spark.sql(TEXT, frames, **settings).schema["valid_to"].dataType.typeName() == "long"
        return
    with pytest.raises(ms.MidstreamError, match=told):
        ms.spark.sql(TEXT, frames, **settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT", "query: "),
        (TEXT.replace("b [", "q ["), "unknown stream 'q'"),
        (TEXT.replace("a.k", "a.q"), "'q'"),
        (
            TEXT.replace("b [RANGE 4000000 MICROSECONDS]", "b"),
            "'b' is a streaming DataFrame and has no window; give it one",
        ),
        (TEXT.replace("[RANGE 4000000 MICROSECONDS]", "[ROWS 3]"), "give partitions=1"),
    ],
)
def test_queries_that_cannot_work(frames: dict[str, Any], text: str, told: str) -> None:
    with pytest.raises(ms.MidstreamError, match=told):
        ms.spark.sql(text, frames, "ts", partitions=2)


def test_steps(frames: dict[str, Any]) -> None:
    """A step in any form; with `join`, too, where the query has one."""
    buckets = TEXT.replace("RANGE 4000000 MICROSECONDS", "TUMBLE 4 SECONDS")
    for step in (None, "8 seconds", datetime.timedelta(seconds=12)):
        assert ms.spark.sql(buckets, frames, "ts", partitions=2, step=step).columns[-1] == "valid_to"
    assert "steps of 12 seconds" in ms.spark.explain(
        buckets, frames, "ts", partitions=2, step=datetime.timedelta(seconds=12)
    )
    options: dict[str, Any] = {"on": "k", "within": "4 seconds", "event_time": "ts", "partitions": 2}
    assert ms.spark.join(frames, select="DISTINCT a.k", **options).columns == ["k", "valid_from", "valid_to"]
    assert ms.spark.join(frames, select=["count(*) AS n"], step="1 second", **options).columns[0] == "n"
    for step, told in (("6 seconds", "is not a multiple of"), ("0 seconds", "at least 1"), ("soon", "not a duration")):
        with pytest.raises(ms.QueryError, match=f"query: step.*{told}"):
            ms.spark.sql(buckets, frames, "ts", partitions=2, step=step)
    with pytest.raises(ms.QueryError, match="step='1 minute' is of no use: results of a plain join go out at once"):
        ms.spark.sql(TEXT, frames, "ts", partitions=2, step="1 minute")


def test_set_operations(frames: dict[str, Any]) -> None:
    """They have plans of their own, and are refused where the embedded engine refuses them."""
    for operation, word in (("UNION ALL", "union"), ("EXCEPT", "minus")):
        options: dict[str, Any] = {"event_time": "ts", "partitions": 2, "plan": f"((b a) {word} (a_2 b_2))"}
        united = ms.spark.sql(f"{TEXT} {operation} {TEXT}", frames, **options)
        assert united.columns == ms.spark.sql(TEXT, frames, "ts", partitions=2).columns
        with pytest.raises(ms.PlanError, match="does not fit the set operations of the query"):
            ms.spark.sql(f"{TEXT} {operation} {TEXT}", frames, **options | {"plan": "((b a) intersect (a_2 b_2))"})
    with pytest.raises(ms.QueryError, match="EXCEPT of 2 columns with 1 column"):
        ms.spark.sql("SELECT k, v FROM a [RANGE 1 HOUR] EXCEPT SELECT k FROM b [RANGE 1 HOUR]", frames, "ts")


def test_frames_that_do_not_fit(spark: Any, frames: dict[str, Any]) -> None:
    with pytest.raises(ms.SparkError, match="streams: give a DataFrame for each stream of the query"):
        ms.spark.sql(TEXT, {}, "ts")
    with pytest.raises(ms.SparkError, match="'b' is a batch DataFrame with a window, beside streaming ones; use"):
        ms.spark.sql(TEXT, {"a": frames["a"], "b": spark.createDataFrame(Input({}).table(ROWS))}, "ts", partitions=1)
    other = spark.newSession().createDataFrame(Input({}).table(ROWS))
    with pytest.raises(ms.SparkError, match="of different sessions; make all in one session"):
        ms.spark.sql(TEXT, {"a": spark.createDataFrame(Input({}).table(ROWS)), "b": other}, "ts", partitions=1)
    numbers = frames["b"].withColumn("ts", frames["b"].v)
    with pytest.raises(ms.MidstreamError, match="event time"):
        ms.spark.sql(TEXT, {"a": frames["a"], "b": numbers}, "ts", partitions=1)


def test_a_stream_that_the_query_does_not_use_is_left_alone(spark: Any, frames: dict[str, Any]) -> None:
    more = {**frames, "c": spark.createDataFrame([(1,)], "x int")}
    assert ms.spark.sql(TEXT, more, {"a": "ts", "b": "ts"}, partitions=1).isStreaming


def test_where_rows_would_go(frames: dict[str, Any]) -> None:
    told = ms.spark.explain(TEXT, frames, "ts", partitions=4)
    assert told.startswith("4 cells") and "a.k = b.k (int64)      4" in told
