"""CQL text and schemas -> `Query`: the order of the steps.

1. `syntax` takes the windows out of the text and has sqlglot parse the rest, `clauses` finds the branches of it;
2. `sources` reads FROM, `times` finds event times and delays;
3. for each branch, `conjuncts` and `outputs` read WHERE, ON and SELECT into typed expressions (`expressions`,
   `names`, `literals`);
4. `predicates` sorts the conjuncts into filters, key classes (`keys`), bands (`bands`) and thetas;
5. `grouping` reads GROUP BY and HAVING, `steps` finds the step in which results go out;
6. what each input must keep after arrival follows from all that;
7. `sets` makes one query of the branches of a set operation.

Every complaint is a `QueryError` that says where, what, and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from midstream.cql.clauses import BranchText, Clauses, check_clauses
from midstream.cql.conjuncts import read_conjuncts
from midstream.cql.durations import Duration
from midstream.cql.expressions import Reader
from midstream.cql.functions import Function, check_given
from midstream.cql.grouping import SelectReader, check_distinct, check_rows, read_grouping
from midstream.cql.model import Column, Combination, Expr, Input, Query, SetOperation, columns_of
from midstream.cql.names import Scope
from midstream.cql.outputs import read_outputs
from midstream.cql.predicates import Predicates, find_groups, take_apart
from midstream.cql.schemas import SchemaLike, as_schema
from midstream.cql.sets import Branch, operations_in, unite
from midstream.cql.sources import Entry, From, check_for_streams, check_windows_used, read_from
from midstream.cql.steps import read_step, warn_of_long_step
from midstream.cql.syntax import Source, WindowText
from midstream.cql.times import Delay, EventTime, Times, read_times, with_zones
from midstream.errors import QueryError
from midstream.tables import type_name


def query(
    text: str,
    schemas: Mapping[str, SchemaLike],
    event_time: EventTime = None,
    delay: Delay = 0,
    assume_zone: str | None = None,
    functions: Sequence[Function] = (),
    step: Duration | None = None,
) -> Query:
    """Understand a continuous query.

    `schemas` has a schema for every name in FROM: a pyarrow schema, a dict of columns with their types, or an example
    such as a pandas or polars frame, a dict of columns or a list of dicts. `event_time` is the column that has the
    event time: one name for all streams, or one per stream. `delay` is how late rows may come, as text such as
    ``30 seconds`` or a timedelta; also one for all or one per stream. `assume_zone` is the time zone in which event
    times without one are read, such as ``Europe/Berlin``; a query whose streams are partly with and partly without a
    zone needs it. `functions` are functions of your own that the query may call, made by
    `midstream.cql.given_function`. `step` is how much event time the results that go out together cover, for queries
    with DISTINCT, GROUP BY, aggregates, TUMBLE windows or set operations: a duration in whole milliseconds.

    >>> orders = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us")})
    >>> payments = pa.schema({"order_id": pa.int64(), "amount": pa.float64(), "ts": pa.timestamp("us")})
    >>> found = query(
    ...     '''SELECT o.id, p.amount
    ...        FROM orders [RANGE 10 MINUTES] o, payments [RANGE 10 MINUTES] p
    ...        WHERE o.id = p.order_id AND p.amount > 10''',
    ...     schemas={"orders": orders, "payments": payments},
    ...     event_time="ts",
    ... )
    >>> found.aliases, [output.name for output in found.outputs]
    (('o', 'p'), ['id', 'amount'])
    >>> query("SELECT id FROM ordrs [ROWS 1]", {"orders": orders}, "ts")
    Traceback (most recent call last):
    ...
    midstream.errors.QueryError: query: unknown stream 'ordrs' at line 1, column 16; did you mean 'orders'? ...
    """
    found = read_query(text, schemas, event_time, delay, assume_zone, functions, step)
    warn_of_long_step(found)
    return found


def read_query(
    text: str,
    schemas: Mapping[str, SchemaLike],
    event_time: EventTime = None,
    delay: Delay = 0,
    assume_zone: str | None = None,
    functions: Sequence[Function] = (),
    step: Duration | None = None,
) -> Query:
    """As `query`, without warnings: for whoever reads a query again that has been read before."""
    known = _check_schemas(text, schemas)
    check_given(functions)
    source = Source(text)
    try:
        return _understand(source, known, event_time, delay, assume_zone, functions, step)
    except RecursionError:
        raise source.error(0, "the query is nested too deeply", "write it with fewer parentheses") from None


def _understand(
    source: Source,
    declared: Mapping[str, pa.Schema],
    event_time: EventTime,
    delay: Delay,
    assume_zone: str | None,
    functions: Sequence[Function],
    given_step: Duration | None,
) -> Query:
    clauses = check_clauses(source, source.parse())
    used: set[WindowText] = set()
    froms = _read_froms(clauses, declared, used)
    entries = tuple(entry for clause in froms for entry in clause.entries)
    times = read_times(source, entries, declared, event_time, delay, assume_zone)
    schemas = with_zones(declared, times.assumed_zones)
    branches = [
        _read_branch(branch, clause, times, schemas, functions, names_count=place == 0)
        for place, (branch, clause) in enumerate(zip(clauses.branches, froms, strict=True))
    ]
    check_windows_used(source, used)  # a subquery has been refused by its name before
    operator = _snapshot_operator([branch.query for branch in branches], clauses.combination)
    step = read_step(source, entries, operator, given_step)
    stepped = [
        replace(branch, query=replace(branch.query, step=step.length, step_is_given=step.is_given))
        for branch in branches
    ]
    if step.length is not None:
        for branch in stepped:
            _check_rows(branch, operator, len(stepped) > 1)
    if not isinstance(clauses.combination, SetOperation):
        return stepped[0].query
    return unite(source.text, stepped, clauses.combination)


def _read_froms(clauses: Clauses, declared: Mapping[str, pa.Schema], used: set[WindowText]) -> list[From]:
    """The FROM clauses of all branches; the windows in them are used."""
    froms = [read_from(branch.source, branch.select, declared, used) for branch in clauses.branches]
    for branch, clause in zip(clauses.branches, froms, strict=True):
        if not branch.may_be_static:
            check_for_streams(branch.source, clause.entries, len(froms) > 1)
    return froms


def _read_branch(
    branch: BranchText,
    clause: From,
    times: Times,
    schemas: Mapping[str, pa.Schema],
    functions: Sequence[Function],
    names_count: bool,
) -> Branch:
    """A SELECT as a query of its own, whose step is not known yet; its columns may have names of their own."""
    source, select, entries = branch.source, branch.select, clause.entries
    aliases, names = tuple(entry.alias for entry in entries), tuple(entry.source for entry in entries)
    scope = Scope(source, aliases, tuple(schemas[name] for name in names), names)
    where = select.args.get("where")
    conjuncts = read_conjuncts(
        Reader(scope, functions), [*clause.conditions, *([where.this] if where is not None else [])]
    )
    first_stream = next((number for number, entry in enumerate(entries) if entry.source in times.columns), 0)
    predicates = take_apart(conjuncts, len(entries), first_stream)
    reader = SelectReader(scope, functions)
    selected = read_outputs(reader, select, names_count)
    grouped = read_grouping(reader, select, selected)
    is_distinct = check_distinct(reader, select)
    _check_connected(source, clause, predicates)
    understood = Query(
        text=source.text[source.span[0] : source.span[1] + 1],
        inputs=(),
        key_classes=predicates.key_classes,
        bands=predicates.bands,
        thetas=predicates.thetas,
        outputs=grouped.outputs,
        time_type=times.type,
        schemas={name: schemas[name] for name in names},
        delays={name: delay for name, delay in times.delays.items() if name in names},
        assumed_zones={name: zones for name, zones in times.assumed_zones.items() if name in names},
        is_distinct=is_distinct,
        grouping=grouped.grouping,
    )
    query = replace(understood, inputs=_inputs(entries, times, schemas, predicates, understood.of_results))
    return Branch(query, reader, selected)


def _check_rows(branch: Branch, operator: str | None, is_combined: bool) -> None:
    """Refuse rows without an equality where equal ones become one run."""
    if is_combined or branch.query.grouping is None:
        check_rows(branch.reader, branch.selected, operator or "TUMBLE")


def _snapshot_operator(branches: Sequence[Query], combination: Combination) -> str | None:
    """What a query calls the operator that looks at all results of a moment, if it has one."""
    for operation in operations_in(combination):
        if (operation.kind, operation.is_all) != ("union", True):
            return operation.name
    for branch in branches:
        if branch.is_distinct:
            return "DISTINCT"
        if branch.grouping is not None:
            return "GROUP BY" if branch.grouping.keys else "an aggregate"
    return None


def _check_schemas(text: str, schemas: Mapping[str, SchemaLike]) -> dict[str, pa.Schema]:
    """The schemas by name, whatever they were given as."""
    if not isinstance(text, str):
        raise QueryError(f"query: the text is {type(text).__name__}; give a string")
    if not isinstance(schemas, Mapping):
        raise QueryError(f"query: schemas is {type_name(schemas)}; give a dict with a schema for each name in FROM")
    for name in schemas:
        if not isinstance(name, str):
            raise QueryError(f"query: schemas has the name {name!r}; give the names in FROM as text")
    return {name: as_schema(schema, name) for name, schema in schemas.items()}


def _check_connected(source: Source, clause: From, predicates: Predicates) -> None:
    found = find_groups(len(clause.entries), [*predicates.links, *clause.crossed])
    if len(found) > 1:
        names = " and ".join(f"({', '.join(clause.entries[number].alias for number in group)})" for group in found)
        what = f"no predicate connects {names}"
        right = "add one to WHERE, or write CROSS JOIN between them if every combination is meant"
        raise source.error(clause.entries[found[1][0]].node, what, right)


def _inputs(
    entries: tuple[Entry, ...],
    times: Times,
    schemas: Mapping[str, pa.Schema],
    predicates: Predicates,
    of_results: tuple[Expr, ...],
) -> tuple[Input, ...]:
    needed = {column for expr in of_results for column in columns_of(expr)}
    needed |= {column for theta in predicates.thetas for column in columns_of(theta.expr)}
    for key_class in predicates.key_classes:
        if not _is_its_own_code(key_class.type):
            needed |= {key for _, key in key_class.keys if isinstance(key, Column)}
    kept = {(column.input, column.name) for column in needed}
    return tuple(
        Input(
            alias=entry.alias,
            source=entry.source,
            window=entry.window,
            event_time=times.columns.get(entry.source),
            filters=predicates.filters[number],
            columns=tuple(name for name in schemas[entry.source].names if (number, name) in kept),
        )
        for number, entry in enumerate(entries)
    )


def _is_its_own_code(type: pa.DataType) -> bool:
    """Whether equal keys of a type can be told by an integer, so that a match need not be verified."""
    return bool(type in (pa.int64(), pa.uint64(), pa.float64(), pa.bool_()) or pt.is_temporal(type))
