"""Rates by class: for each key class that a row has, how many partners the rows of each of its classes find.

All key classes are counted side by side; a policy says by which of them it pays to tell rows apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstream.engine.routing.classes import KeyClasses, make_classes
from midstream.engine.routing.counts import Count, Direction
from midstream.state.indexes import Ints

#: Codes of a key class that are kept to make classes of.
_KEPT = 512
#: Classes are made anew when one of them has more than this share of what has come lately.
_TOO_MUCH = 0.6


class ClassRates:
    """What was sampled of each class. `version` changes with classes and settled rates.

    Decisions go by the shares that classes had then: between two versions nobody decides, but an engine that was
    restored decides at once, and has to decide the same.
    """

    #: Codes of a key class that are needed to make classes of them.
    needed = 128

    def __init__(self) -> None:
        self.classes: dict[int, KeyClasses] = {}
        self.version = 0
        self._codes: dict[int, Ints] = {}
        self._counts: dict[tuple[int, Direction, int], Count] = {}
        self._settled: dict[int, list[float]] = {}

    def _settle(self) -> None:
        self.version += 1
        self._settled = {key_class: self.shares(classes) for key_class, classes in self.classes.items()}

    def see(self, key_class: int, codes: Ints, are_numbers: bool) -> None:
        """Codes of a key class were sampled."""
        kept = np.concatenate((self._codes.get(key_class, np.empty(0, np.int64)), codes))[-_KEPT:]
        self._codes[key_class] = kept
        if len(kept) < self.needed:
            return
        classes = self.classes.get(key_class)
        if classes is not None:
            largest = np.bincount(classes.of_codes(kept)).max()
            if classes.heavy or largest <= _TOO_MUCH * len(kept):
                return
        made = make_classes(key_class, kept, are_numbers)
        if made is not None and made != classes:
            self.classes[key_class] = made
            self._counts = {key: count for key, count in self._counts.items() if key[0] != key_class}
            self._settle()

    def add(self, key_class: int, direction: Direction, codes: Ints, found: NDArray[np.float64] | Ints) -> None:
        """Rows with these codes have found so many partners each."""
        classes = self.classes.get(key_class)
        if classes is None:
            return
        numbers = classes.of_codes(codes)
        has_moved = False
        rows = np.bincount(numbers, minlength=len(classes))
        partners = np.bincount(numbers, weights=found, minlength=len(classes))
        for number in np.flatnonzero(rows).tolist():
            count = self._counts.setdefault((key_class, direction, number), Count())
            count.add(int(rows[number]), float(partners[number]), 0)
            if count.sampled >= 1 and count.has_moved(count.found / count.sampled, count.found):
                count.settled = count.found / count.sampled
                has_moved = True
        if has_moved:
            self._settle()

    def rate(self, key_class: int, direction: Direction, number: int) -> float | None:
        """The settled rate of a class; None if nothing is known."""
        count = self._counts.get((key_class, direction, number))
        return None if count is None else count.settled

    def settled_shares(self, key_class: int) -> list[float]:
        """The shares of the newest classes that decisions go by."""
        return self._settled[key_class]

    def shares(self, classes: KeyClasses) -> list[float]:
        """The share of each class, which need not be one of the newest, in the codes that were sampled lately."""
        counts = np.bincount(classes.of_codes(self._codes[classes.key_class]), minlength=len(classes))
        shares: list[float] = (counts / counts.sum()).tolist()
        return shares

    def to_json(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        counts = [
            [key_class, *direction, number, count.sampled, count.found, count.settled]
            for (key_class, direction, number), count in sorted(self._counts.items())
        ]
        return {
            "classes": [classes.to_json() for classes in self.classes.values()],
            "codes": [[key_class, codes.tolist()] for key_class, codes in self._codes.items()],
            "counts": counts,
            "shares": sorted(self._settled.items()),
        }

    def from_json(self, stored: Mapping[str, Any]) -> None:
        """Go on from what a snapshot kept."""
        classes = [KeyClasses.from_json(kept) for kept in stored["classes"]]
        self.classes = {kept.key_class: kept for kept in classes}
        self._codes = {key_class: np.array(codes, np.int64) for key_class, codes in stored["codes"]}
        self._counts = {
            (key_class, (start, end), number): Count(*counted)
            for key_class, start, end, number, *counted in stored["counts"]
        }
        self._settle()
        self._settled |= {key_class: list(shares) for key_class, shares in stored.get("shares", ())}
