"""The stage of a query with a step: results are collected, and given out in canonical form when a step closes.

    join results  ->  values and interval  ->  operator  ->  at a close: runs of equal rows  ->  Arrow

Step n is the moments from ``n * step`` up to ``(n + 1) * step``; it closes when the watermark reaches its end. *F* is
the start of the oldest open step, ``watermark // step * step``. Nothing that is valid at F or later is purged, so that
the base windows are all that a snapshot has to keep: from them everything here can be computed again.

Canonical form: let m be how often a row is in the result at a moment. In each step, for k = 1, 2, ..., every maximal
run of moments with m >= k is one row. So the output does not depend on how results came about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.input.watermark import NONE_YET
from midstream.engine.joins.combos import select, split_by_inputs
from midstream.engine.operators.distinct import Distinct
from midstream.engine.operators.grouped import Grouped
from midstream.engine.operators.results import Projection
from midstream.engine.operators.runs import Runs
from midstream.engine.operators.set_operations import Adder, Combined
from midstream.engine.operators.stage import StoredStage
from midstream.engine.stats import StateStats
from midstream.kernels.types import LARGEST, Combos
from midstream.plan.fitting import combination_of
from midstream.plan.tree import Plan
from midstream.state.indexes import Ints
from midstream.state.meter import Meter
from midstream.state.window import BaseWindow, Renumbering


class Operator(Protocol):
    """Collects values with the interval on which they are valid, and gives out the runs of its result."""

    def add(self, columns: Sequence[pa.Array], starts: Ints, ends: Ints) -> None:
        """Take values that are valid from a moment up to another, `LARGEST` if for ever."""

    def close(self, begin: int, end: int) -> Iterator[Runs]:
        """The runs of equal rows between two moments, each as often as it is there; `begin` never goes back."""

    @property
    def nbytes(self) -> int: ...


def make_operator(query: Query, meter: Meter) -> Operator:
    """The operator of a query with a step and without set operations, which tells a meter what it does."""
    return Distinct(query, meter) if query.grouping is None else Grouped(query, meter)


class Stepped:
    """Gives out the results of each step when it closes."""

    starts_from_live_results = True

    def __init__(self, query: Query, windows: Sequence[BaseWindow]):
        assert query.step is not None
        self._step = query.step
        self._query = query
        self._projections = [
            Projection(branch.of_results, windows[inputs.start : inputs.stop])
            for branch, inputs in zip(query.branches, query.branch_inputs, strict=True)
        ]
        self._meter = windows[0].meter
        self._begin_empty()

    def _begin_empty(self) -> None:
        self._operator: Operator | Combined
        self._adders: Sequence[Adder]
        if self._query.combination is None:
            operator = make_operator(self._query, self._meter)
            self._operator, self._adders = operator, [operator.add]
        else:
            combined = Combined(self._query, self._meter)
            self._operator, self._adders = combined, combined.adders
        self._open_from = NONE_YET

    def take(self, combos: Combos) -> Iterator[pa.Table]:
        is_alive = combos.ends >= self._open_from
        if not is_alive.all():
            combos = select(combos, np.flatnonzero(is_alive))
        for branch, own in split_by_inputs(combos, self._query.branch_inputs):
            for _ in self._projections[branch].compute(own, partial(self._add, self._adders[branch])):
                pass
        return iter(())

    def _add(self, add: Adder, columns: list[pa.Array], combos: Combos) -> None:
        add(columns, np.maximum(combos.starts, self._open_from), combos.ends)

    def closes(self, watermark: int) -> bool:
        return start_of_step(watermark, self._step) > self._open_from

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        until = start_of_step(watermark, self._step)
        if until > self._open_from:
            begin, self._open_from = self._open_from, until
            yield from self._tables(begin, until - 1)

    def finish(self) -> Iterator[pa.Table]:
        yield from self._tables(self._open_from, int(LARGEST))
        self._begin_empty()

    def _tables(self, begin: int, end: int) -> Iterator[pa.Table]:
        for runs in self._operator.close(begin, end):
            yield from runs.tables(self._query)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        pass  # values are kept, and no row ids

    def keeps_from(self) -> int:
        return self._open_from

    def follow(self, plan: Plan) -> None:
        if self._query.combination is not None:
            assert isinstance(self._operator, Combined)
            self._operator.reorder(combination_of(plan, self._query))

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        return iter(())

    def state_stats(self) -> list[StateStats]:
        return []

    @property
    def nbytes(self) -> int:
        return self._operator.nbytes

    def snapshot(self) -> StoredStage:
        return StoredStage(self._query.output_schema.empty_table(), {})

    def restore(self, stored: StoredStage) -> None:
        pass


def start_of_step(moment: int, step: int) -> int:
    """The start of the step that a moment is in.

    >>> start_of_step(1_999, 1_000), start_of_step(-1, 1_000)
    (1000, -1000)
    """
    return max(moment // step * step, NONE_YET)
