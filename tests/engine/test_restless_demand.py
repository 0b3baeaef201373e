"""Rows that wait while windows are packed: what enters late never meets what is dead and names other rows by then.

A few rows are far ahead and keep the heads of windows and states, so that dead rows and dead entries stand behind them.
Windows are packed as soon as a row is dead, and states keep theirs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.executors.registry import executor_names
from midstream.engine.joins.combos import Delta
from midstream.state.window import BaseWindow, Renumbering

from ..eager import eager
from ..restless import restless
from .audit import executor_of
from .small import ALIASES, SCHEMA, Small, draw_plan, near, same, sorted_rows
from .test_idle_joins import make_linked, row
from .test_suspension import CLIQUE

AHEAD = 400
LENGTHS = (5, 30, 200)
#: An equality leads to entries, and a band is looked up in the rows that they name.
KEY_AND_BAND = Small(
    "key and band",
    ("",) * 3,
    "a.k = b.k AND b.x = c.x AND a.v - c.v BETWEEN -1 AND 1",
    (same(0, 1, "k", "k"), same(1, 2, "x", "x"), near(0, 2, -1, 1)),
)
SHAPES = (KEY_AND_BAND, CLIQUE)


def draw_pushes(rng: random.Random, size: int, count: int) -> Iterator[tuple[dict[str, pa.Table], int]]:
    """Pushes and watermarks; a tenth of the rows is far ahead."""
    now, values = 0, rng.choice([4, 8, 16])
    for _ in range(count):
        push = {}
        for alias in ALIASES[:size]:
            times = [now + rng.randrange(6) + AHEAD * (rng.random() < 0.1) for _ in range(rng.randint(0, 3))]
            columns: dict[str, list[Any]] = {name: [rng.randrange(values) for _ in times] for name in "kxyv"}
            push[alias] = pa.table({**columns, "s": ["" for _ in times], "ts": times}, schema=SCHEMA)
        now += rng.choice([0, 1, 3, 10])
        yield push, now


def compare(shape: Small, seed: int, executor: str = "tree") -> int:
    """An engine with demand against one without, which nothing disturbs; how many results there were."""
    rng = random.Random(f"restless {shape.name} {seed}")
    windows = tuple(f"RANGE {rng.choice(LENGTHS)} MICROSECONDS" for _ in range(shape.size))
    query, plan = shape.query(windows, delay=0), draw_plan(rng, shape.size)
    demand, steady = ("on", "auto")[seed % 2], ms.Engine(query, plan=plan, demand="off")
    with eager():
        engine = ms.Engine(query, plan=plan, demand=demand, executor=executor)
    results = 0
    for number, (push, watermark) in enumerate(draw_pushes(rng, shape.size, 60)):
        with restless(), eager():
            found = sorted_rows(engine.push(push, watermark=watermark))
        assert found == sorted_rows(steady.push(push, watermark=watermark)), f"{shape.name}, seed {seed}, push {number}"
        results += len(found)
    return results


@pytest.mark.parametrize("executor", executor_names())
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_results_are_the_same(shape: Small, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = [0]
    pack = BaseWindow._pack

    def count(window: BaseWindow, *given: Any) -> Any:
        packed[0] += 1
        return pack(window, *given)

    monkeypatch.setattr(BaseWindow, "_pack", count)
    assert sum(compare(shape, seed, executor) for seed in range(3)) > 20
    assert packed[0] > 30


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("executor", executor_names())
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_results_of_many_are_the_same(shape: Small, executor: str, block: int) -> None:
    for seed in range(1_000 + 40 * block, 1_040 + 40 * block):
        compare(shape, seed, executor)


def test_what_waits_and_is_dead_is_not_taken_for_another() -> None:
    """(c1 d1) waits and dies, and c2 gets the id of c1: whoever fills in (c2 d1) does not take it for what waits."""
    engine = make_linked(
        "a.k = b.k AND a.k = c.k AND c.q = d.q AND c.r = e.r AND d.p = e.p",
        "((a b) (c d)) e",
        {"a": 1_000, "b": 1_000, "c": 100, "d": 1_000, "e": 1_000},
    )
    with restless():
        others = [given for number in range(3, 14) for given in row(number, 90, k=1, q=2, r=2)]
        data = {
            "a": row(1, 90, k=1),
            "b": row(1, 90, k=1),
            "c": others,
            "d": row(1, 90, q=1, p=1) + row(2, 90, q=2, p=2),
            "e": row(1, 90, r=1, p=2) + row(2, 90, r=2, p=1),
        }
        engine.push(data, watermark=0)
        engine.push({"c": row(1, 1, k=1, q=1, r=1)}, watermark=0)
        engine.push({"c": row(2, 95, k=1, q=1, r=1)}, watermark=0)
        engine.push({}, watermark=110)
        assert engine.push({"e": row(3, 110, r=1, p=1)}, watermark=110).num_rows == 1
        engine.push({"c": row(20, 111, k=1, q=3, r=1)}, watermark=110)
        executor = executor_of(engine)
        executor.evict_all(executor.joins()[2])
        assert engine.push({"e": row(4, 112, r=1, p=1)}, watermark=110).num_rows == 1


def test_rows_that_meet_what_is_dead_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is dead has got the ids of others: that it does not get them is a second guard."""
    monkeypatch.setattr(Delta, "begin_at", lambda delta, horizon: delta)
    monkeypatch.setattr(Renumbering, "apply_to_entries", Renumbering.apply)
    with pytest.raises(AssertionError, match="key and band"):
        compare_many()


def compare_many() -> None:
    for seed in range(5, 40):
        compare(KEY_AND_BAND, seed)
