"""The lab's own contenders: the late end of Parallel Track."""

from __future__ import annotations

import pytest

import midstream as ms
from midstream.lab.experiments.jisc_streams import Streams
from midstream.lab.peers import CombinedTrack, migrate_by
from midstream.migrate.strategies.parallel_track import ParallelTrack


@pytest.mark.parametrize(("joins", "windows"), [(1, 1), (2, 2), (4, 2)])
def test_the_papers_parallel_track_ends_after_two_windows(joins: int, windows: int) -> None:
    streams = Streams(joins=joins, window=40, rows=40 * 6, batch=10, seed=3)
    lengths = []
    for strategy in (ParallelTrack(), CombinedTrack()):
        engine = ms.Engine(streams.query, plan=streams.plan)
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
