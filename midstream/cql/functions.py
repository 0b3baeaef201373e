"""The functions and operators of the query language, and the typing of expressions made of them.

`call` and `cast` are how expressions are built: they check the arguments, insert the implicit conversions that Spark
SQL would make, and give a typed expression. One explicit table, `TABLE`, says which functions there are; a function is
one entry with its rule (`typing_rules`, `typing_scalars`) here, and one kernel in `engine.expressions`. A query may
bring functions of its own, which `given_function` makes.

>>> price, count = Column(0, "price", pa.float64()), Column(0, "count", pa.int32())
>>> call("multiply", [price, count]).type
DataType(double)
>>> call("sqroot", [price])
Traceback (most recent call last):
midstream.cql.typing_types.FunctionError: unknown function 'sqroot'; did you mean 'sqrt'?

CAST of a timestamp to a number gives seconds, as in Spark. Microseconds, as the engine counts them, are
``call("unix_micros", [x])``, which also takes dates and intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.cql import typing_rules as rules
from midstream.cql import typing_scalars as scalars
from midstream.cql.model import Call, Column, Compute, Expr
from midstream.cql.plain import plain_type
from midstream.cql.typing_aggregates import AGGREGATES, OTHER_AGGREGATES
from midstream.cql.typing_types import (
    FunctionError,
    castable,
    common_type,
    comparison_type,
    sql_name,
)
from midstream.errors import QueryError, did_you_mean, shown

__all__ = [
    "FUNCTIONS",
    "Column",
    "Function",
    "FunctionError",
    "call",
    "cast",
    "check_given",
    "common_type",
    "comparison_type",
    "given_function",
]

Rule = Callable[[str, Sequence[Expr]], Expr]
MANY = 1_000_000


@dataclass(frozen=True)
class Function:
    """One entry: how it is written, what types it, how many arguments it takes, and what else it is called.

    A function that comes with a query has its computation too, over Arrow arrays; `given_function` makes one.
    """

    name: str
    signature: str
    rule: Rule
    least: int
    most: int
    aliases: tuple[str, ...] = ()
    compute: Compute | None = None


def given_function(name: str, takes: Sequence[pa.DataType], gives: pa.DataType, compute: Compute) -> Function:
    """A function for `midstream.query(..., functions=[...])`, which the query may call by its name.

    `compute` gets an Arrow array for each argument, converted to the types that it takes, and gives an array of as many
    values; without arguments, an array of one. The same arguments must always give the same result.

    >>> import midstream as ms, pyarrow.compute as pc
    >>> from midstream.cql import given_function
    >>> half = given_function("half", [pa.float64()], pa.float64(), lambda x: pc.divide(x, 2.0))
    >>> query = ms.query("SELECT half(a.x) AS h FROM a [ROWS 1]", {"a": {"x": int, "ts": int}}, "ts", functions=[half])
    >>> ms.Engine(query).push({"a": [{"x": 5, "ts": 0}]})["h"].to_pylist()
    [2.5]
    """
    signature = f"{name}({', '.join(map(sql_name, takes))})"

    def rule(name: str, args: Sequence[Expr]) -> Expr:
        for argument, wanted in zip(args, takes, strict=True):
            if not castable(argument.type, wanted):
                raise FunctionError(f"{name} is written {signature}, and was given {plain_type(argument.type)}")
        converted = (rules.coerce(argument, wanted) for argument, wanted in zip(args, takes, strict=True))
        return Call(name, tuple(converted), gives, compute)

    return Function(name.lower(), signature, rule, len(takes), len(takes), compute=compute)


TABLE = (
    Function("add", "a + b", rules.arithmetic, 2, 2),
    Function("subtract", "a - b", rules.arithmetic, 2, 2),
    Function("multiply", "a * b", rules.arithmetic, 2, 2),
    Function("divide", "a / b", rules.arithmetic, 2, 2),
    Function("div", "a DIV b", rules.whole_quotient, 2, 2),
    Function("modulo", "a % b, mod(a, b)", rules.arithmetic, 2, 2, ("mod",)),
    Function("negate", "- a, negative(a)", rules.unary_number, 1, 1, ("negative",)),
    Function("eq", "a = b", rules.comparison, 2, 2),
    Function("ne", "a <> b", rules.comparison, 2, 2),
    Function("lt", "a < b", rules.comparison, 2, 2),
    Function("le", "a <= b", rules.comparison, 2, 2),
    Function("gt", "a > b", rules.comparison, 2, 2),
    Function("ge", "a >= b", rules.comparison, 2, 2),
    Function("null_safe_eq", "a <=> b, equal_null(a, b)", rules.comparison, 2, 2, ("equal_null",)),
    Function("and", "p AND q", rules.logic, 2, MANY),
    Function("or", "p OR q", rules.logic, 2, MANY),
    Function("not", "NOT p", rules.logic, 1, 1),
    Function("is_null", "a IS NULL, isnull(a)", rules.is_null, 1, 1, ("isnull",)),
    Function("isnotnull", "a IS NOT NULL, isnotnull(a)", rules.is_not_null, 1, 1, ("is_not_null",)),
    Function("in", "a IN (1, 2, ...)", rules.membership, 2, MANY),
    Function("like", "a LIKE 'pattern'", rules.like, 2, 2),
    Function("ilike", "a ILIKE 'pattern'", rules.like, 2, 2),
    Function("case", "CASE WHEN p THEN a ... ELSE b END", rules.case, 2, MANY),
    Function("if", "if(p, a, b)", rules.case, 3, 3),
    Function("coalesce", "coalesce(a, ...), ifnull(a, b), nvl(a, b)", rules.coalesce, 1, MANY, ("ifnull", "nvl")),
    Function("nullif", "nullif(a, b)", rules.nullif, 2, 2),
    Function("greatest", "greatest(a, b, ...)", rules.extreme, 2, MANY),
    Function("least", "least(a, b, ...)", rules.extreme, 2, MANY),
    Function("abs", "abs(x)", rules.unary_number, 1, 1),
    Function("round", "round(x [, digits])", scalars.round_half_up, 1, 2),
    Function("floor", "floor(x)", scalars.whole_number, 1, 1),
    Function("ceil", "ceil(x), ceiling(x)", scalars.whole_number, 1, 1, ("ceiling",)),
    Function("sign", "sign(x), signum(x)", scalars.double_function, 1, 1, ("signum",)),
    Function("sqrt", "sqrt(x)", scalars.double_function, 1, 1),
    Function("power", "power(x, y), pow(x, y)", scalars.double_function, 2, 2, ("pow",)),
    Function("exp", "exp(x)", scalars.double_function, 1, 1),
    Function("ln", "ln(x)", scalars.double_function, 1, 1),
    Function("isnan", "isnan(x)", scalars.is_nan, 1, 1),
    Function(
        "length",
        "length(s), char_length(s), character_length(s), len(s)",
        scalars.text_length,
        1,
        1,
        ("char_length", "character_length", "len"),
    ),
    Function("upper", "upper(s), ucase(s)", scalars.text_to_text, 1, 1, ("ucase",)),
    Function("lower", "lower(s), lcase(s)", scalars.text_to_text, 1, 1, ("lcase",)),
    Function("trim", "trim(s)", scalars.text_to_text, 1, 1),
    Function("ltrim", "ltrim(s)", scalars.text_to_text, 1, 1),
    Function("rtrim", "rtrim(s)", scalars.text_to_text, 1, 1),
    Function("substring", "substring(s, position [, length]), substr(...)", scalars.substring, 2, 3, ("substr",)),
    Function("concat", "concat(s, ...), s || t", scalars.concat, 1, MANY, ("||",)),
    Function("startswith", "startswith(s, t)", scalars.text_test, 2, 2),
    Function("endswith", "endswith(s, t)", scalars.text_test, 2, 2),
    Function("contains", "contains(s, t)", scalars.text_test, 2, 2),
    Function("replace", "replace(s, 'search' [, 'replacement'])", scalars.replace, 2, 3),
    Function("year", "year(t)", scalars.time_field, 1, 1),
    Function("quarter", "quarter(t)", scalars.time_field, 1, 1),
    Function("month", "month(t)", scalars.time_field, 1, 1),
    Function("day", "day(t), dayofmonth(t)", scalars.time_field, 1, 1, ("dayofmonth",)),
    Function("dayofweek", "dayofweek(t)", scalars.time_field, 1, 1),
    Function("hour", "hour(t)", scalars.time_field, 1, 1),
    Function("minute", "minute(t)", scalars.time_field, 1, 1),
    Function("second", "second(t)", scalars.time_field, 1, 1),
    Function("date_trunc", "date_trunc('unit', t)", scalars.date_trunc, 2, 2),
    Function("unix_micros", "unix_micros(t)", scalars.unix_micros, 1, 1),
)

FUNCTIONS: dict[str, str] = {entry.name: entry.signature for entry in TABLE}
"""What there is: a function's name and how it is written."""

