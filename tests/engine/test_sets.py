"""Set operations through the engine: small stories whose results can be read off."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.adapt import estimate, measure
from midstream.app.explain import explain
from midstream.errors import PlanError, SnapshotError
from midstream.migrate import STRATEGIES
from midstream.plan import Join, Leaf, default_plan, draw, read_plan

SECOND = 1_000_000
ROW = {"id": int, "ts": int}
SCHEMAS: dict[str, Any] = dict.fromkeys("abcd", ROW)
Rows = list[tuple[Any, ...]]


def make_query(text: str, step: str | None = "5 seconds", schemas: dict[str, Any] = SCHEMAS) -> ms.Query:
    return ms.query(text, schemas, "ts", step=step)


def rows_at(*moments: tuple[int, float]) -> list[dict[str, Any]]:
    """Rows of ids and seconds."""
    return [{"id": number, "ts": int(second * SECOND)} for number, second in moments]


def in_seconds(table: pa.Table) -> Rows:
    """Sorted rows; the times of their validity in seconds, the end rounded up to what ends it."""
    found = []
    for *values, first, last in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.append((*values, first / SECOND, None if last is None else (last + 1) / SECOND))
    return sorted(found)


@pytest.mark.parametrize("turned", [False, True])
def test_instants_stay_instants_beside_what_has_no_zone(turned: bool) -> None:
    """As in Spark, whose TIMESTAMP is an instant; what has no zone is in UTC."""
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
    rows = {"z": noon, "n": noon.replace(tzinfo=None), "d": noon.date()}
    types = {"z": pa.timestamp("us", "Europe/Berlin"), "n": pa.timestamp("ns"), "d": pa.date32()}
    sides = [f"SELECT x FROM {name} [RANGE 1 SECOND]" for name in "zn"]
    text = f"{' UNION '.join(reversed(sides) if turned else sides)} UNION SELECT x FROM d [RANGE 1 SECOND]"
    engine = ms.Engine(make_query(text, schemas={name: {"x": type, "ts": int} for name, type in types.items()}))
    engine.push({name: [{"x": value, "ts": 0}] for name, value in rows.items()})
    found = engine.finish()
    assert found.schema.field("x").type == types["z"]
    assert sorted(found["x"].to_pylist()) == [noon.replace(hour=0), noon]


LEFT, RIGHT = "SELECT id FROM a [RANGE 3999999 MICROSECONDS]", "SELECT id FROM b [RANGE 1999999 MICROSECONDS]"
#: Row 1 is in a twice from 1 to 5 and in b from 2 to 4, row 2 is in a from 1 to 5, row 3 is in b from 2 to 4.
STORY = {"a": rows_at((1, 1), (1, 1), (2, 1)), "b": rows_at((1, 2), (3, 2))}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("UNION", [(1, 1, 5), (2, 1, 5), (3, 2, 4)]),
        ("EXCEPT", [(1, 1, 2), (1, 4, 5), (2, 1, 5)]),
        ("EXCEPT ALL", [(1, 1, 2), (1, 1, 5), (1, 4, 5), (2, 1, 5)]),
        ("INTERSECT", [(1, 2, 4)]),
        ("INTERSECT ALL", [(1, 2, 4)]),
    ],
)
def test_every_operation_over_time(operation: str, expected: Rows) -> None:
    engine = ms.Engine(make_query(f"{LEFT} {operation} {RIGHT}"))
    assert engine.push(STORY, watermark=5 * SECOND - 1).num_rows == 0
    assert in_seconds(engine.push({}, watermark=5 * SECOND)) == expected
    assert engine.finish().num_rows == 0


def test_an_expiring_inner_row_of_a_difference_brings_the_outer_one_back() -> None:
    """Also where the inner row ends by a join, in a later step, after a restore and under another plan."""
    text = (
        "SELECT id FROM a [RANGE 19999999 MICROSECONDS] EXCEPT "
        "SELECT b.id FROM b [RANGE 6999999 MICROSECONDS], c [RANGE 9 SECONDS] WHERE b.id = c.id"
    )
    query = make_query(text)
    engine = ms.Engine(query, plan="a minus (b c)")
    batch = {"a": rows_at((1, 1), (2, 1)), "b": rows_at((1, 2)), "c": rows_at((1, 2))}
    assert in_seconds(engine.push(batch, watermark=6 * SECOND)) == [(1, 1, 2), (2, 1, 5)]
    engine = ms.Engine.restore(query, engine.snapshot(), plan="a minus (c b)")
    assert in_seconds(engine.push({}, watermark=10 * SECOND)) == [(1, 9, 10), (2, 5, 10)]
    assert in_seconds(engine.push({}, watermark=15 * SECOND)) == [(1, 10, 15), (2, 10, 15)]


def test_union_all_of_plain_branches_goes_out_at_once_and_uncut() -> None:
    query = make_query(
        "SELECT id FROM a [ROWS 1] UNION ALL SELECT a.id FROM a [ROWS 2], b [ROWS 1] WHERE a.id = b.id", None
    )
    engine = ms.Engine(query)
    assert in_seconds(engine.push({"a": rows_at((1, 1), (2, 2))})) == [(1, 1, None), (2, 2, None)]
    assert in_seconds(engine.push({"b": rows_at((1, 3))})) == [(1, 3, None)]
    engine = ms.Engine.restore(query, engine.snapshot(), plan="a union (b a_2)")
    assert in_seconds(engine.push({"a": rows_at((1, 4), (1, 5))})) == [
        (1, 4, None),
        (1, 4, None),
        (1, 5, None),
        (1, 5, None),
    ]


def test_groups_and_distinct_rows_are_branches() -> None:
    text = (
        "SELECT id, count(*) AS n FROM a [TUMBLE 5 SECONDS] GROUP BY id "
        "EXCEPT ALL (SELECT DISTINCT id, 2 FROM b [TUMBLE 5 SECONDS] "
        "UNION ALL SELECT id, count(*) FROM c [TUMBLE 10 SECONDS] GROUP BY id)"
    )
    engine = ms.Engine(make_query(text, None))
    batch = {"a": rows_at((1, 1), (1, 2), (2, 3), (3, 6)), "b": rows_at((1, 1), (1, 1)), "c": rows_at((3, 9))}
    assert in_seconds(engine.push(batch, watermark=10 * SECOND)) == [(2, 1, 0, 5)]
    assert engine.finish().num_rows == 0


def test_a_run_goes_on_where_groups_of_two_pushes_meet() -> None:
    """Groups come anew in every step; nothing but the border of a step cuts them."""
    groups = "SELECT id, count(*) AS n FROM a [RANGE 9999999 MICROSECONDS] GROUP BY id"
    engine = ms.Engine(make_query(f"{groups} INTERSECT SELECT id, 1 FROM b [UNBOUNDED]"))
    engine.push({"a": rows_at((1, 1)), "b": rows_at((1, 0))})
    assert in_seconds(engine.push({}, watermark=5 * SECOND)) == [(1, 1, 1, 5)]
    assert in_seconds(engine.push({}, watermark=15 * SECOND)) == [(1, 1, 5, 10), (1, 1, 10, 11)]


TABLES = {"c": pa.table({"id": [1, 3]}), "d": pa.table({"id": [3, 4]})}
STATIC = {"a": ROW, "c": {"id": int}, "d": {"id": int}}


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ("EXCEPT SELECT id FROM c", [(2, 1, 5), (4, 1, 5)]),
        ("INTERSECT SELECT id FROM c", [(1, 1, 5), (3, 1, 5)]),
        ("EXCEPT SELECT c.id FROM c, d WHERE c.id = d.id", [(1, 1, 5), (2, 1, 5), (4, 1, 5)]),
        ("EXCEPT (SELECT id FROM c UNION SELECT id FROM d)", [(2, 1, 5)]),
        ("EXCEPT SELECT count(*) + 1 FROM c", [(1, 1, 5), (2, 1, 5), (4, 1, 5)]),
    ],
)
@pytest.mark.parametrize("way", ["whole", "restored", "resumed"])
def test_the_right_side_may_be_static_tables_alone(right: str, expected: Rows, way: str) -> None:
    text = f"SELECT id FROM a [RANGE 7999999 MICROSECONDS] {right}"
    query = make_query(text, schemas=STATIC)
    batch = {"a": rows_at((1, 1), (2, 1), (3, 1), (4, 1))}
    tables = {name: TABLES[name] for name in query.tables}
    engine = ms.Engine(query, tables=tables)
    engine.push(batch, watermark=2 * SECOND)
    if way == "restored":
        engine = ms.Engine.restore(query, engine.snapshot())
    if way == "resumed":
        engine = ms.Engine.resume(query, batch, watermark=2 * SECOND, tables=tables)
    assert in_seconds(engine.push({}, watermark=5 * SECOND)) == expected
    engine.migrate(engine.plan, "moving-state")
    later = [(number, first + 4, last + 4) for number, first, last in expected]
    assert in_seconds(engine.push({}, watermark=10 * SECOND)) == later


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES if strategy.name != "staged"])
@pytest.mark.parametrize("operation", ["UNION", "EXCEPT", "UNION ALL"])
def test_a_migration_below_a_set_operation_changes_nothing(strategy: str, operation: str) -> None:
    inputs = "a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS]"
    joined = f"SELECT a.id FROM {inputs} WHERE a.id = b.id AND b.id = c.id"
    text = f"SELECT id FROM d [RANGE 10 SECONDS] {operation} {joined}"
    query = make_query(text, None if operation == "UNION ALL" else "5 seconds")
    plans = ["d ((a b) c)", "d ((b a) c)" if strategy == "pause-drain-resume" else "d (a (b c))"]
    moving, staying = (ms.Engine(query, plan=plans[0]) for _ in range(2))
    found, expected = [], []
    for place in range(12):
        if place == 4:
            moving.migrate(plans[1], strategy)
        batch = {name: rows_at((place % 3, place + at / 8), (7, place + at / 4)) for at, name in enumerate("dabc")}
        found.append(in_seconds(moving.push(batch)))
        expected.append(in_seconds(staying.push(batch)))
    assert found == expected and any(expected)
    assert in_seconds(moving.finish()) == in_seconds(staying.finish())
    assert str(moving.plan) == str(read_plan(plans[1], query))


def test_hold_works_with_union_all_alone() -> None:
    joined = "SELECT a.id FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.id = b.id"
    query = make_query(f"{joined} UNION ALL {joined}", None)
    engine = ms.Engine(query)
    engine.push({"a": rows_at((1, 1))})
    engine.migrate("(b a) (b_2 a_2)", "parallel-track", hold=True)
    assert in_seconds(engine.push({"b": rows_at((1, 2), (2, 2))})) == [(1, 2, 10.000001)] * 2
    assert engine.push({"a": rows_at((2, 3))}).num_rows == 0
    assert in_seconds(engine.finish()) == [(2, 3, 11.000001)] * 2
    with pytest.raises(ms.EngineError, match="hold=True, but the query gives its results out step by step"):
        ms.Engine(make_query(f"{joined} UNION {joined}")).migrate("(b a) (b_2 a_2)", "parallel-track", hold=True)


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (f"{LEFT} EXCEPT {RIGHT}", f"{LEFT} INTERSECT {RIGHT}", "combined"),
        (f"{LEFT} EXCEPT {RIGHT}", f"{LEFT} EXCEPT ALL {RIGHT}", "combined"),
        (f"{LEFT} EXCEPT {RIGHT}", f"{LEFT} EXCEPT {RIGHT.replace('SELECT', 'SELECT DISTINCT')}", "branches"),
        (f"{LEFT} EXCEPT {RIGHT}", f"{LEFT} EXCEPT {RIGHT.replace('id', 'id + 1 AS id')}", "branches"),
        (f"{LEFT} UNION {RIGHT} UNION {LEFT}", f"{LEFT} UNION ({RIGHT} UNION {LEFT})", "combined"),
    ],
)
def test_a_snapshot_keeps_its_set_operations(before: str, after: str, part: str) -> None:
    snapshot = ms.Engine(make_query(before)).snapshot()
    ms.Engine.restore(make_query(before), snapshot)
    with pytest.raises(SnapshotError, match=rf"the snapshot is of another query; {part}: "):
        ms.Engine.restore(make_query(after), snapshot)


def test_a_snapshot_of_union_all_may_select_other_columns() -> None:
    text = "SELECT id, ts FROM a [ROWS 9] UNION ALL SELECT id, ts FROM b [ROWS 9]"
    snapshot = ms.Engine(make_query(text, None)).snapshot()
    ms.Engine.restore(make_query(text.replace("id, ts", "id"), None), snapshot)


def test_a_stored_step_goes_on_in_all_branches() -> None:
    query = make_query(f"{LEFT} EXCEPT SELECT id FROM b [RANGE 10 SECONDS]", None)
    engine = ms.Engine(query)
    engine.push({"a": rows_at((1, 1))}, watermark=SECOND)
    smaller = make_query(f"{LEFT} EXCEPT SELECT id FROM b [RANGE 1 SECOND]", None)
    assert (query.step, smaller.step) == (SECOND, 400_000)
    engine = ms.Engine.restore(smaller, engine.snapshot())
    assert {engine.query.step, *(part.step for part in engine.query.parts)} == {SECOND}
    assert in_seconds(engine.push({}, watermark=2 * SECOND)) == [(1, 1, 2)]


THREE = (
    "SELECT a.id FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.id = b.id "
    "EXCEPT (SELECT id FROM c [RANGE 1 SECOND] UNION SELECT id FROM a [RANGE 1 SECOND])"
)


def test_plans_of_set_operations() -> None:
    query = make_query(THREE)
    assert str(default_plan(query)) == "((a b) minus (c union a_2))"
    for text in ("((b a) minus (c union a_2))", "(b a) (c a_2)", "(b a) minus (c a_2)"):
        assert str(read_plan(text, query)) == "((b a) minus (c union a_2))"
    tree = Join(Join(Leaf(1), Leaf(0)), Join(Leaf(2), Leaf(3)))
    engine = ms.Engine(query, plan=ms.Plan(query.aliases, tree))
    assert str(engine.plan) == "((b a) minus (c union a_2))"
    assert [str(fragment) for fragment in engine.plan.fragments] == ["(b a)", "c", "a_2"]
    drawn = [word for word in draw(engine.plan).split() if "┴" not in word]
    assert drawn == ["minus", "⋈", "union", "b", "a", "c", "a_2"]
    assert "minus" in engine._repr_html_() and "union" in engine._repr_html_()


@pytest.mark.parametrize(
    "text",
    [
        "(a b) union (c union a_2)",
        "(a b) minus (a_2 union c)",
        "(c a_2) minus (a b)",
        "((a b) c) a_2",
        "((a c) b) a_2",
        "(a minus b) (c union a_2)",
        "(a b) minus (c intersect a_2)",
    ],
)
def test_a_plan_has_the_set_operations_of_its_query(text: str) -> None:
    with pytest.raises(PlanError, match=r"does not fit .* for example \(\(a b\) minus \(c union a_2\)\)"):
        read_plan(text, make_query(THREE))


def test_explain_shows_set_operations_and_what_a_migration_below_them_costs() -> None:
    inputs = "a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS]"
    joined = f"SELECT a.id FROM {inputs} WHERE a.id = b.id AND b.id = c.id"
    query = make_query(f"SELECT id FROM d [ROWS 9] UNION ALL {joined}", None)
    assert explain(query, read_plan("d ((a b) c)", query)).endswith(
        """\
