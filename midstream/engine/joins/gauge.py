"""Whether it pays to look for partners before rows and combinations are joined.

A gauge weighs this for one kind of check, in *lookups*: the time that it takes to look at one entry.

* Checks cost `call_cost` for each call, most of whose time is not spent on rows, `row_cost` for each row, and
  `wait_cost` for each that is put aside or taken back.
* They save the work of joining what has no partner: the entries that joins look at, and `COMBINATION` for each
  combination that they make and store. They save nothing if a partner comes later on, since what wakes has to be
  joined after all.

With ``demand="auto"`` a gauge begins at *rest*: nothing is checked, and nothing waits because of it. What joins do
shows how much there is to save, if nothing had a partner. Only if that is more than the checks would cost is a sample
checked, and only if so much of it has no partner that checks pay does the gauge wake up. One whose checks cost more
than they save comes to rest again. Each time that it stays at rest, more has to pass until it is reviewed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from midstream.state.window import BaseWindow

#: What it takes to make and store a combination, in lookups.
COMBINATION = 16
#: The most rows that are checked as a sample.
SAMPLE = 128
#: How many rows count as much as one chunk more until the next review.
_ROWS_A_STEP = 512
_LONGEST_PAUSE = 1024
#: How much what was found before counts beside what is found now.
_KEPT_SHARE = 31 / 32


class Clock:
    """Counts in steps how far chunks lead to the next review: each is one, and so many rows that enter are another.

    It is asked after every chunk, also while all gauges rest: it reads what the windows count anyway.
    """

    def __init__(self, windows: Sequence[BaseWindow]):
        self._windows = windows
        self.begin()

    def begin(self) -> None:
        """Nothing has come so far but what is in the windows."""
        self.chunks = self.steps = 0
        self._first = sum(window.tail for window in self._windows)

    def count_chunk(self) -> int:
        """One more chunk has come; the step that this is."""
        self.chunks += 1
        rows = -self._first
        for window in self._windows:
            rows += window.tail
        self.steps = self.chunks + rows // _ROWS_A_STEP
        return self.steps


class Load(NamedTuple):
    """What would have been checked since the last review: rows or combinations, in so many chunks."""

    rows: int
    chunks: int


class Gauge:
    """Counts what one kind of check finds, which takes so many `calls` a chunk; one that `is_adaptive` may rest."""

    #: After so many checks it decides anew; of a sample, so many are enough.
    least_checks = 512
    least_sampled = 32
    #: What joining one row takes is found from so many.
    least_joined = 256
    call_cost = 1500
    row_cost = 4
    wait_cost = 32
    #: How much more than it costs has to be expected before it wakes up: it is not known how much will wake.
    margin = 2.0
    #: After how many steps it is reviewed for the first time.
    first_pause = 8

    def __init__(self, is_adaptive: bool, calls: int):
        self._is_adaptive = is_adaptive
        self._calls_a_chunk = calls
        self.is_resting = is_adaptive
        self.pause = self.first_pause
        self._forget()
        self._work = self._joined = 0.0
        self._recent_checks = self._recent_hits = 0.0
        #: What joining one row or combination takes; None as long as that is not known.
        self.worth: float | None = None

    def _forget(self) -> None:
        self._calls = self._checks = self._hits = self._woken = 0

    def begin(self, work: float, joined: int) -> None:
        """What was done so far does not count."""
        self._work, self._joined = work, joined

    def note_work(self, work: float, joined: int) -> None:
        """So many rows or combinations have been joined in all, which has taken so many lookups."""
        if work < self._work:  # of another plan
            self.begin(work, joined)
        elif joined - self._joined >= self.least_joined:
            self.worth = (work - self._work) / (joined - self._joined)
            self._work, self._joined = work, joined

    @property
    def hit_share(self) -> float:
        """How many of those checked in the last while had no partner, as a share."""
        return self._recent_hits / max(self._recent_checks, 1.0)

    def count(self, checks: int, hits: int, calls: int = 1) -> None:
        """So many were checked in some calls, of which so many have no partner."""
        self._recent_checks = _KEPT_SHARE * self._recent_checks + checks
        self._recent_hits = _KEPT_SHARE * self._recent_hits + hits
        self._calls += calls
        self._checks += checks
        self._hits += hits

    def count_woken(self, woken: int, calls: int = 1) -> None:
        """For so many of those that waited a partner has come, as some calls have found."""
        self._calls += calls
        self._woken += woken

    # At rest ---------------------------------------------------------------------------------------------------------

    def could_pay(self, load: Load) -> bool:
        """Whether checks would pay if nothing had a partner. If not, it is reviewed later."""
        could = self._would_pay(load, 1.0)
        if not could:
            self._pause_longer()
        return could

    @property
    def has_sampled(self) -> bool:
        """Whether enough was checked to decide by."""
        return self._checks >= self.least_sampled

    def wake_up(self, load: Load) -> bool:
        """Whether checks would pay going by a sample; then it rests no more. If not, it is reviewed later."""
        is_worth_it = self._would_pay(load, self._hits / self._checks)
        self._forget()
        self.is_resting = not is_worth_it
        if not is_worth_it:
            self._pause_longer()
        return is_worth_it

    def _would_pay(self, load: Load, share: float) -> bool:
        calls = load.chunks * self._calls_a_chunk
        cost = calls * self.call_cost + load.rows * (self.row_cost + share * self.wait_cost)
        return self.worth is not None and share * load.rows * (1 + self.worth) >= self.margin * cost

    def _pause_longer(self) -> None:
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)

    # At work ---------------------------------------------------------------------------------------------------------

    @property
    def is_ripe(self) -> bool:
        """Whether it works, and has checked enough to decide whether to go on."""
        return self._is_adaptive and not self.is_resting and self._checks >= self.least_checks

    def cease(self) -> bool:
        """Whether checks have ceased to pay; then it rests, and what waits has to go on."""
        if self.worth is None:
            return False
        cost = self._calls * self.call_cost + self._checks * self.row_cost
        cost += (self._hits + self._woken) * self.wait_cost
        saved = (self._hits - self._woken) * (1 + self.worth)
        self._forget()
        self.is_resting = saved < cost
        if self.is_resting:
            self._pause_longer()
        return self.is_resting
