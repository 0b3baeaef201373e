"""What measuring makes of different windows, tables and data."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import midstream as ms
from midstream.adapt import estimate, measure
from midstream.errors import InputError
from midstream.plan import parse_plan

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "x": pa.int64()})


def rows(count: int, every: int, keys: int = 10) -> pa.Table:
    """Rows at equal distances, in microseconds, their order of event time turned round."""
    return pa.table(
        {
            "ts": [number * every for number in reversed(range(count))],
            "k": [number % keys for number in range(count)],
            "x": list(range(count)),
        }
    )


def test_rows_unbounded_static_and_filtered_inputs() -> None:
    query = ms.query(
        """
        SELECT a.k FROM a [ROWS 50], b [UNBOUNDED], c [RANGE 10 SECONDS], t
        WHERE a.k = b.k AND b.k = c.k AND c.k = t.k AND c.x % 2 = 0
        """,
        schemas=dict.fromkeys("abct", SCHEMA),
        event_time="ts",
    )
    data = {"a": rows(1_000, 100_000), "b": rows(200, 500_000), "C": rows(1_000, 100_000), "t": rows(10, 1)}
    old, new = parse_plan("((a b) c) t", query.aliases), parse_plan("((c t) a) b", query.aliases)
    measured = measure(query, old, new, data)
    a, b, c, t = measured.load.inputs
    assert a.rows == pytest.approx(50, rel=0.01) and a.lasts == pytest.approx(5.0, rel=0.01)
    assert b.rate == pytest.approx(2.0, rel=0.02) and b.rows == pytest.approx(200, rel=0.02) and math.isinf(b.lasts)
    assert c.rate == pytest.approx(5.0, rel=0.02) and c.rows == pytest.approx(50, rel=0.02)
    assert t.is_static and t.rows == 10
    assert measured.push_rate == pytest.approx(22.0, rel=0.02)
    by_name = {estimated.strategy: estimated for estimated in estimate(query, old, new, measured).strategies}
    assert by_name["parallel-track"].refusal is not None and "UNBOUNDED" in by_name["parallel-track"].refusal
    assert by_name["moving-state"].entries and by_name["jisc"].pushes


def test_theta_joins_look_at_all_pairs() -> None:
    query = ms.query(
        "SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] WHERE a.k + b.k = c.k",
        schemas=dict.fromkeys("abc", SCHEMA),
        event_time="ts",
    )
    old, new = parse_plan("(a b) c", query.aliases), parse_plan("a (b c)", query.aliases)
    measured = measure(query, old, new, dict.fromkeys("abc", rows(200, 200_000)))
    assert measured.load.match_rate({1, 2}) == pytest.approx(1.0)
    assert measured.load.looked_at[frozenset({1, 2})] == pytest.approx(1.0, rel=0.1)


def test_a_stream_under_two_aliases() -> None:
    query = ms.query(
        """
        SELECT p.k FROM a [RANGE 10 SECONDS] p, a [RANGE 5 SECONDS] q, b [RANGE 5 SECONDS]
        WHERE p.k = q.k AND q.k = b.k
        """,
        schemas=dict.fromkeys("ab", SCHEMA),
        event_time="ts",
    )
    old, new = parse_plan("(p q) b", query.aliases), parse_plan("p (q b)", query.aliases)
    load = measure(query, old, new, dict.fromkeys("ab", rows(500, 100_000))).load
    assert [round(input_load.rows) for input_load in load.inputs] == [100, 50, 50]


QUERY = ms.query(
    "SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k",
    schemas=dict.fromkeys("ab", SCHEMA),
    event_time="ts",
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": rows(5, 1)}, "measure: no data for b; give rows of every stream and table of the query"),
        ({"a": rows(5, 1), "b": rows(5, 1), "z": rows(5, 1)}, "measure: 'z' is not in the query; it has a, b"),
        ({"a": rows(1, 1), "b": rows(1, 1)}, "measure: the data have fewer than two event times"),
        ({"a": rows(0, 1), "b": rows(0, 1)}, "measure: the data have fewer than two event times"),
    ],
)
def test_data_that_do_not_fit_are_refused(data: dict[str, pa.Table], message: str) -> None:
    plan = parse_plan("a b", QUERY.aliases)
    with pytest.raises(InputError, match=message):
        measure(QUERY, plan, plan, data)


def test_two_rows_and_a_stream_without_any_are_enough() -> None:
    plan = parse_plan("a b", QUERY.aliases)
    measured = measure(QUERY, plan, plan, {"a": rows(2, 1_000_000), "b": rows(0, 1)})
    assert (measured.rows, measured.load.inputs[1].rate) == (2, 0.0)
    assert all(estimated.entries in (None, 0.0) for estimated in estimate(QUERY, plan, plan, measured).strategies)


@pytest.mark.parametrize(
    "type", [pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.list_view(pa.binary_view())], ids=str
)
def test_rows_of_types_that_arrow_cannot_order(type: pa.DataType) -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "y": type})
    query = ms.query(
        "SELECT a.y AS u, b.y AS v, c.y AS w FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] "
        "WHERE a.k = b.k AND b.k = c.k",
        schemas=dict.fromkeys("abc", schema),
        event_time="ts",
    )
    values = pa.array([[b"a"] if pa.types.is_nested(type) else "a"] * 200, type)
    data = rows(200, 200_000).drop_columns("x").append_column("y", values)
    old, new = parse_plan("(a b) c", query.aliases), parse_plan("a (b c)", query.aliases)
    assert measure(query, old, new, dict.fromkeys("abc", data)).load.inputs[0].rows > 0
