"""Golden pairs: what Spark gives for an expression, computed as a constant, over columns, and over slices of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from midstream.cql.functions import FUNCTIONS, cast, castable
from midstream.cql.model import Call, Cast, Expr
from midstream.engine.expressions import compile_expression
from tests.expressions.notation import as_columns, parse, same, value_of

HERE = Path(__file__).parent / "golden"
PAIRS = [
    line.split(" -> ")
    for file in sorted(HERE.glob("*.txt"))
    for line in file.read_text().splitlines()
    if line and not line.startswith("#")
]


def split(result: str) -> tuple[str, object]:
    type, value = result.split(": ", 1)
    return type, parse(value)


@pytest.mark.parametrize(("text", "result"), PAIRS, ids=[text for text, _ in PAIRS])
def test_as_a_constant(text: str, result: str) -> None:
    type, value = split(result)
    expr = parse(text)
    assert str(expr.type) == type
    assert same(value_of(expr), value)


@pytest.mark.parametrize(("text", "result"), PAIRS, ids=[text for text, _ in PAIRS])
def test_over_columns(text: str, result: str) -> None:
    _, value = split(result)
    expr, columns = as_columns(parse(text), 11)
    evaluate = compile_expression(expr)
    for start, stop in ((0, 11), (3, 11), (9, 10), (4, 4)):
        batch = {key: column.slice(start, stop - start) for key, column in columns.items()}
        array = evaluate(batch, stop - start)
        array.validate(full=True)
        assert array.type == expr.type
        assert len(array) == stop - start
        assert all(same(computed, value) for computed in array.to_pylist())


@pytest.mark.parametrize(("text", "result"), PAIRS, ids=[text for text, _ in PAIRS])
def test_beside_nulls(text: str, result: str) -> None:
    """Rows with nulls all around leave the row in the middle alone."""
    _, value = split(result)
    expr, columns = as_columns(parse(text), 1)
    batch = {
        key: pa.concat_arrays([pa.nulls(9, column.type), column, pa.nulls(2, column.type)])
        for key, column in columns.items()
    }
    array = compile_expression(expr)(batch, 12)
    array.validate(full=True)
    assert not columns or same(array[9].as_py(), value)


@pytest.mark.parametrize(("text", "result"), PAIRS, ids=[text for text, _ in PAIRS])
def test_half_constant(text: str, result: str) -> None:
    """One argument a column, the others constants, each in turn."""
    _, value = split(result)
    expr = parse(text)
    if not isinstance(expr, Call):
        return
    spread, columns = as_columns(expr, 3)
    assert isinstance(spread, Call)
    for at in range(len(expr.args)):
        mixed = Call(expr.function, (*expr.args[:at], spread.args[at], *expr.args[at + 1 :]), expr.type)
        array = compile_expression(mixed)(columns, 3)
        array.validate(full=True)
        assert all(same(computed, value) for computed in array.to_pylist())
        if castable(expr.type, pa.string()):
            written = compile_expression(cast(mixed, pa.string()))(columns, 3)
            assert written.to_pylist() == [value_of(cast(expr, pa.string()))] * 3


@pytest.mark.parametrize(
    ("text", "result"), [pair for pair in PAIRS if pair[1].startswith("bool")], ids=lambda text: text[:60]
)
def test_as_a_mask(text: str, result: str) -> None:
    _, value = split(result)
    constant = parse(text)
    assert compile_expression(constant).mask({}, 2).tolist() == [value is True] * 2
    expr, columns = as_columns(constant, 3)
    mask = compile_expression(expr).mask(columns, 3)
    assert mask.dtype == bool
    assert mask.tolist() == [value is True] * 3


def test_every_function_has_a_golden_pair() -> None:
    used: set[str] = set()

    def walk(expr: Expr) -> None:
        if isinstance(expr, Call):
            used.add(expr.function)
            for arg in expr.args:
                walk(arg)
        elif isinstance(expr, Cast):
            walk(expr.operand)

    for text, _ in PAIRS:
        walk(parse(text))
    written = {text.split("(")[0].rstrip("_") for text, _ in PAIRS}
    assert set(FUNCTIONS) <= used | written
