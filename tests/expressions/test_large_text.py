"""Text that expressions make longer than one array holds: evaluated in pieces, to the same values."""

from __future__ import annotations

import random
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from midstream.cql.functions import call, cast
from midstream.cql.model import Column, Expr, Literal
from midstream.engine.expressions import Evaluator, compile_expression
from midstream.state import sizes
from midstream.state.sizes import ArrayTooLargeError

TEXTS = [pa.string(), pa.large_string()]
LIMIT = 2_000


def literal(value: object, type: pa.DataType = pa.string()) -> Literal:  # noqa: B008
    return Literal(value, type)


def text_expressions(type: pa.DataType) -> dict[str, Expr]:
    a, b, n = Column(0, "a", type), Column(0, "b", type), Column(0, "n", pa.int64())
    d, f, t = Column(0, "d", pa.decimal128(38, 9)), Column(0, "f", pa.float64()), Column(0, "t", pa.timestamp("us"))
    raw = cast(a, pa.binary())
    long = cast(literal("é-" * 60), type)
    positive = call("gt", [n, literal(0, pa.int64())])
    return {
        "concat": call("concat", [a, b, a, long]),
        "concat twice": call("concat", [call("concat", [a, a, a]), call("concat", [a, a, b])]),
        "concat of binary": call("concat", [raw, raw]),
        "replace one by many": call("replace", [a, literal("e"), literal("<" + "e" * 40 + ">")]),
        "replace some by many": call("replace", [a, literal("ab"), literal("é" * 30)]),
        "replace many by few": call("replace", [call("concat", [a] * 9), literal("abc"), literal("")]),
        "replace nothing": call("replace", [a, literal(""), literal("x" * 99)]),
        "replace by null": call("replace", [a, literal("e"), literal(None)]),
        "upper": call("upper", [call("concat", [a, b])]),
        "lower": call("lower", [call("concat", [a, a])]),
        "trim": call("trim", [call("concat", [a, long])]),
        "plain substring": call("substring", [call("concat", [a, b]), literal(2, pa.int64()), literal(9, pa.int64())]),
        "substring": call("substring", [call("concat", [a, long]), n]),
        "substring of a constant": call("substring", [long, n, literal(70, pa.int64())]),
        "case": call("case", [positive, long, a]),
        "case of two constants": call("case", [positive, long, cast(literal("x" * 99), type)]),
        "case with null": call("case", [positive, a, cast(literal(None), type)]),
        "coalesce": call("coalesce", [call("nullif", [a, b]), long]),
        "greatest": call("greatest", [a, b, long]),
        "least": call("least", [a, b, long]),
        "a constant": call("concat", [long, long]),
        "integers as text": cast(n, type),
        "decimals as text": cast(d, type),
        "floats as text": cast(f, type),
        "times as text": cast(t, type),
        "binary as text": cast(raw, type),
    }


def other_expressions(type: pa.DataType) -> dict[str, Expr]:
    a, b, n = Column(0, "a", type), Column(0, "b", type), Column(0, "n", pa.int64())
    grown = call("replace", [a, literal("e"), literal("<" + "e" * 40 + ">")])
    long = cast(literal("é-" * 60), type)
    return {
        "length": call("length", [grown]),
        "equal": call("eq", [grown, call("concat", [b, b])]),
        "like": call("like", [grown, literal("%eee%b%")]),
        "contains": call("contains", [grown, b]),
        "a constant contains": call("contains", [long, b]),
        "a constant starts with": call("startswith", [long, a]),
        "a constant at the end": call("endswith", [a, call("upper", [b])]),
        "as a number": cast(call("concat", [cast(n, type), cast(n, type)]), pa.int64()),
        "as a decimal": cast(call("concat", [cast(n, type), literal(".5", type)]), pa.decimal128(30, 2)),
        "nothing": call("is_null", [call("concat", [grown, b])]),
    }


def batch(rows: int, type: pa.DataType, seed: int = 0) -> dict[tuple[int, str], pa.Array]:
    source = random.Random(seed)

    def text() -> str | None:
        return None if source.random() < 0.1 else "".join(source.choices("abceéß €ɐ", k=source.choice([0, 1, 5, 30])))

    numbers = [source.choice([None, -3, 0, 1, 4, 10**12]) for _ in range(rows)]
    columns: dict[str, pa.Array] = {
        "a": pa.array([text() for _ in range(rows)], type),
        "b": pa.array([text() for _ in range(rows)], type),
        "n": pa.array(numbers, pa.int64()),
        "d": pa.array([None if n is None else Decimal(n) / 8 for n in numbers], pa.decimal128(38, 9)),
        "f": pa.array([None if n is None else n / 7 for n in numbers], pa.float64()),
        "t": pa.array([None if n is None else datetime(2024, 5, 7, n % 24, 0, 1) for n in numbers], pa.timestamp("us")),
    }
    return {(0, name): values for name, values in columns.items()}


def values_of(evaluator: Evaluator, columns: dict[tuple[int, str], pa.Array], rows: int) -> list[Any]:
    found = evaluator.chunks(columns, rows)
    found.validate(full=True)
    assert found.type == evaluator.expr.type and len(found) == rows
    for chunk in found.chunks if isinstance(found, pa.ChunkedArray) else [found]:
        assert not sizes.can_be_large(chunk.type) or len(chunk) < 2 or chunk.nbytes <= sizes.ARRAY_BYTES + 8 * rows
    values: list[Any] = found.to_pylist()
    return values


