"""How many partners a row finds over an edge, counted on samples; what is old is forgotten bit by bit.

A rate belongs to a direction: rows of R find partners in S at one rate, rows of S in R at another. A window that has
grown since the last sample has that many more partners. Where no rows of one end have come, or only while the other
window was empty, its rate follows from that of the other end: both see the same pairs.

Decisions go by *settled* rates, which move only when a rate has moved by more than a quarter, and by more than chance
explains. Then all of them move: rates that are compared are of the same time, also while windows fill and all of them
grow. They are a function of the rows and their chunks alone, never of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from midstream.engine.routing.arrivals import Arrivals
from midstream.engine.routing.class_rates import ClassRates
from midstream.engine.routing.counts import Count, Direction
from midstream.engine.routing.edges import Edge

#: Sampled rows below which the other end is asked, if it knows more.
_FEW = 8


class MatchRates:
    """The rates of the edges that somebody watches. `chunk` counts chunks."""

    #: Sampled rows of both ends together from which on an edge is known.
    least_sampled = 32
    #: Chunks without a row after which an input that has had rows is stalled, and after which it is given up.
    stalled_after, stalled_until = 8, 24
    #: The most that an input waits for its next sample, in multiples of what it waits after a surprise.
    most_patience = 16

    def __init__(self, seed: int = 0, cell: int = 0):
        self.seed, self.cell = seed, cell
        self.chunk = 0
        self._changes = 0
        self._watched: dict[Edge, None] = {}
        self._counts: dict[Direction, Count] = {}
        self._sizes: Mapping[int, int] = {}
        #: Which share of the rows is of which input, for who weighs inputs against each other.
        self.arrivals = Arrivals()
        #: What is known of classes of rows, for who watches these.
        self.by_class = ClassRates()
        self._watches_classes = self.counts_classes = False
        #: Rows of each input that have come since its last sample.
        self.rows_since: dict[int, int] = {}
        #: By how many times more rows than else come between two samples of an input: rates that stay are seen to stay.
        self._patience: dict[int, int] = {}
        #: The last chunk in which each input has had rows, and the inputs that have had none for long.
        self._last_seen: dict[int, int] = {}
        self.stalled: frozenset[int] = frozenset()
        #: Whether an input that has had rows before had none in the last chunk.
        self._is_silent = True
        #: The inputs that were stalled once and have come back.
        self._came_back: set[int] = set()

    def watch(self, edges: Iterable[Edge], by_class: bool = False) -> None:
        """Have these edges sampled in the next chunk, perhaps by class; who wants to know more asks again."""
        self._watched |= dict.fromkeys(edges)
        self._watches_classes |= by_class

    def next_chunk(self, rows: Mapping[int, int]) -> Sequence[Edge]:
        """Another chunk has come, with so many rows of these inputs; the edges that somebody watches.

        Where none of the rows goes, nobody is asked which way is next: those edges stay watched.
        """
        self.chunk += 1
        self.arrivals.add(rows)
        inputs = rows.keys()
        watched = tuple(self._watched)
        self._watched = {edge: None for edge in watched if edge.left not in inputs and edge.right not in inputs}
        self.counts_classes = self._watches_classes
        self._watches_classes &= bool(self._watched)
        was_silent, self._is_silent = self._is_silent, not self._last_seen.keys() <= inputs
        if was_silent:
            self._came_back |= {number for number in inputs if self._silence(number) >= self.stalled_after}
        self._last_seen.update(dict.fromkeys(inputs, self.chunk))
        if was_silent or self._is_silent:
            self._find_stalled(watched)
        return watched

    def _find_stalled(self, watched: Sequence[Edge]) -> None:
        stalled = frozenset(
            number for edge in watched for number in (edge.left, edge.right) if self._is_stalled(number)
        )
        if stalled != self.stalled:
            self.stalled = stalled
            self._changes += 1

    def _is_stalled(self, number: int) -> bool:
        return self.stalled_after <= self._silence(number) < self.stalled_until

    def _silence(self, number: int) -> int:
        """The chunks since an input has had rows; 0 if it never had any."""
        return self.chunk - self._last_seen.get(number, self.chunk)

    @property
    def awaited(self) -> Set[int]:
        """Stalled inputs that have come back before. One that stalls for the first time may as well have ended."""
        return self.stalled & self._came_back

    @property
    def version(self) -> tuple[int, int]:
        """Another one whenever something has changed that decisions go by: a settled rate, classes, a stalled input."""
        return self._changes, self.by_class.version

    def weight(self, direction: Direction) -> float:
        """How much a rate is based on: about the rows that were sampled lately, or enough if they found many."""
        count = self._counts.get(direction)
        if count is None:
            return 0.0
        return max(count.sampled, self.least_sampled) if count.has_found_many else count.sampled

    def add(self, direction: Direction, rows: int, found: float, window: int) -> None:
        """So many rows of one input have found so many partners in the window of another, which has `window` rows.

        If that is a surprise, all inputs are sampled again soon.
        """
        if self._counts.setdefault(direction, Count()).add(rows, found, window):
            self._patience = {}

    def patience(self, number: int) -> int:
        """How many times more rows than else should come before the next sample of an input."""
        return self._patience.get(number, 1)

    def settle(self, edges: Iterable[Edge], sizes: Mapping[int, int], sampled: Iterable[int] = ()) -> None:
        """Take over the rates if one has moved; `sizes` are the rows of the windows, by input.

        Where rates are known already, the inputs that were `sampled` wait longer for their next sample: what a window
        gains is reckoned with meanwhile.
        """
        self._sizes = sizes
        measured: dict[Direction, float] = {}
        has_moved = is_first = False
        for edge in edges:
            for direction in edge.directions:
                found = self._measure(direction)
                if found is not None:
                    measured[direction], partners = found
                    count = self._counts.setdefault(direction, Count())
                    is_first |= count.settled is None
                    has_moved |= count.has_moved(measured[direction], partners)
        if self.arrivals.settle(has_moved):
            self._changes += 1
            for direction, rate in measured.items():
                self._counts[direction].settled = rate
        for number in () if is_first else sampled:
            self._patience[number] = min(self.most_patience, 2 * self.patience(number))

    def _measure(self, direction: Direction) -> tuple[float, float] | None:
        """The rate, and how many partners it is based on; None if too few rows were sampled."""
        start, end = direction
        own, other = self._counts.get(direction, Count()), self._counts.get((end, start), Count())
        size = self._sizes.get(end, 0)
        # Rows that were sampled while the other window was empty tell nothing of what is in it now.
        sampled = self.weight(direction) if own.window or not size else 0.0
        sampled_there = self.weight((end, start)) if other.window else 0.0
        if sampled + sampled_there < self.least_sampled:
            return None
        if sampled >= min(_FEW, sampled_there):
            return own.found / own.sampled * (size / own.window if own.window else 1.0), own.found
        return other.found / other.sampled * size / other.window, other.found

    def rate(self, direction: Direction) -> float | None:
        """The settled rate; None if nothing is known."""
        count = self._counts.get(direction)
        return None if count is None else count.settled

    def to_json(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        counts = [
            [*direction, count.sampled, count.found, count.settled, count.window]
            for direction, count in sorted(self._counts.items())
        ]
        return {
            "seed": self.seed,
            "chunk": self.chunk,
            "counts": counts,
            "arrivals": self.arrivals.to_json(),
            "rows_since": sorted(self.rows_since.items()),
            "patience": sorted(self._patience.items()),
            "last_seen": sorted(self._last_seen.items()),
            "came_back": sorted(self._came_back),
            "by_class": self.by_class.to_json(),
        }

    def from_json(self, stored: Mapping[str, Any]) -> None:
        """Go on from what a snapshot kept."""
        self.seed, self.chunk = stored["seed"], stored["chunk"]
        self._counts = {(start, end): Count(*counted) for start, end, *counted in stored["counts"]}
        if "arrivals" in stored:
            self.arrivals.from_json(stored["arrivals"])
        self.by_class.from_json(stored["by_class"])
        self.rows_since, self._last_seen = dict(stored["rows_since"]), dict(stored["last_seen"])
        self._came_back = set(stored["came_back"])
        self._patience = dict(stored.get("patience", ()))
        self._changes += 1
