"""Before a push changes anything: whether the base windows can hold its rows within the limit.

Rows are judged by their event times alone, before filters: as if all of them entered. They enter chunk by chunk, oldest
first, and what has ended by then leaves. So a push of many windows' length may fit in small chunks and not in large
ones; the answer is how large they may be. Chunks of the smallest size that do not fit are a refusal with both figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from midstream.cql.model import Input, Query
from midstream.engine.input.batch import CHUNK_ROWS, StreamRows
from midstream.engine.memory.keeper import LEAST_ROWS
from midstream.engine.operators.stepped import start_of_step
from midstream.kernels.types import LARGEST
from midstream.state import rings
from midstream.state.arrow_column import ArrowColumn
from midstream.state.columns import BytesColumn
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow, PayloadName

#: What a sorted index takes for a row, twice over while runs are merged.
_SORTED_ROW_BYTES = 32


class Forecast(NamedTuple):
    """The most rows that a chunk may have so that windows fit, or none if they do not, and the bytes that they take."""

    chunk_rows: int | None
    needed: int


def forecast_windows(
    query: Query,
    windows: Sequence[BaseWindow],
    accepted: Mapping[str, StreamRows],
    moments: tuple[int, int],
    room: int,
) -> Forecast:
    """Whether the windows stay within `room` bytes; `moments` are the horizon and the watermark to come."""
    total = sum(len(rows) for rows in accepted.values())
    loads = [
        _Load(relation, window, accepted.get(relation.source))
        for relation, window in zip(query.inputs, windows, strict=True)
    ]
    at_once = sum(load.bytes_at(len(load.window) + load.count) for load in loads)
    if at_once <= room:
        return Forecast(CHUNK_ROWS, at_once)
    least = LEAST_ROWS * len(query.streams)
    times = np.sort(np.concatenate([rows.times for rows in accepted.values()])) if total else np.empty(0, np.int64)
    size = min(CHUNK_ROWS, max(total, 1))
    while True:
        size = max(size, least)
        needed = _simulate(query, loads, times, moments, size)
        if needed <= room or size == least:
            return Forecast(size if needed <= room else None, needed)
        size //= 2


def _simulate(query: Query, loads: Sequence[_Load], times: Ints, moments: tuple[int, int], size: int) -> int:
    """The most bytes that the windows take if the rows enter in chunks of so many."""
    horizon, watermark = moments
    ends = np.arange(size, len(times) + size, size)
    # A row of the next chunk may be as old as the last one of this.
    following = np.append(times[ends[:-1]], LARGEST) if len(ends) else np.empty(0, np.int64)
    heads = [0] * len(loads)
    needed = sum(load.bytes_at(len(load.window)) for load in loads)
    for end, unprocessed in zip(ends.tolist(), following.tolist(), strict=True):
        bound = times[min(end, len(times)) - 1]
        tails = [load.tail_at(bound) for load in loads]
        held = [tail - head for tail, head in zip(tails, heads, strict=True)]
        needed = max(needed, sum(load.bytes_at(rows) for load, rows in zip(loads, held, strict=True)))
        moment = min(watermark, unprocessed)
        horizon = max(horizon, moment if query.step is None else start_of_step(moment, query.step))
        heads = [load.head_at(horizon, tail) for load, tail in zip(loads, tails, strict=True)]
    return needed


class _Load:
    """A base window and the rows that are to enter it, the oldest first; places count from the window's first row."""

    def __init__(self, relation: Input, window: BaseWindow, rows: StreamRows | None):
        self.window = window
        self.count = 0 if rows is None else len(rows)
        self._relation = relation
        self._rows = rows
        texts = [(name, column) for name, column in window.columns.items() if isinstance(column, BytesColumn)]
        lists = [(name, column) for name, column in window.columns.items() if isinstance(column, ArrowColumn)]
        self._text_bytes = [self._row_bytes(name, column.used_bytes) for name, column in texts]
        self._list_bytes = sum(self._row_bytes(name, column.nbytes) for name, column in lists)
        self._list_bytes += _SORTED_ROW_BYTES * len(window.sorted_indexes)
        variable = sum(column.heap_bytes for _, column in texts) + sum(column.nbytes for _, column in lists)
        variable += sum(index.nbytes for index in window.sorted_indexes.values())
        self._slot_bytes = -(-(window.nbytes - variable) // window.capacity)
        self._times: Ints | None = None
        self._latest: Ints | None = None

    def _row_bytes(self, name: PayloadName, held: int) -> float:
        """The bytes of a column's values that a row takes, on average over those held and those to come."""
        coming = 0
        if self._rows is not None and isinstance(name, str) and name in self._rows.columns:
            coming = self._rows.columns[name].nbytes
        return (held + coming) / max(len(self.window) + self.count, 1)

    def bytes_at(self, rows: int) -> int:
        """What the window takes with so many rows."""
        texts = sum(rings.capacity_for(2 * int(row_bytes * rows) + 1) for row_bytes in self._text_bytes)
        return rings.capacity_for(rows) * self._slot_bytes + texts + int(self._list_bytes * rows)

    def tail_at(self, moment: int) -> int:
        """How many rows were ever there when those up to a moment have entered."""
        if self._rows is None:
            return len(self.window)
        if self._times is None:
            self._times = np.sort(self._rows.times)
        return len(self.window) + int(np.searchsorted(self._times, moment, side="right"))

    def head_at(self, horizon: int, tail: int) -> int:
        """How many of them have left; one that has not ended keeps those behind it."""
        described = self._relation.window
        if described.counts_rows:
            return max(0, tail - described.size)
        if described.never_ends:
            return 0
        if self._latest is None:
            held = rings.read(self.window.ends, self.window.head, self.window.tail)
            coming = np.empty(0, np.int64) if self._times is None else described.intervals(self._times)[1]
            self._latest = np.maximum.accumulate(np.concatenate((held, coming)))
        return min(tail, int(np.searchsorted(self._latest, horizon, side="left")))
