"""Typed expressions that the generator builds and the oracles understand: Python meaning, CQL text, DuckDB text.

An oracle never parses CQL. The generator makes these trees, prints them as CQL for the engine, and hands the trees
themselves to the oracles. Their meaning is Spark SQL's, except that a value on which an operation fails gives null.

Python values: int, float, str, bytes, bool, Decimal, date; a timestamp is an int of microseconds (of nanoseconds if its
type is, and such a column is only ever selected); an interval is an int of microseconds; null is None.
"""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

Value = Any
Env = Sequence[dict[str, Value]]
Evaluate = Callable[[Env], Value]

INTERVAL = pa.duration("us")
INT_WIDTHS: dict[pa.DataType, int] = {pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


@dataclass(frozen=True)
class Col:
    input: int
    name: str
    type: pa.DataType


@dataclass(frozen=True)
class Lit:
    value: Value
    type: pa.DataType


@dataclass(frozen=True)
class Op:
    name: str
    args: tuple[Expr, ...]
    type: pa.DataType


Expr = Col | Lit | Op


def inputs_of(expr: Expr) -> frozenset[int]:
    if isinstance(expr, Col):
        return frozenset([expr.input])
    if isinstance(expr, Lit):
        return frozenset()
    return frozenset().union(*(inputs_of(arg) for arg in expr.args))


# ---------------------------------------------------------------------------------------------------- building


def lit(value: Value) -> Lit:
    """A literal with the type that its text has in Spark SQL (a float is only used beside doubles)."""
    if isinstance(value, bool):
        return Lit(value, pa.bool_())
    if isinstance(value, int):
        return Lit(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
    if isinstance(value, float):
        return Lit(value, pa.float64())
    if isinstance(value, str):
        return Lit(value, pa.string())
    if isinstance(value, datetime.date):
        return Lit(value, pa.date32())
    raise TypeError(f"no literal for {value!r}")


def interval(microseconds: int) -> Lit:
    return Lit(microseconds, INTERVAL)


def arith(name: str, left: Expr, right: Expr) -> Op:
    """add, sub, mul, div, mod with the result type of Spark SQL."""
    return Op(name, (left, right), _arith_type(name, left.type, right.type))


def _arith_type(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if name == "div":
        return pa.float64()
    if types.is_timestamp(left):
        return INTERVAL if types.is_timestamp(right) else pa.timestamp("us", left.tz)
    if left == pa.float64() or right == pa.float64():
        return pa.float64()
    return max(left, right, key=lambda width: INT_WIDTHS[width])


def cond(name: str, *args: Expr) -> Op:
    """A comparison or another boolean operation."""
    return Op(name, args, pa.bool_())


def both(*args: Expr) -> Expr:
    return args[0] if len(args) == 1 else cond("and", *args)


# ---------------------------------------------------------------------------------------------------- Python


def compile_expr(expr: Expr) -> Evaluate:
    """A function from one row per input (dicts from column to value) to the value of the expression."""
    if isinstance(expr, Col):
        number, name = expr.input, expr.name
        return lambda env: env[number][name]
    if isinstance(expr, Lit):
        value = expr.value
        return lambda env: value
    if expr.name == "between":
        value, low, high = expr.args
        return compile_expr(cond("and", cond("ge", value, low), cond("le", value, high)))
    args = [compile_expr(arg) for arg in expr.args]
    if expr.name in LAZY:
        return LAZY[expr.name](args)
    function = _strict_function(expr)
    if len(args) == 2:
        first, second = args

        def binary(env: Env) -> Value:
            x, y = first(env), second(env)
            return None if x is None or y is None else function(x, y)

        return binary

    def any_arity(env: Env) -> Value:
        values = [arg(env) for arg in args]
        return None if None in values else function(*values)

    return any_arity


def _and(args: list[Evaluate]) -> Evaluate:
    def evaluate(env: Env) -> Value:
        result: bool | None = True
        for arg in args:
            value = arg(env)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return evaluate


def _or(args: list[Evaluate]) -> Evaluate:
    def evaluate(env: Env) -> Value:
        result: bool | None = False
        for arg in args:
            value = arg(env)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return evaluate


def _coalesce(args: list[Evaluate]) -> Evaluate:
    return lambda env: next((value for value in (arg(env) for arg in args) if value is not None), None)


def _case(args: list[Evaluate]) -> Evaluate:
    condition, then, otherwise = args
    return lambda env: then(env) if condition(env) is True else otherwise(env)


def _extreme(pick: Callable[..., Value]) -> Callable[[list[Evaluate]], Evaluate]:
    """greatest and least: nulls are skipped, NaN is the greatest."""

    def build(args: list[Evaluate]) -> Evaluate:
        def evaluate(env: Env) -> Value:
            values = [value for value in (arg(env) for arg in args) if value is not None]
            return pick(values, key=order_key) if values else None

        return evaluate

    return build


def _in(args: list[Evaluate]) -> Evaluate:
    def evaluate(env: Env) -> Value:
        needle, *rest = (arg(env) for arg in args)
        if needle is None:
            return None
        if any(value is not None and order_key(value) == order_key(needle) for value in rest):
            return True
        return None if None in rest else False

    return evaluate


LAZY: dict[str, Callable[[list[Evaluate]], Evaluate]] = {
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
    "case": _case,
    "in": _in,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "same": lambda args: lambda env: order_key(args[0](env)) == order_key(args[1](env)),
    "is_null": lambda args: lambda env: args[0](env) is None,
    "not_null": lambda args: lambda env: args[0](env) is not None,
}


def order_key(value: Value) -> Value:
    """NaN equals NaN and is greater than every number; -0.0 equals 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def _comparison(name: str, operands: Sequence[pa.DataType]) -> Callable[..., Value]:
    as_float = pa.float64() in operands

    def prepare(value: Value) -> Value:
        return order_key(float(value)) if as_float else value

    compare = COMPARE[name]
    return lambda x, y: compare(prepare(x), prepare(y))


def fit(value: int, type_: pa.DataType) -> int | None:
    """The integer, or null if it overflows its type."""
    bits = INT_WIDTHS.get(type_, 64)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _remainder(x: int, y: int) -> int | None:
    if y == 0:
        return None
    return abs(x) % abs(y) * (-1 if x < 0 else 1)


def _like(text: str, pattern: str) -> bool:
    regex = "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _cast(value: Value, source: pa.DataType, target: pa.DataType) -> Value:
    if target == pa.float64():
        return float(value)
    if target == pa.string():
        return str(value)
    if source == pa.string():
        return fit(int(value), target) if re.fullmatch(r"[+-]?[0-9]+", value) else None
    if source == pa.float64():
        return None if not math.isfinite(value) else fit(math.trunc(value), target)
    return fit(value, target)


def _whole(value: float, step: Callable[[float], int]) -> int | None:
    """FLOOR and CEIL: NaN gives 0 as in Spark, what does not fit null."""
    if math.isnan(value):
        return 0
    return fit(step(value), pa.int64()) if math.isfinite(value) else None


def _strict_function(expr: Op) -> Callable[..., Value]:
    """The meaning of an operation on values of which none is null."""
    name, result = expr.name, expr.type
    operands = [arg.type for arg in expr.args]
    if name in COMPARE:
        return _comparison(name, operands)
    if name in ("add", "sub", "mul"):
        operate: Callable[[Value, Value], Value] = getattr(operator, name)
        if result == pa.float64():
            return lambda x, y: operate(float(x), float(y))
        return lambda x, y: fit(operate(x, y), result)
    if name == "div":
        return lambda x, y: None if y == 0 else float(x) / float(y)
    if name == "cast":
        return lambda value: _cast(value, operands[0], result)
    if name in ("neg", "abs"):
        operate_one = abs if name == "abs" else lambda x: -x
        return operate_one if result == pa.float64() else lambda x: fit(operate_one(x), result)
    simple: dict[str, Callable[..., Value]] = {
        "mod": _remainder,
        "not": lambda x: not x,
        "like": _like,
        "upper": str.upper,
        "lower": str.lower,
        "length": len,
        "concat": lambda x, y: x + y,
        "startswith": str.startswith,
        "contains": lambda text, part: part in text,
        "trim": lambda text: text.strip(" "),
        "floor": lambda x: _whole(x, math.floor),
        "ceil": lambda x: _whole(x, math.ceil),
        "substring": lambda text, start, count: text[start - 1 : start - 1 + count],
    }
    return simple[name]


def comparable_key(value: Value, common: pa.DataType) -> Value:
    """A hashable stand-in: values that are equal as `common` have equal stand-ins."""
    return order_key(float(value)) if common == pa.float64() else value
