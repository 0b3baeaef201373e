"""The backlog of an output stage: live results of rows that were in the windows before the stage began.

A stage that is restored, or that takes the place of another, starts empty, as join states do, and the windows have all
that it needs. The results of the rows that are there are found from the rows of one input, slice by slice, through the
windows of the others. Rows that arrive later are no part of it: their results come by the executor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.combos import Delta, emit, make_block, widen
from midstream.engine.joins.nodes import add_indexes
from midstream.engine.joins.routes import Route
from midstream.kernels.types import Combos
from midstream.state.window import BaseWindow, Renumbering


class Backlog:
    """Results that all consist of rows which the windows hold now, of each of some fragments, given by their inputs."""

    def __init__(self, query: Query, windows: Sequence[BaseWindow], fragments: Iterable[tuple[int, ...]]):
        self._width = len(windows)
        self._fragments = [(inputs, _FragmentBacklog(query, inputs, windows)) for inputs in fragments]

    def __len__(self) -> int:
        """How many rows are left whose results have not been found."""
        return sum(len(fragment) for _, fragment in self._fragments)

    def find_some(self, limit: int) -> Iterator[Combos]:
        """The results of up to so many rows."""
        for inputs, fragment in self._fragments:
            taken = min(limit, len(fragment))
            limit -= taken
            if taken:
                for combos in fragment.find_some(taken):
                    yield widen(combos, inputs, self._width)

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that it probes."""
        for _, fragment in self._fragments:
            yield from fragment.indexes_used()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        for inputs, fragment in self._fragments:
            if number in inputs:
                fragment.renumber(number, renumbering)


def is_static(query: Query, inputs: Iterable[int]) -> bool:
    """Whether inputs are static tables alone, whose rows come once."""
    return all(query.inputs[number].is_static for number in inputs)


class _FragmentBacklog:
    """Those of one fragment, which has some of the inputs."""

    def __init__(self, query: Query, inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        self._windows = windows
        streams = [number for number in inputs if not query.inputs[number].is_static]
        self._driver = min(streams or inputs, key=lambda number: len(windows[number]))
        others = [number for number in inputs if number != self._driver]
        self._route = Route(query, (self._driver,), others, windows) if others else None
        if self._route is not None:
            add_indexes(windows, self._route.indexes_used())
        self._marks = {number: windows[number].tail for number in inputs}
        self._next = windows[self._driver].head

    def __len__(self) -> int:
        return max(0, self._marks[self._driver] - self._first)

    @property
    def _first(self) -> int:
        """The next row; rows that have left the window meanwhile are passed over."""
        return max(self._next, self._windows[self._driver].head)

    def find_some(self, limit: int) -> Iterator[Combos]:
        ids = np.arange(self._first, self._first + min(limit, len(self)))
        self._next = self._first + len(ids)
        delta = Delta.of_rows(self._driver, ids, self._windows)
        if self._route is None:
            yield delta.combos
            return
        block = make_block(len(self._route.inputs), self._route.least_block, len(delta))
        order = np.argsort(self._route.inputs)
        yield from emit(self._route.matches(delta, block, self._marks), block, order)

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        return iter(()) if self._route is None else self._route.indexes_used()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        if number == self._driver:
            self._next = int(renumbering.apply(np.array([self._next]))[0])
        self._marks[number] = int(renumbering.apply(np.array([self._marks[number]]))[0])
