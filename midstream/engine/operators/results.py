"""The plain stage, results -> Arrow at once: here payload is touched for the second time, and mostly the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from midstream.cql.model import Column, Expr, Query, columns_of
from midstream.engine.expressions import Evaluator, compile_expression
from midstream.engine.joins.combos import split_by_inputs
from midstream.engine.operators.stage import StoredStage
from midstream.engine.stats import StateStats
from midstream.kernels.types import LARGEST, Combos
from midstream.plan.tree import Plan
from midstream.state.indexes import Ints
from midstream.state.sizes import can_be_large, cut_into_pieces, make_in_pieces
from midstream.state.window import BaseWindow, Renumbering

Made = TypeVar("Made")


class Projection:
    """Computes expressions over the rows of results."""

    def __init__(self, exprs: Sequence[Expr], windows: Sequence[BaseWindow]):
        self._windows = windows
        self._exprs: list[Column | Evaluator] = [
            expr if isinstance(expr, Column) else compile_expression(expr) for expr in exprs
        ]
        self._columns = tuple(
            dict.fromkeys((column.input, column.name) for expr in exprs for column in columns_of(expr))
        )
        payload = [dict(window.layout.payload) for window in windows]
        self._large = [(number, name) for number, name in self._columns if can_be_large(payload[number][name])]

    def compute(self, results: Combos, make: Callable[[list[pa.Array], Combos], Made]) -> Iterator[Made]:
        """What `make` makes of an array for each expression and the results; in pieces if values are large."""
        columns = [(self._windows[number].columns[name], number) for number, name in self._large]

        def make_piece(begin: int, end: int) -> Made:
            piece = Combos(*(array[begin:end] for array in results))
            return make(self._arrays(piece), piece)

        for piece in cut_into_pieces(columns, results.rows):
            yield from make_in_pieces(make_piece, piece.start, piece.stop)

    def _arrays(self, results: Combos) -> list[pa.Array]:
        values = {
            (number, name): self._windows[number].columns[name].take(results.rows, number)
            for number, name in self._columns
        }
        return [
            values[expr.input, expr.name] if isinstance(expr, Column) else expr(values, len(results.starts))
            for expr in self._exprs
        ]


class ResultBuilder:
    """Makes result tables of one query; a stage that remembers nothing. ``UNION ALL`` is one after the other."""

    starts_from_live_results = False

    def __init__(self, query: Query, windows: Sequence[BaseWindow]):
        self._schema = query.output_schema
        self._branch_inputs = query.branch_inputs
        self._branches = [
            _BranchBuilder(branch, windows[inputs.start : inputs.stop])
            for branch, inputs in zip(query.branches, query.branch_inputs, strict=True)
        ]

    def take(self, results: Combos) -> Iterator[pa.Table]:
        """One row per result, with `valid_from` and `valid_to` last; in pieces if values are large."""
        for branch, own in split_by_inputs(results, self._branch_inputs):
            yield from self._branches[branch].tables(own)

    def closes(self, watermark: int) -> bool:
        return False

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        return iter(())

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        pass

    def keeps_from(self) -> int:
        return int(LARGEST)

    def follow(self, plan: Plan) -> None:
        pass

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        return iter(())

    def state_stats(self) -> list[StateStats]:
        return []

    @property
    def nbytes(self) -> int:
        return 0

    def snapshot(self) -> StoredStage:
        return StoredStage(self._schema.empty_table(), {})

    def restore(self, stored: StoredStage) -> None:
        pass


class _BranchBuilder:
    """Makes tables of the results of one branch."""

    def __init__(self, query: Query, windows: Sequence[BaseWindow]):
        self._projection = Projection(query.of_results, windows)
        self._schema = query.output_schema
        self._time_type = query.time_type
        self._ends_exist = any(relation.window.ends_by_time for relation in query.inputs)

    def tables(self, results: Combos) -> Iterator[pa.Table]:
        return self._projection.compute(results, self._table)

    def _table(self, arrays: list[pa.Array], results: Combos) -> pa.Table:
        ends = times_of(results.ends, self._time_type) if self._ends_exist else None
        times = [times_of(results.starts, self._time_type), ends or pa.nulls(len(results.starts), self._time_type)]
        return pa.Table.from_arrays([*arrays, *times], schema=self._schema)


def times_of(values: Ints, type: pa.DataType, is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Moments as an array of a query's type of times, in memory of its own: the caller may write over `values`."""
    copied = np.array(values)
    if is_null is not None and is_null.any():
        return pa.array(copied, mask=is_null).view(type)
    return pa.Array.from_buffers(type, len(copied), [None, pa.py_buffer(copied)])


def moments_of(times: pa.Array) -> Ints:
    """The moments that `times_of` gave out, in microseconds; null stands for never."""
    filled = pc.fill_null(times.view(pa.int64()), int(LARGEST))
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)
