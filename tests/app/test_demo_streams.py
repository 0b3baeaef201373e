"""The demo's streams: the flip has to be real, and no row may be late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import midstream as ms
from midstream.app import demo_streams
from midstream.app.demo_streams import DELAY_SECONDS, NEW_PLAN, OLD_PLAN, Story, write

STORY = Story(rows=4_000, quiet=2, suffering=2, recovered=2, seed=3)
SECOND = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    assert list(write(STORY, place))[-1] == STORY.total
    return place


def batch(folder: Path, number: int) -> dict[str, pa.Table]:
    return {stream: parquet.read_table(folder / stream / f"{number:03}.parquet") for stream in STORY.streams}


def microseconds(table: pa.Table) -> np.ndarray:
    return table["ts"].cast(pa.int64()).to_numpy()


def test_rows_come_out_of_order_but_never_late(folder: Path) -> None:
    is_disordered = False
    for stream in STORY.streams:
        newest = -(2**62)
        for number in range(STORY.batches):
            times = microseconds(parquet.read_table(folder / stream / f"{number:03}.parquet"))
            is_disordered |= bool((np.diff(times) < 0).any())
            assert times.min() >= newest - DELAY_SECONDS * SECOND
            newest = max(newest, int(times.max()))
    assert is_disordered


def test_files_are_read_in_the_order_of_their_batches(folder: Path) -> None:
    for stream in STORY.streams:
        times = [path.stat().st_mtime for path in sorted((folder / stream).iterdir())]
        assert times == sorted(set(times)) and len(times) == STORY.batches


def count_entries(engine: ms.Engine) -> int:
    """What the joins below the top keep."""
    return sum(state.rows for state in engine.stats().states if state.kind != "window")


def test_each_plan_is_good_in_one_part_and_bad_in_the_other(folder: Path) -> None:
    schemas = {stream: table.schema for stream, table in batch(folder, 0).items()}
    query = ms.query(demo_streams.TEXT, schemas=schemas, event_time="ts", delay=f"{DELAY_SECONDS} seconds")
    kept: dict[str, list[int]] = {}
    results: dict[str, list[int]] = {}
    for plan in (OLD_PLAN, NEW_PLAN):
        engine = ms.Engine(query, plan=plan)
        for number in range(STORY.batches):
            results.setdefault(plan, []).append(engine.push(batch(folder, number)).num_rows)
            kept.setdefault(plan, []).append(count_entries(engine))
    assert results[OLD_PLAN] == results[NEW_PLAN] and min(results[OLD_PLAN]) > 0
    quiet, attacked = STORY.quiet - 1, STORY.batches - 1
    assert kept[OLD_PLAN][attacked] > 20 * kept[NEW_PLAN][attacked]
    assert kept[NEW_PLAN][quiet - 1] > 20 * kept[OLD_PLAN][quiet - 1]
