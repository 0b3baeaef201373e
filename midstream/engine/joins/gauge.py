"""Whether it pays to look for partners before rows and combinations are joined.

Looking costs a call for each chunk and a lookup for each row. What it saves is the work of joining what has no partner:
the entries that a probe looks at, on average. It saves nothing if a partner comes later on, since what wakes has to be
joined after all. A gauge counts all this for one kind of check. With ``demand="auto"``, one whose checks cost more than
they save *rests*: nothing waits because of it, and only a sample is checked, ever more rarely, until that would pay.
"""

from __future__ import annotations

_LONGEST_PAUSE = 4096


class Gauge:
    """Counts what one kind of check finds; one that `is_adaptive` may come to rest."""

    #: After so many checks it decides anew, and while it rests after so many.
    least_checks = 512
    least_sampled = 128
    #: What a call costs, in lookups: most of its time is not spent on rows.
    call_cost = 256
    #: Of how many chunks one is checked, at first, while it rests.
    first_pause = 128

    def __init__(self, is_adaptive: bool):
        self._is_adaptive = is_adaptive
        self.is_resting = False
        self._calls = self._checks = self._hits = self._woken = 0
        self._pause = self.first_pause
        self._passed_over = 0

    def asks(self, chunks: int = 1) -> bool:
        """Whether what comes now is to be checked: always, or now and then while it rests.

        `chunks` are those that have come since it was asked last, this one included.
        """
        if not self.is_resting:
            return True
        self._passed_over += chunks
        if self._passed_over < self._pause:
            return False
        self._passed_over = 0
        return True

    @property
    def asks_in(self) -> int:
        """In how many chunks it asks again."""
        return self._pause - self._passed_over if self.is_resting else 1

    def count(self, checks: int, hits: int) -> None:
        """So many were checked in one call, of which so many have no partner."""
        self._calls += 1
        self._checks += checks
        self._hits += hits

    def count_woken(self, woken: int) -> None:
        """For so many of those that waited a partner has come."""
        self._woken += woken

    def decide(self, worth: float) -> bool:
        """Decide, after enough checks, whether they pay, if joining one row or combination is worth so many lookups.

        True if they have ceased to: what waits has to go on.
        """
        if not self._is_adaptive or self._checks < (self.least_sampled if self.is_resting else self.least_checks):
            return False
        cost = self._calls * self.call_cost + self._checks
        saved = (self._hits - self._woken) * (1 + worth)
        self._calls = self._checks = self._hits = self._woken = 0
        if self.is_resting:
            # Nothing waits now, so it is not known how many would wake: more is asked for than to go on.
            self.is_resting = saved < 2 * cost
            self._pause_longer()
            return False
        if saved >= cost:
            self._pause = self.first_pause
            return False
        self.is_resting, self._passed_over = True, 0
        self._pause_longer()
        return True

    def _pause_longer(self) -> None:
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
