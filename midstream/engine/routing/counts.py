"""A count of rows that were sampled and of the partners that they found, which forgets what is old.

It forgets slowly, so that a rate is based on many rows. A sample that what was counted before cannot explain tells that
the rows have changed: then all of that is forgotten at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

#: From one input to another.
Direction = tuple[int, int]

#: Sampled rows after which what was counted before them weighs half.
HALF_LIFE = 256
#: A sample is a surprise if it is off by more than so many standard deviations, and by more than this factor.
_DEVIATIONS, _FACTOR = 4.0, 1.5
#: A settled rate holds while the rate is within this factor of it, or within so many deviations of what it is based on;
#: rates below `_NOTHING` are all the same.
_TOLERANCE, _TOLERATED_DEVIATIONS = 1.25, 3.0
_NOTHING = 0.01
#: So many partners tell as much of a rate as many rows do.
_MANY_FOUND = 64


@dataclass
class Count:
    """Rows that were sampled in one direction, what they found, and the rate that decisions go by.

    `window` is how many rows there were to be found when the last of them were sampled; what was found before counts as
    if there had been as many then.
    """

    sampled: float = 0.0
    found: float = 0.0
    settled: float | None = None
    window: int = 0

    @property
    def has_found_many(self) -> bool:
        """Whether a rate can be based on it, however few rows were sampled."""
        return self.found >= _MANY_FOUND

    def add(self, rows: int, found: float, window: int) -> bool:
        """Count a sample of what was found among so many rows; whether it was a surprise."""
        if self.window and window:
            self.found *= window / self.window
        self.window = window
        is_surprise = self._is_surprise(rows, found)
        if is_surprise:
            self.sampled = self.found = 0.0
        kept = 0.5 ** (rows / HALF_LIFE)
        sampled, total = self.sampled * kept + rows, self.found * kept + found
        # A large sample counts for no more than many small ones, so that it is forgotten as soon.
        share = min(1.0, 2 * HALF_LIFE / sampled)
        self.sampled, self.found = sampled * share, total * share
        return is_surprise

    def _is_surprise(self, rows: int, found: float) -> bool:
        if self.sampled == 0:
            return False
        less, more = sorted((found, self.found / self.sampled * rows))
        return more > _FACTOR * less and more - less > _DEVIATIONS * sqrt(more)

    def has_moved(self, rate: float, found: float) -> bool:
        """Whether a rate that is based on so many partners is another than the settled one."""
        if self.settled is None:
            return True
        ratio = max(rate, _NOTHING) / max(self.settled, _NOTHING)
        tolerance = max(_TOLERANCE, 1 + _TOLERATED_DEVIATIONS / sqrt(max(found, 1.0)))
        return not 1 / tolerance <= ratio <= tolerance
