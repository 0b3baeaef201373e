"""A push is cut into chunks by event time; nobody can tell."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.input import batch
from midstream.engine.input.batch import StreamRows, cut_into_chunks, number_arrivals, sort_by_time
from midstream.kernels.types import LARGEST

from .audit import Count, audit
from .small import CASES, Small, draw_plan, draw_pushes, sorted_rows


def draw_stream_rows(rng: np.random.Generator, sizes: dict[str, int], spread: int) -> dict[str, StreamRows]:
    return {
        stream: StreamRows(rng.integers(0, spread, size), {"at": pa.array(range(size), pa.int64())})
        for stream, size in sizes.items()
    }


@pytest.mark.parametrize("chunk", [1, 3, 7])
@pytest.mark.parametrize("small", CASES, ids=lambda case: case.name)
def test_results_do_not_depend_on_chunks(small: Small, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole pushes against pushes in tiny chunks, with a restore in the middle; states are right in the end."""
    rng = random.Random(f"chunks {small.name} {chunk}")
    query = small.query()
    whole, cut = (ms.Engine(query, plan=draw_plan(rng, small.size)) for _ in range(2))
    count, results, seen = Count(), 0, []
    original = batch.cut_into_chunks
    monkeypatch.setattr(batch, "_SAMPLED", 1)
    for step, push in enumerate(draw_pushes(rng, small, 25, pace=24, most=9)):
        monkeypatch.setattr(batch, "CHUNK_ROWS", 1 << 17)
        wanted = sorted_rows(whole.push(push))
        monkeypatch.setattr(batch, "CHUNK_ROWS", chunk)
        monkeypatch.setattr(
            "midstream.engine.memory.manager.cut_into_chunks",
            lambda rows: (seen.append(part) or part for part in original(rows)),
        )
        assert sorted_rows(cut.push(push)) == wanted
        monkeypatch.setattr("midstream.engine.memory.manager.cut_into_chunks", original)
        results += len(wanted)
        if step == 12:
            cut = ms.Engine.restore(query, cut.snapshot(), plan=draw_plan(rng, small.size))
        if step % 6 == 0:
            audit(cut, small, count)
    assert results > 0 and len(seen) > 27


@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("seed", range(5))
def test_chunks_are_a_partition_in_order_of_time(seed: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "CHUNK_ROWS", size)
    monkeypatch.setattr(batch, "_SAMPLED", 1)
    rng = np.random.default_rng([seed, size])
    accepted = draw_stream_rows(rng, {"a": 40, "b": int(rng.integers(0, 30)), "c": 0}, spread=30)
    rows = {
        stream: list(zip(stream_rows.times, stream_rows.columns["at"].to_pylist(), strict=True))
        for stream, stream_rows in accepted.items()
    }
    made = list(cut_into_chunks(accepted))
    assert len(made) > 3
    latest = -1
    for at, chunk in enumerate(made):
        times = [int(time) for stream_rows in chunk.rows.values() for time in stream_rows.times]
        later = [
            int(time) for other in made[at + 1 :] for stream_rows in other.rows.values() for time in stream_rows.times
        ]
        assert min(times, default=latest + 1) > latest, "rows of one time are never torn apart"
        latest = max([latest, *times])
        assert chunk.unprocessed_from == min(later, default=int(LARGEST))
    for stream, listed in rows.items():
        parts = [chunk.rows[stream] for chunk in made]
        found = [pair for part in parts for pair in zip(part.times, part.columns["at"].to_pylist(), strict=True)]
        assert found == sorted(listed)


def test_a_small_push_is_one_chunk_as_it_came() -> None:
    accepted = draw_stream_rows(np.random.default_rng(1), {"a": 10, "b": 5}, spread=9)
    (chunk,) = cut_into_chunks(accepted)
    assert chunk.rows is accepted and chunk.unprocessed_from == LARGEST
    (nothing,) = cut_into_chunks({})
    assert nothing.rows == {}


def test_arrivals_go_by_time_then_stream_then_position() -> None:
    rng = np.random.default_rng(2)
    accepted = {
        stream: sort_by_time(stream_rows)
        for stream, stream_rows in draw_stream_rows(rng, {"b": 30, "a": 20}, spread=8).items()
    }
    number_arrivals(accepted, 100)
    listed = [
        (int(time), order, int(at), int(number))
        for order, stream_rows in enumerate(accepted.values())
        for time, at, number in zip(
            stream_rows.times, stream_rows.columns["at"].to_pylist(), stream_rows.arrivals, strict=True
        )
    ]
    assert [number for *_, number in sorted(listed)] == list(range(100, 150))


def test_rows_in_order_are_left_alone() -> None:
    ordered = StreamRows(np.array([1, 1, 2]), {"at": pa.array([0, 1, 2])})
    assert sort_by_time(ordered) is ordered
    other = sort_by_time(StreamRows(np.array([2, 1, 2, 1]), {"at": pa.array([0, 1, 2, 3])}))
    assert other.times.tolist() == [1, 1, 2, 2] and other.columns["at"].to_pylist() == [1, 3, 0, 2]