plan (d union ((a b) c))

union
├─ d
└─ ⋈          key a.id = c.id
   ├─ ⋈       key a.id = b.id
   │  ├─ a
   │  └─ b
   └─ c"""
    )
    found = estimate(query, read_plan("d ((a b) c)", query), read_plan("d (a (b c))", query))
    assert [(state.name, state.fate) for state in found.states] == [("(b c)", "computed"), ("(a b)", "given up")]
    with pytest.raises(ms.EngineError, match="measure: the query combines several joins by set operations"):
        measure(query, default_plan(query), default_plan(query), {})


def test_a_join_has_no_set_operation() -> None:
    query = make_query("SELECT a.id FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.id = b.id", None)
    with pytest.raises(PlanError, match="plan: 'union' at column 3: the query has no set operation; leave it out"):
        ms.Engine(query, plan="a union b")


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES if strategy.name != "staged"])
@pytest.mark.parametrize("operation", ["EXCEPT", "EXCEPT ALL"])
def test_differences_are_reordered_between_closes_and_nothing_is_lost(operation: str, strategy: str) -> None:
    """What branches have found before counts after, however the plan has changed meanwhile."""
    branches = [f"SELECT id FROM {name} [RANGE 7999999 MICROSECONDS]" for name in "abc"]
    query = make_query(f" {operation} ".join(branches))
    given = {
        "a": rows_at((1, 1), (1, 1), (2, 1), (2, 2), (3, 1)),
        "b": rows_at((1, 3), (2, 2), (2, 3)),
        "c": rows_at((1, 4), (3, 6)),
    }
    engines = [ms.Engine(query, plan="((a b) c)") for _ in range(2)]
    found = [[in_seconds(engine.push(given, watermark=5 * SECOND))] for engine in engines]
    engines[1].migrate("((a minus c) minus b)", strategy)
    assert str(engines[1].plan) == "((a minus c) minus b)"
    for engine, rows in zip(engines, found, strict=True):
        rows += [in_seconds(engine.push({"a": rows_at((3, 7))}, watermark=10 * SECOND)), in_seconds(engine.finish())]
    assert found[0] == found[1] and sum(map(len, found[0])) >= 5
    restored = ms.Engine.restore(query, ms.Engine(query, plan="((a c) b)").snapshot())
    assert str(restored.plan) == "((a minus c) minus b)"
