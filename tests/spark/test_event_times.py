"""Event times of every kind, at the places where they are easily got wrong: 0, before 1970, at the watermark, null."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark

from . import streams
from .conftest import ZONE
from .streams import NUMBER, PLAIN, SECOND, ZONED, Input

WINDOWS: dict[str, int | None] = {"a": 4 * SECOND, "b": 6 * SECOND}
#: In New York 2024-11-03 06:00 UTC is the second time that it is one o'clock.
FOLD = 1_730_613_600 * SECOND
#: 2024-03-10 02:30, which New York does not have.
GAP = 1_710_037_800 * SECOND
BEFORE = -1_000_000 * SECOND


def rows_around(moment: int) -> Input:
    """Four batches. With a delay of two seconds the third is judged by `moment`, the fourth by a second more."""

    def batch(*times: int | None) -> list[tuple[Any, Any, int | None]]:
        return [(place % 2, place * 100 + number, ts) for place in range(4) for number, ts in enumerate(times)]

    at = moment
    first = batch(at - SECOND, at, at + 2 * SECOND, None)
    second = batch(at + 3 * SECOND, None)
    third = batch(at - 1, at, at + 1, at - 1_000)
    fourth = batch(at + SECOND - 1, at + SECOND, at + 9 * SECOND)
    all_of_a = [first, second, third, fourth]
    return Input({"a": all_of_a, "b": [[(k, v + 1_000, ts) for k, v, ts in rows] for rows in all_of_a]})


CASES = {
    "zoned, fold": (ZONED, FOLD),
    "without zone, gap": (PLAIN, GAP),
    "without zone, before 1970": (PLAIN, BEFORE),
    "number, at 0": (NUMBER, 0),
    "zoned, at 0": (ZONED, 0),
    "number": (NUMBER, FOLD),
}


def check_cases(spark: Any, folder: Path, names: list[str]) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == ZONE
    given, frames = {}, {}
    for name in names:
        time, moment = CASES[name]
        given[name] = Input(rows_around(moment).batches, time)
        # The values are in a column that is called what Spark's watermark is put on where it is not `ts` itself.
        inputs = {
            stream: frame.withColumnRenamed("v", "midstream_event_time")
            for stream, frame in given[name].frames(spark, folder / name).items()
        }
        text = streams.join_text(WINDOWS).replace(".v", ".midstream_event_time")
        joined = ms.spark.sql(text, inputs, "ts", "2 seconds", partitions=1)
        assert joined.schema["valid_from"].dataType == inputs["a"].schema["ts"].dataType
        frames[name] = joined, folder / name / "checkpoint"
    for name, ran in streams.run_all(frames).items():
        _, moment = CASES[name]
        expected = streams.expect(given[name], WINDOWS, ran.watermarks)
        streams.check(ran, expected)
        assert ran.watermarks[:2] == [None, moment if moment > 0 else None], name
        assert ran.total("late") == expected.late, name
        assert (expected.late > 0) == (moment >= 0), name
        assert ran.total("rejected") == expected.rejected == 16, name
        assert expected.rows, name


@pytest.mark.slow
@pytest.mark.versions
def test_zoned_and_plain_times_where_the_session_has_a_fold_or_gap(spark: Any, tmp_path: Path) -> None:
    check_cases(spark, tmp_path, ["zoned, fold", "without zone, gap"])


@pytest.mark.versions
def test_numbers_at_0_and_times_before_1970(spark: Any, tmp_path: Path) -> None:
    check_cases(spark, tmp_path, ["number, at 0", "without zone, before 1970"])


@pytest.mark.slow
def test_further_event_times(spark: Any, tmp_path: Path) -> None:
    check_cases(spark, tmp_path, ["zoned, at 0", "number"])


@pytest.mark.versions
def test_plain_times_become_moments_of_utc(spark: Any, tmp_path: Path) -> None:
    """What Spark gets for its watermark, in a session whose zone has gaps and folds."""
    from pyspark.sql.types import ShortType, TimestampNTZType

    from midstream.spark.operator import as_timestamp

    times = [
        0,
        -1,
        1,
        BEFORE - 1,
        GAP,
        GAP + 123_456,
        FOLD,
        FOLD - 3600 * SECOND,
        -(2**53),
        59_999_999,
        -62_135_596_800 * SECOND,
    ]
    table = pa.table({"n": times, "t": pa.array(times, PLAIN), "s": pa.array(range(len(times)), pa.int16())})
    streams.write(tmp_path / "times", [table])
    frame = spark.read.parquet(str(tmp_path / "times"))
    assert isinstance(frame.schema["t"].dataType, TimestampNTZType)
    found = frame.select(
        as_timestamp("t", frame.schema["t"].dataType).alias("t"), as_timestamp("s", ShortType()).alias("s"), "n"
    ).selectExpr("unix_micros(t) AS t", "unix_micros(s) AS s", "n")
    for place, row in enumerate(found.collect()):
        assert (row.t, row.s) == (row.n, place)


BERLIN = "Europe/Berlin"
#: What clocks in Berlin show around the hour that they skip, and around the one that they show twice.
CLOCK = [(at + minutes * 60) * SECOND for at in (1_774_751_400, 1_792_895_400) for minutes in range(-150, 151, 25)]
CLOCK_TEXT = "SELECT a.n AS a, b.n AS b FROM a [RANGE 20 MINUTES], b [RANGE 20 MINUTES] WHERE a.k = b.k"


@pytest.mark.versions
def test_a_clock_beside_instants(spark: Any, tmp_path: Path) -> None:
    """Times without a zone are read in the one that was given, not in that of the session."""
    from pyspark.sql import functions as F

    from midstream.cql.zones import instants
    from midstream.spark.operator import as_timestamp, in_utc

    numbers = list(range(len(CLOCK)))
    shown = pa.array(CLOCK, PLAIN)
    real = instants(shown, BERLIN).cast(ZONED)
    tables = {
        "a": pa.table({"n": numbers, "k": [number % 2 for number in numbers], "ts": shown}),
        "b": pa.table({"n": numbers, "k": [number % 2 for number in numbers], "ts": real}),
    }
    for name, table in tables.items():
        streams.write(tmp_path / name, [table.slice(0, 13), table.slice(13)])
    frames = {name: streams.stream(spark, tmp_path / name) for name in tables}
    with pytest.raises(ms.QueryError, match=r"event time of 'a' has no time zone.*assume_zone='UTC'"):
        ms.spark.sql(CLOCK_TEXT, frames, "ts", "1 day", partitions=2)
    joined = ms.spark.sql(CLOCK_TEXT, frames, "ts", "1 day", partitions=2, assume_zone=BERLIN)
    ran = streams.run(joined, tmp_path / "checkpoint")
    query = ms.query(CLOCK_TEXT, {name: table.schema for name, table in tables.items()}, "ts", assume_zone=BERLIN)
    expected = ms.Engine(query).push(tables)
    assert ran.rows == streams.rows_of(expected)
    assert expected.num_rows > len(numbers)
    assert ran.watermarks[1] == max(real.cast(pa.int64()).to_pylist()[:13]) - 24 * 3600 * SECOND

    read = spark.read.parquet(str(tmp_path / "a")).withColumn("utc", in_utc("ts", BERLIN))
    moment = as_timestamp("utc", read.schema["utc"].dataType)
    found = dict(read.select("n", F.unix_micros(moment)).collect())
    assert [found[number] for number in numbers] == real.cast(pa.int64()).to_pylist()
