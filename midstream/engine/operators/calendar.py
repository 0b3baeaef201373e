"""Records by the step in which something happens to them, to be fetched when that step closes.

What closing a step costs depends on what happens in it, not on how many records or steps wait for later: the steps that
have records are a heap, of which those that are due are taken off.
"""

from __future__ import annotations

import heapq

import numpy as np

from midstream.state.indexes import Ints


class Calendar:
    """Rows of integers, each entered for a moment."""

    def __init__(self, step: int, width: int):
        self._step = step
        self._nothing: Ints = np.empty((0, width), np.int64)
        self._records: dict[int, list[Ints]] = {}
        self._steps: list[int] = []
        self._count = 0
        self._record_bytes = width * np.dtype(np.int64).itemsize

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._count * self._record_bytes

    def enter(self, records: Ints, moments: Ints) -> None:
        """Keep records, which are copied, until their moments come."""
        if len(records) == 0:
            return
        self._count += len(records)
        steps = moments // self._step
        first = int(steps.min())
        if int(steps.max()) == first:
            self._put(first, records)
            return
        order = np.argsort(_narrow(steps - first), kind="stable")
        records, steps = records[order], steps[order]
        bounds = np.flatnonzero(np.diff(steps)) + 1
        for begin, end in zip([0, *bounds.tolist()], [*bounds.tolist(), len(steps)], strict=True):
            self._put(int(steps[begin]), records[begin:end])

    def _put(self, step: int, records: Ints) -> None:
        if step not in self._records:
            self._records[step] = []
            heapq.heappush(self._steps, step)
        self._records[step].append(records.copy())

    def fetch(self, until: int | None) -> Ints:
        """Take out the records whose moments come before `until`, the start of a step; all of them if it is None."""
        parts: list[Ints] = []
        while self._steps and (until is None or self._steps[0] < until // self._step):
            parts += self._records.pop(heapq.heappop(self._steps))
        found = np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else self._nothing
        self._count -= len(found)
        return found

    def renumber(self, place: int, renumbering: Ints) -> None:
        """A column of ids gets new ones: the id i becomes renumbering[i]. Negative ids stand for none."""
        for parts in self._records.values():
            for records in parts:
                column = records[:, place]
                records[:, place] = np.where(column < 0, column, renumbering[column])


def _narrow(steps: Ints) -> np.ndarray:
    """Few different numbers, in a type whose sort takes a pass or two."""
    return steps.astype(np.uint16) if int(steps.max()) < 1 << 16 else steps
