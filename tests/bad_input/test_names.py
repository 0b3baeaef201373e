"""Names in queries and results: collisions, case, and what is not known."""

from __future__ import annotations

import pyarrow as pa
import pytest

import midstream as ms

from .pairs import SCHEMA, rows

FROM = "FROM a [RANGE 10 MICROSECONDS], b [RANGE 10 MICROSECONDS] WHERE a.k = b.k"


def ask(text: str, **schemas: pa.Schema) -> ms.Query:
    return ms.query(text, schemas={"a": SCHEMA, "b": SCHEMA, **schemas}, event_time="ts")


@pytest.mark.parametrize(
    "select", ["a.k, b.k", "a.k AS x, b.k AS x", "a.k AS x, b.k AS X", "a.v AS valid_from", "a.v AS VALID_TO, b.v"]
)
def test_output_names_that_collide(select: str) -> None:
    with pytest.raises(ms.QueryError, match="AS"):
        ask(f"SELECT {select} {FROM}")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT a.v FROM a [ROWS 1], c [ROWS 1] WHERE a.k = c.k", "c"),
        ("SELECT a.nope FROM a [ROWS 1], b [ROWS 1] WHERE a.k = b.k", "nope"),
        ("SELECT a.v FROM a [ROWS 1], b [ROWS 1] WHERE a.k = c.k", "c"),
        ("SELECT k FROM a [ROWS 1], b [ROWS 1] WHERE a.k = b.k", "k"),
        ("SELECT x.v FROM a [ROWS 1] x, b [ROWS 1] X WHERE x.k = X.k", "(?i)x"),
        ("SELECT a.v FROM a [ROWS 1], a [ROWS 2] WHERE a.k = a.k", "a"),
        ("SELECT a.v FROM a, b WHERE a.k = b.k", "UNBOUNDED"),
        ("SELECT a.v FROM a [RANGE 1 MONTH], b [ROWS 1] WHERE a.k = b.k", "(?i)month"),
        ("SELECT a.v FROM a [ROWS 0], b [ROWS 1] WHERE a.k = b.k", "ROWS"),
        ("SELECT a.v FROM a [ROWS -1], b [ROWS 1] WHERE a.k = b.k", "ROWS"),
        ("SELECT a.v FROM a [RANGE -5 SECONDS], b [ROWS 1] WHERE a.k = b.k", "RANGE|negative"),
        ("SELECT nope(a.v) AS x FROM a [ROWS 1], b [ROWS 1] WHERE a.k = b.k", "nope"),
        ("", "query"),
        ("DELETE FROM a", "SELECT"),
        ("SELECT a.v FROM a [ROWS 1], b [ROWS 1] WHERE", "query"),
    ],
)
def test_queries_that_cannot_be_understood(text: str, named: str) -> None:
    with pytest.raises(ms.QueryError, match=named):
        ask(text)


def test_select_all_names_columns_by_alias() -> None:
    query = ask("SELECT * FROM a [ROWS 1] AS left_one, b [ROWS 1] r WHERE left_one.k = r.k")
    assert query.output_schema.names == [
        *("left_one_k", "left_one_v", "left_one_ts", "r_k", "r_v", "r_ts"),
        *("valid_from", "valid_to"),
    ]


def test_names_match_without_regard_to_case_and_keep_their_spelling() -> None:
    spelled = pa.schema({"Key": pa.int64(), "Amount": pa.int64(), "TS": pa.int64()})
    query = ms.query(
        "SELECT O.amount AS Total, p.V FROM Orders [ROWS 1] o, B [ROWS 1] P WHERE o.KEY = P.k",
        schemas={"orders": spelled, "b": SCHEMA},
        event_time={"ORDERS": "ts", "b": "ts"},
    )
    assert query.output_schema.names[0] == "Total"
    engine = ms.Engine(query, plan="P O")
    table = pa.table({"Key": [1], "Amount": [7], "TS": [5]})
    out = engine.push({"orders": table, "b": rows([1], [5])})
    assert out.column("Total").to_pylist() == [7]


@pytest.mark.parametrize("as_rows", [False, True])
def test_names_that_are_folded_match_everywhere(as_rows: bool) -> None:
    """Text in capitals has SS for a sharp s, so that the two are one name."""
    schema = pa.schema({"maß": pa.int64(), "ts": pa.int64()})
    query = ms.query(
        "SELECT x.MASS AS v FROM straße [ROWS 9] groß, STRASSE [ROWS 9] x, gäßchen t WHERE GROSS.maß = x.mass "
        "AND t.maß = x.maß",
        {"Strasse": schema, "gässchen": schema},
        event_time={"STRASSE": "ts"},
    )
    rows = {"MASS": [1], "TS": [5]}
    engine = ms.Engine(query, tables={"GÄSSCHEN": {"MASS": [1], "ts": [0]}}, plan="((gross X) T)", late="keep")
    assert engine.push({"straße": rows if as_rows else pa.table(rows)}, watermark={"STRASSE": 9}).num_rows == 1
    engine.push({"STRAßE": rows if as_rows else pa.table(rows)})
    assert engine.take_late()["Strasse"].column("maß").to_pylist() == [1]
    with pytest.raises(ms.InputError, match="given twice"):
        engine.push({"straße": rows, "strasse": rows})
    with pytest.raises(ms.InputError, match="given twice"):
        ms.Engine(query, tables={"GÄSSCHEN": rows, "gäßchen": rows})
    with pytest.raises(ms.InputError, match="is a static table"):
        engine.push({"gäßchen": rows})


def test_plans_are_printed_with_parentheses_and_name_aliases() -> None:
    query = ask("SELECT x.v FROM a [ROWS 1] x, b [ROWS 1] y, a [ROWS 2] z WHERE x.k = y.k AND y.k = z.k")
    assert str(ms.Engine(query, plan="(z x) y").plan) == "((z x) y)"
    with pytest.raises(ms.PlanError, match="a"):
        ms.Engine(query, plan="((a b) a)")


def test_a_stream_under_two_aliases_is_pushed_once() -> None:
    query = ask("SELECT x.v AS one, y.v AS two FROM a [ROWS 1] x, a [ROWS 3] y WHERE x.k = y.k")
    engine = ms.Engine(query)
    with pytest.raises(ms.InputError, match="x"):
        engine.push({"x": rows([1], [5])})
    out = engine.push({"a": rows([1, 1, 1], [5, 6, 7])})
    found = sorted((row["one"], row["two"]) for row in out.to_pylist())
    assert found == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
