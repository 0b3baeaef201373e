"""Edges: where a row of one input can look for the partners that it needs in another.

An edge leads from the input of a row that may have to wait to a *neighbour*: another input of which every result with
that row has a row, too, with an equal key or a value within a band. Where no index leads to partners there is no edge.

An edge answers no more than the index does, by one key or band and the interval. What else a join asks for (the values
behind a hash, other keys, predicates, arrival numbers) is left out. So a row may seem to have a partner and have none,
and enter for nothing; but a row that seems to have none has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple, Protocol

import numpy as np

from midstream.cql.model import Query
from midstream.engine.demand.chunk import IndexedChunk
from midstream.engine.joins.access import BandPath
from midstream.engine.joins.combos import Delta
from midstream.kernels.types import NO_REASON, Place
from midstream.state.hidden import HiddenRows
from midstream.state.indexes import NOWHERE, Flags, Ints, find_lacking
from midstream.state.window import BaseWindow, WindowRows


class Stores(NamedTuple):
    """Where the rows of an input are that have arrived before: those that have entered, and those that are hidden."""

    window: BaseWindow
    hidden: HiddenRows | None


class Edge(Protocol):
    """From the input `number`, whose rows wait, to `neighbour`; `reason` is the number of this edge."""

    reason: int
    number: int
    neighbour: int

    def find_partners(self, rows: WindowRows, store: BaseWindow, found: Flags) -> None:
        """Set those flags whose row has a partner among the rows of the neighbour in a store."""

    def find_lacking(self, rows: WindowRows, stores: Stores, chunk: IndexedChunk, reasons: Ints) -> int:
        """Give this edge as the reason to each row that has none yet and has no partner; how many there are.

        Partners are in the stores of the neighbour and in the chunk, of which perhaps some too many count.
        """

    def wake(self, arrived: WindowRows, hidden: HiddenRows) -> Ints:
        """The ids of the hidden rows that wait for this reason and have a partner among rows of the neighbour."""


class KeyEdge:
    """Through a key class that both inputs have."""

    def __init__(self, reason: int, number: int, neighbour: int, key_class: int):
        self.reason, self.number, self.neighbour = reason, number, neighbour
        self._class = key_class

    def find_partners(self, rows: WindowRows, store: BaseWindow, found: Flags) -> None:
        index = store.hash_indexes[(self._class,)]
        index.find_partners(store.ring(), rows.codes[self._class], (rows.starts, rows.ends), found)

    def find_lacking(self, rows: WindowRows, stores: Stores, chunk: IndexedChunk, reasons: Ints) -> int:
        of_chunk, arrived = chunk.places(self.neighbour, self._class, len(rows))
        places = (self._place(stores.window), self._place(stores.hidden), of_chunk)
        keys, intervals = rows.codes[self._class], (rows.starts, rows.ends)
        return find_lacking(places, arrived, keys, intervals, reasons, self.reason)

    def _place(self, store: BaseWindow | None) -> Place:
        return NOWHERE if store is None else store.hash_indexes[(self._class,)].place(store.head)

    def wake(self, arrived: WindowRows, hidden: HiddenRows) -> Ints:
        index, keys = hidden.hash_indexes[(self._class,)], arrived.codes[self._class]
        return index.wake(hidden.ring(), keys, (arrived.starts, arrived.ends), hidden.reasons, self.reason)


class BandEdge:
    """Through a band between both inputs."""

    def __init__(
        self, reason: int, number: int, neighbour: int, band: int, query: Query, windows: Sequence[BaseWindow]
    ):
        self.reason, self.number, self.neighbour = reason, number, neighbour
        self._band = band
        self._there = BandPath((neighbour,), band, query.bands[band], windows)
        self._back = BandPath((number,), band, query.bands[band], windows)
        self._windows = windows

    def _ranges(self, rows: WindowRows) -> tuple[Ints, Ints]:
        return self._there.ranges(Delta.of_window_rows(self.number, 0, rows, self._windows))

    def find_partners(self, rows: WindowRows, store: BaseWindow, found: Flags) -> None:
        index = store.sorted_indexes[self._band]
        index.find_partners(store.ring(), self._ranges(rows), (rows.starts, rows.ends), found)

    def find_lacking(self, rows: WindowRows, stores: Stores, chunk: IndexedChunk, reasons: Ints) -> int:
        left = np.flatnonzero(reasons == NO_REASON)
        rows = keys_at(rows, left)
        found = np.zeros(len(left), np.bool_)
        for store in (stores.window, stores.hidden):
            if store is not None and len(store):
                self.find_partners(rows, store, found)
        if self.neighbour in chunk.rows:
            values = chunk.sorted_values(self.neighbour, self._band)
            lows, highs = self._ranges(rows)
            found |= values.searchsorted(highs, side="right") > values.searchsorted(lows, side="left")
        lacking = left[~found]
        reasons[lacking] = self.reason
        return len(lacking)

    def wake(self, arrived: WindowRows, hidden: HiddenRows) -> Ints:
        ranges = self._back.ranges(Delta.of_window_rows(self.neighbour, 0, arrived, self._windows))
        index = hidden.sorted_indexes[self._band]
        return index.wake(hidden.ring(), ranges, (arrived.starts, arrived.ends), hidden.reasons, self.reason)


def keys_at(rows: WindowRows, places: Ints | slice) -> WindowRows:
    """What partners are found by of the rows at these places."""
    return WindowRows(
        rows.starts[places],
        rows.ends[places],
        {number: codes[places] for number, codes in rows.codes.items()},
        {number: codes[places] for number, codes in rows.band_codes.items()},
        {},
    )


def find_edges(query: Query, windows: Sequence[BaseWindow]) -> list[Edge]:
    """All edges of a query, each at the place that its reason says: by every key class, else by the tightest band."""
    edges: list[Edge] = []
    for number, neighbour in permutations(range(len(query.inputs)), 2):
        if query.inputs[number].is_static:
            continue
        both = {number, neighbour}
        classes = [at for at, key_class in enumerate(query.key_classes) if both <= key_class.inputs]
        for key_class in classes:
            edges.append(KeyEdge(len(edges), number, neighbour, key_class))
        bands = [
            (band.low is None or band.high is None, at)
            for at, band in enumerate(query.bands)
            if {band.left_input, band.right_input} == both
        ]
        if bands and not classes:
            edges.append(BandEdge(len(edges), number, neighbour, min(bands)[1], query, windows))
    return edges
