"""Entries and holes partition the join whatever a memory limit takes away, and the results stay the same."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pyarrow as pa
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


@pytest.mark.parametrize("executor", ["tree", "stairs"])
def test_what_was_off_comes_back_when_the_limit_is_lifted(executor: str) -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64(), "ts": pa.int64()})
    window = "[RANGE 5 MILLISECONDS]"
    text = f"SELECT r.ts AS x FROM r {window}, s {window}, t {window} WHERE r.a = s.a AND s.b = t.b"
    query = ms.query(text, schemas=dict.fromkeys("rst", schema), event_time="ts")
    routing = {} if executor == "tree" else {"routing": "fixed"}
    engine = ms.Engine(query, plan="((r s) t)", executor=executor, demand="off", **routing)
    rng = np.random.default_rng(1)

    def push(number: int) -> None:
        columns = {
            name: [rng.integers(0, 40, 1000), rng.integers(0, 10**7, 1000), 1000 * number + np.arange(1000)]
            for name in "rst"
        }
        engine.push({name: pa.table(column, schema=schema) for name, column in columns.items()}, 1000 * number)

    def count_off() -> int:
        return sum(state.is_off for state in engine.stats().states)

    for number in range(8):
        push(number)
    use = engine._pipeline.memory.count()
    engine.memory_limit = use.windows + use.states // 20
    push(8)
    assert count_off() == 1
    engine.memory_limit = None
    assert count_off() == 0
    push(9)
    assert count_off() == 0
