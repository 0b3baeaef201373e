"""Names of the user's that are also names inside the engine: each means what the user means."""

from __future__ import annotations

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.snapshot.checkpoint import describe_query


def test_a_column_called_like_the_values_of_a_computed_key() -> None:
    schema = pa.schema({"s": pa.string(), "key 0": pa.string(), "ts": pa.int64()})
    query = ms.query(
        "SELECT a.`key 0` AS x, b.`key 0` AS y FROM a [UNBOUNDED], b [UNBOUNDED] WHERE upper(a.s) = upper(b.s)",
        schemas=dict.fromkeys("ab", schema),
        event_time="ts",
    )
    engine = ms.Engine(query)
    engine.push({"a": pa.table({"s": ["p", "Q"], "key 0": ["one", "two"], "ts": [1, 2]})})
    engine = ms.Engine.restore(query, engine.snapshot().to_bytes())
    results = engine.push({"b": pa.table({"s": ["q"], "key 0": ["three"], "ts": [3]})})
    assert results.select(["x", "y"]).to_pylist() == [{"x": "two", "y": "three"}]


@pytest.mark.parametrize("alias", ["held back results", "held", "windows", "meta"])
def test_an_alias_called_like_a_part_of_a_snapshot(alias: str) -> None:
    schema = pa.schema({"k": pa.int64(), "ts": pa.int64()})
    query = ms.query(
        f"SELECT `{alias}`.k FROM a [UNBOUNDED] `{alias}`, b [UNBOUNDED] WHERE `{alias}`.k = b.k",
        schemas=dict.fromkeys("ab", schema),
        event_time="ts",
    )
    engine = ms.Engine(query)
    engine.push({"a": pa.table({"k": [1, 2], "ts": [1, 2]})})
    engine = ms.Engine.restore(query, engine.snapshot().to_bytes())
    assert engine.push({"b": pa.table({"k": [2], "ts": [3]})}).column("k").to_pylist() == [2]


@pytest.mark.parametrize(
    ("names", "reason"),
    [([], "reason"), (["Reason"], "_reason"), (["reason", "_reason"], "__reason"), (["_reason"], "reason")],
)
def test_late_rows_of_a_stream_that_has_a_reason_of_its_own(names: list[str], reason: str) -> None:
    schema = pa.schema([*((name, pa.string()) for name in names), ("ts", pa.int64())])
    engine = ms.Engine(ms.query("SELECT a.ts FROM a [UNBOUNDED]", {"a": schema}, "ts"), late="keep")
    for moment in (5, 1):
        engine.push({"a": pa.table({**{name: ["mine"] for name in names}, "ts": [moment]}, schema=schema)})
    assert engine.take_late()["a"].to_pylist() == [{**dict.fromkeys(names, "mine"), "ts": 1, reason: "late"}]


def test_a_column_called_like_an_expression_is_not_taken_for_it() -> None:
    """What a snapshot is compared by tells names from expressions."""
    schema = pa.schema({"x": pa.int64(), "x > 1": pa.bool_(), "ts": pa.int64()})
    texts = [f"SELECT a.ts FROM a [UNBOUNDED] WHERE {where}" for where in ("a.x > 1", "a.`x > 1`")]
    expression, column = (describe_query(ms.query(text, {"a": schema}, "ts")) for text in texts)
    assert expression["filters"] != column["filters"]
