"""Typing of operators: arithmetic, comparison, logic and choice.

A rule takes the function's name and its typed arguments and gives a typed expression, in which every argument
already has the type that the evaluation expects: implicit conversions are explicit `Cast` nodes, or are done here if
the argument is a literal. So evaluation never has to think about types again::

    call("add", [int32 column, int64 column])  ->  add(Cast(column, int64), column): int64

Where two spellings mean the same (IF, NULLIF, COALESCE of one value) a rule gives the simpler expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from midstream.cql.model import Call, Cast, Expr, Literal, columns_of
from midstream.cql.moments import parse_day, parse_moment
from midstream.cql.plain import plain_type
from midstream.cql.typing_types import (
    DURATION,
    MAX_PRECISION,
    NUMERIC,
    TIMESTAMP,
    FunctionError,
    common_type,
    comparison_type,
    decimal_of,
    decimal_result,
    family,
    numeric_result,
)

SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "div": "DIV", "modulo": "%", "negate": "-",
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "null_safe_eq": "<=>",
    "and": "AND", "or": "OR", "not": "NOT", "in": "IN", "like": "LIKE", "ilike": "ILIKE",
}  # fmt: skip

BOOL = pa.bool_()


def kind(expr: Expr) -> str:
    """The family of an expression's type."""
    return family(expr.type)


def coerce(expr: Expr, type: pa.DataType) -> Expr:
    """The expression in another type: itself, a literal of that type, or a Cast.

    >>> coerce(Literal(1, pa.int32()), pa.float64())
    Literal(value=1.0, type=DataType(double))
    """
    if expr.type == type:
        return expr
    if isinstance(expr, Literal):
        value = expr.value
        if value is None:
            return Literal(None, type)
        if isinstance(value, int) and not isinstance(value, bool):
            if family(type) == "float" and abs(value) < 2**24:
                return Literal(float(value), type)
            if family(type) == "integer" and _fits(value, type):
                return Literal(value, type)
            if family(type) == "decimal" and len(str(abs(value))) <= type.precision - type.scale:
                return Literal(Decimal(value), type)
        if isinstance(value, Decimal) and type == pa.float64():
            return Literal(float(value), type)
        if isinstance(value, str) and type in (pa.string(), pa.large_string()):
            return Literal(value, type)
    return Cast(expr, type)


def arithmetic(name: str, args: Sequence[Expr]) -> Expr:
    """``+ - * / %`` over numbers, and what makes sense over times."""
    a, b = args
    kinds = (kind(a), kind(b))
    if set(kinds) & {"timestamp", "date", "duration"}:
        return _temporal(name, a, b)
    if not set(kinds) <= NUMERIC | {"null"}:
        raise _no_operator(name, args, "numbers, or timestamps and intervals")
    if "null" in kinds:
        known = b.type if kinds[0] == "null" else a.type
        known = pa.float64() if family(known) == "null" else known
        a, b = coerce(a, known), coerce(b, known)
    if "float" not in (kind(a), kind(b)) and ("decimal" in (kind(a), kind(b)) or pa.uint64() in (a.type, b.type)):
        a, b = _as_decimal(a), _as_decimal(b)
        return Call(name, (a, b), decimal_result(name, a.type, b.type))
    result = pa.float64() if name == "divide" else numeric_result(a.type, b.type)
    return Call(name, (coerce(a, result), coerce(b, result)), result)


def whole_quotient(name: str, args: Sequence[Expr]) -> Expr:
    """``a DIV b`` over integers: int64, cut towards zero."""
    if not {kind(arg) for arg in args} <= {"integer", "null"} or any(arg.type == pa.uint64() for arg in args):
        raise _no_operator(name, args, "integers up to int64")
    return Call(name, tuple(coerce(arg, pa.int64()) for arg in args), pa.int64())


def unary_number(name: str, args: Sequence[Expr]) -> Expr:
    """Negation and ABS: the argument's type, signed; intervals too."""
    (a,) = args
    if kind(a) == "duration":
        result = DURATION
    elif kind(a) in NUMERIC:
        result = decimal_of(a.type) if kind(a) == "decimal" else numeric_result(a.type, a.type)
    elif kind(a) == "null":
        result = pa.float64()
    else:
        raise _no_operator(name, args, "a number or an interval")
    a = coerce(a, result)
    if name == "negate" and isinstance(a, Literal):
        if isinstance(a.value, float):
            return Literal(-a.value, result)
        if isinstance(a.value, Decimal):
            # A minus would round to 28 digits.
            return Literal(a.value.copy_negate() if a.value else a.value, result)
        if isinstance(a.value, int) and _fits(-a.value, result):
            return Literal(-a.value, result)
    return Call(name, (a,), result)


