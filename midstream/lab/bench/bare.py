"""The bare limit: a loop of nothing but the kernels' inserts, probes and purging, for a left-deep plan.

It joins the same rows in the same batches as the engine, with the same kernels on the same layout of memory. What it
leaves out is everything else: reading Arrow, checks of the input, payload, verification of hashed keys, results as
Arrow, plans, holes. Its rings have their final size from the start.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels import chains, rings, runs
from midstream.kernels.types import COUNT, FIRST_ID, Chains, Combos, Layout, Ring
from midstream.lab.workload import Workload
from midstream.state import rings as ring_arrays
from midstream.state.arrow import make_contiguous
from midstream.state.indexes import Ints, SortedIndex, new_cursor
from midstream.state.keys import codes_of
from midstream.state.window import composite

NO_MEMBERS = np.empty((0, 1), np.int64)
#: A fixed seed, so that two runs do the same; nobody attacks a benchmark with chosen keys.
SEED = 1


@dataclass(frozen=True)
class BareJoin:
    """How one more stream joins what is joined: pairs of (stream, its column) and a column of the new stream.

    With `width` it is a band of that width on the only pair, else the pairs are a composite key.
    """

    pairs: tuple[tuple[int, str, str], ...]
    width: int | None = None


@dataclass(frozen=True)
class BareRun:
    """How long a run took, and how many results it found."""

    seconds: float
    results: int


class BareTable:
    """Rows or entries in rings, with one hash or sorted index."""

    def __init__(self, capacity: int, width: int, is_sorted: bool):
        self.starts = np.zeros(capacity, np.int64)
        self.ends = np.zeros(capacity, np.int64)
        self.keys = np.zeros(capacity, np.int64)
        self.members = np.zeros((capacity, width), np.int64) if width else NO_MEMBERS
        self.head = self.tail = FIRST_ID
        self._sorted = SortedIndex(capacity) if is_sorted else None
        self._chains = tuple(Chains(np.zeros(2 * capacity, np.int64), np.empty((capacity, 4), np.int64), SEED))

    def insert(self, keys: Ints, starts: Ints, ends: Ints, members: Ints | None) -> None:
        first = self.tail
        assert first - self.head + len(keys) <= len(self.starts), "there is room for all entries from the start"
        ring_arrays.write(self.starts, first, starts)
        ring_arrays.write(self.ends, first, ends)
        if members is not None:
            ring_arrays.write(self.keys, first, keys)
            ring_arrays.write(self.members, first, members)
        self._index(first, keys, starts, ends)
        self.tail += len(keys)

    def _index(self, first: int, keys: Ints, starts: Ints, ends: Ints) -> None:
        if self._sorted is not None:
            self._sorted.insert(first, keys, starts, ends)
        else:
            chains.insert(self._chains, self.head, first, keys, starts, ends)

    def ring(self, tail: int | None = None) -> Ring:
        return Ring(self.starts, self.ends, self.members, self.head, self.tail if tail is None else tail)

    def probe(self, ring: Ring, keys: Ints, width: int | None, combos: Combos, out: BareBlock, layout: Layout) -> None:
        if self._sorted is None:
            cursor = out.cursor()
            while not chains.probe(
                self._chains, tuple(ring), keys, tuple(combos), tuple(out.combos), cursor, tuple(layout)
            ):
                out.grow(int(cursor[COUNT]))
            out.count = int(cursor[COUNT])
            return
        assert width is not None
        lows, highs = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        runs.shift(keys, -width, True, lows)
        runs.shift(keys, width, False, highs)
        for run in range(self._sorted.run_count):
            cursor = out.cursor()
            while not self._sorted.probe(run, ring, (lows, highs), combos, out.combos, cursor, layout):
                out.grow(int(cursor[COUNT]))
            out.count = int(cursor[COUNT])

    def purge_rows(self, watermark: int) -> None:
        self.head = rings.first_alive(self.ends, self.head, self.tail, watermark)
        if self._sorted is not None:
            self._sorted.forget(self.head, self.tail)

    def purge_entries(self, watermark: int, floors: Ints, stored: int) -> None:
        if self.head == self.tail:
            return
        first = self.tail
        self.head, _, moved = rings.collect(tuple(self.ring()), watermark, floors, 32, 17, 2 * stored + 64)
        if len(moved):
            self.tail += len(moved)
            keys = self.keys[moved & (len(self.keys) - 1)]
            ring_arrays.write(self.keys, first, keys)
            starts, ends = (ring_arrays.read(ring, first, self.tail) for ring in (self.starts, self.ends))
            self._index(first, keys, starts, ends)
        if self._sorted is not None:
            self._sorted.forget(self.head, self.tail)


class BareBlock:
    """Combinations of so many streams, in arrays that grow."""

    def __init__(self, width: int):
        self.combos = Combos(np.empty((1024, width), np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64))
        self.count = 0

    def cursor(self) -> Ints:
        cursor = new_cursor()
        cursor[COUNT] = self.count
        return cursor

    def grow(self, count: int) -> None:
        self.combos = Combos(*(np.concatenate((array, np.empty_like(array))) for array in self.combos))
        self.count = count

    def content(self) -> Combos:
        return Combos(*(array[: self.count] for array in self.combos))


class BareLoop:
    """Runs a workload whose streams all have one window, in the order of FROM, left-deep."""

    def __init__(self, workload: Workload, joins: Sequence[BareJoin], window: int, batch: int, entries: int):
        self._joins, self._window, self._batch = joins, window, batch
        tables = [workload.tables[stream] for stream in workload.streams]
        self._times = [integers_of(table, workload.event_time) for table in tables]
        used: list[set[str]] = [set() for _ in tables]
        for number, join in enumerate(joins):
            for stream, own, column in join.pairs:
                used[stream].add(own)
                used[number + 1].add(column)
        self._codes = [
            {name: codes_in(table, name) for name in sorted(names)} for table, names in zip(tables, used, strict=True)
        ]
        live = max(int(np.searchsorted(times, times[0] + window)) for times in self._times)
        capacity = ring_arrays.capacity_for(live + 2 * batch)
        self._rings = [{name: np.zeros(capacity, np.int64) for name in codes} for codes in self._codes]
        is_sorted = [join.width is not None for join in joins]
        self._windows = [BareTable(capacity, 0, is_sorted[max(number - 1, 0)]) for number in range(len(tables))]
        self._states = [
            BareTable(ring_arrays.capacity_for(entries), number + 2, is_sorted[number + 1])
            for number in range(len(joins) - 1)
        ]
        self._blocks = [BareBlock(number + 2) for number in range(len(joins))]

    def run(self, skipped: int = 0) -> BareRun:
        """Join everything once; the clock starts after so many rows of each stream."""
        results = 0
        began = time.perf_counter()
        for begin in range(0, max(len(times) for times in self._times), self._batch):
            if begin < skipped <= begin + self._batch:
                began = time.perf_counter()
            results += self.take(begin, begin + self._batch)
        return BareRun(time.perf_counter() - began, results)

    def take(self, begin: int, end: int) -> int:
        """Join the next rows of every stream, from one place to another; how many results they have."""
        deltas: list[Combos] = []
        keys: list[list[Ints]] = []
        for stream, window in enumerate(self._windows):
            starts = self._times[stream][begin:end]
            ends = starts + self._window
            codes = {name: values[begin:end] for name, values in self._codes[stream].items()}
            for name, values in codes.items():
                ring_arrays.write(self._rings[stream][name], window.tail, values)
            join = self._joins[max(stream - 1, 0)]
            columns = [own for _, own, _ in join.pairs] if stream == 0 else [column for _, _, column in join.pairs]
            key = composite([codes[name] for name in columns])
            deltas.append(Combos(np.arange(window.tail, window.tail + len(starts)).reshape(-1, 1), starts, ends))
            keys.append([key])
            window.insert(key, starts, ends, None)
        left, left_keys = deltas[0], keys[0][0]
        for number, join in enumerate(self._joins):
            block = self._blocks[number]
            block.count = 0
            right, right_keys = deltas[number + 1], keys[number + 1][0]
            width = number + 1
            store = self._windows[0] if number == 0 else self._states[number - 1]
            before = int(left.rows[0, 0]) if number == 0 else None
            store.probe(store.ring(before), right_keys, join.width, right, block, Layout(0, width))
            other = self._windows[number + 1]
            other.probe(other.ring(), left_keys, join.width, left, block, Layout(width, 0))
            if number > 0:
                store.insert(left_keys, left.starts, left.ends, left.rows)
            left = block.content()
            if number + 1 < len(self._joins):
                left_keys = self._left_keys(self._joins[number + 1], left)
        self._purge(min(int(times[min(end, len(times)) - 1]) for times in self._times))
        return self._blocks[-1].count

    def _left_keys(self, join: BareJoin, combos: Combos) -> Ints:
        gathered: list[Ints] = []
        for stream, own, _ in join.pairs:
            codes = np.empty(len(combos.starts), np.int64)
            rings.gather(self._rings[stream][own], combos.rows, stream, codes)
            gathered.append(codes)
        return composite(gathered)

    def _purge(self, watermark: int) -> None:
        for window in self._windows:
            window.purge_rows(watermark)
        for number, state in enumerate(self._states):
            floors = np.array([self._windows[stream].head for stream in range(number + 2)], np.int64)
            state.purge_entries(watermark, floors, self._blocks[number].count)


def integers_of(table: pa.Table, name: str) -> Ints:
    return np.array(table[name].to_numpy(), np.int64)


def codes_in(table: pa.Table, name: str) -> Ints:
    return np.array(codes_of(make_contiguous(table[name].combine_chunks())))
