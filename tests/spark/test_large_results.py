"""A batch with more results in a cell than one Arrow array holds, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark

from . import streams
from .streams import LONG, ZONED


def rows(count: int, size: int) -> pa.Table:
    """Rows of one key with bytes that do not compress."""
    rng = np.random.default_rng(1)
    values = pa.array([rng.bytes(size) for _ in range(count)], pa.binary())
    times = pa.array(range(count), pa.int64()).cast(ZONED)
    return pa.table({"k": pa.array([1] * count), "id": pa.array(range(count)), "x": values, "ts": times})


@pytest.mark.slow
def test_more_than_two_gigabytes_of_results_of_a_cell(spark: Any, tmp_path: Path) -> None:
    left, right, size = 24, 90, 1_000_000
    streams.write(tmp_path / "a", [rows(left, size)])
    streams.write(tmp_path / "b", [rows(right, 1)])
    frames = {name: streams.stream(spark, tmp_path / name) for name in "ab"}
    text = "SELECT a.id AS i, b.id AS j, a.x AS x FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"
    joined = ms.spark.sql(text, frames, "ts", LONG, partitions=1)
    ran = streams.run(joined.selectExpr("i", "j", "length(x) AS n"), tmp_path / "checkpoint")
    (found,) = [table for table in ran.batches.values() if table.num_rows]
    pairs = sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True))
    assert pairs == [(i, j) for i in range(left) for j in range(right)]
    assert sum(found["n"].to_pylist()) == left * right * size > 2**31
    local = Path(spark.conf.get("spark.local.dir"))
    assert not list(local.rglob("midstream-results-*")), "nothing is left of what went around Spark"
