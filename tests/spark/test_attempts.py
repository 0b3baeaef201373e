"""Two attempts of one batch write the same, so that a state store that mixes their files loses and doubles nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import midstream as ms
from midstream.options import EngineOptions
from midstream.spark import processor
from midstream.spark.commands.messages import Command
from midstream.spark.routing.content import order_rows
from midstream.spark.spec import JoinSpec
from tests.eager import eager

from .attempts import Batches, count_rows

SCHEMA = pa.schema(
    {"k": pa.int64(), "t": pa.string(), "d": pa.float64(), "l": pa.list_(pa.int32()), "ts": pa.timestamp("us", "UTC")}
)
STATIC = pa.schema({"k": pa.int64(), "name": pa.string()})
PAIR = "FROM a [RANGE 4 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
TRIPLE = "FROM a [RANGE 4 SECONDS], b [RANGE 9 SECONDS], c [UNBOUNDED] WHERE a.k = b.k AND b.k = c.k"
PLANS = ["((a b) c)", "((c a) b)", "(b (c a))"]
STRATEGIES = ["jisc", "moving-state", "parallel-track", "genmig", "genmig-reference-point"]
KINDS = {
    "windows": f"SELECT a.t, a.d, b.l {PAIR}",
    "three": f"SELECT a.t, a.d, b.l, c.t AS ct {TRIPLE}",
    "static": f"SELECT a.t, b.d, s.name {PAIR.replace(' WHERE', ', s WHERE')} AND s.k = a.k",
    "rows": "SELECT a.t, a.d, b.d AS bd FROM a [ROWS 4], b [ROWS 7] WHERE a.k = b.k",
    "rows and range": "SELECT a.t, b.d FROM a [ROWS 4], b [RANGE 5 SECONDS] WHERE a.k = b.k AND a.d < 2.0",
    "rows and static": "SELECT a.t, b.d, s.name FROM a [ROWS 9], b [RANGE 5 SECONDS], s WHERE a.k = b.k AND s.k = a.k",
}


def some_rows(rng: random.Random, count: int, now: int) -> pa.Table:
    """Rows of few moments and values, so that there are ties and equal rows, some of them late.

    `now` is the watermark of the batch in milliseconds, 2 seconds after that of the batch before.
    """

    def row() -> dict[str, Any]:
        return {
            "k": rng.choice([None, 0, 1, 2]),
            "t": rng.choice([None, "", "x", "y" * 40]),
            "d": rng.choice([None, 0.0, -0.0, 1.5, float("nan")]),
            "l": rng.choice([None, [], [1], [None, 1], [1, None]]),
            "ts": 1000 * (now + 500 * rng.randrange(-6, 6)),
        }

    return pa.Table.from_pylist([row() for _ in range(count)], schema=SCHEMA)


def by_content(spec: JoinSpec, data: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Rows in the order in which a cell takes those of one moment, which counts under ROWS windows."""
    schemas = spec.routing.cell_query.schemas
    tables = {name: table.select(schemas[name].names) for name, table in data.items()}
    return {name: pa.concat_tables([table.slice(0, 0), *order_rows(table, "ts")]) for name, table in tables.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seed", "demand"), [(0, "off"), (1, "on"), (2, "auto")])
def test_all_attempts_at_a_batch_write_the_same(kind: str, seed: int, demand: str) -> None:
    """Other orders and cuts, an engine that was there or one that was loaded: the same is stored, and it is right."""
    rng = random.Random(f"{kind} {seed}")
    text = KINDS[kind]
    streams = [name for name in "abc" if f" {name} [" in text]
    names = pa.table({"k": [0, 1, 1, 0] * 5, "name": list("pqrstuvwxy" * 2)}, schema=STATIC)
    tables = {"s": names} if "static" in kind else {}
    schemas = dict.fromkeys(streams, SCHEMA) | dict.fromkeys(tables, STATIC)
    spec = JoinSpec(text, schemas, "ts", cells=1 if "rows" in kind else 2, options=EngineOptions(demand=demand))
    engine = ms.Engine(ms.query(text, schemas=schemas, event_time="ts"), tables=tables, demand="off")
    batches = Batches(spec, seed, tables)
    found: Counter[Any] = Counter()
    for batch in range(10):
        now = 10_000 + 2_000 * batch
        data = {name: some_rows(rng, rng.choice([0, 1, 5, 20]), now) for name in streams}
        plans = rng.choices(PLANS, k=2) if kind == "three" and batch % 3 else []
        commands = tuple(Command(plan, rng.choice(STRATEGIES)) for plan in plans)
        with mock.patch.object(processor, "take") as take, eager():
            results = batches.run(data, now, take, commands)
        assert results == count_rows(engine.push(by_content(spec, data), watermark=1000 * now))
        found += results
    assert found and sum(engine.stats().late.values())
