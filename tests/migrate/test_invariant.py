"""After every push and every transition: what a state stores and what its hole covers are together exactly the join."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import midstream as ms

from ..evictions import evict_some
from .audit import audit
from .changes import fit_budget

SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "c": pa.int64(), "ts": pa.int64()})
STREAMS = ("r", "s", "t", "u")
#: Each pair of neighbours is joined on a key of its own, so a state is probed through different streams by different
#: plans; or all on one key.
PREDICATES = {
    "ring": "r.a = s.a AND s.b = t.b AND t.c = u.c AND u.a = r.b",
    "star": "r.a = s.a AND r.b = t.b AND r.c = u.c",
    "key": "r.a = s.a AND s.a = t.a AND t.a = u.a",
}
PLANS = (
    "(((r s) t) u)",
    "((r s) (t u))",
    "(((s r) u) t)",
    "((u (s r)) t)",
    "(r (s (t u)))",
    "((t u) (r s))",
    "(((t u) r) s)",
    "(((r u) s) t)",
    "((r u) (s t))",
)


def make_engine(kind: str, rng: random.Random) -> ms.Engine:
    windows = {name: rng.choice([5, 10, 20]) for name in STREAMS}
    inputs = ", ".join(f"{name} [RANGE {size} MICROSECONDS]" for name, size in windows.items())
    names = ", ".join(f"{name}.ts AS {name}_ts" for name in STREAMS)
    query = ms.query(
        f"SELECT {names} FROM {inputs} WHERE {PREDICATES[kind]}",
        schemas=dict.fromkeys(STREAMS, SCHEMA),
        event_time="ts",
    )
    return ms.Engine(query, plan=rng.choice(PLANS))


def rows(rng: random.Random, now: int, domain: int) -> dict[str, pa.Table]:
    tables = {}
    for name in rng.sample(STREAMS, rng.randint(1, 4)):
        count = rng.randint(1, 3)
        columns = [[rng.randrange(domain) for _ in range(count)] for _ in "abc"]
        tables[name] = pa.table([*columns, [now + rng.randint(0, 2) for _ in range(count)]], schema=SCHEMA)
    return tables


@pytest.mark.parametrize("kind", PREDICATES)
@pytest.mark.parametrize("block", range(3))
def test_entries_and_holes_are_the_join(kind: str, block: int) -> None:
    missing = overlaps = evicted = 0
    for seed in range(block * 4, block * 4 + 4):
        rng = random.Random(f"invariant {kind} {seed}")
        engine = make_engine(kind, rng)
        for now in range(0, 50, 2):
            try:
                while rng.random() < 0.25:
                    overlaps += engine.migration is not None and not engine.migration.is_done
                    strategy = "jisc" if rng.random() < 0.9 else "moving-state"
                    engine.migrate(rng.choice(PLANS), strategy, **fit_budget(strategy, rng.choice([0, 0, 0, 1, 3])))
                    missing += audit(engine)
                if rng.random() < 0.03:
                    engine = ms.Engine.restore(engine.query, engine.snapshot())
                    missing += audit(engine)
                while rng.random() < 0.3:
                    evicted += evict_some(engine, rng)
                    missing += audit(engine)
                engine.push(rows(rng, now, 3), watermark=now)
                missing += audit(engine)
            except AssertionError as problem:
                raise AssertionError(f"{kind}, seed {seed}, time {now}, plan {engine.plan}: {problem}") from problem
    assert missing > 50
    assert overlaps > 3
    assert evicted > 50
