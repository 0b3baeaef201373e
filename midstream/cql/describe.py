"""`Query` -> text that a person can read and a test can compare."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from midstream.cql.durations import duration_text
from midstream.cql.model import (
    OF_AGGREGATES,
    OF_BRANCHES,
    OF_KEYS,
    Aggregate,
    Band,
    Call,
    Cast,
    Column,
    Combination,
    Expr,
    Grouping,
    Input,
    Literal,
    Query,
    SetOperation,
)

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "modulo": "%",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "null_safe_eq": "<=>",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
}

_OF_OTHERS = {OF_KEYS: "key", OF_AGGREGATES: "aggregate", OF_BRANCHES: "column"}


def describe(query: Query) -> str:
    """A query as text: its inputs, predicates and outputs.

    >>> import pyarrow as pa
    >>> from midstream.cql.parse import query
    >>> schema = pa.schema({"id": pa.int32(), "ts": pa.int64()})
    >>> print(describe(query("SELECT a.id FROM s [ROWS 5] a, s [UNBOUNDED] b WHERE a.id = b.id", {"s": schema}, "ts")))
    input a: s [ROWS 5], event time ts, keeps id
    input b: s [UNBOUNDED], event time ts, keeps nothing
    key int64: CAST(a.id AS int64) = CAST(b.id AS int64)
    output id int32: a.id
    time int64
    """
    return "\n".join(_lines(query))


def expression_text(expr: Expr, aliases: Sequence[str] | None = None) -> str:
    """An expression as text; without aliases an input is called by its number.

    >>> import pyarrow as pa
    >>> expression_text(Call("lt", (Column(0, "x", pa.int64()), Literal(3, pa.int64())), pa.bool_()))
    '#0.x < 3'
    """
    if isinstance(expr, Column) and expr.input in _OF_OTHERS:
        return f"{_OF_OTHERS[expr.input]} {expr.name}"
    if isinstance(expr, Column):
        return f"{_quote(aliases[expr.input]) if aliases is not None else f'#{expr.input}'}.{_quote(expr.name)}"
    if isinstance(expr, Literal):
        if isinstance(expr.value, float) and expr.type == pa.float32():
            return str(np.float32(expr.value))
        return _literal_text(expr.value)
    if isinstance(expr, Cast):
        return f"CAST({expression_text(expr.operand, aliases)} AS {expr.type})"
    args = [expression_text(arg, aliases) for arg in expr.args]
    if expr.function in _INFIX:
        return f" {_INFIX[expr.function]} ".join(
            f"({text})" if _needs_parentheses(arg) else text for text, arg in zip(args, expr.args, strict=True)
        )
    return f"{expr.function}({', '.join(args)})"


def _quote(name: str) -> str:
    """A name, between backticks if it is not one plain word: then it cannot be mistaken for an expression."""
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def combination_text(combination: Combination) -> str:
    """How branches are combined, by their numbers.

    >>> combination_text(SetOperation("except", False, 0, SetOperation("union", True, 1, 2)))
    '(0 EXCEPT (1 UNION ALL 2))'
    """
    if not isinstance(combination, SetOperation):
        return str(combination)
    return f"({combination_text(combination.left)} {combination.name} {combination_text(combination.right)})"


def _lines(query: Query) -> Iterator[str]:
    for number, part in enumerate(query.parts):
        yield f"branch {number}:"
        yield from (f"  {line}" for line in _branch_lines(part))
    if query.combination is None:
        yield from _branch_lines(query)
    else:
        yield f"combined as {combination_text(query.combination)}"
        for output in query.outputs:
            yield f"output {output.name} {output.expr.type}"
    yield f"time {query.time_type}" + ("" if query.step is None else f" in steps of {duration_text(query.step)}")


def _branch_lines(query: Query) -> Iterator[str]:
    aliases = query.aliases
    for relation in query.inputs:
        yield _input_line(query, relation)
        for expr in relation.filters:
            yield f"  filter {expression_text(expr, aliases)}"
    for key in query.key_classes:
        yield f"key {key.type}: " + " = ".join(expression_text(expr, aliases) for _, expr in key.keys)
    for band in query.bands:
        yield f"band {band.type}, {'exact' if band.exact else 'candidates'}: {_band_text(band, aliases)}"
    for theta in query.thetas:
        names = ", ".join(aliases[number] for number in sorted(theta.inputs))
        yield f"theta of {names}: {expression_text(theta.expr, aliases)}"
        yield f"  written {theta.text}"
    if query.grouping is not None:
        yield from _grouping_lines(query.grouping, aliases)
    for output in query.outputs:
        yield f"output {output.name} {output.expr.type}: {expression_text(output.expr, aliases)}"
    if query.is_distinct:
        yield "distinct outputs"


def _grouping_lines(grouping: Grouping, aliases: Sequence[str]) -> Iterator[str]:
    for place, key in enumerate(grouping.keys):
        yield f"group key {place} {key.type}: {expression_text(key, aliases)}"
    for place, aggregate in enumerate(grouping.aggregates):
        yield f"group aggregate {place} {aggregate.type}: {aggregate_text(aggregate, aliases)}"
    if grouping.having is not None:
        yield f"having {expression_text(grouping.having, aliases)}"


def aggregate_text(aggregate: Aggregate, aliases: Sequence[str]) -> str:
    """An aggregate as text, such as ``count(*)``."""
    argument = "*" if aggregate.argument is None else expression_text(aggregate.argument, aliases)
    return f"{aggregate.function}({argument})"


def _input_line(query: Query, relation: Input) -> str:
    kept = ", ".join(relation.columns) or "nothing"
    if relation.is_static:
        return f"input {relation.alias}: {relation.source}, a static table, keeps {kept}"
    delay = query.delays.get(relation.source, 0)
    late = f", delay {duration_text(delay)}" if delay else ""
    zones = query.assumed_zones.get(relation.source, {}).values()
    time = " in ".join([str(relation.event_time), *zones])
    return f"input {relation.alias}: {relation.source} [{relation.window.text}], event time {time}{late}, keeps {kept}"


def _band_text(band: Band, aliases: Sequence[str]) -> str:
    left, right = expression_text(band.left, aliases), expression_text(band.right, aliases)
    middle = f"{left} - {right}"
    low = "" if band.low is None else f"{band.low} <= "
    high = "" if band.high is None else f" <= {band.high}"
    return f"{low}{middle}{high}"


def _literal_text(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, datetime.timedelta):
        return f"INTERVAL {duration_text(value // datetime.timedelta(microseconds=1))}"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value}'"
    return f"DATE '{value}'" if isinstance(value, datetime.date) else str(value)


def _needs_parentheses(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function in _INFIX
