"""The plain stage, results -> Arrow at once: the second and last time that payload is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from midstream.cql.model import Column, Query, columns_of
from midstream.engine.expressions import Evaluator, compile_expression
from midstream.engine.operators.stage import StoredStage
from midstream.kernels.types import LARGEST, Combos
from midstream.state.indexes import Ints
from midstream.state.sizes import can_be_large, cut_into_pieces, make_in_pieces
from midstream.state.window import BaseWindow, Renumbering


class ResultBuilder:
    """Makes result tables of one query; a stage that remembers nothing."""

    def __init__(self, query: Query, windows: Sequence[BaseWindow]):
        self._windows = windows
        self._schema = query.output_schema
        self._time_type = query.time_type
        self._ends_exist = any(relation.window.ends_by_time for relation in query.inputs)
        self._outputs: list[Column | Evaluator] = [
            output.expr if isinstance(output.expr, Column) else compile_expression(output.expr)
            for output in query.outputs
        ]
        self._columns = tuple(
            dict.fromkeys((column.input, column.name) for output in query.outputs for column in columns_of(output.expr))
        )
        payload = [dict(window.layout.payload) for window in windows]
        self._large = [(number, name) for number, name in self._columns if can_be_large(payload[number][name])]

    def take(self, results: Combos) -> Iterator[pa.Table]:
        """One row per result, with `valid_from` and `valid_to` last; in pieces if values are large."""
        columns = [(self._windows[number].columns[name], number) for number, name in self._large]
        for piece in cut_into_pieces(columns, results.rows):
            yield from make_in_pieces(lambda begin, end: self._table(results, begin, end), piece.start, piece.stop)

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        return iter(())

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        pass

    def keeps_from(self) -> int:
        return int(LARGEST)

    @property
    def nbytes(self) -> int:
        return 0

    def snapshot(self) -> StoredStage:
        return StoredStage(self._schema.empty_table(), {})

    def restore(self, stored: StoredStage) -> None:
        pass

    def _table(self, results: Combos, begin: int, end: int) -> pa.Table:
        results = Combos(*(array[begin:end] for array in results))
        length = end - begin
        values = {
            (number, name): self._windows[number].columns[name].take(results.rows, number)
            for number, name in self._columns
        }
        arrays = [
            values[output.input, output.name] if isinstance(output, Column) else output(values, length)
            for output in self._outputs
        ]
        arrays.append(self._times(results.starts))
        arrays.append(self._times(results.ends) if self._ends_exist else pa.nulls(length, self._time_type))
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _times(self, values: Ints) -> pa.Array:
        return pa.Array.from_buffers(self._time_type, len(values), [None, pa.py_buffer(np.array(values))])
