"""Evicting entries: they are gone, they are missing, and results do not change."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.engine.joins.nodes import JoinNode

from .audit import executor_of

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})


def rows(keys: list[int], first: int = 0, time: int = 1) -> pa.Table:
    return pa.table([keys, list(range(first, first + len(keys))), [time] * len(keys)], schema=SCHEMA)


def node_over(engine: ms.Engine, aliases: str) -> JoinNode:
    numbers = {engine.plan.aliases.index(alias) for alias in aliases}
    return next(node for node in executor_of(engine).joins() if set(node.inputs) == numbers)


def evict(engine: ms.Engine, aliases: str, alias: str, ids: list[int]) -> int:
    number = engine.plan.aliases.index(alias)
    return executor_of(engine).evict(node_over(engine, aliases), number, np.array(ids, np.int64))


def three() -> ms.Engine:
    text = "SELECT r.v AS rv, s.v AS sv, t.v AS tv FROM r [UNBOUNDED], s [UNBOUNDED], t [UNBOUNDED]"
    query = ms.query(f"{text} WHERE r.k = s.k AND s.k = t.k", dict.fromkeys("rst", SCHEMA), "ts")
    return ms.Engine(query, plan="((r s) t)")


def sort_results(table: pa.Table) -> list[tuple[int, ...]]:
    return sorted(tuple(row[name] for name in ("rv", "sv", "tv")) for row in table.to_pylist())


def test_a_probe_fills_in_what_was_evicted_and_no_more() -> None:
    engine = three()
    engine.push({"r": rows([1, 1, 2, 2]), "s": rows([1, 2])})
    assert evict(engine, "rs", "r", [1, 2, 3]) == 3
    state = node_over(engine, "rs").state
    assert state is not None and len(state) == 1 and engine.stats().states[-1].rows == 1
    assert [box.cause.kind for box in state.missing] == ["eviction"]
    assert sort_results(engine.push({"t": rows([1])})) == [(0, 0, 0), (1, 0, 0)]
    assert len(state) == 3 and state.missing, "row 3 of r has another key and is still missing"
    assert sort_results(engine.push({"t": rows([2, 1], first=1)})) == [(0, 0, 2), (1, 0, 2), (2, 1, 1), (3, 1, 1)]
    assert len(state) == 4 and not state.missing


def test_evicting_again_takes_only_what_is_there() -> None:
    engine = three()
    engine.push({"r": rows([1, 2]), "s": rows([1, 2])})
    assert evict(engine, "rs", "r", [1, 2]) == 2
    assert evict(engine, "rs", "r", [1, 2]) == 0
    assert evict(engine, "rs", "s", [1, 2]) == 0
    assert sort_results(engine.push({"t": rows([1])})) == [(0, 0, 0)]
    assert evict(engine, "rs", "s", [1, 2]) == 1, "what was filled in goes again"
    state = node_over(engine, "rs").state
    assert state is not None and len(state) == 0
    assert sort_results(engine.push({"t": rows([1, 2], first=1)})) == [(0, 0, 1), (1, 1, 2)]


def test_rows_that_come_after_an_eviction_are_no_part_of_it() -> None:
    engine = three()
    engine.push({"r": rows([1]), "s": rows([1])})
    evict(engine, "rs", "r", [1])
    engine.push({"r": rows([1], first=1), "s": rows([1], first=1)})
    wanted = [(r, s, 0) for r in (0, 1) for s in (0, 1)]
    assert sort_results(engine.push({"t": rows([1])})) == wanted


def test_nothing_missing_where_nothing_was_evicted() -> None:
    engine = three()
    engine.push({"r": rows([1, 3]), "s": rows([1])})
    assert evict(engine, "rs", "r", [2, 77]) == evict(engine, "rs", "s", []) == 0
    state = node_over(engine, "rs").state
    assert state is not None and not state.missing


def test_static_rows_do_not_find_evicted_entries() -> None:
    """Static rows start before all events, and still after the end of what was evicted."""
    tables = {name: rows([1, 1, 2]).drop_columns("ts") for name in "abc"}
    schemas = {"s": SCHEMA, **{name: table.schema for name, table in tables.items()}}
    text = "SELECT a.v AS av, b.v AS bv, c.v AS cv, s.v AS sv FROM a, b, c, s [UNBOUNDED]"
    query = ms.query(f"{text} WHERE a.k = b.k AND b.k = c.k AND c.k = s.k", schemas, "ts")
    steady, engine = (ms.Engine(query, plan="((c (a b)) s)", tables=tables) for _ in range(2))
    for step in range(3):
        # To fill (c (a b)), rows of c probe (a b).
        assert evict(engine, "ab", "a", [1, 2, 3]) == 5
        assert evict(engine, "abc", "c", [1, 2, 3]) == 9
        push = {"s": rows([2, 1], first=step)}
        wanted = steady.push(push).to_pylist()
        assert sorted(map(str, engine.push(push).to_pylist())) == sorted(map(str, wanted))
        state = node_over(engine, "abc").state
        assert state is not None and len(state) == 9, "each combination once"
