"""What waits while plans change by any strategy, several at a time, and states of each plan are evicted or off.

Beside a new plan an old one may get rows whose intervals are cut: what waits there ends earlier than in the windows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.waiting import Waiting
from midstream.migrate import STRATEGIES
from midstream.state.indexes import HashIndex

from ..eager import eager
from ..evictions import evict_some, trees_of
from ..limits import Limits, tight
from ..restless import restless
from .small import ALIASES, SCHEMA, Small, draw_plan, sorted_rows
from .test_suspension import CIRCLE, CLIQUE, GAPS

SHAPES = (GAPS, CLIQUE, CIRCLE)
#: The plan that most cases of a shape begin with.
PLANS = {GAPS.name: "((((a b) c) e) d)"}
BESIDE = tuple(strategy.name for strategy in STRATEGIES if strategy.runs_beside)
ALL = (*BESIDE, "jisc", "moving-state")


def draw_pushes(rng: random.Random, size: int, count: int) -> Iterator[tuple[dict[str, pa.Table], int]]:
    """Pushes and watermarks. Values are few, but not so few that every row finds partners at once; streams pause."""
    now, flows = 100, dict.fromkeys(ALIASES[:size], True)
    values = dict(zip("kxyv", rng.choice([(2, 3, 4, 6), (3, 4, 4, 8), (2, 2, 6, 6), (3, 6, 6, 6)]), strict=True))
    pauses = rng.choice([0.0, 0.05, 0.1])
    for _ in range(count):
        flows = {alias: is_on != (rng.random() < pauses) for alias, is_on in flows.items()}
        push = {}
        for alias in (alias for alias, is_on in flows.items() if is_on):
            times = [now + rng.randrange(-3, 4) for _ in range(rng.choice([0, 1, 1, 2, 2]))]
            columns = {name: [rng.randrange(most) for _ in times] for name, most in values.items()}
            push[alias] = pa.table({**columns, "s": ["" for _ in times], "ts": times}, schema=SCHEMA)
        now += rng.choice([0, 1, 2, 4])
        yield push, now - 4


def pick_tree(engine: ms.Engine, rng: random.Random) -> TreeExecutor:
    return rng.choice(list(trees_of(engine._pipeline.executor)))


def evict_state(engine: ms.Engine, rng: random.Random) -> None:
    """All entries of one state."""
    tree = pick_tree(engine, rng)
    states = [node for node in tree.joins() if node.state is not None and not node.is_off]
    if states:
        tree.evict_all(rng.choice(states))


def switch_state(engine: ms.Engine, rng: random.Random) -> None:
    tree = pick_tree(engine, rng)
    states = [node for node in tree.joins() if node.state is not None]
    if states:
        node = rng.choice(states)
        (tree.switch_on if node.is_off else tree.switch_off)(node)


def give_up(engine: ms.Engine, rng: random.Random) -> None:
    pick_tree(engine, rng).give_up_rest()


EVENTS: tuple[Callable[[ms.Engine, random.Random], Any], ...] = (evict_some, evict_state, switch_state, give_up)


@eager()
@tight()
def compare(shape: Small, seed: int) -> tuple[int, int]:
    """An engine with demand whose plans change, against one without; how many results there were, and suspensions."""
    rng = random.Random(f"beside {shape.name} {seed}")
    windows = tuple(f"RANGE {rng.choice([10, 20, 40, 80])} MICROSECONDS" for _ in range(shape.size))
    query = shape.query(windows, delay=4)
    plan = PLANS[shape.name] if shape.name in PLANS and rng.random() < 0.6 else draw_plan(rng, shape.size)
    steady = ms.Engine(query, plan=plan, demand="off")
    demand = rng.choice(["on", "on", "auto"])
    engine = ms.Engine(query, plan=plan, demand=demand)
    is_packed = rng.random() < 0.5
    events = rng.sample(EVENTS, rng.choice([1, 2, 4]))
    often, changes = rng.choice([0.05, 0.15]), rng.choice([0.05, 0.1, 0.2])
    strategies = rng.choice([("genmig",), BESIDE, ALL])
    limits = Limits(f"beside {shape.name} {seed}") if rng.random() < 0.35 else None
    results = 0

    def take(push: dict[str, pa.Table], watermark: int) -> pa.Table:
        return (
            engine.push(push, watermark)
            if limits is None
            else limits.push(engine, lambda: engine.push(push, watermark))
        )

    for number, (push, watermark) in enumerate(draw_pushes(rng, shape.size, 45)):
        if is_packed:
            with restless():
                found = sorted_rows(take(push, watermark))
        else:
            found = sorted_rows(take(push, watermark))
        assert found == sorted_rows(steady.push(push, watermark)), f"{shape.name}, seed {seed}, push {number}"
        results += len(found)
        if limits is not None:
            limits.change(engine, 0.15)
        for event in events:
            if rng.random() < often:
                event(engine, rng)
        if rng.random() < changes:
            for _ in range(rng.choice([1, 1, 2])):
                engine.migrate(draw_plan(rng, shape.size), rng.choice(strategies))
    counted = engine.stats().demand
    return results, 0 if counted is None else counted.suspended


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_results_are_the_same(shape: Small) -> None:
    found = [compare(shape, seed) for seed in range(4)]
    assert sum(results for results, _ in found) > 50 and sum(suspended for _, suspended in found) > 20


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_results_of_many_are_the_same(shape: Small, block: int) -> None:
    for seed in range(1_000 + 25 * block, 1_025 + 25 * block):
        compare(shape, seed)


def test_what_waits_is_told_by_its_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks whether it ends as late as what the windows have stores it twice."""

    def has(waiting: Waiting, delta: Delta, horizon: int) -> Any:
        found = np.zeros(len(delta), np.bool_)
        index, keys = waiting._path.index(waiting.state), waiting._path.keys(delta)
        for at in range(len(delta)):
            one, end = slice(at, at + 1), max(horizon, int(delta.combos.ends[at]))
            assert isinstance(index, HashIndex)
            index.find_same(waiting.state.ring(), keys[one], delta.combos.rows[one], end, found[one])
        return found

    monkeypatch.setattr(Waiting, "has", has)
    with pytest.raises(AssertionError, match="seed"):
        compare(CIRCLE, 10)
