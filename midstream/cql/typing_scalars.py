"""Typing of the named scalar functions: mathematics, text and time. See `typing_rules` for what a rule is."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from midstream.cql.model import Call, Expr, Literal
from midstream.cql.typing_rules import BOOL, coerce, kind
from midstream.cql.typing_types import (
    MAX_PRECISION,
    NUMERIC,
    TIMESTAMP,
    FunctionError,
    castable,
    decimal_of,
    numeric_result,
)

TRUNC_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mm": "month",
    "mon": "month", "week": "week", "day": "day", "dd": "day", "hour": "hour", "minute": "minute",
    "second": "second", "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def double_function(name: str, args: Sequence[Expr]) -> Expr:
    """SQRT, EXP, LN, POWER, SIGN: any number, computed and given as float64."""
    for arg in args:
        _expect(name, arg, NUMERIC | {"null"}, "a number")
    return Call(name, tuple(coerce(arg, pa.float64()) for arg in args), pa.float64())


def is_nan(name: str, args: Sequence[Expr]) -> Expr:
    """ISNAN: false for null."""
    _expect(name, args[0], NUMERIC | {"null"}, "a number")
    return Call(name, (coerce(args[0], pa.float64()),), BOOL)


def round_half_up(name: str, args: Sequence[Expr]) -> Expr:
    """ROUND(x, d): d is an integer literal; integers stay integers, decimals get the scale that is left."""
    x = _expect(name, args[0], NUMERIC | {"null"}, "a number")
    digits = args[1] if len(args) > 1 else Literal(0, pa.int32())
    if not isinstance(digits, Literal) or not isinstance(digits.value, int) or isinstance(digits.value, bool):
        raise FunctionError(f"{name} takes an integer literal as its number of digits, such as round(x, 2)")
    places = digits.value
    if kind(x) == "decimal":
        x = coerce(x, decimal_of(x.type))
        whole = x.type.precision - x.type.scale + 1
        scale = max(0, min(x.type.scale, places))
        result = pa.decimal128(min(max(whole, 1 - places if places < 0 else 1) + scale, MAX_PRECISION), scale)
    elif kind(x) == "null":
        x, result = coerce(x, pa.float64()), pa.float64()
    else:
        result = numeric_result(x.type, x.type)
        if kind(x) == "integer" and places >= 0:
            return coerce(x, result)
    return Call(name, (coerce(x, result) if kind(x) != "decimal" else x, Literal(places, pa.int32())), result)


def whole_number(name: str, args: Sequence[Expr]) -> Expr:
    """FLOOR and CEIL: int64, or a decimal without places."""
    x = _expect(name, args[0], NUMERIC | {"null"}, "a number")
    if kind(x) == "integer" and x.type != pa.uint64():
        return coerce(x, pa.int64())
    if kind(x) in ("decimal", "integer"):
        x = coerce(x, decimal_of(x.type))
        return Call(name, (x,), pa.decimal128(min(x.type.precision - x.type.scale + 1, MAX_PRECISION), 0))
    return Call(name, (coerce(x, pa.float64()),), pa.int64())


def text_to_text(name: str, args: Sequence[Expr]) -> Expr:
    """UPPER, LOWER and the trims."""
    text = _text(name, args[0])
    return Call(name, (text,), text.type)


def concat(name: str, args: Sequence[Expr]) -> Expr:
    """CONCAT and ``||``: null if any argument is null; numbers and times are written out."""
    texts = [_text(name, arg) for arg in args]
    type = pa.large_string() if any(text.type == pa.large_string() for text in texts) else pa.string()
    return Call(name, tuple(coerce(text, type) for text in texts), type)


def substring(name: str, args: Sequence[Expr]) -> Expr:
    """SUBSTRING(text, position, length): counted in characters from 1, from the end if negative."""
    text = _text(name, args[0])
    for arg in args[1:]:
        _expect(name, arg, {"integer", "null"}, "an integer")
    numbers = [coerce(arg, pa.int64()) for arg in args[1:]]
    return Call(name, (text, *numbers), text.type)


def text_length(name: str, args: Sequence[Expr]) -> Expr:
    """LENGTH: characters of a text, bytes of a binary."""
    value = args[0] if kind(args[0]) == "bytes" else _text(name, args[0])
    return Call(name, (value,), pa.int32())


def text_test(name: str, args: Sequence[Expr]) -> Expr:
    """STARTSWITH, ENDSWITH, CONTAINS."""
    a, b = (_text(name, arg) for arg in args)
    type = pa.large_string() if pa.large_string() in (a.type, b.type) else pa.string()
    return Call(name, (coerce(a, type), coerce(b, type)), BOOL)


def replace(name: str, args: Sequence[Expr]) -> Expr:
    """REPLACE(text, search, replacement): the last two are literals; the replacement may be left out."""
    text, search = _text(name, args[0]), _text(name, args[1])
    substitute = _text(name, args[2]) if len(args) > 2 else Literal("", pa.string())
    _literal(name, search, "what to search for")
    _literal(name, substitute, "the replacement")
    return Call(name, (text, search, substitute), text.type)


def time_field(name: str, args: Sequence[Expr]) -> Expr:
    """YEAR, MONTH, DAY, HOUR and the like of a date or timestamp, in UTC."""
    return Call(name, (_moment(name, args[0]),), pa.int32())


def date_trunc(name: str, args: Sequence[Expr]) -> Expr:
    """DATE_TRUNC('unit', timestamp)."""
    unit, moment = args[0], _moment(name, args[1])
    if not isinstance(unit, Literal) or str(unit.value).lower() not in TRUNC_UNITS:
        given = f"not {unit.value!r}" if isinstance(unit, Literal) else "as a string literal"
        raise FunctionError(f"{name} takes one of {', '.join(dict.fromkeys(TRUNC_UNITS.values()))}, {given}")
    return Call(name, (Literal(TRUNC_UNITS[str(unit.value).lower()], pa.string()), moment), moment.type)


def unix_micros(name: str, args: Sequence[Expr]) -> Expr:
    """UNIX_MICROS: microseconds since 1970, or the length of an interval in microseconds, as int64."""
    if kind(args[0]) == "duration":
        return Call(name, (coerce(args[0], pa.duration("us")),), pa.int64())
    return Call(name, (coerce(_moment(name, args[0]), TIMESTAMP),), pa.int64())


def _moment(name: str, expr: Expr) -> Expr:
    """A date or timestamp as timestamp[us], in its zone if it has one."""
    _expect(name, expr, {"date", "timestamp", "null"}, "a date or timestamp")
    zone = expr.type.tz if kind(expr) == "timestamp" else None
    return coerce(expr, pa.timestamp("us", zone))


def _text(name: str, expr: Expr) -> Expr:
    """An argument that is text, or that Spark would write out as text."""
    if kind(expr) == "text":
        return coerce(expr, pa.string()) if expr.type not in (pa.string(), pa.large_string()) else expr
    if not castable(expr.type, pa.string()):
        raise FunctionError(f"{name} takes a string, not {expr.type}")
    return coerce(expr, pa.string())


def _literal(name: str, expr: Expr, what: str) -> None:
    if not isinstance(expr, Literal):
        raise FunctionError(f"{name} takes {what} as a string literal")


def _expect(name: str, expr: Expr, kinds: frozenset[str] | set[str], right: str) -> Expr:
    if kind(expr) not in kinds:
        raise FunctionError(f"{name} takes {right}, not {expr.type}; write CAST around it if that is meant")
    return expr
