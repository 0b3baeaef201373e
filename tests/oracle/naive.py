"""The first oracle: the join as the definition says it, one combination of rows after the other, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from .accept import Acceptance, accept
from .compare import canonical
from .expr import Evaluate, Expr, Op, Value, comparable_key, compile_expr, inputs_of
from .spec import INT64_MAX, Case, Row

FOREVER = 2**70


class TooManyResults(Exception):
    """The case is larger than it was meant to be."""


@dataclass(frozen=True)
class Result:
    """One row of output (canonical values, `valid_from` and `valid_to` last) and the stream rows it is made of."""

    values: tuple[Value, ...]
    members: tuple[int, ...]


@dataclass(frozen=True)
class Member:
    """A row as it stands in one input: valid on `[start, end]` in event time and `[first, last]` in arrival numbers."""

    row: Row
    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True)
class Span:
    """The intersection of members' intervals."""

    start: int = -FOREVER
    end: int = FOREVER
    first: int = -1
    last: int = FOREVER

    def cut(self, member: Member) -> Span | None:
        start, end = max(self.start, member.start), min(self.end, member.end)
        first, last = max(self.first, member.first), min(self.last, member.last)
        return Span(start, end, first, last) if start <= end and first <= last else None


def naive_join(case: Case, acceptance: Acceptance | None = None, limit: int = 200_000) -> list[Result]:
    """All results of the case."""
    acceptance = acceptance or accept(case)
    members = [members_of(case, number, acceptance) for number in range(len(case.inputs))]
    outputs = [(compile_expr(output.expr), output.expr.type) for output in case.outputs]
    results: list[Result] = []
    env: list[dict[str, Value]] = [{} for _ in case.inputs]
    for span, rows in _search(case, members):
        if len(results) >= limit:
            raise TooManyResults
        for number, row in enumerate(rows):
            env[number] = row.values
        values = [canonical(evaluate(env), type_) for evaluate, type_ in outputs]
        values.append(canonical(span.start, case.time_type))
        values.append(canonical(None if span.end == FOREVER else span.end, case.time_type))
        results.append(Result(tuple(values), tuple(row.id for row in rows if row.id >= 0)))
    return results


def members_of(case: Case, number: int, acceptance: Acceptance) -> list[Member]:
    """The rows of an input that pass its filters, with their validity. The window comes before the filters."""
    relation = case.inputs[number]
    source = case.sources[relation.source]
    if source.is_static:
        members = [Member(row, -FOREVER, FOREVER, -1, FOREVER) for row in source.table_rows]
    else:
        arrivals = [arrival for arrival in acceptance.arrivals if arrival.row.source == relation.source]
        members = []
        for place, arrival in enumerate(arrivals):
            end, last = FOREVER, FOREVER
            if relation.window.kind == "range":
                end = min(arrival.ts + relation.window.size, INT64_MAX)
            elif relation.window.kind == "rows" and place + relation.window.size < len(arrivals):
                last = arrivals[place + relation.window.size].number - 1
            members.append(Member(arrival.row, arrival.ts, end, arrival.number, last))
    filters = [compile_expr(condition) for condition in relation.filters]
    env: list[dict[str, Value]] = [{} for _ in case.inputs]

    def passes(member: Member) -> bool:
        env[number] = member.row.values
        return all(condition(env) is True for condition in filters)

    return [member for member in members if passes(member)]


def _search(case: Case, members: list[list[Member]]) -> Iterator[tuple[Span, list[Row]]]:
    """Every combination, input by input, dropping one as soon as a predicate or the intervals rule it out."""
    order = _order(case)
    tests: list[list[Evaluate]] = []
    lookups: list[_Lookup | None] = []
    for depth, number in enumerate(order):
        bound = frozenset(order[: depth + 1])
        ready = [
            predicate
            for predicate in case.predicates
            if number in inputs_of(predicate) and inputs_of(predicate) <= bound
        ]
        tests.append([compile_expr(predicate) for predicate in ready])
        lookups.append(next((lookup for lookup in (_lookup(p, number, members) for p in ready) if lookup), None))
    env: list[dict[str, Value]] = [{} for _ in case.inputs]
    rows: list[Row] = [Row(-1, "", {})] * len(order)

    def descend(depth: int, span: Span) -> Iterator[tuple[Span, list[Row]]]:
        if depth == len(order):
            yield span, list(rows)
            return
        number = order[depth]
        lookup = lookups[depth]
        for member in members[number] if lookup is None else lookup.candidates(env):
            cut = span.cut(member)
            if cut is None:
                continue
            env[number] = member.row.values
            if all(condition(env) is True for condition in tests[depth]):
                rows[number] = member.row
                yield from descend(depth + 1, cut)

    yield from descend(0, Span())


def _order(case: Case) -> list[int]:
    """An order in which each input is connected with earlier ones where the predicates allow it."""
    order: list[int] = []
    left = list(range(len(case.inputs)))
    while left:
        done = set(order)

        def connected(number: int, done: set[int] = done) -> int:
            return sum(
                number in inputs_of(predicate) and bool(inputs_of(predicate) & done) for predicate in case.predicates
            )

        best = max(left, key=connected)
        order.append(best)
        left.remove(best)
    return order


@dataclass(frozen=True)
class _Lookup:
    """The members of one input by the value of their side of an equality; the equality itself is still tested."""

    table: dict[Value, list[Member]]
    other: Evaluate
    type: pa.DataType

    def candidates(self, env: list[dict[str, Value]]) -> list[Member]:
        value = self.other(env)
        return [] if value is None else self.table.get(comparable_key(value, self.type), [])


def _lookup(predicate: Expr, number: int, members: list[list[Member]]) -> _Lookup | None:
    if not isinstance(predicate, Op) or predicate.name != "eq":
        return None
    for mine, other in (predicate.args, predicate.args[::-1]):
        if inputs_of(mine) == {number} and number not in inputs_of(other):
            type_ = pa.float64() if pa.float64() in (mine.type, other.type) else mine.type
            evaluate = compile_expr(mine)
            env: list[dict[str, Value]] = [{} for _ in members]
            table: dict[Value, list[Member]] = {}
            for member in members[number]:
                env[number] = member.row.values
                value = evaluate(env)
                if value is not None:
                    table.setdefault(comparable_key(value, type_), []).append(member)
            return _Lookup(table, compile_expr(other), type_)
    return None
