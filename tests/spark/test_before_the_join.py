"""Spark's own stateful operators before a join: aggregation, deduplication, stream-stream joins.

They hand over rows that are older than the watermark of the batch in which they do so. What they give is computed here
by their definition, batch by batch, from the watermarks that Spark had, and the join of it by the oracle.
"""

from __future__ import annotations

import collections
import random
from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark

from . import streams
from .streams import SECOND, Input, StreamRun

TUMBLE = 5 * SECOND
WINDOWS: dict[str, int | None] = {"a": 8 * SECOND, "b": 12 * SECOND}
TEXT = streams.join_text(WINDOWS)
Batches = list[list[tuple[Any, Any, int | None]]]


def rows_in_batches(seed: int, count: int = 5, size: int = 40) -> Batches:
    """Ten seconds a batch, a few rows out of order, some of them late."""
    rng = random.Random(seed)
    numbers = iter(range(1_000 * seed, 1_000 * seed + count * size))
    return [
        [
            (
                rng.randrange(4),
                next(numbers),
                100 * SECOND + (10 * at + rng.randrange(10)) * SECOND - rng.choice([0] * 8 + [20, 60]) * SECOND,
            )
            for _ in range(size)
        ]
        for at in range(count)
    ]


def drop_late(batches: Batches, ran: StreamRun) -> Batches:
    """The rows that an operator of Spark takes, in so many batches as there were: later than the watermark before."""
    marks = [0, *(mark or 0 for mark in ran.watermarks)]
    taken = [[row for row in rows if row[2] is not None and row[2] > marks[at]] for at, rows in enumerate(batches)]
    return taken + [[] for _ in range(len(ran.progress) - len(batches))]


def count_per_window(batches: Batches, ran: StreamRun) -> Batches:
    """Rows per key and window of five seconds, in the batch whose watermark closes the window."""
    open_windows: collections.Counter[tuple[int, int]] = collections.Counter()
    marks = [0, *(mark or 0 for mark in ran.watermarks)]
    given: Batches = []
    for at, mark in enumerate(marks[1:]):
        for key, _, ts in batches[at] if at < len(batches) else ():
            assert ts is not None
            end = ts // TUMBLE * TUMBLE + TUMBLE
            if end > marks[at]:
                open_windows[key, end] += 1
        closed = [window for window in open_windows if window[1] <= mark]
        given.append([(key, open_windows.pop((key, end)), end - 1) for key, end in closed])
    return given


def check(ran: StreamRun, a: Batches, b: Batches, late: int = 0) -> None:
    """The join of what stream a gave and of b, each batch judged by the watermark of the cells in the batch before."""
    marks = [
        next((report["wm"] * 1000 for report in reports.values() if report["wm"] is not None), None)
        for reports in ran.reports()
    ]
    expected = streams.expect(Input({"a": a, "b": b}), WINDOWS, marks)
    streams.check(ran, expected)
    assert ran.total("late") == expected.late >= late
    assert len(expected.rows) > 50


@pytest.mark.slow
@pytest.mark.versions
def test_aggregation(spark: Any, tmp_path: Path) -> None:
    """Counts of windows beside rows, and counts on both sides; late rows everywhere."""
    import pyspark.sql.functions as F

    a, b = rows_in_batches(1), rows_in_batches(2)

    def counts(frame: Any) -> Any:
        grouped = frame.withWatermark("ts", "3 seconds").groupBy(F.window("ts", "5 seconds"), "k")
        return grouped.count().select("k", F.col("count").alias("v"), F.window_time("window").alias("ts"))

    inputs = Input({"a": a, "b": b}).frames(spark, tmp_path)
    counting = ms.spark.sql(TEXT, {"a": counts(inputs["a"]), "b": inputs["b"]}, "ts", {"b": "3 seconds"}, partitions=2)
    both = ms.spark.sql(TEXT, {name: counts(frame) for name, frame in inputs.items()}, "ts", partitions=3)
    ran = streams.run_all({"one": (counting, tmp_path / "one"), "both": (both, tmp_path / "both")})
    check(ran["one"], count_per_window(a, ran["one"]), b, late=1)
    assert {tuple(report["reached"]) for reports in ran["one"].reports() for report in reports.values()} == {("b",)}
    check(ran["both"], count_per_window(a, ran["both"]), count_per_window(b, ran["both"]))
    assert ran["both"].total("late") == 0


@pytest.mark.slow
def test_deduplication(spark: Any, tmp_path: Path) -> None:
    """Every row comes twice, the second time one batch later, some of them too late."""
    a, b = rows_in_batches(3), rows_in_batches(4)
    twice = [[*rows, *(a[at - 1] if at else [])] for at, rows in enumerate(a)]
    inputs = Input({"a": twice, "b": b}).frames(spark, tmp_path)
    marked = inputs["a"].withWatermark("ts", "3 seconds")
    frames = {
        "plain": marked.dropDuplicates(["v", "ts"]),
        "within": inputs["a"].withWatermark("ts", "30 seconds").dropDuplicatesWithinWatermark(["v"]),
    }
    joined = {
        name: ms.spark.sql(TEXT, {"a": frame, "b": inputs["b"]}, "ts", {"b": "3 seconds"}, partitions=2)
        for name, frame in frames.items()
    }
    ran = streams.run_all({name: (frame, tmp_path / name) for name, frame in joined.items()})
    for name in joined:
        seen: set[int] = set()
        given: Batches = []
        for rows in drop_late(twice, ran[name]):
            given.append([row for row in rows if row[1] not in seen])
            seen |= {row[1] for row in rows}
        check(ran[name], given, b)


