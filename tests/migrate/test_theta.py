"""A state that only a theta leads to is not filled by a probe: the probe goes through the windows, the boxes stay."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.executors.tree import TreeExecutor
from midstream.migrate.strategies.jisc import Filling

SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "ts": pa.int64()})
STREAMS = ("r", "s", "t", "u")
#: Thetas alone; a state found by its key whose child only a theta leads to; a theta over two inputs of the probed
#: state; a band; no predicate at all between some inputs.
PREDICATES = {
    "clique": "(r.a - s.a) % 5 = 0 AND (r.a - t.a) % 5 = 0 AND (s.a - u.a) % 5 = 0 AND (t.a - u.a) % 5 = 0",
    "chain": "(r.a - s.a) % 4 = 0 AND s.b + 1 < t.b * 2 AND (t.a + u.a) % 3 = 0",
    "keys above": "(r.a - s.a) % 4 = 0 AND s.b = t.b AND (t.a - u.a) % 4 = 0 AND r.b = u.b",
    "over two": "r.a + s.a = t.a AND t.b = u.b AND (r.b - s.b) % 3 = 0",
    "bands": "abs(r.a - s.a) <= 1 AND (s.b + t.b) % 4 = 0 AND abs(t.a - u.a) <= 1",
    "products": "(r.a - s.a) % 5 = 0 AND (t.a - u.a) % 5 = 0 AND r.b = u.b",
}
PLANS = (
    "(((r s) t) u)",
    "((r s) (t u))",
    "((r t) (s u))",
    "(((u t) s) r)",
    "(r (s (t u)))",
    "((t (r u)) s)",
    "((s u) (t r))",
)
WINDOWS = {
    "RANGE": ("[RANGE 8 MICROSECONDS]", "[RANGE 12 MICROSECONDS]"),
    "ROWS": ("[ROWS 5]", "[RANGE 9 MICROSECONDS]"),
}


def make_engine(predicate: str, plan: str, windows: tuple[str, str]) -> ms.Engine:
    inputs = ", ".join(f"{name} {windows[at % 2]}" for at, name in enumerate(STREAMS))
    names = ", ".join(f"{name}.ts AS {name}_ts, {name}.a AS {name}_a" for name in STREAMS)
    text = f"SELECT {names} FROM {inputs} WHERE {predicate}"
    return ms.Engine(ms.query(text, schemas=dict.fromkeys(STREAMS, SCHEMA), event_time="ts"), plan=plan)


def draw_push(rng: random.Random, now: int) -> dict[str, pa.Table]:
    push = {}
    for name in rng.sample(STREAMS, rng.randint(1, 4)):
        count = rng.randint(1, 3)
        columns = [[rng.randrange(6) for _ in range(count)] for _ in "ab"]
        push[name] = pa.table([*columns, [now + rng.randint(0, 2) for _ in range(count)]], schema=SCHEMA)
    return push


def tree_of(engine: ms.Engine) -> TreeExecutor:
    executor = engine._pipeline.executor
    executor = executor.executor if isinstance(executor, Filling) else executor
    assert isinstance(executor, TreeExecutor)
    return executor


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("name", PREDICATES)
def test_results_are_those_of_a_plan_that_never_changed(name: str, kind: str) -> None:
    """Batches with rows of several streams at once, migrations that overlap, restores, and filling in between."""
    results = routed = 0
    for seed in range(3):
        rng = random.Random(f"theta {name} {kind} {seed}")
        steady = make_engine(PREDICATES[name], rng.choice(PLANS), WINDOWS[kind])
        engine = make_engine(PREDICATES[name], rng.choice(PLANS), WINDOWS[kind])
        for now in range(0, 70, 2):
            if rng.random() < 0.25:
                strategy = rng.choice(["jisc"] * 6 + ["moving-state", "parallel-track"])
                engine.migrate(
                    rng.choice(PLANS), strategy, budget=rng.choice([0, 0, 1, 4]) if strategy == "jisc" else None
                )
            elif rng.random() < 0.05:
                engine = ms.Engine.restore(engine.query, engine.snapshot())
            push = draw_push(rng, now)
            wanted = steady.push(push, watermark=now).to_pylist()
            found = engine.push(push, watermark=now).to_pylist()
            assert sorted(map(repr, found)) == sorted(map(repr, wanted)), (seed, now)
            results += len(wanted)
            executor = engine._pipeline.executor
            if isinstance(executor, Filling | TreeExecutor):
                routed += any(node.is_probed_by_route for node in tree_of(engine).joins())
    assert results > 20
    assert routed > 2


def test_a_probe_fills_nothing_and_the_boxes_stay() -> None:
    engine = make_engine(PREDICATES["clique"], "(((u t) s) r)", WINDOWS["RANGE"])
    steady = make_engine(PREDICATES["clique"], "(((u t) s) r)", WINDOWS["RANGE"])
    rng = random.Random(5)
    for now in (0, 1, 2):
        push = draw_push(rng, now) | draw_push(rng, now)
        assert engine.push(push, watermark=0).num_rows == steady.push(push, watermark=0).num_rows
    engine.migrate("(((r s) t) u)", "jisc", budget=0)
    executor = tree_of(engine)
    held = [node.state for node in executor.joins() if node.state is not None]
    before = [(len(state), state.missing.remaining(0, 1)) for state in held]
    assert all(rows == 0 and remaining > 0 for rows, remaining in before)
    results = 0
    for _ in range(3):  # rows of u alone: nothing enters the states of r, s and t
        push = {"u": pa.table([[0, 1, 2, 3, 4], [0] * 5, [3] * 5], schema=SCHEMA)}
        wanted = steady.push(push, watermark=0)
        assert sorted(map(repr, engine.push(push, watermark=0).to_pylist())) == sorted(map(repr, wanted.to_pylist()))
        results += wanted.num_rows
        assert [(len(state), state.missing.remaining(0, 1)) for state in held] == before
        assert executor.filler.rows_filled == executor.filler.entries_filled == 0
    assert results > 0
    engine.migrate("(((r s) t) u)", "jisc", budget=10**6)
    engine.push({})
    assert engine.migration is not None and engine.migration.is_done, "the background still fills such states"
    assert all(not node.lacks_entries for node in tree_of(engine).joins())
