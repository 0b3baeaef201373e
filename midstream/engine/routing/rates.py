"""How many partners a row finds over an edge, counted on samples; what is old is forgotten bit by bit.

A rate belongs to a direction: rows of R find partners in S at one rate, rows of S in R at another. Where no rows of one
end have come, its rate follows from that of the other end and the sizes of both windows: both see the same pairs.

Decisions go by *settled* rates, which move only when a rate has moved by more than a quarter: what is left of chance in
the samples does not change anybody's mind. They are a function of the rows and their chunks alone, never of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstream.engine.routing.edges import Edge

#: From one input to another.
Direction = tuple[int, int]

#: Sampled rows after which what was counted before them weighs half.
_HALF_LIFE = 128
#: Sampled rows below which the other end is asked, if it knows more.
_FEW = 8
#: A settled rate holds while the rate is within this factor of it; rates below `_NOTHING` are all the same.
_TOLERANCE = 1.25
_NOTHING = 0.01


@dataclass
class _Count:
    """Rows that were sampled in one direction, what they found, and the rate that decisions go by."""

    sampled: float = 0.0
    found: float = 0.0
    settled: float | None = None

    def add(self, rows: int, found: float) -> None:
        kept = 0.5 ** (rows / _HALF_LIFE)
        sampled, total = self.sampled * kept + rows, self.found * kept + found
        # A large sample counts for no more than many small ones, so that it is forgotten as soon.
        share = min(1.0, 2 * _HALF_LIFE / sampled)
        self.sampled, self.found = sampled * share, total * share


class MatchRates:
    """The rates of the edges that somebody watches. `chunk` counts chunks; `version` changes with a settled rate."""

    #: Sampled rows of both ends together from which on an edge is known.
    least_sampled = 32
    #: Chunks without a row after which an input that has had rows is stalled.
    stalled_after = 8

    def __init__(self, seed: int = 0, cell: int = 0):
        self.seed, self.cell = seed, cell
        self.chunk = 0
        self.version = 0
        self._watched: dict[Edge, None] = {}
        self._counts: dict[Direction, _Count] = {}
        self._sizes: Mapping[int, int] = {}
        #: Rows of each input that have come since its last sample.
        self.rows_since: dict[int, int] = {}
        #: The last chunk in which each input has had rows, and the inputs that have had none for long.
        self._last_seen: dict[int, int] = {}
        self.stalled: frozenset[int] = frozenset()

    def watch(self, edges: Iterable[Edge]) -> None:
        """Have these edges sampled in the next chunk; who wants to know more asks again."""
        for edge in edges:
            self._watched[edge] = None

    def next_chunk(self, inputs: Iterable[int]) -> Sequence[Edge]:
        """Another chunk has come, with rows of these inputs; the edges that somebody watches."""
        self.chunk += 1
        watched, self._watched = tuple(self._watched), {}
        self._last_seen |= dict.fromkeys(inputs, self.chunk)
        stalled = frozenset(
            number
            for edge in watched
            for number in (edge.left, edge.right)
            if number in self._last_seen and self.chunk - self._last_seen[number] >= self.stalled_after
        )
        if stalled != self.stalled:
            self.stalled = stalled
            self.version += 1
        return watched

    def weight(self, direction: Direction) -> float:
        """How much a rate is based on: about the rows that were sampled lately."""
        count = self._counts.get(direction)
        return 0.0 if count is None else count.sampled

    def add(self, direction: Direction, rows: int, found: float) -> None:
        """So many rows of one input have found so many partners in the window of another."""
        self._counts.setdefault(direction, _Count()).add(rows, found)

    def settle(self, edges: Iterable[Edge], sizes: Mapping[int, int]) -> None:
        """Take over the rates that have moved; `sizes` are the rows of the windows, by input."""
        self._sizes = sizes
        for edge in edges:
            for direction in edge.directions:
                rate = self._measured(direction)
                count = self._counts.setdefault(direction, _Count())
                if rate is not None and (count.settled is None or _has_moved(count.settled, rate)):
                    count.settled = rate
                    self.version += 1

    def _measured(self, direction: Direction) -> float | None:
        start, end = direction
        own, other = self._counts.get(direction, _Count()), self._counts.get((end, start), _Count())
        if own.sampled + other.sampled < self.least_sampled:
            return None
        if own.sampled >= _FEW or own.sampled >= other.sampled:
            return own.found / own.sampled
        rows = self._sizes.get(start, 0)
        return other.found / other.sampled * self._sizes.get(end, 0) / rows if rows else other.found

    def rate(self, direction: Direction) -> float | None:
        """The settled rate; None if nothing is known."""
        count = self._counts.get(direction)
        return None if count is None else count.settled

    def to_json(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        counts = [
            [*direction, count.sampled, count.found, count.settled] for direction, count in sorted(self._counts.items())
        ]
        return {
            "seed": self.seed,
            "chunk": self.chunk,
            "counts": counts,
            "rows_since": sorted(self.rows_since.items()),
            "last_seen": sorted(self._last_seen.items()),
        }

    def from_json(self, stored: Mapping[str, Any]) -> None:
        """Go on from what a snapshot kept."""
        self.seed, self.chunk = stored["seed"], stored["chunk"]
        self._counts = {
            (start, end): _Count(sampled, found, settled) for start, end, sampled, found, settled in stored["counts"]
        }
        self.rows_since, self._last_seen = dict(stored["rows_since"]), dict(stored["last_seen"])
        self.version += 1


def _has_moved(settled: float, rate: float) -> bool:
    ratio = max(rate, _NOTHING) / max(settled, _NOTHING)
    return not 1 / _TOLERANCE <= ratio <= _TOLERANCE
