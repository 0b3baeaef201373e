"""Rows that a filter or a null key removes are counted, whatever the cuts, the aliases and the restores."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.input import batch

SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "v": pa.int64(), "ts": pa.int64()})
Row = dict[str, Any]
Passes = Callable[[Row], bool]
Joins = Callable[[Row], bool]
#: A query over streams a and b, and for each alias of a: what passes its filters, and what then has all its keys.
CASES: dict[str, tuple[str, list[tuple[Passes, Joins]]]] = {
    "key": ("a [UNBOUNDED] a, b [UNBOUNDED] b WHERE a.k = b.k", [(lambda row: True, lambda row: row["k"] is not None)]),
    "filter and text key": (
        "a [UNBOUNDED] a, b [UNBOUNDED] b WHERE a.s = b.s AND a.v > 1",
        [(lambda row: row["v"] is not None and row["v"] > 1, lambda row: row["s"] is not None)],
    ),
    "band": (
        "a [ROWS 3] a, b [ROWS 2] b WHERE a.v BETWEEN b.v - 1 AND b.v + 1",
        [(lambda row: True, lambda row: row["v"] is not None)],
    ),
    "two aliases": (
        "a [RANGE 9 SECONDS] a, a [ROWS 4] c, b [UNBOUNDED] b WHERE a.k = b.k AND c.s = b.s AND a.v > 2 AND c.v < 2",
        [
            (lambda row: row["v"] is not None and row["v"] > 2, lambda row: row["k"] is not None),
            (lambda row: row["v"] is not None and row["v"] < 2, lambda row: row["s"] is not None),
        ],
    ),
    "an alias that keeps all": (
        "a [UNBOUNDED] a, a [UNBOUNDED] c, b [UNBOUNDED] b WHERE a.k = b.k AND a.v > 2 AND c.ts < b.ts OR FALSE",
        [(lambda row: True, lambda row: True)],
    ),
}


def draw_rows(rng: random.Random, first: int) -> list[Row]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.3 else value

    return [
        {"k": maybe(rng.randrange(3)), "s": maybe(rng.choice("xyz")), "v": maybe(rng.randrange(5)), "ts": first + place}
        for place in range(rng.randrange(12))
    ]


def reason(row: Row, aliases: list[tuple[Passes, Joins]]) -> str | None:
    if any(passes(row) and joins(row) for passes, joins in aliases):
        return None
    return "null key" if any(passes(row) for passes, _ in aliases) else "filter"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_dropped_rows_are_counted(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    rng = random.Random(f"dropped {name} {seed}")
    if seed:
        monkeypatch.setattr(batch, "CHUNK_ROWS", rng.choice([1, 3]))
        monkeypatch.setattr(batch, "_SAMPLED", 1)
    tail, aliases = CASES[name]
    query = ms.query(f"SELECT b.v AS v FROM {tail}", dict.fromkeys("ab", SCHEMA), "ts")
    engine = ms.Engine(query)
    expected: Counter[str] = Counter()
    for number in range(12):
        rows = draw_rows(rng, number * 100)
        engine.push({"a": pa.Table.from_pylist(rows, SCHEMA)})
        expected.update(found for row in rows if (found := reason(row, aliases)) is not None)
        assert engine.stats().dropped == {"a": dict(expected), "b": {}}
        if rng.random() < 0.3:
            engine = ms.Engine.restore(query, engine.snapshot().to_bytes())
    engine.finish()
    assert engine.stats().dropped == {"a": dict(expected), "b": {}}
    assert bool(expected) == (name != "an alias that keeps all")


def test_rows_of_tables_and_of_resumed_engines_are_not_counted() -> None:
    query = ms.query("SELECT a.v FROM a [UNBOUNDED], t WHERE a.k = t.k", {"a": SCHEMA, "t": SCHEMA}, "ts")
    rows = pa.Table.from_pylist([{"k": None, "s": "x", "v": 1, "ts": 1}], SCHEMA)
    assert ms.Engine(query, tables={"t": rows}).stats().dropped == {"a": {}}
    assert ms.Engine.resume(query, {"a": rows}, 0, tables={"t": rows}).stats().dropped == {"a": {}}
