"""The lab's own contenders: SteMs against the naive join on random queries, and the late end of Parallel Track."""

from __future__ import annotations

import random

import pytest

from midstream.engine.executors.protocol import Executor
from midstream.engine.transition import Situation
from midstream.errors import EngineError
from midstream.lab.experiments.jisc_streams import Streams
from midstream.lab.peers import CombinedTrack, Stems, engine_on, migrate_by
from midstream.migrate.parallel_track import ParallelTrack
from tests.oracle.cases import make_case
from tests.oracle.check import every_plan
from tests.oracle.run import Run, expect


def on_stems(situation: Situation) -> Executor:
    return Stems(situation, situation.executor.plan)


@pytest.mark.parametrize("windows", ["range", "mixed", "rows", "static"])
@pytest.mark.parametrize("first", range(600, 640, 10))
def test_stems_give_every_result_once(windows: str, first: int) -> None:
    for seed in range(first, first + 10):
        case = make_case(seed, windows=windows)
        cut, way = next(iter(every_plan(case, random.Random(seed))))
        run = Run(cut, expect(case), way)
        run.engine._pipeline.begin(on_stems)
        run.check()


def test_stems_keep_no_join_state() -> None:
    streams = Streams(joins=3, window=50, rows=200, batch=10, seed=1)
    engine = engine_on("stems", streams.query, streams.plan)
    for batch in streams.batches():
        engine.push(batch)
    assert {state.kind for state in engine.stats().states} == {"window"}
    assert engine.stats().rows_out > 0
    assert engine.stats().work.slots_visited > 0


def test_an_unknown_executor_is_refused() -> None:
    streams = Streams(joins=2, window=10, rows=10, batch=10, seed=1)
    with pytest.raises(EngineError, match="unknown executor 'magic'; executors: tree, stems"):
        engine_on("magic", streams.query, streams.plan)


@pytest.mark.parametrize(("joins", "windows"), [(1, 1), (2, 2), (4, 2)])
def test_the_papers_parallel_track_ends_after_two_windows(joins: int, windows: int) -> None:
    streams = Streams(joins=joins, window=40, rows=40 * 6, batch=10, seed=3)
    lengths = []
    for strategy in (ParallelTrack(), CombinedTrack()):
        engine = engine_on("tree", streams.query, streams.plan)
        for batch in streams.batches(0, 60):
            engine.push(batch)
        recorder = migrate_by(strategy, engine, streams.best_case)
        pushed = 0
        for batch in streams.batches(60):
            if recorder.current.is_done:
                break
            engine.push(batch)
            pushed += streams.batch
        lengths.append(pushed)
    assert lengths == [40, 40 * windows]
