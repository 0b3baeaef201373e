"""Lanes: what travels to the cells, and the query that an engine in a cell runs over it.

Rows of a source travel in a lane and enter all the lane's aliases when they arrive. Aliases of one source share a lane
if their rows go to the same cells and pass the same filters, be they of one branch or of several. Other aliases have
lanes of their own: a row that came into a cell for one of them must not be seen there by the others, or they would find
results twice. Filters are
applied before rows travel, so a cell's query has none, and only the columns travel that are needed after them.

With ROWS windows there is one cell, and rows that a filter or a null key removes still count. There a lane is a
source, nothing is removed, and the cell's query is the query itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from midstream.cql.model import Cast, Column, Expr, Input, Literal, Query, columns_of
from midstream.cql.plain import plain_type
from midstream.engine.operators.parts import parts_query
from midstream.spark.routing.grids import Grid


@dataclass(frozen=True)
class Step:
    """What one dimension, of more than one coordinate, does with the rows of a lane.

    The coordinate is the hash of `key`, if there is one. Rows without key, and rows whose key's code is among `hot`,
    are spread by the hash of the row, if `spreads`, or else copied to every coordinate.
    """

    dimension: int
    share: int
    stride: int
    key: Expr | None
    spreads: bool
    hot: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lane:
    """Rows of a source on their way to the cells, for the inputs with these numbers.

    Expressions are those of the first input. `keys` are columns without whose values a row joins nothing.
    """

    name: str
    source: str
    inputs: tuple[int, ...]
    event_time: str | None
    steps: tuple[Step, ...]
    filters: tuple[Expr, ...]
    keys: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def copies(self) -> int:
        """How many cells a row goes to, if its key is not hot."""
        return math.prod(step.share for step in self.steps if step.key is None and not step.spreads)


def lanes_of(query: Query, grids: Sequence[Grid]) -> tuple[Lane, ...]:
    """The lanes in the order of their first aliases."""
    whole = query.tracks_arrivals
    members: dict[object, list[int]] = {}
    for number, relation in enumerate(query.inputs):
        steps = tuple(_at_zero_step(step) for step in _steps(query, grids, number))
        filters = frozenset(_at_zero(expr) for expr in relation.filters)
        members.setdefault((relation.source,) if whole else (relation.source, steps, filters), []).append(number)
    names = _names(query, list(members.values()))
    return tuple(
        _lane(query, grids, name, numbers, whole) for name, numbers in zip(names, members.values(), strict=True)
    )


def cell_query_of(query: Query, lanes: Sequence[Lane]) -> Query:
    """The query that runs in a cell: its sources are the lanes, in which every event time is an instant already.

    With steps it gives out the cell's part of the results.
    """
    whole = query.tracks_arrivals
    lane_of = {number: lane for lane in lanes for number in lane.inputs}
    inputs = tuple(
        replace(relation, source=lane_of[number].name, filters=relation.filters if whole else ())
        for number, relation in enumerate(query.inputs)
    )
    schemas = {}
    for lane in lanes:
        given = query.schemas[lane.source]
        schemas[lane.name] = pa.schema([pa.field(name, plain_type(given.field(name).type)) for name in lane.columns])
    delays = {lane.name: query.delays[lane.source] for lane in lanes if lane.source in query.delays}

    def over_lanes(found: Query, inputs: tuple[Input, ...]) -> Query:
        return replace(found, inputs=inputs, schemas=schemas, delays=delays, assumed_zones={})

    numbers = query.branch_inputs if query.parts else ()
    parts = tuple(
        over_lanes(part, _with_sources_of(part.inputs, inputs[own.start : own.stop]))
        for part, own in zip(query.parts, numbers, strict=True)
    )
    cell_query = over_lanes(replace(query, parts=parts), inputs)
    return cell_query if query.step is None else parts_query(cell_query)


def _with_sources_of(own: Sequence[Input], inputs: Sequence[Input]) -> tuple[Input, ...]:
    """The inputs of a branch as they are in the cell's query, but for the numbers in their filters."""
    return tuple(
        replace(relation, source=known.source, filters=relation.filters if known.filters else ())
        for relation, known in zip(own, inputs, strict=True)
    )


def _lane(query: Query, grids: Sequence[Grid], name: str, numbers: Sequence[int], whole: bool) -> Lane:
    first = query.inputs[numbers[0]]
    needed = {name for number in numbers for name in _needed(query, number, whole)}
    if first.event_time is not None:
        needed.add(first.event_time)
    names = query.schemas[first.source].names
    keys = set.intersection(
        *({expr.name for expr in _sides(query, number) if isinstance(expr, Column)} for number in numbers)
    )
    return Lane(
        name=name,
        source=first.source,
        inputs=tuple(numbers),
        event_time=first.event_time,
        steps=_steps(query, grids, numbers[0]),
        filters=() if whole else first.filters,
        keys=() if whole else tuple(sorted(keys)),
        # A table of which nothing is read still has a number of rows.
        columns=tuple(column for column in names if column in needed) or tuple(names[:1]),
    )


def _names(query: Query, groups: Sequence[Sequence[int]]) -> list[str]:
    """A lane is called like its source, if it is the source's only one, else also by its first alias."""
    sources = [query.inputs[numbers[0]].source for numbers in groups]
    names: list[str] = []
    for source, numbers in zip(sources, groups, strict=True):
        name = source if sources.count(source) == 1 else f"{source} as {query.aliases[numbers[0]]}"
        while name != source and name.casefold() in (taken.casefold() for taken in (*query.schemas, *names)):
            name += "'"
        names.append(name)
    return names


def _steps(query: Query, grids: Sequence[Grid], number: int) -> tuple[Step, ...]:
    grid = next(grid for grid in grids if number in grid.inputs)
    hot_in = {hot_key.dimension: hot_key for hot_key in grid.hot_keys}
    steps = []
    stride = 1
    for place, dimension in enumerate(grid.shares.dimensions):
        key = None
        spreads = dimension.key_class is None and number in dimension.inputs
        codes: tuple[int, ...] = ()
        if dimension.key_class is not None and number in dimension.inputs:
            key = query.key_classes[dimension.key_class].by_input[number]
            if place in hot_in:
                spreads, codes = hot_in[place].spread == number, hot_in[place].codes
        if dimension.share > 1:
            steps.append(Step(place, dimension.share, stride, key, spreads, codes))
        stride *= dimension.share
    return tuple(steps)


def _sides(query: Query, number: int) -> Iterable[Expr]:
    """The expressions of an input in keys and bands; a row in which one of them is null joins nothing."""
    for key_class in query.key_classes:
        if number in key_class.inputs:
            yield key_class.by_input[number]
    for band in query.bands:
        if band.left_input == number:
            yield band.left
        if band.right_input == number:
            yield band.right


def _needed(query: Query, number: int, with_filters: bool) -> set[str]:
    """The columns that are read after the filters; with `with_filters` also those that filters read."""
    relation = query.inputs[number]
    read = [*_sides(query, number), *(relation.filters if with_filters else ())]
    return {*relation.columns, *(column.name for expr in read for column in columns_of(expr))}


def _at_zero(expr: Expr) -> Expr:
    """An expression with its input set to 0, so that expressions of different aliases can be compared."""
    if isinstance(expr, Column):
        return replace(expr, input=0)
    if isinstance(expr, Cast):
        return replace(expr, operand=_at_zero(expr.operand))
    return expr if isinstance(expr, Literal) else replace(expr, args=tuple(_at_zero(arg) for arg in expr.args))


def _at_zero_step(step: Step) -> Step:
    return step if step.key is None else replace(step, key=_at_zero(step.key))
