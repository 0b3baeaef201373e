"""The bare limit of SteMs: a loop of nothing but the kernels' inserts, probes and purging, without join states.

As the bare limit of a tree (`bare`), it leaves out everything but that. Rows of a batch enter all windows first; then
those of each stream, in the order of FROM, visit the windows of all others, the first in FROM that is within reach
first. Only for acyclic joins, whose every step has one pair of columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from midstream.kernels import chains, rings
from midstream.kernels.types import COUNT, FIRST_ID, Chains, Combos, Layout, Ring
from midstream.lab.bench.bare import NO_MEMBERS, SEED, BareBlock, BareJoin, codes_in, integers_of
from midstream.lab.workload import Workload
from midstream.state import rings as ring_arrays
from midstream.state.indexes import Ints

#: A step to another stream: the place of a known stream in the combination, its column, the other, and its column.
Step = tuple[int, int, str, int, str]


class _Window:
    """The rows of one stream in rings, with a hash index on each of its join columns."""

    def __init__(self, capacity: int, columns: Sequence[str]):
        self.starts = np.zeros(capacity, np.int64)
        self.ends = np.zeros(capacity, np.int64)
        self.codes = {column: np.zeros(capacity, np.int64) for column in columns}
        self.head = self.tail = FIRST_ID
        self._chains = {
            column: tuple(Chains(np.zeros(2 * capacity, np.int64), np.empty((capacity, 4), np.int64), SEED))
            for column in columns
        }

    def insert(self, starts: Ints, ends: Ints, codes: dict[str, Ints]) -> Combos:
        """Take in rows; they as combinations of one."""
        first, self.tail = self.tail, self.tail + len(starts)
        ring_arrays.write(self.starts, first, starts)
        ring_arrays.write(self.ends, first, ends)
        for column, values in codes.items():
            ring_arrays.write(self.codes[column], first, values)
            chains.insert(self._chains[column], self.head, first, values, starts, ends)
        return Combos(np.arange(first, self.tail).reshape(-1, 1), starts, ends)

    def probe(self, column: str, tail: int, keys: Ints, combos: Combos, out: BareBlock) -> None:
        """Join combinations with the rows below `tail` that have their key; a row comes last in what is found."""
        ring = tuple(Ring(self.starts, self.ends, NO_MEMBERS, self.head, tail))
        layout = tuple(Layout(combos.rows.shape[1], 0))
        cursor = out.cursor()
        while not chains.probe(self._chains[column], ring, keys, tuple(combos), tuple(out.combos), cursor, layout):
            out.grow(int(cursor[COUNT]))
        out.count = int(cursor[COUNT])

    def purge(self, watermark: int) -> None:
        self.head = rings.first_alive(self.ends, self.head, self.tail, watermark)


class BareStems:
    """Takes the rows of a workload whose streams all have one window through all other windows."""

    def __init__(self, workload: Workload, joins: Sequence[BareJoin], window: int, batch: int):
        self._window = window
        tables = [workload.tables[stream] for stream in workload.streams]
        self._times = [integers_of(table, workload.event_time) for table in tables]
        edges = [(pair[0], pair[1], number, pair[2]) for number, join in enumerate(joins, 1) for pair in join.pairs]
        edges += [(other, column, stream, own) for stream, own, other, column in edges]
        self._routes = [_find_route(start, edges, len(tables)) for start in range(len(tables))]
        columns = [sorted({own for stream, own, _, _ in edges if stream == number}) for number in range(len(tables))]
        self._codes = [
            {name: codes_in(table, name) for name in names} for table, names in zip(tables, columns, strict=True)
        ]
        live = max(int(np.searchsorted(times, times[0] + window)) for times in self._times)
        capacity = ring_arrays.capacity_for(live + 2 * batch)
        self._windows = [_Window(capacity, names) for names in columns]
        self._blocks = [BareBlock(width) for width in range(2, len(tables) + 1)]

    def take(self, begin: int, end: int) -> int:
        """Join the next rows of every stream, from one place to another; how many results they have."""
        tails = [window.tail for window in self._windows]
        deltas = []
        for window, times, codes in zip(self._windows, self._times, self._codes, strict=True):
            starts = times[begin:end]
            own = {name: values[begin:end] for name, values in codes.items()}
            deltas.append(window.insert(starts, starts + self._window, own))
        results = 0
        for start, combos in enumerate(deltas):
            # Rows of streams further on in FROM have not entered yet, as far as this one is concerned.
            tails[start] = self._windows[start].tail
            for block, (place, known, own_column, other, column) in zip(self._blocks, self._routes[start], strict=True):
                keys = np.empty(len(combos.starts), np.int64)
                rings.gather(self._windows[known].codes[own_column], combos.rows, place, keys)
                block.count = 0
                self._windows[other].probe(column, tails[other], keys, combos, block)
                combos = block.content()
            results += len(combos.starts)
        watermark = min(int(times[min(end, len(times)) - 1]) for times in self._times)
        for window in self._windows:
            window.purge(watermark)
        return results


def _find_route(start: int, edges: Sequence[tuple[int, str, int, str]], streams: int) -> list[Step]:
    """The steps from a stream to all others, always to the first that an edge leads to."""
    visited, steps = [start], list[Step]()
    while len(visited) < streams:
        known, own, other, column = min(
            (edge for edge in edges if edge[0] in visited and edge[2] not in visited), key=lambda edge: edge[2]
        )
        steps.append((visited.index(known), known, own, other, column))
        visited.append(other)
    return steps
