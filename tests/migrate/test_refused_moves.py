"""Why two strategies refuse to move operators: what they would give out, played with rows that are intervals.

A *plan* here knows some rows and gives out the runs of their snapshots, uncut: how many rows there are at each moment,
or, for DISTINCT, whether there is one.
"""

from __future__ import annotations

import collections
import itertools
import random
from collections.abc import Callable, Iterable

import pytest

Interval = tuple[int, int]
#: A value (a count, or 1 for DISTINCT), and the first and last moment at which it holds.
Run = tuple[int, int, int]
Runs = collections.Counter[Run]
Operator = Callable[[int], int]
PLAYS = 2_000


def count(rows: int) -> int:
    return rows


def distinct(rows: int) -> int:
    return min(rows, 1)


def find_runs(rows: Iterable[Interval], operator: Operator) -> Runs:
    """The result of an operator over rows, as runs that are as long as they can be."""
    rows = list(rows)
    moments = range(min((first for first, _ in rows), default=0), max((last for _, last in rows), default=0) + 2)
    values = [(moment, operator(sum(first <= moment <= last for first, last in rows))) for moment in moments]
    runs: Runs = collections.Counter()
    for value, group in itertools.groupby(values, key=lambda found: found[1]):
        held = [moment for moment, _ in group]
        if value:
            runs[value, held[0], held[-1]] += 1
    return runs


def play_parallel_track(old: list[Interval], new: list[Interval], operator: Operator) -> Runs:
    """The old plan gives out what has an old row, the new plan what has new rows alone."""
    return find_runs(old, operator) + find_runs(new, operator)


def play_reference_point(old: list[Interval], new: list[Interval], operator: Operator) -> Runs:
    """The old plan gives out what begins before T, the new one what begins at T or later."""
    split = max(last for _, last in old) + 1
    before, after = find_runs(old + new, operator), find_runs(new, operator)
    counted = [run for run in before.elements() if run[1] < split] + [
        run for run in after.elements() if run[1] >= split
    ]
    return collections.Counter(counted)


def play_split(old: list[Interval], new: list[Interval], operator: Operator) -> Runs:
    """Both plans are cut at T, as steps are; compare with the whole cut there."""
    split = max(last for _, last in old) + 1
    before = [(value, first, min(last, split - 1)) for value, first, last in find_runs(old + new, operator).elements()]
    after = [(value, max(first, split), last) for value, first, last in find_runs(new, operator).elements()]
    return collections.Counter(run for run in before + after if run[1] <= run[2])


def cut(runs: Runs, split: int) -> Runs:
    found: Runs = collections.Counter()
    for value, first, last in runs.elements():
        for begin, end in ((first, min(last, split - 1)), (max(first, split), last)):
            found[value, begin, end] += begin <= end
    return +found


def count_wrong(play: Callable[[list[Interval], list[Interval], Operator], Runs], operator: Operator) -> int:
    """How many of many plays with random rows give out something else than the operator over all rows."""
    rng = random.Random(7)
    wrong = 0
    for _ in range(PLAYS):
        starts = sorted(rng.randrange(12) for _ in range(rng.randint(2, 6)))
        rows = [(start, start + rng.randint(1, 8)) for start in starts]
        at = rng.randint(1, len(rows) - 1)
        whole = find_runs(rows, operator)
        if play is play_split:
            whole = cut(whole, max(last for _, last in rows[:at]) + 1)
        wrong += play(rows[:at], rows[at:], operator) != whole
    return wrong


def test_the_example_of_parallel_track() -> None:
    assert play_parallel_track([(0, 10)], [(5, 15)], distinct) == {(1, 0, 10): 1, (1, 5, 15): 1}
    assert find_runs([(0, 10), (5, 15)], distinct) == {(1, 0, 15): 1}


def test_the_example_of_the_reference_point() -> None:
    assert play_reference_point([(0, 9)], [(5, 15)], count) == {(1, 0, 4): 1, (2, 5, 9): 1}
    assert find_runs([(0, 9), (5, 15)], count) == {(1, 0, 4): 1, (2, 5, 9): 1, (1, 10, 15): 1}


@pytest.mark.parametrize("operator", [count, distinct])
def test_random_rows(operator: Operator) -> None:
    assert count_wrong(play_parallel_track, operator) == {count: 1_738, distinct: 1_756}[operator]
    assert count_wrong(play_split, operator) == 0


def test_random_counts_by_the_reference_point() -> None:
    assert count_wrong(play_reference_point, count) == 1_159
