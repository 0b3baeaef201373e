"""Records that wait for their steps."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from midstream.engine.operators.calendar import Calendar

STEP = 10


def records_of(moments: list[int]) -> np.ndarray:
    return np.array([[moment, 7 * moment] for moment in moments], np.int64).reshape(-1, 2)


@pytest.mark.parametrize("seed", range(10))
def test_records_are_fetched_when_their_step_is_due(seed: int) -> None:
    rng = random.Random(seed)
    calendar = Calendar(STEP, 2)
    waiting: list[int] = []
    until = -500
    for _ in range(60):
        moments = [until + rng.choice([0, 5, 9, 10, 95, 10**6]) + rng.randrange(30) for _ in range(rng.randrange(9))]
        calendar.enter(records_of(moments), np.array(moments, np.int64))
        waiting += moments
        assert len(calendar) == len(waiting) and calendar.nbytes == 16 * len(waiting)
        until += STEP * rng.randrange(12)
        found = calendar.fetch(until)
        assert sorted(found[:, 0].tolist()) == sorted(moment for moment in waiting if moment < until)
        assert (found[:, 1] == 7 * found[:, 0]).all()
        waiting = [moment for moment in waiting if moment >= until]
    assert sorted(calendar.fetch(None)[:, 0].tolist()) == sorted(waiting)
    assert len(calendar) == calendar.nbytes == len(calendar.fetch(None)) == 0


def test_a_close_does_not_look_at_later_steps() -> None:
    """With ten thousand times as many that wait it takes as long as with a few."""

    def fetching(steps: int) -> float:
        calendar = Calendar(STEP, 2)
        moments = np.arange(steps) * STEP
        calendar.enter(np.stack([moments, moments], axis=1), moments)
        times = []
        for step in range(1, 50):
            began = time.perf_counter()
            assert len(calendar.fetch(step * STEP)) == 1
            times.append(time.perf_counter() - began)
        return min(times)

    assert fetching(200_000) < 30 * fetching(60)
