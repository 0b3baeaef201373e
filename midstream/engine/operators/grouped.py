"""GROUP BY: the aggregates of each group, and HAVING, wherever something changes.

    values  ->  group and arguments  ->  changes by group and time  ->  states  ->  rows  ->  runs of equal rows

A *state* is what a group is from one change to the next. Each gives one row, unless HAVING leaves it out. Rows of one
group that follow each other and are equal are one run. Where the rows do not tell their group, rows of several groups
may be equal at once, and runs are found as for rows without a grouping.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.cql.model import OF_AGGREGATES, OF_KEYS, Column, Expr, Query
from midstream.engine.expressions import Evaluator, compile_expression
from midstream.engine.operators.aggregates import make_accumulator
from midstream.engine.operators.distinct import find_all_runs
from midstream.engine.operators.interner import Interner, make_plain
from midstream.engine.operators.lifetimes import RECORD, Changes, Lifetimes, make_records
from midstream.engine.operators.merging import RowPiece, merge_rows
from midstream.engine.operators.runs import Runs
from midstream.engine.operators.states import KeptValues, States, StateValues, Values, choose
from midstream.kernels import changes as kernels
from midstream.state.indexes import Ints
from midstream.state.meter import Meter
from midstream.state.sizes import make_in_pieces


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
            groups = whose[there]
            values: dict[tuple[int, str], StateValues] = {
                (OF_KEYS, str(place)): KeptValues(column, groups) for place, column in enumerate(self._groups.columns)
            }
            values |= {(OF_AGGREGATES, str(place)): choose(array, there) for place, array in enumerate(found)}
            yield self._runs(States(groups, changes.times[places[there]], lasts[there], values), end)
        self._forget()

    def _runs(self, states: States, end: int) -> Runs:
        """The runs of equal rows of states. The rows of all states together may be too large to be there at once."""
        make = partial(self._piece, states)
        pieces = (piece for cut in states.pieces() for piece in make_in_pieces(make, cut.start, cut.stop))
        if self._rows_tell_group:
            return merge_rows(pieces, states, partial(self._rows_of, states))
        known = Interner(self._output_types)
        interned = [(piece.states, known.intern(piece.rows, len(piece.states))) for piece in pieces]
        shown, ids = (np.concatenate(arrays) for arrays in zip(*interned, strict=True))
        return find_all_runs(known, ids, states.firsts[shown], states.lasts[shown], end, self._is_distinct)

    def _piece(self, states: States, begin: int, end: int) -> RowPiece:
        """The rows of some states that follow each other, without those that HAVING leaves out."""
        shown, values = np.arange(begin, end), states.take(slice(begin, end))
        if self._having is not None:
            passes = pc.fill_null(_evaluate(self._having, values, len(shown)), False)
            chosen = np.flatnonzero(passes.to_numpy(zero_copy_only=False))
            shown = shown[chosen]
            values = {name: array.take(pa.array(chosen)) for name, array in values.items()}
        return RowPiece(shown, self._rows(values, len(shown)))

    def _rows_of(self, states: States, shown: Ints) -> list[pa.Array]:
        """The rows of some states, which together fit into one array a column."""

        def make(begin: int, end: int) -> list[pa.Array]:
            return self._rows(states.take(shown[begin:end]), end - begin)

        pieces = list(make_in_pieces(make, 0, len(shown)))
        return pieces[0] if len(pieces) == 1 else [pa.concat_arrays(arrays) for arrays in zip(*pieces, strict=True)]

    def _rows(self, values: Values, length: int) -> list[pa.Array]:
        return [make_plain(_evaluate(output, values, length)) for output in self._outputs]

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
