"""Some rows of each chunk probe the windows at the other ends of their edges, and what they find is counted.

A sample costs as much as a small push, so an input is sampled again only after many times the rows of its last sample
have come, and after more of them while nothing surprises. What a row may find has no bound; a sample ends early once it
has found or tried enough. Over most edges whoever has the key of a row is its partner: then partners are only counted,
else they are joined as a probe does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.cql.model import Query
from midstream.engine.joins.access import HashPath, LoopPath, Path
from midstream.engine.joins.checks import Checks, checks_of_join
from midstream.engine.joins.combos import Block, Delta
from midstream.engine.joins.matching import join_with
from midstream.engine.routing.edges import Edge, path_along
from midstream.engine.routing.rates import MatchRates
from midstream.kernels.types import Layout
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow

Floats = NDArray[np.float64]

#: Rows of a sample: so many, or this share of the rows that have come if that is more.
_SAMPLE, _SHARE = 128, 1 / 64
#: Rows that come between two samples of an input, for each row of a sample and each of its edges.
_ROWS_PER_SAMPLED = 8
#: A sample ends when it has found so many partners: more tell little more of a rate, and cost as much again. Fewer
#: lead to wrong decisions: with 24, `stairs-fig8` takes more work in all.
_ENOUGH = 64
#: Rows that are joined at a time, where partners are not just counted, and what they may try before the sample ends.
_PIECE = 32
_TRIED = 1 << 14
#: Where only a loop leads to partners: rows of the sample, and the rows of the window that they try.
_LOOP_SAMPLE, _LOOP_TRIES = 16, 512


class Sampler:
    """Samples the rows that come for whoever watches an edge."""

    def __init__(self, query: Query, windows: Sequence[BaseWindow], rates: MatchRates):
        self._query, self._windows, self._rates = query, windows, rates
        self._probes: dict[tuple[Edge, int], _Probe] = {}
        #: The edges that are watched, and those of each input among them.
        self._watched: Sequence[Edge] = ()
        self._edges: dict[int, Sequence[Edge]] = {}

    def see(self, deltas: Mapping[int, Delta]) -> None:
        """The rows of a chunk, which have just entered the windows."""
        rates = self._rates
        since = rates.rows_since
        arrived = {number: delta for number, delta in sorted(deltas.items()) if len(delta)}
        if not arrived:
            return
        watched = rates.next_chunk({number: len(delta) for number, delta in arrived.items()})
        if not watched:
            return
        if watched != self._watched:
            self._watched, self._edges = watched, {}
        sampled = []
        for number, delta in arrived.items():
            since[number] = since.get(number, 0) + len(delta)
            edges = self._edges_of(number)
            if edges and self._is_due(number, edges):
                since[number] = 0
                sampled.append(number)
                self._sample(delta, number, edges)
        if sampled:
            rates.settle(watched, {number: len(window) for number, window in enumerate(self._windows)}, sampled)

    def _edges_of(self, number: int) -> Sequence[Edge]:
        """The edges of an input that are watched."""
        edges = self._edges.get(number)
        if edges is None:
            edges = self._edges[number] = [edge for edge in self._watched if number in (edge.left, edge.right)]
        return edges

    def _is_due(self, number: int, edges: Sequence[Edge]) -> bool:
        """Whether enough rows of an input have come since its last sample."""
        rates = self._rates
        lately = min([rates.weight((number, edge.other(number))) for edge in edges])
        wanted = _ROWS_PER_SAMPLED * min(lately, _SAMPLE) * len(edges) * rates.patience(number)
        return lately < rates.least_sampled or rates.rows_since[number] >= wanted

    def _sample(self, delta: Delta, number: int, edges: Sequence[Edge]) -> None:
        size = min(len(delta), max(_SAMPLE, int(len(delta) * _SHARE)))
        stride = len(delta) // size
        first = (self._rates.seed + self._rates.chunk) % stride
        places: Ints = np.arange(first, first + size * stride, stride)
        classes = [at for at in self._windows[number].layout.classes if self._rates.counts_classes]
        codes = {at: delta.codes(at)[places] for at in classes}
        for at in classes:
            self._rates.by_class.see(at, codes[at], pat.is_integer(self._query.key_classes[at].type))
        for edge in edges:
            probe = self._probes.get((edge, number))
            if probe is None:
                probe = self._probes[edge, number] = _Probe(self._query, edge, number, self._windows)
            counted = probe.count(delta, places)
            end = edge.other(number)
            direction = (number, end)
            self._rates.add(direction, len(counted.partners), counted.found, len(self._windows[end]))
            for at in classes:
                self._rates.by_class.add(at, direction, codes[at][counted.taken], counted.partners)


class _Counted(NamedTuple):
    """Which rows of a sample were probed, how many partners each of them has, and all of them together."""

    taken: Ints | slice
    partners: Floats | Ints
    found: float


class _Probe:
    """Rows of one end of an edge look for partners in the window of the other."""

    def __init__(self, query: Query, edge: Edge, start: int, windows: Sequence[BaseWindow]):
        end = edge.other(start)
        self._window = windows[end]
        self._edge = edge
        # By the whole key if the window happens to have an index on it, else by one class of it.
        self._paths = [path_along(query, edge, end, windows)]
        if len(edge.classes) > 1:
            self._paths.append(HashPath(query, (end,), edge.classes[:1], windows))
        self._checks = [
            checks_of_join(query, (start,), (end,), edge.band, windows, getattr(path, "classes", ()))
            for path in self._paths
        ]

    def count(self, delta: Delta, places: Ints) -> _Counted:
        """Count the partners of the rows at these places, or of some of them."""
        at = 0 if self._edge.classes in self._window.hash_indexes else -1
        path, checks = self._paths[at], self._checks[at]
        if at == 0 and checks.only_confirm_keys:
            return self._count_by_key(delta, places)
        return self._count_pairs(path, checks, delta, places)

    def _count_by_key(self, delta: Delta, places: Ints) -> _Counted:
        """The usual case: whoever has the key is a partner, and has only to be counted."""
        window, classes = self._window, self._edge.classes
        partners = np.zeros(len(places), np.int64)
        intervals = delta.combos.starts, delta.combos.ends
        probed, visited, found = window.hash_indexes[classes].count_partners(
            window.ring(), delta.keys(classes), intervals, places, _ENOUGH, partners
        )
        window.meter.slots_visited += visited
        window.meter.lookups += probed // 2 + found
        return _Counted(slice(probed), partners[:probed], float(found))

    def _count_pairs(self, path: Path, checks: Checks, delta: Delta, places: Ints) -> _Counted:
        """Join some rows with the window as a probe does, and count the pairs."""
        window = self._window
        first, share = None, 1.0
        taken = np.arange(len(places))
        if isinstance(path, LoopPath):
            taken = taken[:: max(1, len(places) // _LOOP_SAMPLE)]
            if len(window) > _LOOP_TRIES:
                first, share = window.tail - _LOOP_TRIES, _LOOP_TRIES / len(window)
        ring = window.ring(None, first)
        block = Block(2, _TRIED, _TRIED)
        partners = np.zeros(len(taken))
        probed = tried = visited = 0

        def count_block(ids: Ints) -> None:
            rows = np.searchsorted(ids, block.content().rows[:, 0])
            partners[probed : probed + len(ids)] += np.bincount(rows, minlength=len(ids))
            block.count = 0

        for begin in range(0, len(taken), _PIECE):
            piece = delta.at(places[taken[begin : begin + _PIECE]])
            steps = join_with(path, window, ring, piece, Layout(1, 0), checks, block)
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    tried += end.value.lookups(path, len(piece))
                    visited += end.value.slots
                    break
                count_block(piece.ids)
            count_block(piece.ids)
            probed += len(piece)
            if partners.sum() >= _ENOUGH or tried >= _TRIED:
                break
        window.meter.slots_visited += visited
        window.meter.lookups += tried
        return _Counted(taken[:probed], partners[:probed] / share, float(partners[:probed].sum()) / share)
