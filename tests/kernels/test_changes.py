"""Runs over time against a look at every moment."""

from __future__ import annotations

import random

import numpy as np
import pytest

from midstream.engine.operators.lifetimes import Lifetimes, make_records
from midstream.kernels import changes
from midstream.kernels.types import LARGEST

STEP = 5
Run = tuple[int, int, int]


def look_at_every_moment(records: list[Run], begin: int, end: int, is_distinct: bool) -> list[Run]:
    """Whose runs, first and last moments, not cut at steps."""
    found: list[Run] = []
    for who in {who for who, _, _ in records}:
        counts = [
            sum(first <= time <= last for own, first, last in records if own == who) for time in range(begin, end)
        ]
        for level in range(1, 1 + min(max(counts), 1 if is_distinct else max(counts))):
            first = None
            for time, count in zip(range(begin, end + 1), [*counts, 0], strict=True):
                if count >= level and first is None:
                    first = time
                if count < level and first is not None:
                    found.append((who, first, time - 1))
                    first = None
    return sorted(found)


def cut_by_hand(runs: list[Run]) -> list[Run]:
    pieces = []
    for who, first, last in runs:
        while first <= last:
            piece_end = min(last, first // STEP * STEP + STEP - 1)
            pieces.append((who, first, piece_end))
            first = piece_end + 1
    return sorted(pieces)


@pytest.mark.parametrize("seed", range(60))
def test_runs_of_spans_are_those_of_every_moment(seed: int) -> None:
    rng = random.Random(seed)
    is_distinct = seed % 2 == 0
    people = rng.choice([1, 3, 8])
    lifetimes = Lifetimes(STEP)
    records: list[Run] = []
    found: list[Run] = []
    at = -4 * STEP
    while at < 6 * STEP:
        for _ in range(rng.choice([0, 1, 5, 40])):
            first = rng.randint(at, at + 3 * STEP)
            records.append((rng.randrange(people), first, first + rng.choice([0, 1, STEP - 1, STEP, 3 * STEP])))
            lifetimes.add(make_records(*(np.array([value]) for value in records[-1])), people)
        until = at + rng.choice([1, 1, 2, 4]) * STEP
        order = lifetimes.changes(at, until - 1)
        runs = changes.find_runs(order.offsets, order.times, order.signs, lifetimes.carried, at, until - 1, is_distinct)
        whole = list(zip(*(array.tolist() for array in runs), strict=True))
        assert sorted(whole) == look_at_every_moment(records, at, until, is_distinct)
        cursor, rows, firsts, lasts = np.zeros(3, np.int64), *(np.empty(3, np.int64) for _ in range(3))
        pieces: list[Run] = []
        while count := changes.cut(runs[1], runs[2], STEP, cursor, rows, firsts, lasts):
            pieces += zip(runs[0][rows[:count]].tolist(), firsts[:count].tolist(), lasts[:count].tolist(), strict=True)
        assert sorted(pieces) == cut_by_hand(whole)
        found += pieces
        at = until
    assert found


def test_what_never_ends_is_not_cut_and_the_ends_of_time_do_not_wrap() -> None:
    smallest = np.iinfo(np.int64).min
    firsts = np.array([smallest, LARGEST - 2, 7, LARGEST - 7])
    lasts = np.array([smallest + 1, LARGEST - 1, LARGEST, LARGEST - 1])
    rows, begins, ends = (np.empty(20, np.int64) for _ in range(3))
    count = changes.cut(firsts, lasts, 1000, np.zeros(3, np.int64), rows, begins, ends)
    assert list(zip(rows[:count].tolist(), begins[:count].tolist(), ends[:count].tolist(), strict=True)) == [
        (0, smallest, smallest + 1),
        (1, LARGEST - 2, LARGEST - 1),
        (2, 7, LARGEST),
        (3, LARGEST - 7, LARGEST - 1),
    ]


def test_those_who_will_not_be_there_again_are_forgotten() -> None:
    lifetimes = Lifetimes(STEP)
    size = 5000
    whose, starts = np.arange(size), np.zeros(size, np.int64)
    ends = np.where(whose % 5 == 0, 3 * STEP, 1)
    lifetimes.add(make_records(whose, starts, ends), size)
    order = lifetimes.changes(0, STEP - 1)
    changes.find_runs(order.offsets, order.times, order.signs, lifetimes.carried, 0, STEP - 1, True)
    kept = lifetimes.forget()
    assert kept is not None and kept.tolist() == list(range(0, size, 5))
    assert lifetimes.carried.tolist() == [1] * (size // 5) and len(lifetimes) == size // 5
    order = lifetimes.changes(STEP, LARGEST)
    whose, _, lasts = changes.find_runs(order.offsets, order.times, order.signs, lifetimes.carried, STEP, LARGEST, True)
    assert whose.tolist() == list(range(size // 5)) and set(lasts.tolist()) == {3 * STEP}