@pytest.mark.parametrize("rows", [1, 7, 150])
@pytest.mark.parametrize("type", TEXTS, ids=str)
def test_pieces_have_the_values_of_the_whole(rows: int, type: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, expr in (text_expressions(type) | other_expressions(type)).items():
        columns = batch(rows, type)
        evaluator = compile_expression(expr)
        expected = values_of(evaluator, columns, rows)
        with monkeypatch.context() as lowered:
            lowered.setattr(sizes, "ARRAY_BYTES", LIMIT)
            assert values_of(evaluator, columns, rows) == expected, name
            if rows > 100 and name in text_expressions(type) and name not in ("replace by null", "plain substring"):
                assert isinstance(evaluator.chunks(columns, rows), pa.ChunkedArray), name
            if expr.type == pa.bool_():
                assert evaluator.mask(columns, rows).tolist() == [value is True for value in expected], name


@pytest.mark.parametrize("type", TEXTS, ids=str)
def test_a_value_that_no_array_holds_is_null(type: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 100)
    a = Column(0, "a", type)
    columns = {(0, "a"): pa.array(["x" * 10, "x" * 50, "x" * 51, None, "x"], type)}
    for expr in (call("concat", [a, a]), call("replace", [a, literal("x"), literal("yy")])):
        found = [None if value is None else len(value) for value in values_of(compile_expression(expr), columns, 5)]
        assert found == [20, 100, None if type == pa.string() else 102, None, 2]
        lengths = compile_expression(call("length", [expr]))
        assert values_of(lengths, columns, 5) == found


def test_occurrences_are_counted_where_a_replacement_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that takes every byte for an occurrence would leave single rows."""
    monkeypatch.setattr(sizes, "ARRAY_BYTES", LIMIT)
    expr = call("replace", [Column(0, "a", pa.string()), literal("e"), literal("y" * 300)])
    found = compile_expression(expr)({(0, "a"): pa.array(["x" * 9] * 50 + ["e"])}, 51)
    assert isinstance(found, pa.Array) and found[50].as_py() == "y" * 300


def test_rows_of_different_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "ARRAY_BYTES", LIMIT)
    texts = ["x" * int(size) for size in np.random.default_rng(3).pareto(1, 400) * 5 % 400]
    expr = call("concat", [Column(0, "a", pa.string())] * 4)
    assert values_of(compile_expression(expr), {(0, "a"): pa.array(texts)}, 400) == [text * 4 for text in texts]


# Beyond the real limit -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["concat", "replace", "case", "constant", "upper"])
def test_more_than_two_gibibytes(name: str) -> None:
    """What Arrow would refuse, or fill with wrong offsets, is evaluated in pieces."""
    a, n = Column(0, "a", pa.string()), Column(0, "n", pa.int64())
    million = literal("y" * 1_000_000)
    expr, rows, expected = {
        "concat": (call("concat", [a] * 10), 230, 10_000_000),
        "replace": (call("replace", [a, literal("x" * 1_000), literal("y" * 10_000)]), 230, 10_000_000),
        "case": (call("case", [call("gt", [n, literal(0, pa.int64())]), million, a]), 2_300, 1_000_000),
        "constant": (million, 2_300, 1_000_000),
        "upper": (call("upper", [call("concat", [a] * 8)]), 230, 8_000_000),
    }[name]
    column = pa.array(["x" * 1_000_000] * 230 if rows == 230 else ["x"] * rows)
    columns = {(0, "a"): column, (0, "n"): pa.array(np.ones(rows, np.int64))}
    with pytest.raises(ArrayTooLargeError):
        compile_expression(expr)(columns, rows)
    found = compile_expression(expr).chunks(columns, rows)
    assert isinstance(found, pa.ChunkedArray) and len(found) == rows
    found.validate(full=True)
    assert set(pc.binary_length(found).to_pylist()) == {expected}


@pytest.mark.slow
def test_a_value_of_more_than_two_gibibytes() -> None:
    a, wide = Column(0, "a", pa.string()), Column(0, "a", pa.large_string())
    grown = call("replace", [a, literal("x" * 10), literal("y" * 100)])
    found = compile_expression(grown).chunks({(0, "a"): pa.array(["x" * 220_000_000, "x"])}, 2)
    assert found.to_pylist() == [None, "x"]
    columns = {(0, "a"): pa.array(["x" * 2_200_000_000, "1"], pa.large_string())}
    grown = compile_expression(call("concat", [wide, wide])).chunks(columns, 2)
    assert pc.binary_length(grown).to_pylist() == [4_400_000_000, 2]
    for expr in (call("length", [wide]), cast(wide, pa.int64()), cast(wide, pa.date32())):
        assert compile_expression(expr).chunks(columns, 2)[0].as_py() is None
        assert expr.type == pa.date32() or compile_expression(expr).chunks(columns, 2)[1].as_py() == 1
    assert compile_expression(cast(wide, pa.string())).chunks(columns, 2).to_pylist() == [None, "1"]


@pytest.mark.parametrize("given", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_lengths_of_columns_in_a_wide_type(given: pa.DataType) -> None:
    """A column that a push gives as a dictionary, or that is too long for its own type, comes in a wide one."""
    declared = pa.string() if given in (pa.string(), pa.large_string()) else pa.binary()
    lengths = compile_expression(call("length", [Column(0, "x", declared)]))
    text = pa.array(["A", "-3", None, "", "abc", "B"]).cast(given)
    assert values_of(lengths, {(0, "x"): text}, 6) == [1, 2, None, 0, 3, 1]
