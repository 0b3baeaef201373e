"""When rows leave a base window: one class for each way, chosen by the window's kind here and nowhere else.

A window's description answers what follows from a row's event time alone (`midstream.cql.windows`). What needs the rows
that a window holds, and those that came after them, is asked here.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from midstream.cql.windows import Window, WindowKind
from midstream.errors import EngineError
from midstream.kernels import rings as kernels
from midstream.kernels.types import Ring
from midstream.state import rings
from midstream.state.indexes import Ints, SortedIndex


class ArrivalNumbers(NamedTuple):
    """Rings of a base window: each row's place in its stream, and the arrival number up to which it is valid."""

    ordinals: Ints
    ends: Ints


class Expiry(abc.ABC):
    """When the rows of one base window leave it. `first` is the id that the window's first row will get."""

    def __init__(self, window: Window, first: int):
        self._size = window.size

    def rows_came(  # noqa: B027
        self, ring: Ring, numbers: ArrivalNumbers, entered: int, first_ordinal: int, arrivals: Ints
    ) -> None:
        """Rows of the stream came, with these arrival numbers, from this place in the stream on.

        Those that have entered the window, now or after a time in which they were hidden, have the ids from `entered`
        on, in the order of the stream.
        """

    @abc.abstractmethod
    def first_kept(self, ring: Ring, horizon: int) -> int:
        """The first id that has to stay; all rows before it can never matter again."""

    @abc.abstractmethod
    def alive(self, ring: Ring, horizon: int) -> Ints | None:
        """The ids of all rows that still matter; None if no dead row can stand behind a live one."""

    @abc.abstractmethod
    def still_valid(self, ends: Ints, ordinals: Ints | None, horizon: int, next_ordinal: int) -> NDArray[np.bool_]:
        """Which of the rows of a snapshot matter, if the stream's next row has the place `next_ordinal`."""


class TimeExpiry(Expiry):
    """A row leaves when the horizon has passed its end."""

    def first_kept(self, ring: Ring, horizon: int) -> int:
        return int(kernels.first_alive(ring.ends, ring.head, ring.tail, horizon))

    def alive(self, ring: Ring, horizon: int) -> Ints | None:
        ids: Ints = kernels.alive(ring.ends, ring.head, ring.tail, horizon)
        return ids

    def still_valid(self, ends: Ints, ordinals: Ints | None, horizon: int, next_ordinal: int) -> NDArray[np.bool_]:
        return ends >= horizon


class CountExpiry(Expiry):
    """A row leaves, between two pushes, when so many later rows of its stream have come.

    Rows that were hidden enter behind later rows of their stream. They are closed through an index on their places in
    the stream; all others are closed one after the other.
    """

    def __init__(self, window: Window, first: int):
        super().__init__(window, first)
        self._first_open = first
        self._highest = -1
        self._late = SortedIndex(0)

    def rows_came(self, ring: Ring, numbers: ArrivalNumbers, entered: int, first_ordinal: int, arrivals: Ints) -> None:
        ordinals = rings.read(numbers.ordinals, entered, ring.tail)
        if len(ordinals):
            late = ordinals[: np.searchsorted(ordinals, self._highest)]
            self._late.insert(entered, late, late, late)
            self._highest = max(self._highest, int(ordinals[-1]))
        if self._late.run_count and len(arrivals):
            self._close_late(ring, numbers, first_ordinal, arrivals)
        open_rows = (max(self._first_open, ring.head), ring.tail)
        self._first_open = kernels.close_rows(
            numbers.ordinals, numbers.ends, open_rows, self._size, first_ordinal, arrivals
        )

    def _close_late(self, ring: Ring, numbers: ArrivalNumbers, first_ordinal: int, arrivals: Ints) -> None:
        has_successor = first_ordinal + len(arrivals) - self._size
        found = self._late.find(ring, np.array([first_ordinal - self._size]), np.array([has_successor - 1]))
        kernels.close_late_rows(numbers.ordinals, numbers.ends, found, self._size, first_ordinal, arrivals)
        self._late.forget(ring.head, ring.tail)

    def first_kept(self, ring: Ring, horizon: int) -> int:
        return max(self._first_open, ring.head)

    def alive(self, ring: Ring, horizon: int) -> Ints | None:
        return None

    def still_valid(self, ends: Ints, ordinals: Ints | None, horizon: int, next_ordinal: int) -> NDArray[np.bool_]:
        assert ordinals is not None, "a window that counts rows keeps their places"
        return ordinals >= next_ordinal - self._size


class NoExpiry(Expiry):
    """A row stays for ever."""

    def first_kept(self, ring: Ring, horizon: int) -> int:
        return ring.head

    def alive(self, ring: Ring, horizon: int) -> Ints | None:
        return None

    def still_valid(self, ends: Ints, ordinals: Ints | None, horizon: int, next_ordinal: int) -> NDArray[np.bool_]:
        return np.ones(len(ends), np.bool_)


_EXPIRIES: dict[WindowKind, type[Expiry]] = {
    WindowKind.RANGE: TimeExpiry,
    WindowKind.TUMBLE: TimeExpiry,
    WindowKind.ROWS: CountExpiry,
    WindowKind.UNBOUNDED: NoExpiry,
    WindowKind.STATIC: NoExpiry,
}


def expiry_of(window: Window, first: int) -> Expiry:
    """How rows leave a window whose first row will get the id `first`."""
    if window.kind not in _EXPIRIES:
        known = ", ".join(kind.name for kind in _EXPIRIES)
        raise EngineError(f"window: it is not known when rows of [{window.text}] leave; kinds with a rule: {known}")
    return _EXPIRIES[window.kind](window, first)
