"""Before a push changes anything: whether the base windows can hold its rows within the limit.

Rows are judged by their event times alone, before filters: as if all of them entered, but for those marked as shed.
They enter chunk by chunk, oldest first, and what has ended by then leaves. So a push of many windows' length may fit in
small chunks and not in large ones; the answer is how large they may be. Where not even chunks of the smallest size fit,
there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
#: How often an interval is halved to find the share of rows that fits.
TRIES = 8


class Forecast(NamedTuple):
    """The most rows that a chunk may have so that windows fit, or none if they do not, and the bytes that they take."""

    chunk_rows: int | None
    needed: int


@dataclass(frozen=True)
class Outlook:
    """The base windows at the time `horizon`, the watermark to come, and the bytes that the windows may take.

    `hidden` are the rows that wait in front of their windows, by input. They may stay there or all enter.
    """

    query: Query
    windows: Sequence[BaseWindow]
    hidden: Mapping[int, BaseWindow]
    horizon: int
    watermark: int
    room: int

    def forecast(self, accepted: Mapping[str, StreamRows]) -> Forecast:
        """Whether the windows stay within the room that they have."""
        total = sum(len(rows) for rows in accepted.values())
        loads = self._load(accepted)
        at_once = sum(load.bytes_at(len(load.window) + load.count) for load in loads)
        if at_once <= self.room:
            return Forecast(CHUNK_ROWS, at_once)
        least = LEAST_ROWS * len(self.query.streams)
        times = np.sort(np.concatenate([rows.times for rows in accepted.values()])) if total else np.empty(0, np.int64)
        size = min(CHUNK_ROWS, max(total, 1))
        while True:
            size = max(size, least)
            needed = self._simulate(loads, times, size)
            if needed <= self.room or size == least:
                return Forecast(size if needed <= self.room else None, needed)
            size //= 2

    def _load(self, accepted: Mapping[str, StreamRows]) -> list[_Load]:
        return [
            _Load(relation, window, self.hidden.get(number), accepted.get(relation.source))
            for number, (relation, window) in enumerate(zip(self.query.inputs, self.windows, strict=True))
        ]

    def _simulate(self, loads: Sequence[_Load], times: Ints, size: int) -> int:
        """The most bytes that the windows take if the rows enter in chunks of so many."""
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
            horizon = self.horizon_at(min(self.watermark, unprocessed))
            heads = [load.head_at(horizon, tail) for load, tail in zip(loads, tails, strict=True)]
        return needed

    def horizon_at(self, watermark: int) -> int:
        """The time before which everything is dead when the watermark is there."""
        step = self.query.step
        return max(self.horizon, watermark if step is None else start_of_step(watermark, step))

    def count_after(self, accepted: Mapping[str, StreamRows]) -> list[int]:
        """How many rows each window would have after a push of these."""
        horizon = self.horizon_at(self.watermark)
        tails = [(load, load.tail_at(int(LARGEST))) for load in self._load(accepted)]
        return [tail - load.head_at(horizon, tail) for load, tail in tails]

    def find_share(self, accepted: Mapping[str, StreamRows], rows: Sequence[int]) -> float:
        """The share, as good as a few tries find it, of so many rows in each window for which there is room."""
        loads = self._load(accepted)

        def fits(share: float) -> bool:
            needed = sum(load.bytes_at(int(share * count)) for load, count in zip(loads, rows, strict=True))
            return needed <= self.room

        lowest, highest = 0.0, 1.0
        if fits(highest):
            return highest
        for _ in range(TRIES):
            middle = (lowest + highest) / 2
            lowest, highest = (middle, highest) if fits(middle) else (lowest, middle)
        return lowest


class _Load:
    """A base window and the rows that are to enter it, the oldest first; places count from the window's first row."""

    def __init__(self, relation: Input, window: BaseWindow, hidden: BaseWindow | None, rows: StreamRows | None):
        self.window = window
        self._hidden_rows = 0 if hidden is None else len(hidden)
        self._hidden_slot_bytes = 0.0 if hidden is None else hidden.nbytes / hidden.capacity
        self._relation = relation
        self._rows = rows
        self._entering = np.empty(0, np.int64)
        if rows is not None:
            self._entering = rows.times if rows.kept is None else rows.times[rows.kept]
        self.count = len(self._entering)
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
            coming = self._rows.columns[name].nbytes * self.count // max(len(self._rows), 1)
        return (held + coming) / max(len(self.window) + self.count, 1)

    def bytes_at(self, rows: int) -> int:
        """The most that the window takes with so many rows, and the hidden ones, any number of which may enter."""
        if self._hidden_rows == 0:
            return self._window_bytes(rows) + self._hidden_bytes(0)
        # The window takes more where its capacity doubles, what is left of the hidden rows ever less.
        entering = [0, self._hidden_rows]
        capacity = rings.capacity_for(rows)
        while capacity < rows + self._hidden_rows:
            entering.append(capacity + 1 - rows)
            capacity *= 2
        return max(self._window_bytes(rows + more) + self._hidden_bytes(self._hidden_rows - more) for more in entering)

    def _hidden_bytes(self, rows: int) -> int:
        return int(rings.capacity_for(rows) * self._hidden_slot_bytes)

    def _window_bytes(self, rows: int) -> int:
        texts = sum(rings.capacity_for(2 * int(row_bytes * rows) + 1) for row_bytes in self._text_bytes)
        return rings.capacity_for(rows) * self._slot_bytes + texts + int(self._list_bytes * rows)

    def tail_at(self, moment: int) -> int:
        """How many rows were ever there when those up to a moment have entered."""
        if self._rows is None:
            return len(self.window)
        if self._times is None:
            self._times = np.sort(self._entering)
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
