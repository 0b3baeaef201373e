"""A notation for typed expressions in tests: ``add(i8(127), i8(1))``, and ways to run one.

A plain Python integer is an int32 literal, a string a string literal, as the parser would pass them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from midstream.cql.functions import FUNCTIONS, call, cast
from midstream.cql.functions import TABLE as _TABLE
from midstream.cql.model import Call, Cast, Column, Expr, Literal
from midstream.engine.expressions import compile_expression

Batch = dict[tuple[int, str], pa.Array]

_TYPES = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(),
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64(),
    "f32": pa.float32(), "f64": pa.float64(), "s": pa.string(), "b": pa.binary(), "us": pa.duration("us"),
}  # fmt: skip
_BY_NAME = {
    "int8": pa.int8(), "int32": pa.int32(), "int64": pa.int64(), "uint8": pa.uint8(), "float32": pa.float32(),
    "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date32": pa.date32(),
}  # fmt: skip
_LITERAL_FROM = {"in": 1, "like": 1, "ilike": 1, "round": 1, "replace": 1}


def literal(value: Any) -> Expr:
    """A value as the parser would make a literal of it; expressions pass."""
    if isinstance(value, bool):
        return Literal(value, pa.bool_())
    if isinstance(value, int):
        return Literal(value, pa.int32())
    if isinstance(value, str):
        return Literal(value, pa.string())
    expr: Expr = value
    return expr


def decimal(text: str, precision: int | None = None, scale: int | None = None) -> Literal:
    """A decimal literal; without a type, one with just the digits it needs."""
    value = Decimal(text)
    places = -int(value.as_tuple().exponent)
    digits = max(len(value.as_tuple().digits), places + (1 if places == 0 else 0))
    return Literal(value, pa.decimal128(precision or max(digits, 1), places if scale is None else scale))


def _maker(type: pa.DataType) -> Callable[[Any], Literal]:
    return lambda value: Literal(float(value) if pa.types.is_floating(type) else value, type)


def _caller(name: str) -> Callable[..., Expr]:
    return lambda *args: call(name, [literal(arg) for arg in args])


NAMES: dict[str, Any] = {
    **{alias: _caller(alias) for entry in _TABLE for alias in (entry.name, *entry.aliases)},
    **{f"{name}_": _caller(name) for name in ("and", "or", "not", "in", "if")},
    **{name: _maker(type) for name, type in _TYPES.items()},
    "d": decimal,
    "D": Decimal,
    "ts": lambda text: Literal(datetime.fromisoformat(text), pa.timestamp("us")),
    "date": lambda text: Literal(date.fromisoformat(text), pa.date32()),
    "date_": date,
    "datetime": datetime,
    "timedelta": timedelta,
    "null": Literal(None, pa.null()),
    "true": literal(True),
    "false": literal(False),
    "nan": math.nan,
    "inf": math.inf,
    "cast": lambda operand, type: cast(literal(operand), _BY_NAME[type] if isinstance(type, str) else type),
    "decimal": pa.decimal128,
    "null_of": lambda type: Literal(None, type),
    "list_": pa.list_(pa.int32()),
    "map_": pa.map_(pa.string(), pa.int8()),
    "struct": pa.struct({"x": pa.int8()}),
    "interval": pa.month_day_nano_interval(),
    "timestamp": pa.timestamp("us"),
}


def parse(text: str) -> Any:
    """An expression, or a value, of the notation."""
    return eval(text, {"__builtins__": {}}, NAMES)


def as_columns(expr: Expr, rows: int) -> tuple[Expr, Batch]:
    """The same expression with its literals as columns of `rows` rows, where a literal is not asked for."""
    columns: Batch = {}

    def walk(node: Expr) -> Expr:
        if isinstance(node, Literal):
            key = (0, f"c{len(columns)}")
            columns[key] = pa.array([node.value] * rows, node.type)
            return Column(*key, node.type)
        if isinstance(node, Cast):
            return Cast(walk(node.operand), node.type)
        if isinstance(node, Call):
            first, last = 0, _LITERAL_FROM.get(node.function, len(node.args))
            if node.function == "date_trunc":
                first = 1
            args = [walk(arg) if first <= at < last else arg for at, arg in enumerate(node.args)]
            return Call(node.function, tuple(args), node.type)
        return node

    return walk(expr), columns


def value_of(expr: Expr) -> Any:
    """The value of an expression without columns."""
    array = compile_expression(expr)({}, 1)
    array.validate(full=True)
    assert array.type == expr.type
    return array[0].as_py()


def same(a: Any, b: Any) -> bool:
    """Equality in which NaN is itself and true is not 1."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and a == b


__all__ = ["FUNCTIONS", "NAMES", "Batch", "as_columns", "decimal", "literal", "parse", "same", "value_of"]
