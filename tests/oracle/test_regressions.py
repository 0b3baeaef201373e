"""Small stories that once went wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})


def rows(keys: Sequence[int], times: Sequence[int]) -> pa.Table:
    return pa.table({"k": keys, "v": list(range(len(keys))), "ts": times}, schema=SCHEMA)


@pytest.mark.parametrize("plan", ["(b (a c))", "(b (c a))", "((a b) c)"])
def test_a_row_that_left_a_rows_window_is_not_taken_for_its_successor(plan: str) -> None:
    """A join state may still name a row of c whose place in the window a later row has taken."""
    query = ms.query(
        """SELECT a.k AS ak, b.k AS bk, c.k AS ck FROM a [UNBOUNDED], b [ROWS 1], c [ROWS 5]
           WHERE a.k = b.k AND b.k = c.k""",
        schemas=dict.fromkeys("abc", SCHEMA),
        event_time="ts",
    )
    for size in (64, 128, 256):
        engine = ms.Engine(query, plan=plan)
        keys = [1] + [9] * (size - 4) + [2] * 3
        engine.push({"a": rows([2, 2, 2, 2, 1], [0] * 5), "c": rows(keys, range(size))})
        assert engine.push({"c": rows([7], [size]), "b": rows([1], [1000])}).num_rows == 0
        assert engine.push({"b": rows([2], [1001])}).num_rows == 12


def test_rows_of_one_moment_arrive_by_their_position() -> None:
    """Also where the table is not in the order of event time."""
    query = ms.query(
        "SELECT a.v AS av, b.v AS bv FROM a [ROWS 1], b [ROWS 1] WHERE a.k = b.k",
        schemas=dict.fromkeys("ab", SCHEMA),
        event_time="ts",
    )
    engine = ms.Engine(query)
    engine.push({"a": rows([1, 1, 1, 1], [5, 3, 5, 4])})
    assert engine.push({"b": rows([1], [6])}).column("av").to_pylist() == [2]


@pytest.mark.parametrize("plan", ["(a b)", "(b a)"])
def test_the_ends_of_int64_are_not_less_than_themselves(plan: str) -> None:
    query = ms.query(
        "SELECT a.k AS x, b.k AS y FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k < b.k",
        schemas=dict.fromkeys("ab", SCHEMA),
        event_time="ts",
    )
    ends = rows([2**63 - 1, -(2**63)], [1, 1])
    found = ms.Engine(query, plan=plan).push({"a": ends, "b": ends}).select(["x", "y"]).to_pylist()
    assert found == [{"x": -(2**63), "y": 2**63 - 1}]


def test_strings_in_a_window_that_grows_before_it_forgets() -> None:
    """Bytes are moved when their heap grows; only those of rows that are there."""
    schema = pa.schema({"k": pa.int64(), "s": pa.string(), "ts": pa.int64()})
    query = ms.query(
        "SELECT a.s AS s FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k",
        schemas={"a": schema, "b": schema},
        event_time="ts",
    )

    def texts(count: int, first: int) -> pa.Table:
        numbers = range(first, first + count)
        return pa.table(
            {"k": [1] * count, "s": [f"text number {number}" for number in numbers], "ts": numbers}, schema=schema
        )

    for _ in range(5):
        engine = ms.Engine(query)
        dirt = [np.full(128, 2**46, np.int64) for _ in range(50)]
        del dirt  # what is allocated next is likely to have these numbers in it
        for first, count in ((0, 60), (60, 20), (80, 40), (120, 100)):
            engine.push({"a": texts(count, first)})
        found = engine.push({"b": texts(1, 300)}).column("s").to_pylist()
        assert sorted(found) == sorted(f"text number {number}" for number in range(220))


@pytest.mark.parametrize("size", [2**63 - 1, 2**63 - 2, 2**62])
def test_a_rows_window_that_is_never_full(size: int) -> None:
    """A row's n-th successor may have a number that no integer has."""
    query = ms.query(
        f"SELECT a.v AS av, b.v AS bv FROM a [ROWS {size}], b [ROWS 1] WHERE a.k = b.k",
        schemas=dict.fromkeys("ab", SCHEMA),
        event_time="ts",
    )
    engine = ms.Engine(query)
    for at in range(4):
        engine.push({"a": rows([1, 2, 1], [at] * 3)})
    engine = ms.Engine.restore(query, engine.snapshot().to_bytes())
    engine.push({"a": rows([1], [5])})
    assert engine.push({"b": rows([1], [6])}).num_rows == 9


@pytest.mark.parametrize("where", ["a.k = t.k", "a.k = t.k AND t.v > 1", "a.k + t.k < 5 AND t.v > 1", "a.v = t.k + 0"])
def test_a_static_table_without_some_of_its_rows_beside_a_rows_window(where: str) -> None:
    """Rows of a table that a filter or a null key removes have no numbers, and need none."""
    table = pa.table({"k": [1, None, 2, 1], "v": [0, 1, 2, 3]})
    query = ms.query(
        f"SELECT a.k AS ak, t.v AS tv FROM a [ROWS 2], t WHERE {where}",
        schemas={"a": SCHEMA, "t": table.schema},
        event_time="ts",
    )
    without_rows = ms.query(query.text.replace("ROWS 2", "UNBOUNDED"), schemas=query.schemas, event_time="ts")
    found = []
    for tried in (query, without_rows):
        engine = ms.Engine(tried, tables={"t": table})
        engine = ms.Engine.restore(tried, engine.snapshot().to_bytes())
        results = engine.push({"a": rows([1, 2, 3], [1, 2, 3])})
        found.append(sorted(results.select(["ak", "tv"]).to_pylist(), key=str))
    assert found[0] == found[1] != []
