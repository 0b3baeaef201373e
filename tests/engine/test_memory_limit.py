"""Entries and holes partition the join whatever a memory limit takes away, and the results stay the same."""

from __future__ import annotations

import random
from functools import partial

import pytest

import midstream as ms

from ..eager import eager
from ..limits import Limits, check_windows, tight
from .audit import OFTEN, Count, audit
from .small import CASES, Small, draw_plan, draw_pushes, sorted_rows
from .test_invariant import restore


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("small", CASES, ids=lambda case: case.name)
def test_states_are_right_under_any_limit(small: Small, seed: int) -> None:
    """An engine with limits that change and restores in between, against one without."""
    check_limits(small, seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("small", CASES, ids=lambda case: case.name)
def test_states_are_right_under_any_limit_on_many(small: Small, block: int) -> None:
    for seed in range(100 + 10 * block, 110 + 10 * block):
        check_limits(small, seed, OFTEN)


def check_limits(small: Small, seed: int, audited: float = 1.0) -> None:
    """An audit follows every push and every event, or a share of them."""
    rng, audits = random.Random(f"memory {small.name} {seed}"), random.Random(f"audits {small.name} {seed}")
    demand = random.Random(f"demand {small.name} {seed}").choice(["off", "on", "auto"])
    query = small.query()
    steady = ms.Engine(query, plan=draw_plan(rng, small.size))
    limits, count = Limits(f"{small.name} {seed}"), Count()
    with tight(), eager():
        engine = ms.Engine(query, plan=draw_plan(rng, small.size), demand=demand)

        def look() -> None:
            if audits.random() < audited:
                audit(engine, small, count)

        for push in draw_pushes(rng, small, 40, most=rng.choice([3, 6])):
            wanted = sorted_rows(steady.push(push))
            assert sorted_rows(limits.push(engine, partial(engine.push, push))) == wanted
            check_windows(engine)
            look()
            limits.change(engine)
            look()
            if rng.random() < 0.05:
                engine = restore(engine, rng, small, as_bytes=False)
                look()
    assert limits.evicted > 0
