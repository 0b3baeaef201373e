"""Columns of every Arrow type that a stream may have: read, compared and converted as they come."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from midstream.cql.functions import TABLE, FunctionError, call, cast, castable, comparison_type, given_function
from midstream.cql.model import Column, Expr, Literal
from midstream.cql.plain import plain_type
from midstream.engine.expressions import compile_expression, evaluate_mask

US = pa.timestamp("us")
MOMENT = datetime(2024, 2, 29, 12, 30, 15)

# type, two values in ascending order
SAMPLES: list[tuple[pa.DataType, Any, Any]] = [
    *((type, 1, 100) for type in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((type, 1, 200) for type in (pa.uint8(), pa.uint16(), pa.uint32())),
    (pa.uint64(), 1, 2**64 - 1),
    (pa.float16(), np.float16(0.5), np.float16(2)),
    (pa.float32(), 0.5, 2.0),
    (pa.float64(), 0.5, float("nan")),
    (pa.bool_(), False, True),
    (pa.decimal128(10, 2), Decimal("-1.50"), Decimal("2.25")),
    (pa.decimal256(38, 2), Decimal("-1.50"), Decimal("2.25")),
    *((make(9, 2), Decimal("-1.50"), Decimal("2.25")) for make in (pa.decimal32, pa.decimal64)),
    *(
        (make(9, -3), Decimal("-5E+3"), Decimal("2E+3"))
        for make in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)
    ),
    (pa.string(), "a", "é"),
    (pa.large_string(), "a", "é"),
    (pa.string_view(), "a", "é"),
    (pa.binary(), b"a", b"\xff"),
    (pa.large_binary(), b"a", b"\xff"),
    (pa.binary(2), b"aa", b"ab"),
    (pa.date32(), date(1969, 12, 31), date(2024, 2, 29)),
    (pa.date64(), date(1969, 12, 31), date(2024, 2, 29)),
    *((pa.timestamp(unit), MOMENT, MOMENT + timedelta(seconds=1)) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("ms", "Europe/Berlin"), MOMENT, MOMENT + timedelta(seconds=1)),
    *((pa.duration(unit), timedelta(seconds=-1), timedelta(seconds=1)) for unit in ("s", "ms", "us", "ns")),
    (pa.time32("s"), time(1, 2, 3), time(4, 5, 6)),
    (pa.time64("ns"), time(1, 2, 3), time(4, 5, 6)),
]
IDS = [str(sample[0]) for sample in SAMPLES]
#: Types that are carried and tested for null, and that few functions take.
NESTED: list[tuple[pa.DataType, Any, Any]] = [
    (pa.decimal256(60, 2), Decimal("-1.50"), Decimal(10**50)),
    (pa.month_day_nano_interval(), pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, 0, 1])),
    (pa.list_(pa.int64()), [1, 2], [None]),
    (pa.struct({"x": pa.int8()}), {"x": 1}, {"x": None}),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], []),
    (pa.null(), None, None),
]


def evaluate(expr: Expr, **columns: pa.Array) -> pa.Array:
    batch = {(0, name): column for name, column in columns.items()}
    array = compile_expression(expr)(batch, len(next(iter(columns.values()))))
    array.validate(full=True)
    assert array.type == expr.type
    return array


@pytest.mark.parametrize(("type", "low", "high"), SAMPLES, ids=IDS)
def test_comparison(type: pa.DataType, low: Any, high: Any) -> None:
    a, b = Column(0, "a", type), Column(0, "b", type)
    columns = {"a": pa.array([low, low, high, None, low], type), "b": pa.array([low, high, low, low, None], type)}
    expected = {
        "eq": [True, False, False], "ne": [False, True, True], "lt": [False, True, False],
        "le": [True, True, False], "gt": [False, False, True], "ge": [True, False, True],
    }  # fmt: skip
    for name, first in expected.items():
        assert evaluate(call(name, [a, b]), **columns).to_pylist() == [*first, None, None]
        sliced = {key: column.slice(1, 3) for key, column in columns.items()}
        assert evaluate(call(name, [a, b]), **sliced).to_pylist() == [*first[1:], None]
        empty = {key: column.slice(0, 0) for key, column in columns.items()}
        assert evaluate(call(name, [a, b]), **empty).to_pylist() == []
    assert evaluate(call("null_safe_eq", [a, b]), **columns).to_pylist() == [True, False, False, False, False]
    assert evaluate(call("is_null", [a]), **columns).to_pylist() == [False, False, False, True, False]


@pytest.mark.parametrize(("type", "low", "high"), SAMPLES, ids=IDS)
def test_choice(type: pa.DataType, low: Any, high: Any) -> None:
    a, b = Column(0, "a", type), Column(0, "b", type)
    columns = {"a": pa.array([low, None, high, None], type), "b": pa.array([high, high, low, None], type)}
    test = call("is_null", [a])
    choices = {
        call("coalesce", [a, b]): [low, high, high, None],
        call("greatest", [a, b]): [high, high, high, None],
        call("least", [a, b]): [low, high, low, None],
        call("case", [test, b, a]): [low, high, high, None],
        call("if", [test, a, b]): [high, None, low, None],
        call("nullif", [a, b]): [low, None, high, None],
        call("nullif", [a, a]): [None] * 4,
    }
    for choice, values in choices.items():
        found = evaluate(choice, **columns)
        assert str(found.to_pylist()) == str(pa.array(values, type).cast(found.type).to_pylist()), choice


@pytest.mark.parametrize(("type", "low", "high"), [*SAMPLES, *NESTED], ids=[*IDS, *(str(t) for t, _, _ in NESTED)])
def test_what_typing_takes_can_be_computed(type: pa.DataType, low: Any, high: Any) -> None:
    """A function that is called with some types never fails on their values, or would close an engine."""
    type = plain_type(type)
    columns = {"a": pa.array([low, high, None, low], type), "b": pa.array([high, high, low, None], type)}
    a, b = Column(0, "a", type), Column(0, "b", type)
    constants = [Literal(None, pa.null()), Literal(1, pa.int32()), Literal("a", pa.string()), Literal(True, pa.bool_())]
    others: list[Expr] = [b, *constants]
    lists: list[list[Expr]] = [[a], *([a, other] for other in others), *([constant, a] for constant in constants)]
    lists += [[b, a, b], [constants[-1], a, b], [a, constants[1], constants[1]]]
    taken = 0
    for function in TABLE:
        for args in lists:
            try:
                expr = call(function.name, args)
            except FunctionError:
                continue
            taken += 1
            for rows in (slice(None), slice(1, 3), slice(0, 0)):
                evaluate(expr, **{name: values[rows] for name, values in columns.items()})
    assert taken >= 10
    for target in (plain_type(sample[0]) for sample in [*SAMPLES, *NESTED]):
        if castable(type, target):
            evaluate(cast(a, target), **columns)


@pytest.mark.parametrize(("type", "low", "high"), SAMPLES, ids=IDS)
def test_conversion_to_the_type_of_comparison(type: pa.DataType, low: Any, high: Any) -> None:
    target = comparison_type(type, type)
    array = pa.array([None, low, high], type)
    found = evaluate(cast(Column(0, "a", type), target), a=array)
    assert found.type == target
    assert found.is_valid().to_pylist() == [False, True, True]


def test_finer_instants_are_cut_downwards() -> None:
    array = pa.array([-1, -1000, -1001, 999, 1000], pa.timestamp("ns"))
    found = evaluate(cast(Column(0, "a", array.type), US), a=array)
    assert found.cast(pa.int64()).to_pylist() == [-1, -1, -2, 0, 1]


def test_a_choice_between_instants_keeps_their_zone() -> None:
    zone = "Europe/Berlin"
    a, b = Column(0, "a", pa.timestamp("ms", zone)), Column(0, "b", pa.timestamp("us", zone))
    moments = [MOMENT, MOMENT + timedelta(seconds=1)]
    columns = {"a": pa.array([*moments, None], a.type), "b": pa.array([moments[0]] * 3, b.type)}
    for name, expected in (("coalesce", [*moments, moments[0]]), ("least", [moments[0]] * 3)):
        found = evaluate(call(name, [a, b]), **columns)
        assert found.equals(pa.array(expected, b.type))
    assert evaluate(call("coalesce", [a, Literal(MOMENT, US)]), **columns).type == b.type


def test_instants_beyond_microseconds_are_null() -> None:
    array = pa.array([2**62, 0, -(2**62)], pa.timestamp("s"))
    found = evaluate(cast(Column(0, "a", array.type), US), a=array)
    assert found.to_pylist() == [None, datetime(1970, 1, 1), None]


def test_integers_of_all_widths_compare_exactly() -> None:
    types = [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
    for first in types:
        for second in types:
            a, b = (pa.array([0, limit], type) for type, limit in ((first, _top(first)), (second, _top(second))))
            pairs = list(zip(a.to_pylist(), b.to_pylist(), strict=True))
            expr = call("lt", [Column(0, "a", first), Column(0, "b", second)])
            assert evaluate(expr, a=a, b=b).to_pylist() == [x < y for x, y in pairs]


def _top(type: pa.DataType) -> int:
    return int(2 ** (type.bit_width - pa.types.is_signed_integer(type)) - 1)


def test_constants_are_repeated() -> None:
    for literal in (
        Literal(5, pa.int64()),
        Literal("x", pa.string()),
        Literal(None, pa.string()),
        Literal(None, pa.null()),
    ):
        assert compile_expression(literal)({}, 3).to_pylist() == [literal.value] * 3
        assert compile_expression(literal)({}, 0).to_pylist() == []


def test_coalesce_asks_nothing_behind_a_constant() -> None:
    """The value of a constant argument goes on into kernels that need an array."""
    x, five, none = Column(0, "x", pa.int64()), Literal(5, pa.int64()), Literal(None, pa.int64())
    known: list[tuple[list[Expr], list[int | None]]] = [
        ([five, x], [5, 5]),
        ([none, five, x], [5, 5]),
        ([call("add", [five, five]), x], [10, 10]),
        ([x, none, five, x], [1, 5]),
        ([none, x, none], [1, None]),
        ([none, none], [None, None]),
    ]
    for args, values in known:
        asked = call("coalesce", args)
        columns = {"x": pa.array([1, None])}
        assert evaluate(asked, **columns).to_pylist() == values
        texts = [None if value is None else str(value) for value in values]
        assert evaluate(cast(asked, pa.string()), **columns).to_pylist() == texts
        half = evaluate(call("gt", [asked, Literal(2.5, pa.float64())]), **columns)
        assert half.to_pylist() == [None if value is None else value > 2.5 for value in values]
        added = given_function("added", [pa.int64(), pa.int64()], pa.int64(), pc.add)
        twice = evaluate(call("added", [asked, asked], [added]), **columns).to_pylist()
        assert twice == [None if value is None else 2 * value for value in values]


def test_zeros_that_are_computed_from_constants_keep_their_sign() -> None:
    x, zero = Column(0, "x", pa.float64()), Literal(0.0, pa.float64())
    zeros = [call("multiply", [zero, Literal(sign, pa.float64())]) for sign in (1.0, -1.0)]
    written = call("concat", [cast(call("coalesce", [x, value]), pa.string()) for value in zeros])
    assert evaluate(written, x=pa.array([1.0, None])).to_pylist() == ["1.01.0", "0.0-0.0"]


def test_a_column_is_given_back_as_it_is() -> None:
    array = pa.array([1, 2])
    assert compile_expression(Column(0, "a", pa.int64()))({(0, "a"): array}, 2) is array


def test_mask_counts_null_as_false() -> None:
    a, b = Column(0, "a", pa.bool_()), Column(1, "b", pa.bool_())
    columns = {(0, "a"): pa.array([True, None, False, None]), (1, "b"): pa.array([None, True, None, None])}
    either = compile_expression(call("or", [a, b]))
    assert evaluate_mask(either, columns, 4).tolist() == [True, True, False, False]
    neither = compile_expression(call("not", [call("or", [a, b])]))
    assert neither.mask(columns, 4).tolist() == [False, False, False, False]
    assert compile_expression(Literal(True, pa.bool_())).mask({}, 3).tolist() == [True, True, True]
    assert compile_expression(Literal(None, pa.bool_())).mask({}, 3).tolist() == [False, False, False]


def test_a_common_part_is_computed_once() -> None:
    total = call("add", [Column(0, "a", pa.int64()), Literal(1, pa.int64())])
    evaluator = compile_expression(call("multiply", [total, total]))
    assert len(evaluator._program._steps) == 2
    assert evaluator({(0, "a"): pa.array([2, None])}, 2).to_pylist() == [9, None]


def test_no_warnings_from_values() -> None:
    with np.errstate(all="raise"):
        x = Column(0, "x", pa.float64())
        columns = {(0, "x"): pa.array([0.0, -1.0, 1e308, float("nan"), None])}
        for name in ("sqrt", "ln", "exp", "floor", "round", "sign"):
            compile_expression(call(name, [x]))(columns, 5)
        for name in ("add", "multiply", "divide", "modulo", "power", "lt"):
            compile_expression(call(name, [x, x]))(columns, 5)
        compile_expression(cast(x, pa.int64()))(columns, 5)


@pytest.mark.parametrize("exponent", [0.5, 2.0, -1.0, 0.0, 3.0])
def test_a_constant_exponent_gives_what_one_in_each_row_gives(exponent: float) -> None:
    """Of a constant half NumPy takes the square root, which has a sign of zero and none of minus infinity."""
    x, y = Column(0, "x", pa.float64()), Column(0, "y", pa.float64())
    values = [float("-inf"), float("inf"), -0.0, 0.0, 2.0, -2.0, None, 1e-310, 0.1, 1e200]
    columns = {(0, "x"): pa.array(values), (0, "y"): pa.array([exponent] * len(values))}
    constant, each = (
        compile_expression(call("power", [x, by]))(columns, len(values)).to_pylist()
        for by in (Literal(exponent, pa.float64()), y)
    )
    assert list(map(str, constant)) == list(map(str, each))
    if exponent == 0.5:
        assert list(map(str, constant[:4])) == ["inf", "inf", "0.0", "0.0"]


def test_a_part_of_text_may_be_as_long_as_a_number_is_large() -> None:
    found = call("substring", [Column(0, "s", pa.string()), Literal(2, pa.int32()), Literal(2**63 - 1, pa.int64())])
    assert compile_expression(found)({(0, "s"): pa.array(["hello", None])}, 2).to_pylist() == ["ello", None]


@pytest.mark.parametrize(("places", "rounded"), [(-36, "0"), (-37, "0"), (-38, "0"), (-60, "0"), (1, "0.5")])
def test_a_decimal_of_many_places_is_rounded_to_any(places: int, rounded: str) -> None:
    found = call("round", [Column(0, "x", pa.decimal128(38, 38)), Literal(places, pa.int32())])
    columns = {(0, "x"): pa.array([Decimal("0.5"), None], pa.decimal128(38, 38))}
    assert compile_expression(found)(columns, 2).to_pylist() == [Decimal(rounded), None]
