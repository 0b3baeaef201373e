"""A virtual clock for figures over time: event time, plus measured processing time where the engine lags.

Rows arrive at their event times, so an experiment over an hour of event time does not take an hour: while the engine
keeps up, the clock follows the rows; when a push takes longer than the time to the next one, the clock falls behind
them, and what comes out is late by that much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class VirtualClock:
    """Seconds since the start of event time.

    >>> clock = VirtualClock()
    >>> clock.wait_for(1.0)         # rows of the first second are there
    >>> clock.spend(0.25)           # and take a quarter of a second
    >>> clock.now
    1.25
    >>> clock.wait_for(1.1)         # the next rows have been waiting
    >>> clock.now, round(clock.lag(1.1), 2)
    (1.25, 0.15)
    """

    def __init__(self, start: float = 0.0, timer: Callable[[], float] = time.perf_counter):
        self.now = start
        self._timer = timer

    def wait_for(self, event_time: float) -> None:
        """Move on to this event time, at which the next rows arrive, unless the clock is past it."""
        self.now = max(self.now, event_time)

    def spend(self, seconds: float) -> None:
        """Move on by this time of processing."""
        self.now += seconds

    def lag(self, event_time: float) -> float:
        """How far the engine is behind rows of this event time."""
        return max(0.0, self.now - event_time)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Move on by the time that the body takes."""
        began = self._timer()
        yield
        self.spend(self._timer() - began)
