"""The second oracle: DuckDB joins the accepted rows. It computes windows, arrival numbers and predicates itself.

Each input becomes a table of its accepted rows with the columns of its stream and two more: the push in which the row
came and its place there. Everything else, from arrival numbers to `valid_to`, is SQL.
"""

from __future__ import annotations

import functools

import duckdb
import pyarrow as pa
from pyarrow import types

from .accept import Acceptance, accept, event_time
from .carried import CARRIED, values_of
from .compare import Rows, canonical, canonical_column, multiset
from .expr import Col
from .spec import INT64_MAX, Case, Row, Source, array_of
from .sqltext import duck

FOREVER = "170141183460469231731687303715884105727"
BEFORE = f"-{FOREVER}"


def duck_join(case: Case, acceptance: Acceptance | None = None) -> Rows:
    """The multiset of results, in canonical form."""
    acceptance = acceptance or accept(case)
    connection = _connection()
    names: list[str] = []
    try:
        for name, table in _source_tables(case, acceptance).items():
            # A copy: over Arrow itself, some versions of DuckDB push filters down and lose NaN on the way.
            connection.register("arrow_rows", table)
            connection.execute(f"CREATE TEMP TABLE {name} AS FROM arrow_rows")
            connection.unregister("arrow_rows")
            names.append(name)
        found = connection.sql(_statement(case)).to_arrow_table()
    finally:
        for name in names:
            connection.execute(f"DROP TABLE {name}")
    columns = [canonical_column(column) for column in found.columns[: len(case.outputs)]]
    for place, output in enumerate(case.outputs):
        if isinstance(output.expr, Col) and output.expr.name == CARRIED:
            named = {repr(canonical(value, output.expr.type)): value for value in values_of(output.expr.type)}
            values = (None if text is None else named[text] for text in columns[place])
            columns[place] = [canonical(value, output.expr.type) for value in values]
    for column in found.columns[len(case.outputs) :]:
        whole = [None if value is None else int(value) for value in column.to_pylist()]
        columns.append([canonical(number, case.time_type) for number in whole])
    return multiset(zip(*columns, strict=True))


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _source_tables(case: Case, acceptance: Acceptance) -> dict[str, pa.Table]:
    accepted = {arrival.row.id for arrival in acceptance.arrivals}
    streams: dict[str, list[tuple[Row, int, int]]] = {name: [] for name in case.streams}
    for number, push in enumerate(case.pushes):
        for position, row in enumerate(push.rows):
            if row.id in accepted:
                streams[row.source].append((row, number, position))
    tables = {}
    for name, source in case.sources.items():
        placed = streams[name] if name in streams else [(row, 0, 0) for row in source.table_rows]
        table = _plain_table(source, [row for row, _, _ in placed])
        times = [None if source.is_static else event_time(case, row) for row, _, _ in placed]
        table = table.append_column("_push", pa.array([number for _, number, _ in placed], pa.int64()))
        table = table.append_column("_position", pa.array([position for _, _, position in placed], pa.int64()))
        tables[_table(case, name)] = table.append_column("_ts", pa.array(times, pa.int64()))
    return tables


def _table(case: Case, source: str) -> str:
    """What a source's table is called in DuckDB."""
    return f"source_{list(case.sources).index(source)}"


def _plain_table(source: Source, rows: list[Row]) -> pa.Table:
    """The rows with timestamps without a zone, in microseconds (or nanoseconds, which are only selected)."""
    arrays = []
    for field in source.schema:
        type_ = field.type
        if field.name == CARRIED:
            # DuckDB carries it and asks whether it is null: a text that tells the value does as well.
            carried = (row.values[CARRIED] for row in rows)
            told = [None if value is None else repr(canonical(value, type_)) for value in carried]
            arrays.append(pa.array(told, pa.string()))
            continue
        if types.is_timestamp(type_):
            type_ = pa.timestamp("ns" if type_.unit == "ns" else "us")
        arrays.append(array_of([row.values[field.name] for row in rows], type_))
    return pa.table(arrays, names=source.schema.names)


def _statement(case: Case) -> str:
    def name(column: Col) -> str:
        return f'i{column.input}."{column.name}"'

    numbers = range(len(case.inputs))
    parts = [f"arrived AS ({_arrived(case)})"]
    parts += [f"input{number} AS ({_input(case, number)})" for number in numbers]
    start = f"greatest({', '.join(f'i{number}._start' for number in numbers)})"
    end = f"least({', '.join(f'i{number}._end' for number in numbers)})"
    first = f"greatest({', '.join(f'i{number}._first' for number in numbers)})"
    last = f"least({', '.join(f'i{number}._last' for number in numbers)})"
    selects = [f"{duck(output.expr, name)} AS c{place}" for place, output in enumerate(case.outputs)]
    selects += [f"CAST({start} AS VARCHAR)", f"CAST(CASE WHEN {end} = {FOREVER} THEN NULL ELSE {end} END AS VARCHAR)"]
    wheres = [duck(predicate, name) for predicate in case.predicates]
    wheres += [duck(condition, name) for relation in case.inputs for condition in relation.filters]
    wheres += [f"{start} <= {end}", f"{first} <= {last}"]
    froms = ", ".join(f"input{number} AS i{number}" for number in numbers)
    return f"WITH {', '.join(parts)} SELECT {', '.join(selects)} FROM {froms} WHERE {' AND '.join(wheres)}"


def _arrived(case: Case) -> str:
    """Every accepted row's arrival number."""
    union = " UNION ALL ".join(
        f"SELECT {place} AS _stream, _push, _ts, _position FROM {_table(case, name)}"
        for place, name in enumerate(case.streams)
    )
    return f"SELECT *, row_number() OVER (ORDER BY _push, _ts, _stream, _position) AS _number FROM ({union})"


def _input(case: Case, number: int) -> str:
    """The rows of an input with their validity in event time and in arrival numbers."""
    relation = case.inputs[number]
    if relation.window.kind == "static":
        intervals = f"{BEFORE}::HUGEINT AS _start, {FOREVER}::HUGEINT AS _end, 0 AS _first, {FOREVER}::HUGEINT AS _last"
        return f"SELECT *, {intervals} FROM {_table(case, relation.source)}"
    end, last = f"{FOREVER}::HUGEINT", f"{FOREVER}::HUGEINT"
    if relation.window.kind == "range":
        end = f"least(r._ts::HUGEINT + {relation.window.size}, {INT64_MAX}::HUGEINT)"
    if relation.window.kind == "rows":
        following = f"lead(_number, {relation.window.size}) OVER (ORDER BY _number)"
        last = f"coalesce({following} - 1, {FOREVER}::HUGEINT)"
    place = case.streams.index(relation.source)
    join = f"r._push = n._push AND r._position = n._position AND n._stream = {place}"
    intervals = f"r._ts::HUGEINT AS _start, {end} AS _end, _number AS _first, {last} AS _last"
    return f"SELECT r.*, {intervals} FROM {_table(case, relation.source)} AS r JOIN arrived AS n ON {join}"
