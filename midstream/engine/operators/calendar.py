"""Records by the step in which something happens to them, to be fetched when that step closes.

What closing a step costs depends on what happens in it, not on how many records wait for later ones.
"""

from __future__ import annotations

import numpy as np

from midstream.state.indexes import Ints


class Calendar:
    """Rows of integers, each entered for a moment."""

    def __init__(self, step: int, width: int):
        self._step = step
        self._nothing: Ints = np.empty((0, width), np.int64)
        self._steps: dict[int, list[Ints]] = {}

    def __len__(self) -> int:
        return sum(len(records) for parts in self._steps.values() for records in parts)

    @property
    def nbytes(self) -> int:
        return sum(records.nbytes for parts in self._steps.values() for records in parts)

    def enter(self, records: Ints, moments: Ints) -> None:
        """Keep records, which are copied, until their moments come."""
        if len(records) == 0:
            return
        steps = moments // self._step
        first = int(steps.min())
        if int(steps.max()) == first:
            self._steps.setdefault(first, []).append(records.copy())
            return
        order = np.argsort(_narrow(steps - first), kind="stable")
        records, steps = records[order], steps[order]
        bounds = np.flatnonzero(np.diff(steps)) + 1
        for begin, end in zip([0, *bounds.tolist()], [*bounds.tolist(), len(steps)], strict=True):
            self._steps.setdefault(int(steps[begin]), []).append(records[begin:end].copy())

    def fetch(self, until: int | None) -> Ints:
        """Take out the records whose moments come before `until`, the start of a step; all of them if it is None."""
        due = [step for step in self._steps if until is None or step < until // self._step]
        parts = [records for step in due for records in self._steps.pop(step)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else self._nothing

    def renumber(self, place: int, renumbering: Ints) -> None:
        """A column of ids gets new ones: the id i becomes renumbering[i]. Negative ids stand for none."""
        for parts in self._steps.values():
            for records in parts:
                column = records[:, place]
                records[:, place] = np.where(column < 0, column, renumbering[column])


def _narrow(steps: Ints) -> np.ndarray:
    """Few different numbers, in a type whose sort takes a pass or two."""
    return steps.astype(np.uint16) if int(steps.max()) < 1 << 16 else steps