_BY_NAME = {name: entry for entry in TABLE for name in (entry.name, *entry.aliases)}


def check_given(given: Sequence[Function]) -> None:
    """Refuse functions that came with a query and cannot be called, or hide one of ours."""
    if not isinstance(given, list | tuple):
        raise QueryError(f"query: functions={shown(given)}; give a list of what midstream.cql.given_function makes")
    for function in given:
        if not isinstance(function, Function) or function.compute is None:
            raise QueryError(f"query: functions has {shown(function)}; make one with midstream.cql.given_function")
        if function.name in _BY_NAME:
            raise QueryError(f"query: functions has {function.name!r}, which there is already; give it another name")
        if function.name in AGGREGATES or function.name in OTHER_AGGREGATES:
            raise QueryError(f"query: functions has {function.name!r}, which is an aggregate; give it another name")


def call(name: str, args: Sequence[Expr], given: Sequence[Function] = ()) -> Expr:
    """A typed expression for a function or operator over typed arguments; the name in any case, or an alias.

    `given` are functions that came with the query.

    >>> call("gt", [Column(0, "amount", pa.int64()), Column(1, "limit", pa.int64())]).type
    DataType(bool)
    """
    known = _BY_NAME | {function.name: function for function in given} if given else _BY_NAME
    function = known.get(name.lower())
    if function is None:
        hint = did_you_mean(name, [*known, *AGGREGATES]).strip() or f"there are: {', '.join(FUNCTIONS)}"
        raise FunctionError(f"unknown function {name!r}; {hint}")
    if not function.least <= len(args) <= function.most:
        raise FunctionError(f"{name} is written {function.signature}, and was given {_count(len(args))}")
    return function.rule(function.name, tuple(args))


def cast(operand: Expr, type: pa.DataType) -> Expr:
    """CAST(operand AS type); values that do not convert give null when it runs.

    >>> cast(Column(0, "id", pa.string()), pa.int64()).type
    DataType(int64)
    """
    if not castable(operand.type, type):
        raise FunctionError(f"CAST from {plain_type(operand.type)} to {sql_name(type)} is not possible")
    return rules.coerce(operand, type)


def _count(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"
