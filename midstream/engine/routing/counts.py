"""A decaying count of rows that were sampled and of the partners that they found."""

from __future__ import annotations

from dataclasses import dataclass

#: From one input to another.
Direction = tuple[int, int]

#: Sampled rows after which what was counted before them weighs half.
HALF_LIFE = 64
#: A settled rate holds while the rate is within this factor of it; rates below `_NOTHING` are all the same.
_TOLERANCE = 1.25
_NOTHING = 0.01


@dataclass
class Count:
    """Rows that were sampled in one direction, what they found, and the rate that decisions go by."""

    sampled: float = 0.0
    found: float = 0.0
    settled: float | None = None

    def add(self, rows: int, found: float) -> None:
        kept = 0.5 ** (rows / HALF_LIFE)
        sampled, total = self.sampled * kept + rows, self.found * kept + found
        # A large sample counts for no more than many small ones, so that it is forgotten as soon.
        share = min(1.0, 2 * HALF_LIFE / sampled)
        self.sampled, self.found = sampled * share, total * share

    def settle(self, rate: float) -> bool:
        """Have decisions go by this rate, if it has moved; whether it has."""
        if self.settled is not None:
            ratio = max(rate, _NOTHING) / max(self.settled, _NOTHING)
            if 1 / _TOLERANCE <= ratio <= _TOLERANCE:
                return False
        self.settled = rate
        return True
