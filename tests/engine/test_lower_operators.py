"""DISTINCT below joins: whatever the plan, the results are those of the plan without it."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.app.explain import explain
from midstream.state import rings
from midstream.state.window import BaseWindow

from ..limits import Limits, tight

SECOND = 1_000_000
ROW = {"k": int, "x": int, "name": pa.string(), "y": float, "ts": int}
PLANS = (
    "(distinct(a b) c)",
    "(distinct(a) (b c))",
    "((distinct(a) b) c)",
    "(c (b distinct(a)))",
    "(distinct(a) distinct(b c))",
    "(distinct(distinct(a) b) distinct(c))",
    "((distinct(a) distinct(b)) distinct(c))",
)
#: Equal keys, equal texts, a band, and a predicate over all three.
CONDITIONS = ("a.k = b.k AND b.x = c.k", "a.name = b.name AND a.k = b.k AND b.x BETWEEN c.x - 1 AND c.x + 1")
THETA = " AND a.x + b.k >= c.k - 6"


def make_query(conditions: str, selected: str = "a.x, c.x AS cx") -> ms.Query:
    windows = "a [RANGE 5 SECONDS], b [RANGE 3 SECONDS], c [RANGE 4 SECONDS]"
    text = f"SELECT DISTINCT {selected} FROM {windows} WHERE {conditions}"
    return ms.query(text, dict.fromkeys("abc", ROW), "ts", step="2 seconds")


def draw_rows(rng: random.Random, second: float, streams: str = "abc") -> dict[str, Any]:
    """Few values, so that most of them are there for longer than the row that was first to have them."""
    return {
        stream: [
            {
                "k": rng.randrange(5),
                "x": rng.randrange(6),
                "name": rng.choice(["o", "p"]),
                "y": rng.choice([0.0, -0.0, math.nan, 1.5]),
                "ts": int((second + rng.random()) * SECOND),
            }
            for _ in range(4)
        ]
        for stream in streams
    }


def run(
    engine: ms.Engine, seed: int = 1, pushes: int = 24, streams: str = "abc", limits: Limits | None = None
) -> list[list[str]]:
    """The results of every push, and of the end; perhaps under limits of memory that change in between."""
    rng = random.Random(seed)
    found = []
    for number in range(pushes):
        rows, watermark = draw_rows(rng, number / 2, streams), int(max(0, number / 2 - 1) * SECOND)
        if limits is None:
            table = engine.push(rows, watermark=watermark)
        else:
            limits.change(engine)
            table = limits.push(engine, partial(engine.push, rows, watermark=watermark))
        found.append(sorted(map(str, table.to_pylist())))
    return [*found, sorted(map(str, engine.finish().to_pylist()))]


@pytest.fixture
def tiny_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that have left a window are written over at once: a value may not be told by such a row."""

    def start_small(window: BaseWindow) -> None:
        window.capacity = 2
        window._allocate()

    ms.get_ready()
    monkeypatch.setattr(rings, "SMALLEST_CAPACITY", 2)
    monkeypatch.setattr(BaseWindow, "__post_init__", start_small)


@pytest.mark.usefixtures("tiny_windows")
@pytest.mark.parametrize(
    ("conditions", "executor"),
    [(CONDITIONS[0], "tree"), (CONDITIONS[1], "tree"), (CONDITIONS[0] + THETA, "tree"), (CONDITIONS[1], "stems")],
)
def test_results_do_not_depend_on_where_distinct_stands(conditions: str, executor: str) -> None:
    query = make_query(conditions)
    expected = run(ms.Engine(query, plan="((a b) c)"))
    assert sum(map(len, expected)) > 50
    for plan in PLANS:
        assert run(ms.Engine(query, plan=plan, executor=executor)) == expected, plan


def test_limits_of_memory_change_no_result() -> None:
    """Values of DISTINCT count and stay; what joins below them keep may be given up."""
    windows = ", ".join(f"{name} [RANGE 4 SECONDS]" for name in "abcd")
    text = f"SELECT DISTINCT a.x, d.x AS dx FROM {windows} WHERE a.k = b.k AND b.k = c.k AND c.x = d.k"
    query = ms.query(text, dict.fromkeys("abcd", ROW), "ts", step="2 seconds")
    expected = run(ms.Engine(query, plan="(((a b) c) d)"), pushes=12, streams="abcd")
    given_up = 0
    for plan in ("(distinct((a b) c) d)", "(distinct(d) distinct((b c) a))", "((distinct(a) (b c)) d)"):
        with tight():
            engine, limits = ms.Engine(query, plan=plan), Limits(plan)
            assert run(engine, pushes=12, streams="abcd", limits=limits) == expected, plan
        given_up += limits.evicted + limits.switched_off
    assert given_up > 0 and sum(map(len, expected)) > 20


