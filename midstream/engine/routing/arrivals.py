"""Which share of the rows that come is of each input, lately: what decisions about all inputs together go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Rows after which what came before them weighs half; but a chunk alone weighs no more than what leaves this share of
#: the others: inputs may well be pushed in turns.
_HALF_LIFE, _LEAST_KEPT = 4_096, 0.8
#: Shares hold until one of them is off by this factor; small ones are all the same.
_TOLERANCE, _NOTHING = 2.0, 0.02


class Arrivals:
    """Counts of rows by input that are forgotten bit by bit, and the shares that decisions go by.

    >>> arrivals = Arrivals()
    >>> arrivals.add({0: 30, 1: 10})
    >>> arrivals.settle(), arrivals.shares
    (True, {0: 0.75, 1: 0.25})
    >>> arrivals.add({0: 20, 1: 8})
    >>> arrivals.settle()
    False
    """

    def __init__(self) -> None:
        self._rows: dict[int, float] = {}
        self.shares: Mapping[int, float] = {}

    def add(self, rows: Mapping[int, int]) -> None:
        """So many rows of each input have come."""
        kept = max(_LEAST_KEPT, 0.5 ** (sum(rows.values()) / _HALF_LIFE))
        inputs = sorted(self._rows.keys() | rows.keys())
        self._rows = {number: self._rows.get(number, 0.0) * kept + rows.get(number, 0) for number in inputs}

    def settle(self, whatever_moved: bool = False) -> bool:
        """Take over the shares if one has moved, or in any case; whether they were taken over."""
        total = sum(self._rows.values())
        found = {number: rows / total for number, rows in self._rows.items() if rows}
        has_moved = whatever_moved or any(
            not 1 / _TOLERANCE <= (share + _NOTHING) / (self.shares.get(number, 0.0) + _NOTHING) <= _TOLERANCE
            for number, share in found.items()
        )
        if has_moved:
            self.shares = found
        return has_moved

    def to_json(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {"rows": sorted(self._rows.items()), "shares": sorted(self.shares.items())}

    def from_json(self, stored: Mapping[str, Any]) -> None:
        """Go on from what a snapshot kept."""
        self._rows, self.shares = dict(stored["rows"]), dict(stored["shares"])
