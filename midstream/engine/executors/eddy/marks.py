"""Marks on rows: a row has one if an entry with it was promoted, demoted, collapsed or restored.

Only an entry with such a row can come to stand in a STAIR twice, so only these have to be looked at when they are
stored. As long as nothing has been moved there are no marks, and they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from midstream.engine.joins.checks import Mask
from midstream.engine.joins.combos import Delta
from midstream.state.row_set import RowSet
from midstream.state.window import BaseWindow, Renumbering


class Marks:
    """The rows of all inputs that have a mark."""

    def __init__(self, windows: Sequence[BaseWindow]):
        self._windows = windows
        self._rows = [RowSet() for _ in windows]

    def __bool__(self) -> bool:
        return any(len(rows) for rows in self._rows)

    def add(self, delta: Delta) -> None:
        """Mark all rows of these combinations; those that have left their window need no mark."""
        for column, number in enumerate(delta.inputs):
            ids = delta.combos.rows[:, column]
            self._rows[number].add(ids[ids >= self._windows[number].head])

    def add_all(self) -> None:
        """Mark all rows that there are."""
        for rows, window in zip(self._rows, self._windows, strict=True):
            rows.add_run(window.head, window.tail)

    def find(self, delta: Delta) -> Mask | None:
        """Which of these combinations have a row with a mark; None if none does."""
        found: Mask | None = None
        count = 0
        for column, number in enumerate(delta.inputs):
            rows = self._rows[number]
            if len(rows) and (delta.first_new is None or delta.first_new < rows.high):
                found = np.zeros(len(delta), np.bool_) if found is None else found
                count = rows.mark(delta.combos.rows[:, column], found)
        return found if count else None

    def forget(self) -> None:
        """Rows have left the windows."""
        for rows, window in zip(self._rows, self._windows, strict=True):
            rows.forget(window.head)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        self._rows[number].renumber(renumbering)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self._rows)
