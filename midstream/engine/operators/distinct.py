"""Rows as they are, or DISTINCT: how often each is there at each moment, or whether it is.

The runs of a row follow from the changes alone: where it comes and where it goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.operators.interner import Interner
from midstream.engine.operators.lifetimes import Lifetimes, make_records
from midstream.engine.operators.runs import Runs
from midstream.kernels import changes as kernels
from midstream.state.indexes import Ints
from midstream.state.meter import Meter


class Distinct:
    """The rows of a query without a grouping: each as often as it is there, or once if the query says DISTINCT."""

    def __init__(self, query: Query, meter: Meter | None = None):
        assert query.step is not None
        self._is_distinct = query.is_distinct
        self._rows = Interner([expr.type for expr in query.of_results])
        self._lifetimes = Lifetimes(query.step, meter=meter)

    def add(self, columns: Sequence[pa.Array], starts: Ints, ends: Ints) -> None:
        ids = self._rows.intern(columns, len(starts))
        self._lifetimes.add(make_records(ids, starts, ends), len(self._rows))

    def close(self, begin: int, end: int) -> Iterator[Runs]:
        changes = self._lifetimes.changes(begin, end)
        whose, firsts, lasts = kernels.find_runs(
            changes.offsets, changes.times, changes.signs, self._lifetimes.carried, begin, end, self._is_distinct
        )
        yield runs_of(self._rows, whose, firsts, lasts)
        kept = self._lifetimes.forget(self._rows.nbytes)
        if kept is not None:
            self._rows.keep(kept)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._lifetimes.nbytes


def find_all_runs(rows: Interner, ids: Ints, firsts: Ints, lasts: Ints, end: int, is_distinct: bool) -> Runs:
    """The runs of rows whose intervals all lie in a span that ends at `end`."""
    records, nothing = make_records(ids, firsts, lasts), np.zeros(len(rows), np.int64)
    offsets, _, times, signs = kernels.order(records, records[:0], nothing, 0, end, False)
    return runs_of(rows, *kernels.find_runs(offsets, times, signs, nothing, 0, end, is_distinct))


def runs_of(rows: Interner, whose: Ints, firsts: Ints, lasts: Ints) -> Runs:
    """Runs of rows that an interner knows by their ids."""

    def values_at(places: Ints) -> list[pa.Array]:
        ids = whose[places]
        return [rows.take(column, ids) for column in range(len(rows.types))]

    return Runs(firsts, lasts, values_at, sum(column.largest for column in rows.columns))
