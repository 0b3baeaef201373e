"""The same over Spark Connect, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from . import streams
from .streams import SECOND, Input

WINDOWS: dict[str, int | None] = {"a": 3 * SECOND, "b": 5 * SECOND, "c": 4 * SECOND}
JOB = Path(__file__).parent / "connect_job.py"


@pytest.mark.slow
@pytest.mark.versions
def test_a_connect_session(java: None, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Connect needs grpcio: pip install 'midstream[connect]'")
    rows = [[(v % 5, v, (v * 7 % 40) * SECOND // 4 + number * 8 * SECOND) for v in range(40)] for number in range(3)]
    given = Input({"a": rows, "b": rows[::-1], "c": [rows[0][::2], *rows[1:]]})
    given.write(tmp_path)
    (tmp_path / "query.sql").write_text(streams.join_text(WINDOWS))
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
