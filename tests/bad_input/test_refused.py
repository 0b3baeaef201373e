"""Pushes that are refused with an error, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms

from .pairs import SCHEMA, TEXT, ask, matches, pair, rows

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unknown stream": (lambda e: e.push({"c": rows([1], [5])}), "c"),
    "unknown stream beside a good one": (lambda e: e.push({"a": rows([1], [5]), "c": rows([1], [5])}), "c"),
    "missing column": (lambda e: e.push({"a": rows([1], [5]).drop_columns("k")}), "k"),
    "missing event time": (lambda e: e.push({"a": rows([1], [5]).drop_columns("ts")}), "ts"),
    "missing column in the second stream": (
        lambda e: e.push({"a": rows([1], [5]), "b": rows([1], [5]).drop_columns("v")}),
        "v",
    ),
    "text for a number": (lambda e: e.push({"a": _with("k", pa.array(["x"]))}), "k"),
    "fraction for an integer": (lambda e: e.push({"a": _with("k", pa.array([1.5]))}), "k"),
    "unsigned beyond int64": (lambda e: e.push({"a": _with("k", pa.array([2**63], pa.uint64()))}), "k"),
    "list for a number": (lambda e: e.push({"a": _with("k", pa.array([[1]]))}), "k"),
    "two columns of one name": (lambda e: e.push({"a": rows([1], [5]).append_column("k", pa.array([1]))}), "k"),
    "watermark goes back": (lambda e: e.push({"a": rows([1], [5])}, watermark=2), "watermark"),
    "a stream's watermark goes back": (lambda e: e.push({"a": rows([1], [5])}, watermark={"a": 2}), "watermark"),
    "watermark of an unknown stream": (lambda e: e.push({}, watermark={"c": 9}), "c"),
    "watermark of a wrong type": (lambda e: e.push({"a": rows([1], [5])}, watermark="soon"), "watermark"),
    "watermark of a fraction": (lambda e: e.push({"a": rows([1], [5])}, watermark=5.5), "watermark"),
    "one stream under two spellings": (lambda e: e.push({"a": rows([1], [5]), "A": rows([2], [5])}), "a"),
    "a stream's watermark under two spellings": (lambda e: e.push({}, watermark={"a": 9, "A": 8}), "a"),
    "not a mapping": (lambda e: e.push([rows([1], [5])]), "mapping"),
    "not a table": (lambda e: e.push({"a": [1, 2, 3]}), "a"),
    "pieces: unknown stream": (lambda e: list(e.push_batches({"c": rows([1], [5])})), "c"),
}


def _with(name: str, column: pa.Array) -> pa.Table:
    table = rows([1], [5])
    return table.set_column(table.column_names.index(name), name, column)


def _start_engine() -> ms.Engine:
    engine = pair()
    engine.push({"a": rows([1, 2], [3, 4]), "b": rows([2], [4])}, watermark=3)
    return engine


@pytest.mark.parametrize("name", REFUSED)
def test_refused_push_changes_nothing(name: str) -> None:
    call, named = REFUSED[name]
    engine, untouched = _start_engine(), _start_engine()
    before = engine.stats()
    with pytest.raises(ms.InputError, match=f"(?i){named}"):
        call(engine)
    assert engine.stats() == before
    later = [{"a": rows([1, 2], [6, 7], first=10)}, {"b": rows([1, 1, 2], [5, 8, 12], first=20)}, {}]
    assert ask(engine, later) == ask(untouched, later)
    # Not the work: each hash table draws a secret, on which the chains that a probe follows depend.
    assert replace(engine.stats(), work=None) == replace(untouched.stats(), work=None)
    assert engine.take_late() == untouched.take_late()


def test_unknown_stream_names_the_streams_there_are() -> None:
    with pytest.raises(ms.InputError, match="a, b"):
        pair().push({"aa": rows([1], [5])})


def test_pushing_to_a_static_table() -> None:
    query = ms.query(
        "SELECT a.v AS av FROM a [UNBOUNDED], b WHERE a.k = b.k", schemas={"a": SCHEMA, "b": SCHEMA}, event_time="ts"
    )
    engine = ms.Engine(query, tables={"b": rows([1, 1], [0, 0])})
    assert matches(engine.push({"a": rows([1, 2], [5, 6])})) == [(0,), (0,)]
    with pytest.raises(ms.InputError, match=r"b.*static|static.*b"):
        engine.push({"b": rows([1], [5])})
    assert matches(engine.push({"a": rows([1], [6], first=7)})) == [(7,), (7,)]


def test_tables_missing_unknown_or_wrong() -> None:
    query = ms.query(
        "SELECT a.v AS av FROM a [UNBOUNDED], b WHERE a.k = b.k", schemas={"a": SCHEMA, "b": SCHEMA}, event_time="ts"
    )
    with pytest.raises(ms.MidstreamError, match="b"):
        ms.Engine(query)
    with pytest.raises(ms.MidstreamError, match="c"):
        ms.Engine(query, tables={"b": rows([1], [5]), "c": rows([1], [5])})
    with pytest.raises(ms.MidstreamError, match="k"):
        ms.Engine(query, tables={"b": rows([1], [5]).drop_columns("k")})
    with pytest.raises(ms.MidstreamError, match="a"):
        ms.Engine(query, tables={"a": rows([1], [5]), "b": rows([1], [5])})
    with pytest.raises(ms.InputError, match="tables: 'b' is given twice, under different spellings; give it once"):
        ms.Engine(query, tables={"b": rows([1], [5]), "B": rows([2], [5])})


def test_a_static_table_without_columns() -> None:
    told = "schema of static table 't' has no columns at line 1, column 39; declare at least one"
    with pytest.raises(ms.QueryError, match=told):
        ms.query("SELECT a.v FROM a [ROWS 9] CROSS JOIN t", {"a": SCHEMA, "t": pa.schema({})}, "ts")
    query = ms.query("SELECT a.v FROM a [ROWS 9] CROSS JOIN t", {"a": SCHEMA, "t": {"z": int}}, "ts")
    engine = ms.Engine(query, tables={"t": {"z": [5, 6]}})
    assert matches(engine.push({"a": rows([1], [5])})) == [(0,)] * 2


def test_push_after_finish() -> None:
    engine = _start_engine()
    assert engine.finish().num_rows == 0
    assert engine.finish().num_rows == 0
    for call in (lambda: engine.push({"a": rows([1], [9])}), lambda: list(engine.push_batches({}))):
        with pytest.raises(ms.EngineError, match="finish"):
            call()
    assert sum(state.rows for state in engine.stats().states) == 0


def test_equal_watermark_is_not_a_step_back() -> None:
    engine = _start_engine()
    engine.push({}, watermark=3)
    engine.push({}, watermark={"a": 3})
    assert engine.stats().watermark == 3


def test_implicit_watermark_then_explicit_behind_it() -> None:
    engine = pair()
    engine.push({"a": rows([1], [50]), "b": rows([2], [60])})
    assert engine.stats().watermark == 50
    with pytest.raises(ms.InputError, match="watermark"):
        engine.push({}, watermark=49)
    engine.push({}, watermark=50)
    engine.push({"a": rows([1], [500]), "b": rows([2], [600])})
    assert engine.stats().watermark == 50, "once one is explicit only explicit ones count"


@pytest.mark.parametrize("plan", ["(a c)", "a", "(a (b a))", "((a b)", "", "(a b) c", "(a, b)"])
def test_bad_plans(plan: str) -> None:
    with pytest.raises(ms.PlanError):
        pair(plan=plan)


@pytest.mark.parametrize("plan", ["(a b)", "a b", "(b a)", "B A", " ( a  b ) "])
def test_good_plans(plan: str) -> None:
    engine = pair(plan=plan)
    assert matches(engine.push({"a": rows([1], [5]), "b": rows([1], [5])})) == [(0, 0)]


@pytest.mark.parametrize(
    "options", [{"executor": "warp"}, {"strategy": "hope"}, {"late": "never mind"}, {"max_jump": "far"}, {"nothing": 1}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    query = ms.query(TEXT, schemas={"a": SCHEMA, "b": SCHEMA}, event_time="ts")
    with pytest.raises((ms.MidstreamError, TypeError)):
        ms.Engine(query, **options)
