"""Static tables: batch DataFrames beside streaming ones, read once and kept in the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.errors import SparkError
from midstream.spark.reports.totals import Progress

from .streams import LONG, SECOND, Input, check, expect, run

TEXT = """
    SELECT a.v AS a_v, b.v AS b_v, n.label
    FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], names n
    WHERE a.k = b.k AND b.k = n.k
"""
ROWS = [[(at % 4, 10 * batch + at, (5 * batch + at) * SECOND) for at in range(6)] for batch in range(4)]
LABELS = {0: "zero", 1: "one", 2: "two"}


def names(spark: Any, labels: dict[int, str]) -> Any:
    return spark.createDataFrame(list(labels.items()), "k bigint, label string")


@pytest.mark.parametrize(("partitions", "demand"), [pytest.param(1, "off", marks=pytest.mark.slow), (2, "on")])
@pytest.mark.versions
def test_a_table_is_read_once_and_kept(spark: Any, tmp_path: Path, partitions: int, demand: str) -> None:
    first = Input({"a": ROWS[:2], "b": ROWS[:2]})
    frames = first.frames(spark, tmp_path)
    options = {"event_time": {"a": "ts", "b": "ts"}, "delay": LONG, "partitions": partitions, "demand": demand}
    joined = ms.spark.sql(TEXT, {**frames, "names": names(spark, LABELS)}, **options)
    begun = run(joined, tmp_path / "checkpoint")

    # After a restart the table that was read at the start counts, whatever is given now.
    Input({"a": ROWS[2:], "b": ROWS[2:]}).write(tmp_path, first=2)
    again = ms.spark.sql(TEXT, {**frames, "names": names(spark, {0: "other"})}, **options)
    gone_on = run(again, tmp_path / "checkpoint")

    expected = expect(Input({"a": ROWS, "b": ROWS}), {"a": 10 * SECOND, "b": 10 * SECOND})
    keys = {value: key for batch in ROWS for key, value, _ in batch}
    labelled = {
        (a, b, LABELS[keys[a]], begin, end): count
        for (a, b, begin, end), count in expected.rows.items()
        if keys[a] in LABELS
    }
    assert begun.rows + gone_on.rows == labelled
    assert len(labelled) > 20
    if demand == "on":
        without_label = [key for key, _, _ in ROWS[0] if key not in LABELS]
        assert Progress.of(begun.reports()[0]).demand["dropped"] == 2 * len(without_label) > 0


def test_a_table_in_a_batch_query(spark: Any, tmp_path: Path) -> None:
    together = [row for batch in ROWS for row in batch]
    given = Input({"a": [together], "b": [together]})
    given.write(tmp_path)
    frames = {name: spark.read.parquet(str(tmp_path / name)) for name in "ab"}
    rows = ms.spark.sql(TEXT, {**frames, "names": names(spark, LABELS)}, "ts").collect()
    expected = expect(given, {"a": 10 * SECOND, "b": 10 * SECOND})
    keys = {value: key for batch in ROWS for key, value, _ in batch}
    assert len(rows) == sum(count for (a, *_), count in expected.rows.items() if keys[a] in LABELS)


def test_a_table_beside_more_parcels_than_spark_hands_over_at_a_time(spark: Any, tmp_path: Path) -> None:
    """Each part of them would be taken for a batch of its own, and all but the last results be counted twice."""
    Input({"a": ROWS, "b": ROWS}).write(tmp_path)
    frames = {name: spark.read.parquet(str(tmp_path / name)) for name in "ab"}
    text = TEXT.replace("SELECT a.v AS a_v, b.v AS b_v, n.label", "SELECT n.label, count(*) AS n") + " GROUP BY n.label"
    joined = ms.spark.sql(text, {**frames, "names": names(spark, LABELS)}, "ts", step="1 minute")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1)
    try:
        with pytest.raises(Exception, match=r"than Spark hands over at a time; raise spark.sql.*maxRecordsPerBatch"):
            joined.collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_what_is_static_and_what_streams_must_not_be_mixed_up(spark: Any, tmp_path: Path) -> None:
    frames = Input({"a": ROWS[:1], "b": ROWS[:1]}).frames(spark, tmp_path)
    with pytest.raises(SparkError, match="'names' is a streaming DataFrame and has no window"):
        ms.spark.sql(TEXT, {**frames, "names": frames["a"].selectExpr("k", "'x' AS label")}, "ts")
    with pytest.raises(SparkError, match="'b' is a batch DataFrame with a window"):
        ms.spark.sql(TEXT, {**frames, "b": spark.read.parquet(str(tmp_path / "b")), "names": names(spark, {})}, "ts")


def test_streams_alone_are_as_before(spark: Any, tmp_path: Path) -> None:
    given = Input({"a": ROWS, "b": ROWS})
    text = "SELECT a.v AS a_v, b.v AS b_v FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
    ran = run(ms.spark.sql(text, given.frames(spark, tmp_path), "ts", LONG, partitions=1), tmp_path / "checkpoint")
    check(ran, expect(given, {"a": 10 * SECOND, "b": 10 * SECOND}))
