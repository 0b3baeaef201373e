"""Keys and values at the edges: nulls, NaN, zeros, ends of int64, types that compare, expressions that fail."""

from __future__ import annotations

import datetime
import decimal
import math

import pyarrow as pa
import pytest

import midstream as ms

from .pairs import SCHEMA, TEXT, matches, pair, rows, schema

MAX = 2**63 - 1
MIN = -(2**63)
NAN = float("nan")


def join_values(
    left: pa.DataType, right: pa.DataType, left_keys: list[object], right_keys: list[object]
) -> set[object]:
    """The pairs of positions that join on equal keys."""
    a, b = schema(key=left), schema(key=right)
    engine = pair(left=a, right=b)
    out = engine.push({"a": rows(left_keys, [5] * len(left_keys), a), "b": rows(right_keys, [5] * len(right_keys), b)})
    return set(matches(out))


def test_nulls_never_join() -> None:
    assert join_values(pa.int64(), pa.int64(), [None, 1], [None, 1]) == {(1, 1)}
    assert join_values(pa.string(), pa.string(), [None, ""], ["", None]) == {(1, 0)}
    assert join_values(pa.float64(), pa.float64(), [None, NAN], [NAN, None]) == {(1, 0)}


def test_nan_equals_nan_and_the_zeros_are_equal() -> None:
    keys: list[object] = [0.0, -0.0, NAN, -NAN, math.inf, -math.inf]
    expected = {(i, j) for i in (0, 1) for j in (0, 1)} | {(i, j) for i in (2, 3) for j in (2, 3)} | {(4, 4), (5, 5)}
    assert join_values(pa.float64(), pa.float64(), keys, keys) == expected


def test_values_keep_their_bits() -> None:
    declared = schema(key=pa.float64())
    engine = pair("SELECT a.k AS x, b.k AS y FROM a [ROWS 9], b [ROWS 9] WHERE a.k = b.k", left=declared)
    out = engine.push({"a": rows([-0.0, NAN], [5, 5], declared), "b": rows([0.0, NAN], [5, 5], declared)})
    found = sorted(out.select(["x", "y"]).to_pylist(), key=lambda row: math.isnan(row["x"]))
    assert [math.copysign(1, found[0]["x"]), math.copysign(1, found[0]["y"])] == [-1, 1]
    assert math.isnan(found[1]["x"]) and math.isnan(found[1]["y"])


def test_ends_of_int64_as_keys() -> None:
    keys: list[object] = [MAX, MIN, 0, -1, MAX - 1, MIN + 1, None]
    assert join_values(pa.int64(), pa.int64(), keys, keys) == {(i, i) for i in range(6)}


@pytest.mark.parametrize(
    ("left", "right", "left_values", "right_values"),
    [
        (pa.int64(), pa.float64(), [1, 2, 0], [1.0, 2.5, -0.0]),
        (pa.int32(), pa.int64(), [1, -1, 0], [1, 2**32 - 1, 0]),
        (pa.int64(), pa.decimal128(10, 2), [1, 2, 0], [decimal.Decimal("1.00"), decimal.Decimal("2.50"), 0]),
        (pa.decimal128(5, 1), pa.decimal128(12, 4), [1, 2, 0], [1, decimal.Decimal("2.0001"), 0]),
        (pa.float64(), pa.decimal128(10, 2), [0.1, 2.0, 0.0], [decimal.Decimal("0.10"), decimal.Decimal("2.01"), 0]),
        (pa.string(), pa.large_string(), ["a", "b", ""], ["a", "B", ""]),
        (pa.float32(), pa.float64(), [0.5, 0.1, 0.0], [0.5, 0.1, -0.0]),
        (pa.uint64(), pa.int64(), [1, 2**63, 0], [1, MIN, 0]),
        (pa.uint8(), pa.int8(), [1, 255, 0], [1, -1, 0]),
        (pa.uint32(), pa.float32(), [1, 2, 0], [1.0, 2.5, 0.0]),
        (pa.uint64(), pa.uint64(), [2**64 - 1, 2**63, 0], [2**64 - 1, 2**63 - 1, 0]),
        (
            pa.date32(),
            pa.date64(),
            [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(1970, 1, 1)],
            [datetime.date(2024, 1, 1), datetime.date(2024, 1, 3), datetime.date(1970, 1, 1)],
        ),
        (pa.binary(), pa.large_binary(), [b"a", b"b", b""], [b"a", b"c", b""]),
        (pa.duration("ms"), pa.duration("us"), [1, 2, 0], [1000, 2001, 0]),
        (
            pa.timestamp("s"),
            pa.timestamp("us"),
            [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2), datetime.datetime(1970, 1, 1)],
            [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2, 0, 0, 0, 1), datetime.datetime(1970, 1, 1)],
        ),
    ],
)
def test_equal_values_of_comparable_types(
    left: pa.DataType, right: pa.DataType, left_values: list[object], right_values: list[object]
) -> None:
    assert join_values(left, right, left_values, right_values) == {(0, 0), (2, 2)}
    assert join_values(right, left, right_values, left_values) == {(0, 0), (2, 2)}


