"""Before a push changes anything: whether the base windows can hold its rows within the limit.

Rows are judged by their event times alone, before filters: as if all of them entered, but for those marked as shed.
They enter chunk by chunk, oldest first, and what has ended by then leaves. So a push of many windows' length may fit in
small chunks and not in large ones; the answer is how large they may be. Where not even chunks of the smallest size fit,
there is none.

Hidden rows are counted as if they were in their windows: if both do not fit side by side, they enter (see `keeper`).
The answer follows from the rows that are alive, and from what slots take. It does not depend on what has entered, on
rows that are dead and not gone yet, or on how large arrays have grown. So an engine that was restored sheds the same
rows: where rows may be shed, windows have indexes on single classes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from midstream.cql.model import Input, Query
from midstream.engine.input.batch import CHUNK_ROWS, StreamRows
from midstream.engine.memory.keeper import LEAST_ROWS
from midstream.engine.operators.stepped import start_of_step
from midstream.kernels.types import EARLIEST, LARGEST
from midstream.state import rings
from midstream.state.arrow_column import ArrowColumn
from midstream.state.columns import BytesColumn
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow, PayloadName

#: What a sorted index takes for a row, twice over while runs are merged.
_SORTED_ROW_BYTES = 32
#: What rows that have left take there, of as many as a window has slots at least.
_SORTED_SLACK_BYTES = 16
#: What a column of lists takes for a row, beside the list.
_LIST_ROW_BYTES = 8
#: What a window takes that has no rows at all.
_FIXED_BYTES = 24
#: How often an interval is halved to find the share of rows that fits.
TRIES = 8


class Forecast(NamedTuple):
    """The most rows that a chunk may have so that windows fit, or none if they do not, and the bytes that they take."""

    chunk_rows: int | None
    needed: int


@dataclass(frozen=True)
class Outlook:
    """The base windows at the time `horizon`, the watermark to come, and the bytes that the windows may take.

    `hidden` are the rows that wait in front of their windows, by input. `passed_over` is the time before which hidden
    rows must have ended to be left out, because they cannot enter any more.
    """

    query: Query
    windows: Sequence[BaseWindow]
    hidden: Mapping[int, BaseWindow]
    horizon: int
    watermark: int
    room: int
    passed_over: int = EARLIEST

    def forecast(self, accepted: Mapping[str, StreamRows]) -> Forecast:
        """Whether the windows stay within the room that they have."""
        loads = self._load(accepted, self._most)
        at_once = sum(load.bytes_at_once for load in loads)
        if at_once <= self.room:
            return Forecast(CHUNK_ROWS, at_once)
        loads = self._load(accepted, self._held)
        at_once = sum(load.bytes_at_once for load in loads)
        if at_once <= self.room:
            return Forecast(CHUNK_ROWS, at_once)
        total = sum(len(rows) for rows in accepted.values())
        least = LEAST_ROWS * len(self.query.streams)
        times = np.sort(np.concatenate([rows.times for rows in accepted.values()])) if total else np.empty(0, np.int64)
        size = min(CHUNK_ROWS, max(total, 1))
        while True:
            size = max(size, least)
            needed = self._simulate(loads, times, size)
            if needed <= self.room or size == least:
                return Forecast(size if needed <= self.room else None, needed)
            size //= 2

    def bytes_now(self) -> list[int]:
        """What each window would take if no rows were hidden."""
        return [load.bytes_at_once for load in self._load({}, self._held)]

    def without_ended(self, accepted: Mapping[str, StreamRows]) -> Outlook | None:
        """The same, with hidden rows left out that end before the first row of a push, and leave with its first chunk.

        No row of the push is a partner of theirs. They still take what they take now. None if there are none.
        """
        oldest = min(int(rows.times.min()) for rows in accepted.values() if len(rows))
        for relation in self.query.inputs:
            rows = accepted.get(relation.source)
            if rows is not None and len(rows):
                oldest = min(oldest, int(relation.window.intervals(rows.times)[0].min()))
        end = min(oldest, self.horizon_at(min(self.watermark, oldest)))
        taken = sum(
            hidden.nbytes
            for hidden in self.hidden.values()
            if len(hidden.find_living(end)) < len(hidden.find_living(self.horizon))
        )
        return replace(self, room=self.room - taken, passed_over=end) if taken else None

    @cached_property
    def _most(self) -> Sequence[_Held]:
        """What the windows hold, or more: with rows that are dead and not gone yet."""
        return self._find_held(_Held.most)

    @cached_property
    def _held(self) -> Sequence[_Held]:
        return self._find_held(_Held.of)

    def _find_held(self, find: Callable[[BaseWindow, int], _Held]) -> list[_Held]:
        """What is there of each input, entered or hidden."""
        found = []
        for number, window in enumerate(self.windows):
            held, hidden = find(window, self.horizon), self.hidden.get(number)
            if hidden is not None and len(hidden):
                held = held.beside(find(hidden, max(self.horizon, self.passed_over)))
            found.append(held)
        return found

    def _load(self, accepted: Mapping[str, StreamRows], held: Sequence[_Held]) -> list[_Load]:
        return [
            _Load(relation, window, own, accepted.get(relation.source))
            for relation, window, own in zip(self.query.inputs, self.windows, held, strict=True)
        ]

    def _simulate(self, loads: Sequence[_Load], times: Ints, size: int) -> int:
        """The most bytes that the windows take if the rows enter in chunks of so many."""
        ends = np.arange(size, len(times) + size, size)
        # A row of the next chunk may be as old as the last one of this.
        following = np.append(times[ends[:-1]], LARGEST) if len(ends) else np.empty(0, np.int64)
        left = [_Left(0, 0)] * len(loads)
        needed = sum(load.bytes_at(0, gone) for load, gone in zip(loads, left, strict=True))
        for end, unprocessed in zip(ends.tolist(), following.tolist(), strict=True):
            bound = times[min(end, len(times)) - 1]
            entered = [load.entered_at(bound) for load in loads]
            sizes = [load.bytes_at(count, gone) for load, count, gone in zip(loads, entered, left, strict=True)]
            needed = max(needed, sum(sizes))
            horizon = self.horizon_at(min(self.watermark, unprocessed))
            left = [load.left_at(horizon, count) for load, count in zip(loads, entered, strict=True)]
        return needed

    def horizon_at(self, watermark: int) -> int:
        """The time before which everything is dead when the watermark is there."""
        step = self.query.step
        return max(self.horizon, watermark if step is None else start_of_step(watermark, step))

    def count_after(self, accepted: Mapping[str, StreamRows]) -> list[int]:
        """How many rows each window would have after a push of these, if none were hidden."""
        horizon = self.horizon_at(self.watermark)
        loads = self._load(accepted, self._held)
        return [load.total - sum(load.left_at(horizon, load.count)) for load in loads]

    def find_share(self, accepted: Mapping[str, StreamRows], rows: Sequence[int]) -> float:
        """The share, as good as a few tries find it, of so many rows in each window for which there is room."""
        loads = self._load(accepted, self._held)

        def fits(share: float) -> bool:
            needed = sum(load.bytes_of(int(share * count)) for load, count in zip(loads, rows, strict=True))
            return needed <= self.room

        lowest, highest = 0.0, 1.0
        if fits(highest):
            return highest
        for _ in range(TRIES):
            middle = (lowest + highest) / 2
            lowest, highest = (middle, highest) if fits(middle) else (lowest, middle)
        return lowest


class _Left(NamedTuple):
    """How many rows have left a window: of those that it holds, and of those that are to come."""

    held: int
    coming: int


class _Held(NamedTuple):
    """The rows that are there of an input: how many, their ends, and the bytes of their texts and lists by column."""

    rows: int
    find_ends: Callable[[], Ints]
    bytes: dict[PayloadName, int]

    @classmethod
    def of(cls, store: BaseWindow, horizon: int) -> _Held:
        """The rows of a store that are alive."""
        ids = store.find_living(horizon)
        matrix = np.ascontiguousarray(ids.reshape(-1, 1))
        sizes = {name: int(column.measure(matrix, 0).sum()) for name, column in _large_columns(store)}
        return cls(len(ids), lambda: store.ends[ids & (store.capacity - 1)], sizes)

    @classmethod
    def most(cls, store: BaseWindow, horizon: int) -> _Held:
        """As many rows as there are, dead or alive, and what they take: found at once, and enough to see what fits."""
        sizes = {name: _used_bytes(column) for name, column in _large_columns(store)}
        return cls(len(store), lambda: rings.read(store.ends, store.head, store.tail), sizes)

    def beside(self, other: _Held) -> _Held:
        """These rows and others of the same input."""
        sizes = {name: size + other.bytes[name] for name, size in self.bytes.items()}
        return _Held(self.rows + other.rows, lambda: np.concatenate((self.find_ends(), other.find_ends())), sizes)


def _large_columns(store: BaseWindow) -> list[tuple[PayloadName, BytesColumn | ArrowColumn]]:
    """The columns whose values may be of any length."""
    return [(name, column) for name, column in store.columns.items() if isinstance(column, BytesColumn | ArrowColumn)]


def _used_bytes(column: BytesColumn | ArrowColumn) -> int:
    return column.used_bytes if isinstance(column, BytesColumn) else column.nbytes


class _Load:
    """The rows of an input that are there, and those that are to come, the oldest first."""

    def __init__(self, relation: Input, window: BaseWindow, held: _Held, rows: StreamRows | None):
        self._relation = relation
        self._held, self._find_ends = held.rows, held.find_ends
        self._entering = np.empty(0, np.int64)
        if rows is not None:
            self._entering = rows.times if rows.kept is None else rows.times[rows.kept]
        self.count = len(self._entering)
        self._texts: list[tuple[int, int]] = []
        self._lists: list[tuple[int, int]] = []
        for name, column in _large_columns(window):
            coming = 0
            if rows is not None and isinstance(name, str) and name in rows.columns:
                coming = rows.columns[name].nbytes * self.count // max(len(rows), 1)
            (self._texts if isinstance(column, BytesColumn) else self._lists).append((held.bytes[name], coming))
        self._flat_bytes = _SORTED_ROW_BYTES * len(window.sorted_indexes) + _LIST_ROW_BYTES * len(self._lists)
        self._fixed_bytes = _FIXED_BYTES + _SORTED_SLACK_BYTES * rings.SMALLEST_CAPACITY * len(window.sorted_indexes)
        self._slot_bytes = window.slot_bytes + window.composite_slot_bytes

    @property
    def total(self) -> int:
        """How many rows there are with those to come."""
        return self._held + self.count

    @property
    def bytes_at_once(self) -> int:
        """What the window takes with all of them."""
        return self.bytes_at(self.count, _Left(0, 0))

    def bytes_at(self, entered: int, left: _Left) -> int:
        """What the window takes when so many rows have entered, and some have left."""
        held, coming = self._held - left.held, entered - left.coming
        shares = held / max(self._held, 1), coming / max(self.count, 1)
        return self._bytes(held + coming, *shares)

    def bytes_of(self, rows: int) -> int:
        """What the window takes with so many rows, of any kind."""
        share = rows / max(self.total, 1)
        return self._bytes(rows, share, share)

    def _bytes(self, rows: int, held: float, coming: float) -> int:
        """What so many rows take, among them these shares of those that are there and of those to come."""
        texts = sum(rings.capacity_for(2 * int(held * old + coming * new) + 1) for old, new in self._texts)
        lists = sum(int(held * old + coming * new) for old, new in self._lists)
        return rings.capacity_for(rows) * self._slot_bytes + texts + lists + self._flat_bytes * rows + self._fixed_bytes

    @cached_property
    def _ends(self) -> Ints:
        return np.sort(self._find_ends())

    @cached_property
    def _times(self) -> Ints:
        return np.sort(self._entering)

    @cached_property
    def _coming_ends(self) -> Ints:
        return self._relation.window.intervals(self._times)[1]

    def entered_at(self, moment: int) -> int:
        """How many rows have entered when those up to a moment have."""
        return int(np.searchsorted(self._times, moment, side="right"))

    def left_at(self, horizon: int, entered: int) -> _Left:
        """How many rows have left by a time when so many have entered."""
        described = self._relation.window
        if described.counts_rows:
            gone = max(0, self._held + entered - described.size)
            return _Left(min(gone, self._held), max(0, gone - self._held))
        if described.never_ends:
            return _Left(0, 0)
        gone = int(np.searchsorted(self._coming_ends, horizon, side="left"))
        return _Left(int(np.searchsorted(self._ends, horizon, side="left")), min(gone, entered))