@pytest.mark.parametrize("how", ["inner", pytest.param("left_outer", marks=pytest.mark.slow)])
def test_stream_stream_join(spark: Any, tmp_path: Path, how: str) -> None:
    """The rows of a join of Spark are as old as its condition lets them be, and its watermark waits for them."""
    import pyspark.sql.functions as F

    p, q, b = rows_in_batches(5), rows_in_batches(6), rows_in_batches(7)
    inputs = Input({"p": p, "q": q, "b": b}).frames(spark, tmp_path)
    other = (
        inputs["q"].selectExpr("k AS other_k", "v AS other_v", "ts AS other_ts").withWatermark("other_ts", "1 second")
    )
    condition = F.expr("k = other_k AND other_ts BETWEEN ts AND ts + INTERVAL 15 SECONDS AND other_v % 7 = v % 7")
    pairs = inputs["p"].withWatermark("ts", "1 second").join(other, condition, how)
    rows = pairs.selectExpr("k", "v * 100000 + coalesce(other_v, 0) AS v", "ts")
    joined = ms.spark.sql(TEXT, {"a": rows, "b": inputs["b"]}, "ts", {"b": "1 second"}, partitions=2)
    ran = streams.run(joined, tmp_path / "checkpoint")
    check(ran, pair_rows(p, q, ran, how), b, late=1)
    assert "a" not in {name for reports in ran.reports() for report in reports.values() for name in report["late"]}


def pair_rows(p: Batches, q: Batches, ran: StreamRun, how: str) -> Batches:
    """What Spark's join gives in each batch: pairs when their second row comes, single rows when they can have none."""
    left, right = drop_late(p, ran), drop_late(q, ran)
    given: Batches = [[] for _ in left]
    for place, rows in enumerate(left):
        for key, value, ts in rows:
            assert ts is not None
            found = [
                (max(place, at), other)
                for at, others in enumerate(right)
                for other_key, other, other_ts in others
                if other_key == key and ts <= (other_ts or 0) <= ts + 15 * SECOND and other % 7 == value % 7
            ]
            for at, other in found:
                given[at].append((key, value * 100_000 + other, ts))
            if not found and how == "left_outer":
                closing = [
                    at for at, mark in enumerate(ran.watermarks) if at >= place and ts + 15 * SECOND < (mark or 0)
                ]
                if closing:
                    given[closing[0]].append((key, value * 100_000, ts))
    return given


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inputs(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return Input({"a": rows_in_batches(1, 1), "b": rows_in_batches(2, 1)}).frames(spark, tmp_path_factory.mktemp("in"))


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        (["CAST(ts AS timestamp_ntz) AS ts", "ts AS at"], " on 'at'"),
        (["unix_micros(ts) AS ts", "ts AS at"], " on 'at'"),
        (["ts + INTERVAL 1 HOUR AS ts"], ""),
        (["unix_micros(ts) AS ts"], ""),
    ],
)
def test_a_watermark_on_another_column(inputs: dict[str, Any], changed: list[str], place: str) -> None:
    """Also where the column that it is on has gone: Spark would stop when the watermark moves."""
    marked = inputs["a"].withWatermark("ts", "3 seconds").selectExpr("k", "v", *changed)
    other = inputs["b"].selectExpr("k", "v", *[column for column in changed if column.endswith(" ts")])
    with pytest.raises(ms.SparkError, match=f"'a' has a watermark{place}, but its event time is 'ts', and Spark takes"):
        ms.spark.sql(TEXT, {"a": marked, "b": other}, "ts", partitions=1)


@pytest.mark.parametrize("edge", ["start", "end"])
def test_the_start_or_end_of_a_window_as_event_time(inputs: dict[str, Any], edge: str) -> None:
    import pyspark.sql.functions as F

    grouped = inputs["a"].withWatermark("ts", "3 seconds").groupBy(F.window("ts", "5 seconds"), "k").count()
    counts = grouped.selectExpr("k", "count AS v", f"window.{edge} AS ts")
    with pytest.raises(ms.SparkError, match=r"after groupBy\(window\(\.\.\.\)\) take window_time\(window\)"):
        ms.spark.sql(TEXT, {"a": counts, "b": inputs["b"]}, "ts", partitions=1)


def test_the_results_of_another_join(inputs: dict[str, Any]) -> None:
    first = ms.spark.sql(TEXT, inputs, "ts", partitions=1).selectExpr("a_v AS k", "b_v AS v", "valid_from AS ts")
    with pytest.raises(ms.SparkError, match="'a' has a watermark, but its event time is 'ts'"):
        ms.spark.sql(TEXT, {"a": first, "b": inputs["b"]}, "ts", partitions=1)


def test_the_largest_watermark_of_the_streams(spark: Any, inputs: dict[str, Any]) -> None:
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    spark.conf.set(policy, "max")
    try:
        with pytest.raises(ms.SparkError, match=f"{policy} is max, but a join needs the smallest of its streams'"):
            ms.spark.sql(TEXT, inputs, "ts", partitions=1)
    finally:
        spark.conf.unset(policy)
