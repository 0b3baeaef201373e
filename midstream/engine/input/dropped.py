"""Rows that were accepted and are in no window: they can never be part of a result, or there was no memory for them.

They are counted by stream and reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from midstream.engine.input.arrivals import Reading

FILTER = "filter"
NULL_KEY = "null key"
SHED = "shed"


class Dropped:
    """Counts rows of streams that none of the stream's aliases has kept.

    The reason is "filter" if the filters of all aliases are against a row, "null key" if at some alias only a null in a
    key or in a band stood in its way, and "shed" if at some alias only too little memory did.
    """

    def __init__(self, streams: Iterable[str]):
        self._counts: dict[str, dict[str, int]] = {stream: {} for stream in streams}
        #: How many rows of all streams were shed.
        self.shed = 0

    def count(self, stream: str, rows: int, readings: Sequence[Reading]) -> None:
        """Count so many rows of a stream, which each of its aliases has read."""
        passed = _count_in_any([reading.passed for reading in readings], rows)
        joinable = _count_in_any([reading.joinable for reading in readings], rows)
        kept = _count_in_any([reading.kept for reading in readings], rows)
        for reason, count in ((FILTER, rows - passed), (NULL_KEY, passed - joinable), (SHED, joinable - kept)):
            if count:
                self._counts[stream][reason] = self._counts[stream].get(reason, 0) + count
        self.shed += joinable - kept

    def to_json(self) -> dict[str, dict[str, int]]:
        """The counts, as a copy."""
        return {stream: dict(reasons) for stream, reasons in self._counts.items()}

    def from_json(self, stored: Mapping[str, Mapping[str, int]]) -> None:
        """Go on from counts."""
        self._counts = {stream: dict(reasons) for stream, reasons in stored.items()}
        self.shed = sum(reasons.get(SHED, 0) for reasons in self._counts.values())


def _count_in_any(masks: Sequence[NDArray[np.bool_] | None], length: int) -> int:
    """How many rows are in at least one of the masks; None is a mask with all of them."""
    given = [mask for mask in masks if mask is not None]
    if len(given) < len(masks):
        return length
    return int(np.count_nonzero(np.logical_or.reduce(given)))
