"""Random stories on a clock of few ticks: rows begin and end at the very moments at which plans change hands.

The oracle's cases mostly have coarser clocks, on which no row begins just one microsecond after another has ended.
"""

from __future__ import annotations

import random

import pytest

from .changes import NAMES
from .stories import find_expected, make_engine, run

PLANS = ("((R S) T)", "((R T) S)", "((S T) R)", "(T (S R))")
STORIES = 12


def draw_story(rng: random.Random) -> str:
    """Rows by event time with a few keys, some ticks apart or none, and a change of plan now and then."""
    now, parts = 1, [""]
    for number in range(rng.randint(10, 30)):
        if rng.random() < 0.1:
            parts += [rng.choice(PLANS), ""]
        now += rng.choice([0, 0, 1, 1, 2, 3])
        parts[-1] += f" {rng.choice('rst')}{number}:{rng.choice('ab')}@{now}"
    return "->".join(parts)


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "pause-drain-resume"])
@pytest.mark.parametrize("block", range(3))
def test_results_are_those_of_the_definition(strategy: str, block: int) -> None:
    changes = results = 0
    for seed in range(block * STORIES, block * STORIES + STORIES):
        rng = random.Random(f"ticks {seed}")
        windows = {stream: rng.choice([0, 2, 4, 6, 9]) for stream in "RST"}
        plan, story = rng.choice(PLANS), draw_story(rng)
        found = run(make_engine(plan, windows), story, strategy, rng.choice([0, 0, 1, None]))
        assert found == find_expected(story, "RST", windows), f"seed {seed}: {windows}, {plan}: {story}"
        changes += story.count("->") // 2
        results += sum(map(len, found))
    assert changes >= STORIES and results >= STORIES
