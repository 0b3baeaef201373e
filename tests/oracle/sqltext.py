"""The two texts of an expression: CQL for the engine, DuckDB SQL for the second oracle."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable

import pyarrow as pa

from .expr import INTERVAL, Col, Expr, Lit, Op

NameColumn = Callable[[Col], str]

UNITS = (
    (7 * 86_400_000_000, "WEEK"),
    (86_400_000_000, "DAY"),
    (3_600_000_000, "HOUR"),
    (60_000_000, "MINUTE"),
    (1_000_000, "SECOND"),
    (1_000, "MILLISECOND"),
    (1, "MICROSECOND"),
)

INFIX = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "like": "LIKE",
    "concat": "||",
}

CQL_TYPES = {pa.int32(): "INT", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING"}
DUCK_TYPES = {
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
}

BINDING = ("and", "or", "not", "between", "in", "is_null", "not_null", "neg", "same")
DUCK_NAMES = {"startswith": "starts_with"}


def duration_text(microseconds: int) -> str:
    """`5 MINUTES`: the largest unit that divides the duration."""
    size, unit = next((size, unit) for size, unit in UNITS if microseconds % size == 0)
    if microseconds == 0:
        size, unit = 1_000_000, "SECOND"
    count = microseconds // size
    return f"{count} {unit}" + ("" if count == 1 else "S")


def cql(expr: Expr, name: NameColumn, nested: bool = False) -> str:
    """CQL text; `nested` puts parentheses around what could bind otherwise."""
    if isinstance(expr, Col):
        return name(expr)
    if isinstance(expr, Lit):
        return _cql_literal(expr)
    text = _shape(expr, [cql(arg, name, nested=True) for arg in expr.args])
    if text is None:
        text = _cql_call(expr, [cql(arg, name) for arg in expr.args])
    return f"({text})" if nested and _binds(expr) else text


def _binds(expr: Op) -> bool:
    return expr.name in INFIX or expr.name in BINDING


def _shape(expr: Op, args: list[str]) -> str | None:
    """What both dialects write alike; None for what they do not."""
    if expr.name in INFIX:
        return f"{args[0]} {INFIX[expr.name]} {args[1]}"
    if expr.name in ("and", "or"):
        return f" {expr.name.upper()} ".join(args)
    if expr.name == "not":
        return f"NOT {args[0]}"
    if expr.name == "between":
        return f"{args[0]} BETWEEN {args[1]} AND {args[2]}"
    if expr.name == "in":
        return f"{args[0]} IN ({', '.join(args[1:])})"
    if expr.name == "is_null":
        return f"{args[0]} IS NULL"
    if expr.name == "not_null":
        return f"{args[0]} IS NOT NULL"
    if expr.name == "neg":
        return f"-{args[0]}"
    if expr.name == "same":
        return f"{args[0]} <=> {args[1]}"
    return None


def _cql_call(expr: Op, args: list[str]) -> str:
    if expr.name == "case":
        return f"CASE WHEN {args[0]} THEN {args[1]} ELSE {args[2]} END"
    if expr.name == "cast":
        return f"CAST({args[0]} AS {CQL_TYPES[expr.type]})"
    return f"{expr.name}({', '.join(args)})"


def _cql_literal(literal: Lit) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if literal.type == INTERVAL:
        return f"INTERVAL {duration_text(value)}"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    return repr(value)


def duck(expr: Expr, name: NameColumn) -> str:
    """DuckDB text that means what the expression means, made explicit where the dialects differ."""
    if isinstance(expr, Col):
        return name(expr)
    if isinstance(expr, Lit):
        return _duck_literal(expr)
    args = [duck(arg, name) for arg in expr.args]
    if expr.name in ("div", "mod"):
        return f"(CASE WHEN {args[1]} = 0 THEN NULL ELSE {args[0]} {INFIX[expr.name]} {args[1]} END)"
    if expr.name in ("eq", "ne", "lt", "le", "gt", "ge", "between") and any(a.type == pa.float64() for a in expr.args):
        args = [f"CAST({arg} AS DOUBLE)" for arg in args]
    if expr.name == "same":
        return f"({args[0]} IS NOT DISTINCT FROM {args[1]})"
    if expr.name in ("floor", "ceil"):
        return f"CASE WHEN isnan({args[0]}) THEN 0 ELSE TRY_CAST({expr.name}({args[0]}) AS BIGINT) END"
    text = _shape(expr, args)
    if text is not None:
        return f"TRY({text})" if expr.name in ("add", "sub", "mul", "neg") else f"({text})"
    if expr.name == "abs":
        return f"TRY(abs({args[0]}))"
    if expr.name == "case":
        return f"(CASE WHEN {args[0]} THEN {args[1]} ELSE {args[2]} END)"
    if expr.name == "cast":
        inner = f"trunc({args[0]})" if expr.args[0].type == pa.float64() and expr.type != pa.string() else args[0]
        return f"TRY_CAST({inner} AS {DUCK_TYPES[expr.type]})"
    return f"{DUCK_NAMES.get(expr.name, expr.name)}({', '.join(args)})"


def _duck_literal(literal: Lit) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if literal.type == INTERVAL:
        return f"to_microseconds({value})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, int | float):
        return f"CAST({value!r} AS {DUCK_TYPES[literal.type]})"
    return _cql_literal(literal)
