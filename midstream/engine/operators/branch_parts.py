"""Parts of set operations: the rows of all branches in one table, each with the number of its branch.

A place gives out what each branch has found there, and combines nothing: a row that a place lacks in one branch may be
in another place. Branches with groups have keys and states or arguments instead of rows, so they have columns of their
own, which are null for the others::

    branch    rows of branches 0 and 1    parts of the groups of branch 2
    0         x       y                   null   null
    1         x       y                   null   null
    2         null    null                k      a

The first round makes rows of the groups, and is left out if no branch has groups. The last one has all parts of equal
rows, whatever their branch, and evaluates the set operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from midstream.cql.model import OF_BRANCHES, Column, Combination, Expr, Grouping, Literal, Output, Query
from midstream.engine.operators.group_parts import groups_of_parts
from midstream.engine.operators.results import times_of
from midstream.engine.operators.rounds import ALL_STEPS, PartsToSpread, Round, Values, values_in
from midstream.engine.operators.set_operations import Combined
from midstream.engine.operators.stepped import Operator, make_operator
from midstream.kernels.types import EARLIEST, LARGEST
from midstream.state.meter import Meter

_NUMBER = pa.int32()


@dataclass(frozen=True)
class Layout:
    """The types of the columns behind the number of the branch, and which of them each branch has its values in."""

    types: tuple[pa.DataType, ...]
    places: tuple[tuple[int, ...], ...]


def lay_out(branches: Sequence[Sequence[pa.DataType]]) -> Layout:
    """Columns for values of these types, as few as there can be.

    >>> lay_out([[pa.int64(), pa.int64()], [pa.string(), pa.int64()]]).places
    ((0, 1), (2, 0))
    """
    types: list[pa.DataType] = []
    places = []
    for wanted in branches:
        free = list(range(len(types)))
        own = []
        for type in wanted:
            place = next((place for place in free if types[place] == type), None)
            if place is None:
                place = len(types)
                types.append(type)
            else:
                free.remove(place)
            own.append(place)
        places.append(tuple(own))
    return Layout(tuple(types), tuple(places))


def unite_parts(query: Query, parts: Sequence[Query]) -> Query:
    """The query that a place runs for a set operation whose branches have these queries of their parts."""
    layout = lay_out([[output.expr.type for output in part.outputs] for part in parts])
    names = ["branch", *(f"part_{place}" for place in range(len(layout.types)))]
    types = [_NUMBER, *layout.types]
    assert query.combination is not None
    counts_once = set(_branches_that_count_once(query.combination))
    united = []
    for number, (part, places) in enumerate(zip(parts, layout.places, strict=True)):
        exprs: list[Expr] = [Literal(number, _NUMBER), *(Literal(None, type) for type in layout.types)]
        for place, output in zip(places, part.outputs, strict=True):
            exprs[1 + place] = output.expr
        outputs = tuple(Output(name, expr) for name, expr in zip(names, exprs, strict=True))
        is_distinct = part.is_distinct or (number in counts_once and query.parts[number].grouping is None)
        united.append(replace(part, outputs=outputs, is_distinct=is_distinct))
    outputs = tuple(
        Output(name, Column(OF_BRANCHES, str(place), type))
        for place, (name, type) in enumerate(zip(names, types, strict=True))
    )
    return replace(query, outputs=outputs, parts=tuple(united), is_uncut=True)


def _branches_that_count_once(combination: Combination, counts_once: bool = False) -> Iterator[int]:
    """Branches of which it makes no difference how often they have a row: a place need not tell."""
    if isinstance(combination, int):
        if counts_once:
            yield combination
        return
    passes = not combination.is_all or (counts_once and combination.kind != "except")
    yield from _branches_that_count_once(combination.left, passes)
    yield from _branches_that_count_once(combination.right, passes)


def rounds_of_branches(query: Query, parts: Sequence[Query]) -> tuple[Round, ...]:
    """What makes the result of a set operation of what places have found by the query of `unite_parts`."""
    if all(part.grouping is None for part in query.parts):
        return (CombiningRound(query),)
    layout = lay_out([[output.expr.type for output in part.outputs] for part in parts])
    return GroupingRound(query, layout), CombiningRound(query)


def _by_branch(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The parts of each branch that has any."""
    numbers = table.column(0)
    found = sorted(pc.unique(numbers).to_pylist())
    for number in found:
        yield number, table if len(found) == 1 else table.filter(pc.equal(numbers, number))


@dataclass(frozen=True)
class GroupingRound:
    """The groups of some branches -> their rows. Rows of other branches are passed on."""

    query: Query
    layout: Layout

    @cached_property
    def groupings(self) -> Mapping[int, Grouping]:
        return {number: part.grouping for number, part in enumerate(self.query.parts) if part.grouping is not None}

    @property
    def is_in_one_place(self) -> bool:
        return False

    def spread(self, table: pa.Table) -> Iterator[PartsToSpread]:
        for branch, own in _by_branch(table):
            columns = [own.column(1 + place) for place in self.layout.places[branch]]
            grouping = self.groupings.get(branch)
            yield PartsToSpread(own, columns if grouping is None else columns[: len(grouping.keys)])

    def in_steps_of(self, step: int) -> Round:
        return replace(self, query=self.query.with_step(step))

    def finish(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        operators: dict[int, Operator] = {}
        for table in parts:
            for branch, own in _by_branch(table):
                found = values_in(own, first=1)
                values = found._replace(columns=[found.columns[place] for place in self.layout.places[branch]])
                if branch not in self.groupings:
                    yield self._table(branch, values)
                    continue
                if branch not in operators:
                    grouped = groups_of_parts(self.query.parts[branch])
                    operators[branch] = make_operator(replace(grouped, step=ALL_STEPS), Meter())
                operators[branch].add(*values)
        for branch, operator in operators.items():
            for runs in operator.close(int(EARLIEST), int(LARGEST)):
                for piece in runs.pieces():
                    yield self._table(branch, Values(*piece))

    def _table(self, branch: int, values: Values) -> pa.Table:
        """Rows of a branch as the last round takes them."""
        schema = self.query.output_schema.insert(0, pa.field("branch", _NUMBER))
        type = self.query.time_type
        times = [times_of(values.starts, type), times_of(values.ends, type, values.ends == LARGEST)]
        numbers = pa.repeat(pa.scalar(branch, _NUMBER), len(values.starts))
        return pa.Table.from_arrays([numbers, *values.columns, *times], schema=schema)


@dataclass(frozen=True)
class CombiningRound:
    """The rows of all branches -> the result of the set operations. Equal rows have to come to one place."""

    query: Query

    @property
    def groupings(self) -> Mapping[int, Grouping]:
        return {}

    @property
    def is_in_one_place(self) -> bool:
        return False

    def spread(self, table: pa.Table) -> Iterator[PartsToSpread]:
        yield PartsToSpread(table, table.columns[1 : 1 + len(self.query.outputs)])

    def in_steps_of(self, step: int) -> Round:
        return replace(self, query=self.query.with_step(step))

    def finish(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        combined = None
        for table in parts:
            combined = combined or Combined(self._of_rows())
            for branch, own in _by_branch(table):
                combined.adders[branch](*values_in(own, first=1))
        if combined is not None:
            for runs in combined.close(int(EARLIEST), int(LARGEST)):
                yield from runs.tables(self.query)

    def _of_rows(self) -> Query:
        """The query in which groups have become rows."""
        rows = tuple(replace(part, grouping=None) for part in self.query.parts)
        return replace(self.query, parts=rows).with_step(ALL_STEPS)