def comparison(name: str, args: Sequence[Expr]) -> Expr:
    """``= <> < <= > >= <=>``, both sides brought to one type."""
    a, b = _align(name, args)
    return Call(name, (a, b), BOOL)


def membership(name: str, args: Sequence[Expr]) -> Expr:
    """``x IN (literals)``."""
    for item in args[1:]:
        if columns_of(item):
            raise FunctionError("IN takes a list of constants; write the comparison with a column as x = column")
    return Call(name, tuple(_align(name, args)), BOOL)


def like(name: str, args: Sequence[Expr]) -> Expr:
    """``x LIKE 'pattern'`` and ILIKE; the pattern is a literal and its escapes are checked here."""
    a, pattern = args
    if kind(a) not in ("text", "null") or kind(pattern) not in ("text", "null"):
        raise _no_operator(name, args, "strings")
    if not isinstance(pattern, Literal):
        raise FunctionError(f"{SYMBOLS[name]} takes a string literal as its pattern")
    text = str(pattern.value or "").replace("\\\\", "")
    if text.count("\\") != text.count("\\%") + text.count("\\_"):
        raise FunctionError(f"in the pattern {pattern.value!r} a backslash must stand before %, _ or a backslash")
    a = a if a.type in (pa.string(), pa.large_string()) else coerce(a, pa.string())
    return Call(name, (a, coerce(pattern, a.type)), BOOL)


def logic(name: str, args: Sequence[Expr]) -> Expr:
    """AND, OR, NOT over booleans."""
    for arg in args:
        if kind(arg) not in ("boolean", "null"):
            raise FunctionError(f"{SYMBOLS[name]} takes booleans, not {arg.type}; write a comparison, such as x <> 0")
    return Call(name, tuple(coerce(arg, BOOL) for arg in args), BOOL)


def is_null(name: str, args: Sequence[Expr]) -> Expr:
    """``x IS NULL`` over anything."""
    return Call("is_null", tuple(args), BOOL)


def is_not_null(name: str, args: Sequence[Expr]) -> Expr:
    """``x IS NOT NULL`` is NOT (x IS NULL)."""
    return Call("not", (is_null("is_null", args),), BOOL)


def case(name: str, args: Sequence[Expr]) -> Expr:
    """CASE as ``c1, v1, c2, v2, ..., else``; without an else, it is null. IF is a CASE of one arm."""
    if len(args) % 2 == 0:
        args = (*args, Literal(None, pa.null()))
    conditions, values = args[:-1:2], (*args[1::2], args[-1])
    for condition in conditions:
        if kind(condition) not in ("boolean", "null"):
            raise FunctionError(f"{name.upper()} takes boolean conditions, not {condition.type}")
    type = common_type(value.type for value in values)
    if family(type) == "null":
        return values[-1]
    arms = [part for c, v in zip(conditions, values, strict=False) for part in (coerce(c, BOOL), coerce(v, type))]
    return Call("case", (*arms, coerce(values[-1], type)), type)


def coalesce(name: str, args: Sequence[Expr]) -> Expr:
    """The first argument that is not null."""
    type = common_type(arg.type for arg in args)
    values = tuple(coerce(arg, type) for arg in args)
    return values[0] if len(values) == 1 or family(type) == "null" else Call(name, values, type)


def nullif(name: str, args: Sequence[Expr]) -> Expr:
    """``NULLIF(a, b)``: a, but null where a = b."""
    return case(name, (comparison("eq", args), Literal(None, args[0].type), args[0]))


def extreme(name: str, args: Sequence[Expr]) -> Expr:
    """GREATEST and LEAST of values that have an order: nulls are passed over."""
    type = common_type(arg.type for arg in args)
    if family(type) == "null":
        return args[0]
    if family(type) == "other":
        raise _no_operator(name, args, "numbers, text, bytes, booleans, dates and times")
    if family(type) == "timestamp":
        type = TIMESTAMP if type.tz is None else pa.timestamp("us", type.tz)
    return Call(name, tuple(coerce(arg, type) for arg in args), type)


