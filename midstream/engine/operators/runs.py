"""Runs: rows with the intervals on which they are valid, on their way from an operator to Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.operators.results import times_of
from midstream.kernels import changes as kernels
from midstream.kernels.types import LARGEST
from midstream.state import sizes
from midstream.state.indexes import Ints

_LARGEST_TABLE = 1 << 17
_SMALLEST_TABLE = 64


class Runs(NamedTuple):
    """First and last moments, the last one `LARGEST` where there is no end, and how to get the values of some rows.

    `row_bytes` is about how many bytes the largest row takes.
    """

    firsts: Ints
    lasts: Ints
    values_at: Callable[[Ints], list[pa.Array]]
    row_bytes: int

    def pieces(self) -> Iterator[tuple[list[pa.Array], Ints, Ints]]:
        """Values and intervals, in pieces of moderate size."""
        most = self._most_rows()
        for begin in range(0, len(self.firsts), most):
            rows = np.arange(begin, min(begin + most, len(self.firsts)))
            yield self.values_at(rows), self.firsts[rows], self.lasts[rows]

    def cut(self, step: int) -> Iterator[tuple[list[pa.Array], Ints, Ints]]:
        """Values and intervals, cut where one step ends and the next begins, in pieces of moderate size."""
        room = min(self._most_rows(), max(_SMALLEST_TABLE, 2 * len(self.firsts)))
        rows, firsts, lasts = (np.empty(room, np.int64) for _ in range(3))
        cursor = np.zeros(3, np.int64)
        while count := kernels.cut(self.firsts, self.lasts, step, cursor, rows, firsts, lasts):
            yield self.values_at(rows[:count]), firsts[:count], lasts[:count]

    def tables(self, query: Query) -> Iterator[pa.Table]:
        """Result tables of a query with a step."""
        assert query.step is not None
        type = query.time_type
        for values, firsts, lasts in self.pieces() if query.is_uncut else self.cut(query.step):
            times = [times_of(firsts, type), times_of(lasts, type, lasts == LARGEST)]
            yield pa.Table.from_arrays([*values, *times], schema=query.output_schema)

    def _most_rows(self) -> int:
        """How many rows a piece has at most."""
        return min(_LARGEST_TABLE, max(1, sizes.PIECE_BYTES // max(1, self.row_bytes)))