def test_large_integers_compare_with_floats_as_floats() -> None:
    found = join_values(pa.int64(), pa.float64(), [2**53, 2**53 + 1, MAX], [float(2**53), 2.0**63])
    assert found == {(0, 0), (1, 0), (2, 1)}


def test_equalities_through_another_type_are_not_transitive() -> None:
    """Two integers that equal one float need not equal each other."""
    whole, real = schema(), schema(key=pa.float64())
    query = ms.query(
        "SELECT a.k AS x, c.k AS z FROM a [UNBOUNDED], b [UNBOUNDED], c [UNBOUNDED] WHERE a.k = b.k AND b.k = c.k",
        schemas={"a": whole, "b": real, "c": whole},
        event_time="ts",
    )
    for plan in ("((a b) c)", "((a c) b)", "(a (b c))"):
        engine = ms.Engine(query, plan=plan)
        keys: list[object] = [2**53, 2**53 + 1]
        out = engine.push({"a": rows(keys, [1, 1]), "b": rows([float(2**53)], [1], real), "c": rows(keys, [1, 1])})
        assert len(matches(out)) == 4, plan


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.bool_(), pa.date32()),
        (pa.binary(), pa.int64()),
        (pa.timestamp("us"), pa.int64()),
        (pa.date32(), pa.float64()),
    ],
)
def test_types_that_do_not_compare(left: pa.DataType, right: pa.DataType) -> None:
    with pytest.raises(ms.QueryError):
        pair(left=schema(key=left), right=schema(key=right))


@pytest.mark.parametrize(
    "expression",
    ["a.k + 1", "a.k * 2", "-b.k", "b.k - 1", "a.k - b.k", "a.v / 0", "a.v % 0", "CAST('x' AS INT)", "abs(b.k)"],
)
def test_an_expression_that_fails_gives_null(expression: str) -> None:
    engine = pair(TEXT.replace("a.v AS av", f"{expression} AS av").replace("a.k = b.k", "a.v = b.v"))
    out = engine.push({"a": rows([MAX], [5]), "b": rows([MIN], [5])})
    assert matches(out) == [(None, 0)]


@pytest.mark.parametrize("plan", ["((a b) c)", "((a c) b)", "((b c) a)"])
def test_a_predicate_that_fails_does_not_hold_under_any_plan(plan: str) -> None:
    query = ms.query(
        """SELECT a.v AS av FROM a [UNBOUNDED], b [UNBOUNDED], c [UNBOUNDED]
           WHERE a.v = b.v AND b.v = c.v AND a.k + b.k > c.k AND a.k / c.k > 1""",
        schemas={"a": SCHEMA, "b": SCHEMA, "c": SCHEMA},
        event_time="ts",
    )
    engine = ms.Engine(query, plan=plan)
    keys: tuple[list[object], ...] = ([MAX, 9, 9, 9], [MAX, 1, 1, None], [3, 0, 3, 3])
    out = engine.push({name: rows(values, [1] * 4) for name, values in zip("abc", keys, strict=True)})
    assert matches(out) == [(2,)]


