"""GROUP BY: the aggregates of each group, and HAVING, wherever something changes.

    values  ->  group and arguments  ->  changes by group and time  ->  states  ->  rows  ->  runs of equal rows

A *state* is what a group is from one change to the next. Each gives one row, unless HAVING leaves it out. Rows of one
group that follow each other and are equal are one run. Where the rows do not tell their group, rows of several groups
may be equal at once, and runs are found as for rows without a grouping.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.cql.model import OF_AGGREGATES, OF_KEYS, Column, Expr, Query
from midstream.engine.expressions import Evaluator, compile_expression
from midstream.engine.operators.aggregates import make_accumulator
from midstream.engine.operators.distinct import find_all_runs
from midstream.engine.operators.interner import Interner, are_equal, are_hashed, code_rows, make_plain, width_of
from midstream.engine.operators.lifetimes import RECORD, Changes, Lifetimes, make_records
from midstream.engine.operators.runs import Runs
from midstream.kernels import changes as kernels
from midstream.state.indexes import Ints
from midstream.state.meter import Meter
from midstream.state.sizes import can_be_large, row_bytes

#: Keys and aggregates of some groups, as expressions read them.
Values = dict[tuple[int, str], pa.Array]


class Grouped:
    """The groups of a query and their aggregates."""

    def __init__(self, query: Query, meter: Meter | None = None):
        assert query.step is not None and query.grouping is not None
        grouping = query.grouping
        self._is_distinct = query.is_distinct
        self._groups = Interner([key.type for key in grouping.keys])
        self._aggregates = grouping.aggregates
        self._accumulators = [make_accumulator(aggregate) for aggregate in grouping.aggregates]
        bounds = np.cumsum([0, *(accumulator.words for accumulator in self._accumulators)]).tolist()
        self._words = list(itertools.pairwise(bounds))
        self._lifetimes = Lifetimes(query.step, bounds[-1], meter)
        self._outputs = [_compile(output.expr) for output in query.outputs]
        self._output_types = [output.expr.type for output in query.outputs]
        self._having = None if grouping.having is None else _compile(grouping.having)
        self._rows_tell_group = do_rows_tell_group(query)

    def add(self, columns: Sequence[pa.Array], starts: Ints, ends: Ints) -> None:
        keys = len(self._groups.types)
        ids = self._groups.intern(columns[:keys], len(starts))
        records = make_records(ids, starts, ends, self._words[-1][1] if self._words else 0)
        arguments = iter(columns[keys:])
        for aggregate, accumulator, (first, last) in zip(
            self._aggregates, self._accumulators, self._words, strict=True
        ):
            accumulator.resize(len(self._groups))
            values = None if aggregate.argument is None else next(arguments)
            accumulator.encode(ids, values, records[:, RECORD + first : RECORD + last])
        self._lifetimes.add(records, len(self._groups))

    def close(self, begin: int, end: int) -> Iterator[Runs]:
        changes = self._lifetimes.changes(begin, end, tells_carried=True)
        places, whose, lasts, is_there = kernels.find_states(
            changes.offsets, changes.times, changes.signs, self._lifetimes.carried, end
        )
        whose_changes = np.repeat(np.arange(len(changes.offsets) - 1), np.diff(changes.offsets))
        words = _words_of(changes)
        found = [
            accumulator.apply(whose_changes, changes.signs, words[:, first:last], places)
            for accumulator, (first, last) in zip(self._accumulators, self._words, strict=True)
        ]
        there = np.flatnonzero(is_there)
        if len(there):
            groups, chosen = whose[there], pa.array(there)
            keys = [self._groups.take(place, groups) for place in range(len(self._groups.types))]
            values = {(OF_KEYS, str(place)): array for place, array in enumerate(keys)}
            values |= {(OF_AGGREGATES, str(place)): array.take(chosen) for place, array in enumerate(found)}
            yield from self._runs(values, groups, changes.times[places[there]], lasts[there], end)
        self._forget()

    def _runs(self, values: Values, groups: Ints, firsts: Ints, lasts: Ints, end: int) -> Iterator[Runs]:
        if self._having is not None:
            passes = pc.fill_null(_evaluate(self._having, values, len(groups)), False)
            chosen = np.flatnonzero(passes.to_numpy(zero_copy_only=False))
            groups, firsts, lasts = groups[chosen], firsts[chosen], lasts[chosen]
            values = {name: array.take(pa.array(chosen)) for name, array in values.items()}
        if len(groups) == 0:
            return
        rows = [make_plain(_evaluate(output, values, len(groups))) for output in self._outputs]
        if self._rows_tell_group:
            yield _merge(rows, groups, firsts, lasts)
        else:
            known = Interner(self._output_types)
            yield find_all_runs(known, known.intern(rows, len(groups)), firsts, lasts, end, self._is_distinct)

    def _forget(self) -> None:
        """Groups and arguments that will not be there again make room for others."""
        kept = self._lifetimes.forget(self._groups.nbytes)
        if kept is not None:
            self._groups.keep(kept)
            for accumulator in self._accumulators:
                accumulator.keep(kept)
        for accumulator, (first, _) in zip(self._accumulators, self._words, strict=True):
            renumbering = accumulator.renumbering()
            if renumbering is not None:
                self._lifetimes.renumber_word(first, renumbering)

    @property
    def nbytes(self) -> int:
        accumulated: int = sum(accumulator.nbytes for accumulator in self._accumulators)
        return self._groups.nbytes + self._lifetimes.nbytes + accumulated


def do_rows_tell_group(query: Query) -> bool:
    """Whether every key is among the outputs, so that rows of different groups are never equal."""
    assert query.grouping is not None
    exprs = [output.expr for output in query.outputs]
    told = {expr.name for expr in exprs if isinstance(expr, Column) and expr.input == OF_KEYS}
    return len(told) == len(query.grouping.keys)


def _words_of(changes: Changes) -> Ints:
    """The words of each change's record; those of an entry without a record mean nothing."""
    words = changes.records[:, RECORD:]
    return words[changes.places] if len(words) else np.zeros((len(changes.places), words.shape[1]), np.int64)


def _compile(expr: Expr) -> Column | Evaluator:
    return expr if isinstance(expr, Column) else compile_expression(expr)


def _evaluate(expr: Column | Evaluator, values: Values, length: int) -> pa.Array:
    return values[expr.input, expr.name] if isinstance(expr, Column) else expr(values, length)


def _merge(rows: list[pa.Array], groups: Ints, firsts: Ints, lasts: Ints) -> Runs:
    """Runs of equal rows of one group that follow each other; rows are sorted by group and time."""
    goes_on = (groups[1:] == groups[:-1]) & (firsts[1:] == lasts[:-1] + 1)
    codes = code_rows(rows, len(groups), width_of(len(rows)))
    goes_on &= (codes[1:] == codes[:-1]).all(axis=1)
    for values in rows:
        if are_hashed(values.type):
            goes_on &= are_equal(values.slice(1), values.slice(0, len(values) - 1))
    begins, ends = np.flatnonzero(np.append(True, ~goes_on)), np.flatnonzero(np.append(~goes_on, True))

    def values_at(places: Ints) -> list[pa.Array]:
        chosen = pa.array(begins[places])
        return [values.take(chosen) for values in rows]

    largest = sum(int(row_bytes(values).max()) for values in rows if can_be_large(values.type))
    return Runs(firsts[begins], lasts[ends], values_at, largest)
