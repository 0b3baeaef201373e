"""The same over Spark Connect, in a process of its own."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet
import pytest

import midstream as ms

from . import streams
from .streams import SECOND, Input

WINDOWS: dict[str, int | None] = {"a": 3 * SECOND, "b": 5 * SECOND, "c": 4 * SECOND}
STEPS = """
    SELECT a.k, count(*) AS n, sum(b.v) AS s FROM a [RANGE 3 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k GROUP BY a.k
    EXCEPT SELECT k, 4, v FROM c [RANGE 4 SECONDS]
"""
JOB = Path(__file__).parent / "connect_job.py"


@pytest.mark.slow
@pytest.mark.versions
def test_a_connect_session(java: None, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Connect needs grpcio: pip install 'midstream[connect]'")
    rows = [[(v % 5, v, (v * 7 % 40) * SECOND // 4 + number * 8 * SECOND) for v in range(40)] for number in range(3)]
    given = Input({"a": rows, "b": rows[::-1], "c": [rows[0][::2], *rows[1:]]})
    given.write(tmp_path)
    (tmp_path / "query.sql").write_text(streams.join_text(WINDOWS))
    (tmp_path / "steps.sql").write_text(STEPS)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(tmp_path / "local")}
    ended = subprocess.run(
        [sys.executable, str(JOB), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["kind"].startswith("pyspark.sql.connect")
    assert told["partitions"] == 2
    marks = [streams.watermark_of({"eventTime": {"watermark": watermark}}) for watermark in told["watermarks"]]
    expected = streams.expect(given, WINDOWS, marks)
    # The file sink keeps a list of its files; here all of them are of batches that have ended.
    found = streams.rows_of(pyarrow.parquet.read_table([str(path) for path in (tmp_path / "out").glob("*.parquet")]))
    assert found == expected.rows and expected.late > 0
    assert sum(sum(report["late"].values()) for reports in told["reports"] for report in reports) == expected.late
    assert sum(report["out"] for reports in told["reports"] for report in reports) == sum(expected.rows.values())
    assert told["batch"] == sum(streams.expect(given, WINDOWS).rows.values())
    assert "'a' has a watermark already" in told["refused"]
    marks = [streams.watermark_of({"eventTime": {"watermark": watermark}}) for watermark in told["marks of steps"]]
    found = streams.rows_of(
        pyarrow.parquet.read_table([str(path) for path in (tmp_path / "steps").glob("*.parquet")]).drop(["result_id"])
    )
    assert found == expect_steps(given, marks) and found


def expect_steps(given: Input, watermarks: Sequence[int | None]) -> streams.Rows:
    """What an embedded engine gives for batches that had these watermarks."""
    engine = ms.Engine(ms.query(STEPS, {name: given.table([]).schema for name in given.batches}, "ts"))
    found: streams.Rows = collections.Counter()
    for number, watermark in enumerate(watermarks):
        rows = {name: given.table(batches[number]) for name, batches in given.batches.items() if number < len(batches)}
        found += streams.rows_of(engine.push(rows, watermark=-SECOND if watermark is None else watermark))
    return found
