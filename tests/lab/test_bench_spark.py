"""`midstream bench spark` at a tiny scale: files, answers, contenders, and where time goes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from midstream.lab.bench import spark_files
from midstream.lab.bench.answer import Answer
from midstream.lab.bench.spark import (
    FLOOR_HAND_OVER,
    FLOOR_READ,
    MEMORY,
    OURS,
    QUICK,
    TRACED,
    Bench,
    Measurement,
    parts_of,
)
from midstream.lab.bench.spark_files import Case
from midstream.lab.bench.spark_times import stage_times


def test_a_file_is_ten_seconds_of_a_stream(tmp_path: Path) -> None:
    case = spark_files.one_key(tmp_path, 50, 3)
    assert Case.load(tmp_path) == case
    assert case.batch_rows == 200
    for number in range(3):
        times = [time.timestamp() for time in pq.read_table(case.path("C", number))["ts"].to_pylist()]
        assert len(times) == 50
        begin = spark_files.EPOCH / 1e6 + 10 * number
        assert begin <= min(times) and max(times) < begin + 10


def test_files_are_linked_in_the_order_of_their_times(tmp_path: Path) -> None:
    case = spark_files.chain(tmp_path / "case", 20, 3)
    case.link(tmp_path / "in", 2)
    case.link(tmp_path / "in", 3)
    linked = sorted((tmp_path / "in" / "A").iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in linked] == [f"part-0000{number}.parquet" for number in range(3)]


@pytest.mark.parametrize("make", [spark_files.one_key, spark_files.chain])
def test_the_answer_of_fewer_files_is_a_part_of_that_of_all(make: type, tmp_path: Path) -> None:
    import duckdb

    case = make(tmp_path / "case", 300, 3)
    answers = [spark_files.compute_answer(case, files) for files in (1, 2, 3)]
    assert 0 < answers[0].results < answers[1].results < answers[2].results
    (tmp_path / "out").mkdir()
    streams = {stream: f"read_parquet('{case.folder}/{stream}/*.parquet') {stream}" for stream in case.streams}
    times = ", ".join(f"{stream}.ts" for stream in case.streams)
    equal = " AND ".join(f"{left}.{key} = {right}.{its}" for left, key, right, its in case.keys)
    values = ", ".join(f"{stream}.v AS {stream}_v" for stream in case.streams)
    duckdb.connect().execute(
        f"COPY (SELECT {values}, greatest({times}) AS valid_from, least({times}) + INTERVAL 5 SECONDS AS valid_to "
        f"FROM {', '.join(streams.values())} WHERE {equal} AND valid_from <= valid_to) "
        f"TO '{tmp_path}/out/all.parquet'"
    )
    assert [spark_files.read_answer(case, tmp_path / "out", files) for files in (1, 2, 3)] == answers


def test_stages_belong_to_batches(tmp_path: Path) -> None:
    plan = {"metrics": [{"accumulatorId": 7, "name": "shuffle write time", "metricType": "nsTiming"}], "children": []}
    stages = [
        {"Stage ID": 3, "Submission Time": 1000, "Completion Time": 2500, "Accumulables": [{"ID": 7, "Value": "5e8"}]},
        {"Stage ID": 4, "Submission Time": 2500, "Completion Time": 3000, "Accumulables": []},
        {"Stage ID": 9, "Submission Time": 0, "Completion Time": 9, "Accumulables": []},
    ]
    events = [
        {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", "sparkPlanInfo": plan},
        {"Event": "SparkListenerJobStart", "Stage IDs": [3, 4], "Properties": {"streaming.sql.batchId": "2"}},
        {"Event": "SparkListenerJobStart", "Stage IDs": [9], "Properties": {}},
        *({"Event": "SparkListenerStageCompleted", "Stage Info": stage} for stage in stages),
    ]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, events)))
    found = stage_times(tmp_path)
    assert list(found) == [2]
    assert found[2].stages == [1.5, 0.5] and found[2].shuffle_write == 0.5


def test_batches_count_from_the_third_on(tmp_path: Path) -> None:
    case = Case("one key", str(tmp_path), "", ("A", "B"), (), 100, 4)
    batches = [
        {"timestamp": f"2026-01-01T00:00:{second:02d}.000Z", "durationMs": {"triggerExecution": 1500}}
        for second in (0, 10, 20, 22)
    ]
    run = Measurement(OURS, case, tmp_path, 4, batches)
    assert run.batch_seconds == pytest.approx((2 + 1.5) / 2)
    assert run.rows_per_second == pytest.approx(200 / 1.75)


def test_a_contender_that_fails_tells_why(tmp_path: Path) -> None:
    """Its files are gone by the time that anybody could look at them."""
    pytest.importorskip("pyspark")
    case = spark_files.one_key(tmp_path / "case", 10, 1)
    (tmp_path / "case" / "case.json").write_text("no JSON")
    bench = Bench(tmp_path, QUICK, Console(file=io.StringIO()))
    with pytest.raises(RuntimeError, match=r"Midstream: its process ended with 1; the last that it told:\n(.|\n)*JSON"):
        bench.measure(OURS, case, 1)


@pytest.mark.slow
def test_contenders_agree_and_parts_add_up(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    told = io.StringIO()
    bench = Bench(tmp_path, QUICK, Console(file=told, width=160))
    case = spark_files.one_key(tmp_path / "case", 500, 4)
    runs = {name: bench.measure(name, case, 3) for name in (OURS, TRACED, MEMORY, FLOOR_READ, FLOOR_HAND_OVER)}
    assert bench.is_right, told.getvalue()
    assert (
        spark_files.read_answer(case, runs[OURS].work / "out", 2)
        == spark_files.compute_answer(case, 2)
        != Answer(0, ())
    )
    parts = dict(parts_of(runs[TRACED], runs[FLOOR_READ], runs[FLOOR_HAND_OVER]))
    assert parts["altogether"] == pytest.approx(runs[TRACED].batch_seconds)
    bench.restart({name: runs[name] for name in (OURS, MEMORY)})
    assert bench.is_right, told.getvalue()
