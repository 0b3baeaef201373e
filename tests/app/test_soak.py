"""The soak without Spark: its input, what it counts as late, what it calls flat, and how it finds processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from midstream.app.soak_picture import Measurements, compare_halves, draw
from midstream.app.soak_processes import MARK, find_processes, measure_memory
from midstream.app.soak_streams import Feed
from midstream.spark.jobs.soak import DELAY_SECONDS, STREAMS

_SECOND = 1_000_000


def test_rows_are_late_for_certain_or_not_at_all(tmp_path: Path) -> None:
    """By the watermark of its own stream, which is never behind that of all; the first two files have no late rows."""
    feed = Feed(tmp_path, rows=2_000, seed=3)
    for _ in range(12):
        feed.write_next()
    for name in STREAMS:
        newest = None
        for number, path in enumerate(sorted((tmp_path / name).iterdir())):
            table = pq.read_table(path)
            times = table["ts"].cast("int64").to_numpy()
            is_late = table["is_late"].to_numpy()
            assert feed.late[number][name] == np.count_nonzero(is_late)
            if number < 2:
                assert not is_late.any()
            if newest is not None:
                watermark = newest - DELAY_SECONDS * _SECOND
                assert (times[~is_late] >= watermark).all()
                assert (times[is_late] < watermark - 60 * _SECOND).all()
            newest = max(times.max(), newest or times.max())
        assert sum(counts[name] for counts in feed.late) > 100
    assert feed.written == 12


def test_files_are_taken_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    feed = Feed(tmp_path, rows=100, seed=0)
    for _ in range(5):
        feed.write_next()
    for name in STREAMS:
        by_time = sorted((tmp_path / name).iterdir(), key=lambda path: path.stat().st_mtime)
        assert [path.name for path in by_time] == [f"{number:06}.parquet" for number in range(5)]


def test_growth_is_seen() -> None:
    steady = compare_halves([(float(second), 5.0 + second % 2) for second in range(100)])
    growing = compare_halves([(float(second), float(second)) for second in range(100)])
    assert steady is not None and steady.is_flat
    assert growing is not None and not growing.is_flat
    assert compare_halves([(1.0, 1.0)]) is None


def test_a_picture_of_nothing_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    measured = Measurements(
        0.0, memory=[(1.0, {"driver": 1, "jvm": 2, "workers": 3, "hosts": 4})], kills=[(1.0, "hosts")]
    )
    assert draw(measured, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 1_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_processes_are_found_by_their_mark() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=os.environ | {MARK: "x1"})
    try:
        (found,) = find_processes("x1")
        assert (found.pid, found.kind) == (child.pid, "driver")
        deadline = time.monotonic() + 30  # it has only just begun
        while measure_memory("x1")["driver"] <= 1_000_000 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert measure_memory("x1")["driver"] > 1_000_000
        assert found.kill()
        child.wait()
        assert not list(find_processes("x1"))
    finally:
        child.kill()
        child.wait()