def _align(name: str, args: Sequence[Expr]) -> list[Expr]:
    """The arguments of a comparison in one type. Equal simple types need no conversion: their order is the same."""
    moments = [arg for arg in args if kind(arg) in ("date", "timestamp")]
    if moments:
        args = [_moment_literal(arg, moments[0].type) for arg in args]
    types = {plain_type(arg.type) for arg in args}
    if len(types) == 1 and (kind(args[0]) in ("integer", "float", "boolean") or _is_plain(args[0].type)):
        return list(args)
    type = pa.null()
    for arg in args:
        try:
            type = comparison_type(type, arg.type) if family(type) != "null" else arg.type
        except FunctionError as error:
            raise FunctionError(f"{SYMBOLS.get(name, name)}: {error}") from None
    type = comparison_type(type, type)
    type = pa.int32() if family(type) == "null" else type
    return [coerce(arg, type) for arg in args]


def _is_plain(type: pa.DataType) -> bool:
    """Whether values are compared as they are; views, fixed sizes and narrow decimals are first made plain."""
    return type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()) or pt.is_decimal128(type)


def _moment_literal(expr: Expr, type: pa.DataType) -> Expr:
    """A string literal that is compared with a date or timestamp, read as one, as Spark does, or an error."""
    if not isinstance(expr, Literal) or not isinstance(expr.value, str):
        return expr
    try:
        if family(type) == "date":
            return Literal(parse_day(expr.value), pa.date32())
        return Literal(parse_moment(expr.value), TIMESTAMP)
    except (ValueError, OverflowError):
        raise FunctionError(
            f"{expr.value!r} is compared with a {type} and is no date or time; write it as 'YYYY-MM-DD HH:MM:SS'"
        ) from None


def _temporal(name: str, a: Expr, b: Expr) -> Expr:
    """Arithmetic with dates, timestamps and intervals. Dates count as their midnight, in UTC."""
    kinds = (kind(a), kind(b))
    moments = [operand for operand in (a, b) if kind(operand) in ("timestamp", "date")]
    zone = next((operand.type.tz for operand in moments if kind(operand) == "timestamp"), None)
    instant = pa.timestamp("us", zone)
    if name == "add" and kinds[1] in ("timestamp", "date") and kinds[0] not in ("timestamp", "date"):
        return _temporal(name, b, a)
    if name in ("add", "subtract"):
        if len(moments) == 1 and kinds[1] in ("duration", "null") and kinds != ("date", "null"):
            return Call(name, (coerce(a, instant), coerce(b, DURATION)), instant)
        if kinds in (("date", "integer"), ("date", "null")):
            return Call(name, (coerce(a, pa.date32()), coerce(b, pa.int32())), pa.date32())
        if set(kinds) <= {"duration", "null"}:
            return Call(name, (coerce(a, DURATION), coerce(b, DURATION)), DURATION)
    if name == "subtract" and kinds[1] in ("timestamp", "date") and (len(moments) == 2 or kinds[0] == "null"):
        return Call(name, (coerce(a, TIMESTAMP), coerce(b, TIMESTAMP)), DURATION)
    if name == "multiply" and kinds.count("duration") == 1 and set(kinds) <= {"duration", "integer", "null"}:
        a, b = (a, b) if kinds[0] == "duration" else (b, a)
        return Call(name, (coerce(a, DURATION), coerce(b, pa.int64())), DURATION)
    raise _no_operator(
        name, (a, b), "timestamp +- interval, timestamp - timestamp, date +- days, or interval * integer"
    )


def _as_decimal(expr: Expr) -> Expr:
    """An operand of decimal arithmetic; an integer literal takes no more digits than it has, as in Spark."""
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        return coerce(expr, pa.decimal128(min(len(str(abs(expr.value))), MAX_PRECISION), 0))
    return coerce(expr, decimal_of(expr.type))


def _fits(value: int, type: pa.DataType) -> bool:
    if family(type) != "integer":
        return True
    signed = str(type).startswith("int")
    bits = type.bit_width - signed
    return bool((-(2**bits) if signed else 0) <= value < 2**bits)


def _no_operator(name: str, args: Sequence[Expr], right: str) -> FunctionError:
    found = " and ".join(str(arg.type) for arg in args)
    return FunctionError(f"{SYMBOLS.get(name, name)} does not take {found}; it takes {right}")
