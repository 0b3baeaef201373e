"""The first oracle: DuckDB runs the relational query over the rows that are valid at an instant, for all instants.

Instants at which something begins or has just ended are a relation of their own that every row is joined with. Sums
and averages are left to Python, which gets the values of a group as a list.
"""

from __future__ import annotations

import collections
import decimal
import functools
import math
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import types

from ..oracle.accept import Acceptance
from ..oracle.compare import canonical
from ..oracle.expr import Col, Expr, Value, compile_expr
from ..oracle.spec import Row, array_of
from ..oracle.sqltext import duck
from . import aggregates
from .canonical import History, Snapshot
from .sets import combine
from .spec import Aggregate, Grouping, TemporalCase, aggregate_text, find_validity, without_negative_zero

FOREVER = 2**70
#: Wide enough for the moment after the last int64.
MOMENT = pa.decimal128(38, 0)


def find_history(case: TemporalCase, acceptance: Acceptance) -> History:
    """The snapshots of a case's result at all instants at which it may change."""
    spans = [(start, end) for rows in place_rows(case, acceptance) for _, start, end in rows]
    instants = sorted(
        {start for start, _ in spans if start > -FOREVER} | {end + 1 for _, end in spans if end < FOREVER}
    )
    return History(instants, _find_snapshots(case, acceptance, instants))


def _find_snapshots(case: TemporalCase, acceptance: Acceptance, instants: list[int]) -> list[Snapshot]:
    if case.branches:
        of_branches = [_find_snapshots(branch, acceptance, instants) for branch in case.branches]
        return [combine(case.combination, snapshots) for snapshots in zip(*of_branches, strict=True)]
    found = _ask(case, place_rows(case, acceptance), instants)
    snapshots: dict[int, Snapshot] = {instant: collections.Counter() for instant in instants}
    read = _read_results if case.grouping is None else _read_groups
    read(case, found, snapshots)
    if case.is_distinct:
        snapshots = {instant: collections.Counter(set(snapshot)) for instant, snapshot in snapshots.items()}
    return [snapshots[instant] for instant in instants]


def place_rows(case: TemporalCase, acceptance: Acceptance) -> list[list[tuple[Row, int, int]]]:
    """The accepted rows of each input with the first and the last instant of their validity."""
    placed: list[list[tuple[Row, int, int]]] = []
    for relation in case.join.inputs:
        source = case.join.sources[relation.source]
        timed: list[tuple[Row, int | None]] = [(row, None) for row in source.table_rows]
        timed += [(arrival.row, arrival.ts) for arrival in acceptance.arrivals if arrival.row.source == source.name]
        rows = []
        for row, ts in timed:
            start, end = find_validity(relation.window, ts)
            rows.append((row, -FOREVER if start is None else start, FOREVER if end is None else end))
        placed.append(rows)
    return placed


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _ask(case: TemporalCase, placed: list[list[tuple[Row, int, int]]], instants: list[int]) -> pa.Table:
    connection = _connection()
    tables = {f"input{number}": _table(case, number, rows) for number, rows in enumerate(placed)}
    tables["instants"] = pa.table({"t": _moments(instants)})
    for name, table in tables.items():
        # A copy: over Arrow itself, some versions of DuckDB push filters down and lose NaN on the way.
        connection.register("arrow_rows", table)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM arrow_rows")
        connection.unregister("arrow_rows")
    return connection.sql(make_statement(case)).to_arrow_table()


def _moments(moments: list[int]) -> pa.Array:
    return pa.array([decimal.Decimal(moment) for moment in moments], MOMENT)


def _table(case: TemporalCase, number: int, rows: list[tuple[Row, int, int]]) -> pa.Table:
    schema = case.join.sources[case.join.inputs[number].source].schema
    columns = {}
    for field in schema:
        if types.is_timestamp(field.type) and field.type.unit == "ns":
            continue  # an event time that no expression reads
        type_ = pa.timestamp("us") if types.is_timestamp(field.type) else field.type
        columns[field.name] = array_of([row.values[field.name] for row, _, _ in rows], type_)
    columns["_start"] = _moments([start for _, start, _ in rows])
    columns["_end"] = _moments([end for _, _, end in rows])
    return pa.table(columns)


