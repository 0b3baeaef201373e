"""What may follow a join in the same query, and what Spark refuses there."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.spark.compat import plan_of_frame
from midstream.spark.hosts.pool import host_folder
from midstream.spark.reports.totals import operators_in

from . import streams
from .streams import LONG, SECOND, Input

WINDOWS: dict[str, int | None] = {"a": 3 * SECOND, "b": 4 * SECOND}
ROWS = [[(v % 4, v, v * SECOND // 2) for v in range(12 * number, 12 * number + 12)] for number in range(2)]
GIVEN = Input({"a": ROWS, "b": ROWS[::-1]})
EXPECTED = streams.expect(GIVEN, WINDOWS).rows


@pytest.fixture(scope="module")
def frames(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return GIVEN.frames(spark, tmp_path_factory.mktemp("in"))


@pytest.fixture
def joined(frames: dict[str, Any]) -> Any:
    return ms.spark.sql(streams.join_text(WINDOWS), frames, "ts", LONG, partitions=2)


def test_filter_select_and_a_join_with_a_table(spark: Any, joined: Any, tmp_path: Path) -> None:
    names = spark.createDataFrame([(v, f"row {v}") for v in range(10)], "a_v bigint, name string")
    after = joined.filter("b_v % 2 = 0").join(names, "a_v").selectExpr("name", "a_v + b_v AS total", "valid_to")
    found = streams.run(after, tmp_path / "checkpoint").rows
    wanted = collections.Counter((f"row {a}", a + b, end) for a, b, _, end in EXPECTED if b % 2 == 0 and a < 10)
    assert found == wanted and wanted


def test_file_sink(spark: Any, joined: Any, tmp_path: Path) -> None:
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.outputMode("append").trigger(availableNow=True).start(str(tmp_path / "out"))
    query.awaitTermination()
    assert streams.rows_of(spark.read.parquet(str(tmp_path / "out")).toArrow()) == EXPECTED


def test_two_writes_of_a_batch(joined: Any, tmp_path: Path) -> None:
    """With `persist` the join runs once; without it Spark runs the whole batch for every write."""
    first, second = streams.StreamRun(), streams.StreamRun()

    def write(frame: Any, number: int) -> None:
        frame.persist()
        streams.collector(first)(frame.filter("a_v % 2 = 0"), number)
        streams.collector(second)(frame.filter("a_v % 2 = 1"), number)
        frame.unpersist()

    query = joined.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    assert first.rows + second.rows == EXPECTED
    places = [
        report["place"] for progress in query.recentProgress[1:] for report in ms.spark.cell_reports(progress).values()
    ]
    assert set(places) <= {"host"}, "a batch that is run twice finds its host elsewhere"


def test_a_batch_that_is_asked_for_in_another_thread(joined: Any, tmp_path: Path) -> None:
    """There tasks do not tell which query they belong to; their hosts are found all the same."""
    ran = streams.StreamRun()

    def write(frame: Any, number: int) -> None:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(streams.collector(ran), frame, number).result()

    query = joined.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    assert ran.rows == EXPECTED
    places = [[report["place"] for report in ms.spark.cell_reports(told).values()] for told in query.recentProgress]
    assert set(places[0]) == {"loaded"} and {place for told in places[1:] for place in told} == {"host"}


def test_a_batch_join_inside_foreach_batch(frames: dict[str, Any], tmp_path: Path) -> None:
    """A join of batch DataFrames has nothing to do with the query around it, and leaves no host to it."""
    table = GIVEN.table([row for rows in ROWS for row in rows])
    found: dict[int, streams.Rows] = {}

    def join(frame: Any, number: int) -> None:
        # The DataFrame of a batch has a session of its own.
        both = {"a": frame, "b": frame.sparkSession.createDataFrame(table)}
        result = ms.spark.sql(streams.join_text(WINDOWS), both, "ts", partitions=1)
        (operator,) = operators_in(plan_of_frame(result))
        found[number] = streams.rows_of(result.toArrow())
        assert not list(host_folder().glob(f"*-{operator}-*"))

    query = frames["a"].writeStream.foreachBatch(join).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sum(found.values(), collections.Counter()) == EXPECTED


def test_an_aggregate_is_refused(joined: Any, tmp_path: Path) -> None:
    """No watermark is left after a join, and without one Spark appends no aggregate."""
    from pyspark.errors import AnalysisException

    writer = joined.groupBy("a_v").count().writeStream.format("noop").outputMode("append")
    with pytest.raises(AnalysisException, match="without watermark"):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()


@pytest.mark.slow
def test_a_function_may_pass_over_a_batch_that_it_computes(spark: Any, tmp_path: Path) -> None:
    """Spark asks that all of a batch is computed, not that anybody takes it."""
    rows = [(at % 3, at, at * SECOND) for at in range(12)]
    windows = {"a": 5 * SECOND, "b": 5 * SECOND}
    given = Input({"a": [rows[:6], rows[6:]], "b": [rows, []]})
    joined = ms.spark.sql(streams.join_text(windows), given.frames(spark, tmp_path), "ts", LONG, partitions=2)
    passed: list[int] = []

    def take(batch: Any, number: int) -> None:
        passed.append(number)
        batch.write.format("noop").mode("overwrite").save()

    writer = joined.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None and len(passed) > 1