def test_a_product_of_values() -> None:
    """Nothing joins the two sides, and nothing is needed of one of them but that it is there."""
    text = "SELECT DISTINCT a.x FROM a [RANGE 5 SECONDS] CROSS JOIN b [RANGE 3 SECONDS] CROSS JOIN c [RANGE 4 SECONDS]"
    query = ms.query(text, dict.fromkeys("abc", ROW), "ts", step="2 seconds")
    expected = run(ms.Engine(query, plan="((a b) c)"))
    for plan in ("(distinct(b) (a c))", "(distinct(b c) distinct(a))", "(distinct(distinct(b) c) a)"):
        assert run(ms.Engine(query, plan=plan)) == expected, plan


@pytest.mark.parametrize("plan", ["(a b)", "(distinct(a) b)", "(distinct(a) distinct(b))"])
def test_zeros_of_both_signs_are_told_apart_below_and_nan_is_one_value(plan: str) -> None:
    """At the top -0.0 is 0.0, but a text made of it is another."""
    text = "SELECT DISTINCT CAST(a.y AS STRING) AS text, a.y AS y FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS]"
    query = ms.query(f"{text} WHERE a.k = b.k", dict.fromkeys("ab", ROW), "ts", step="5 seconds")
    engine = ms.Engine(query, plan=plan)
    other_nan = math.copysign(math.nan, -1.0)
    rows = [{"k": 1, "ts": 0, "y": value} for value in (0.0, -0.0, 0.0, -0.0, math.nan, other_nan, None, None)]
    engine.push({"a": rows, "b": [{"k": 1, "ts": 0}]})
    values = [state.rows for state in engine.stats().states if state.name == "distinct(a)"]
    assert values == [4] * ("distinct(a)" in plan)
    found = engine.finish().to_pylist()
    assert sorted(str(row["text"]) for row in found) == ["-0.0", "0.0", "NaN", "None"]
    assert [math.copysign(1.0, row["y"]) for row in found if row["text"] in ("-0.0", "0.0")] == [1.0, 1.0]


def test_static_tables_and_windows_without_an_end() -> None:
    text = """SELECT DISTINCT t.x, a.k FROM a [UNBOUNDED], t, u WHERE a.k = t.k AND t.x = u.x"""
    schemas = {"a": ROW, "t": {"k": int, "x": int}, "u": {"x": int}}
    query = ms.query(text, schemas, "ts", step="10 seconds")
    tables = {"t": {"k": [1, 1, 2, 2], "x": [7, 7, 8, 9]}, "u": {"x": [7, 7, 8]}}
    expected: list[Any] = []
    below = ("(distinct(t u) a)", "(distinct(t) (a u))", "(distinct(a) (t u))", "(a distinct(t distinct(u)))")
    for plan in ("((a t) u)", *below):
        engine = ms.Engine(query, plan=plan, tables=tables)
        found = [engine.push({"a": [{"k": 1, "ts": 3 * SECOND}, {"k": 1, "ts": 4 * SECOND}]}, watermark=15 * SECOND)]
        engine = ms.Engine.restore(query, engine.snapshot().to_bytes())
        assert str(engine.plan) == str(ms.Engine(query, plan=plan, tables=tables).plan)
        found += [engine.push({"a": [{"k": 2, "ts": 16 * SECOND}]}, watermark=20 * SECOND), engine.finish()]
        rows = [sorted(map(str, table.to_pylist())) for table in found]
        expected = expected or rows
        assert rows == expected, plan
    assert [len(rows) for rows in expected] == [1, 2, 2]
    assert all("'valid_to': None" in row for row in expected[-1])


def test_what_runs_can_be_looked_at() -> None:
    query = make_query(CONDITIONS[0])
    engine = ms.Engine(query, plan="distinct(a) (b c)")
    engine.push(draw_rows(random.Random(5), 1.0))
    assert str(engine.plan) == "(distinct(a) (b c))"
    states = {state.name: state for state in engine.stats().states}
    assert states["distinct(a)"].kind == states["b c"].kind == "operator"
    assert states["b c"].aliases == ("b", "c") and states["b c"].rows > 0
    assert "<svg" in engine._repr_html_() and ">distinct<" in engine._repr_html_()
    assert "one row for each a.x, a.k" in explain(query, engine.plan)


def test_an_index_that_only_the_stage_probes_is_kept() -> None:
    """After a change of plan, the window of c is still found by both keys at once."""
    query = make_query("a.k = c.k AND a.x = c.x AND a.k = b.k", "a.x")
    engine = ms.Engine(query, plan="(distinct(a b) c)")
    engine.migrate("(distinct(b a) c)")
    assert any(len(classes) > 1 for classes in engine._pipeline._windows[2].hash_indexes)
    assert run(engine) == run(ms.Engine(query, plan="((a b) c)"))