def make_statement(case: TemporalCase) -> str:
    """One statement for all instants."""

    def name(column: Col) -> str:
        return f'i{column.input}."{column.name}"'

    def text(expr: Expr) -> str:
        written = duck(expr, name)
        return f"CASE WHEN {written} = 0 THEN CAST(0 AS DOUBLE) ELSE {written} END" if _is_float(expr) else written

    numbers = range(len(case.join.inputs))
    conditions = [f"i{number}._start <= t AND t <= i{number}._end" for number in numbers]
    conditions += [duck(predicate, name) for predicate in case.join.predicates]
    conditions += [duck(condition, name) for relation in case.join.inputs for condition in relation.filters]
    if case.grouping is None:
        keys, arguments = [output.expr for output in case.join.outputs], []
        computed = ["count(*)"]
    else:
        keys = list(case.grouping.keys)
        arguments = [aggregate.argument for aggregate in case.grouping.aggregates]
        computed = ["count(*)", *(_compute(aggregate, place) for place, aggregate in _numbered(case.grouping))]
    selected = [f"{text(key)} AS k{place}" for place, key in enumerate(keys)]
    selected += [f"{text(argument)} AS a{place}" for place, argument in enumerate(arguments) if argument is not None]
    sources = ", ".join(["instants", *(f"input{number} AS i{number}" for number in numbers)])
    joined = f"SELECT {', '.join(['t', *selected])} FROM {sources} WHERE {' AND '.join(conditions)}"
    groups = ["t", *(f"k{place}" for place in range(len(keys)))]
    return f"SELECT {', '.join([*groups, *computed])} FROM ({joined}) GROUP BY {', '.join(groups)}"


def _is_float(expr: Expr) -> bool:
    return bool(types.is_floating(expr.type))


def _numbered(grouping: Grouping) -> list[tuple[int, Aggregate]]:
    return list(enumerate(grouping.aggregates))


def _compute(aggregate: Aggregate, place: int) -> str:
    if aggregate.function in ("sum", "avg"):
        return f"list(a{place}) FILTER (a{place} IS NOT NULL)"
    return aggregate_text(aggregate, None if aggregate.argument is None else f"a{place}")


def _read_results(case: TemporalCase, found: pa.Table, snapshots: dict[int, Snapshot]) -> None:
    outputs = case.join.outputs
    columns = [_values(column) for column in found.columns]
    for instant, *values, count in zip(*columns, strict=True):
        row = tuple(canonical(value, output.expr.type) for value, output in zip(values, outputs, strict=True))
        snapshots[int(instant)][row] += count


def _read_groups(case: TemporalCase, found: pa.Table, snapshots: dict[int, Snapshot]) -> None:
    grouping = case.grouping
    assert grouping is not None
    having = None if grouping.having is None else compile_expr(grouping.having)
    outputs = [(compile_expr(output.expr), output.expr.type) for output in case.join.outputs]
    columns = [_values(column) for column in found.columns]
    count = len(grouping.keys)
    for instant, *values in zip(*columns, strict=True):
        keys = {str(place): value for place, value in enumerate(values[:count])}
        computed = {
            str(place): _finish(aggregate, values[count + 1 + place]) for place, aggregate in _numbered(grouping)
        }
        env = [keys, computed]
        if having is None or having(env) is True:
            row = tuple(canonical(without_negative_zero(evaluate(env)), type_) for evaluate, type_ in outputs)
            snapshots[int(instant)][row] += 1


def _finish(aggregate: Aggregate, value: Any) -> Value:
    if aggregate.function == "sum":
        return without_negative_zero(aggregates.add_up(value or [], aggregate.type))
    if aggregate.function == "avg":
        return without_negative_zero(aggregates.average(value or [], aggregate.type))
    return value


def _values(column: pa.ChunkedArray) -> list[Value]:
    """Python values as expressions have them: timestamps are integers of microseconds."""
    if types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist())
    return [math.nan if isinstance(value, float) and math.isnan(value) else value for value in column.to_pylist()]
