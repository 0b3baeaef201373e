"""The backlog of an output stage: live results of rows that were in the windows before the stage began.

A stage that is restored starts empty, as join states do, and the windows have all that it needs. The results of the
rows that are there are found from the rows of one input, slice by slice, through the windows of the others. Rows that
arrive later are no part of it: their results come by the executor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.combos import Delta, emit, make_result_block
from midstream.engine.joins.nodes import add_indexes
from midstream.engine.joins.routes import Route
from midstream.kernels.types import Combos
from midstream.state.window import BaseWindow, Renumbering


class Backlog:
    """Results that all consist of rows which the windows hold now."""

    def __init__(self, query: Query, windows: Sequence[BaseWindow]):
        self._windows = windows
        streams = [number for number, relation in enumerate(query.inputs) if not relation.is_static]
        self._driver = min(streams, key=lambda number: len(windows[number]))
        others = [number for number in range(len(windows)) if number != self._driver]
        self._route = Route(query, (self._driver,), others, windows) if others else None
        if self._route is not None:
            add_indexes(windows, self._route.indexes_used())
        self._marks = {number: window.tail for number, window in enumerate(windows)}
        self._next = windows[self._driver].head

    def __len__(self) -> int:
        """How many rows are left whose results have not been found."""
        return max(0, self._marks[self._driver] - self._first)

    @property
    def _first(self) -> int:
        """The next row; rows that have left the window meanwhile are passed over."""
        return max(self._next, self._windows[self._driver].head)

    def find_some(self, limit: int) -> Iterator[Combos]:
        """The results of up to so many rows."""
        ids = np.arange(self._first, self._first + min(limit, len(self)))
        self._next = self._first + len(ids)
        delta = Delta.of_rows(self._driver, ids, self._windows)
        if self._route is None:
            yield delta.combos
            return
        block = make_result_block(len(self._route.inputs), self._route.least_block, len(delta))
        order = np.argsort(self._route.inputs)
        yield from emit(self._route.matches(delta, block, self._marks), block, order)

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that it probes."""
        return iter(()) if self._route is None else self._route.indexes_used()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        if number == self._driver:
            self._next = int(renumbering.apply(np.array([self._next]))[0])
        self._marks[number] = int(renumbering.apply(np.array([self._marks[number]]))[0])