@pytest.mark.parametrize("plan", ["(a b)", "(b a)"])
@pytest.mark.parametrize(
    "condition",
    [
        "a.k >= b.k - 1",
        "a.k <= b.k + 1",
        "a.k BETWEEN b.k - 1 AND b.k + 1",
        "abs(a.k - b.k) <= 1",
        "a.k < b.k",
        "a.k > b.k",
        "a.k <= b.k",
        "a.k > b.k + 1",
        "a.k < b.k - 1",
    ],
)
def test_bands_over_integers_that_overflow(plan: str, condition: str) -> None:
    """What overflows is null, and null is not true, however the band is searched."""
    engine = pair(TEXT.replace("a.k = b.k", condition), plan=plan)
    edges = [0, -1, 1, MAX, MAX - 1, MIN, MIN + 1]
    out = engine.push({"a": rows(edges, [5] * len(edges)), "b": rows(edges, [5] * len(edges))})
    expected = {(i, j) for i, x in enumerate(edges) for j, y in enumerate(edges) if _holds(condition, x, y)}
    assert set(matches(out)) == expected


def _fits(value: int) -> int | None:
    return value if MIN <= value <= MAX else None


def _holds(condition: str, x: int, y: int) -> bool:
    less, more, difference = _fits(y - 1), _fits(y + 1), _fits(x - y)
    at_least, at_most = less is not None and x >= less, more is not None and x <= more
    return {
        "a.k >= b.k - 1": at_least,
        "a.k <= b.k + 1": at_most,
        "a.k BETWEEN b.k - 1 AND b.k + 1": at_least and at_most,
        "abs(a.k - b.k) <= 1": difference is not None and _fits(abs(difference)) is not None and abs(difference) <= 1,
        "a.k < b.k": x < y,
        "a.k > b.k": x > y,
        "a.k <= b.k": x <= y,
        "a.k > b.k + 1": more is not None and x > more,
        "a.k < b.k - 1": less is not None and x < less,
    }[condition]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.k >= b.k - 1", {(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)}),
        ("a.k <= b.k + 1", {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2), (3, 3)}),
        ("a.k - b.k BETWEEN -1 AND 1", {(2, 2)}),
        ("abs(a.k - b.k) <= 1.0", {(2, 2)}),
        ("a.k < b.k", {(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)}),
    ],
)
def test_bands_over_nan_and_infinity(condition: str, expected: set[object]) -> None:
    """NaN is greater than everything, and infinity less infinity is NaN."""
    declared = schema(key=pa.float64())
    keys: list[object] = [NAN, math.inf, 1.0, -math.inf]
    engine = pair(TEXT.replace("a.k = b.k", condition), left=declared)
    out = engine.push({"a": rows(keys, [5] * 4, declared), "b": rows(keys, [5] * 4, declared)})
    assert set(matches(out)) == expected


def test_long_keys_that_share_prefixes() -> None:
    keys: list[object] = [*("x" * 1000 + str(number) for number in range(20)), "", "x", "\0", "\0\0"]
    assert join_values(pa.string(), pa.string(), keys, keys) == {(i, i) for i in range(len(keys))}
    data: list[object] = [b"", b"\0", b"\0\0", b"ab", b"a\0b"]
    assert join_values(pa.binary(), pa.binary(), data, data) == {(i, i) for i in range(len(data))}


def test_composite_keys_do_not_run_together() -> None:
    declared = pa.schema({"k": pa.string(), "j": pa.string(), "v": pa.int64(), "ts": pa.int64()})
    query = ms.query(
        "SELECT a.v AS x, b.v AS y FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k AND a.j = b.j",
        schemas={"a": declared, "b": declared},
        event_time="ts",
    )
    table = pa.table(
        [pa.array(["ab", "a", "", None]), pa.array(["c", "bc", "abc", "abc"]), pa.array(range(4)), pa.array([1] * 4)],
        schema=declared,
    )
    assert matches(ms.Engine(query).push({"a": table, "b": table})) == [(0, 0), (1, 1), (2, 2)]
