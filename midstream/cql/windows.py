"""Windows: how long a row of an input is valid, one class for each kind, and the words that stand for one in a query.

``[RANGE 10 MINUTES]`` keeps a row for a time, ``[TUMBLE 5 MINUTES]`` in its bucket, ``[ROWS 100]`` until a hundred more
have come, ``[UNBOUNDED]`` for ever. A static table has a window of its own kind, which nobody writes.

Whoever needs to know how kinds differ asks a window. A new kind is a class here, which has to answer every question,
its words in `parse_window`, and an entry in `midstream.state.expiry`, where rows leave.
"""

from __future__ import annotations

import abc
import enum
import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from midstream.cql.durations import LARGEST, duration, duration_text, split_duration
from midstream.errors import QueryError

Times = NDArray[np.int64]

WINDOWS_TEXT = "write [RANGE 10 MINUTES], [TUMBLE 5 MINUTES], [ROWS 100] or [UNBOUNDED]"
TUMBLE_TEXT = "write [TUMBLE 5 MINUTES] after a stream's name in FROM; a result begins with its bucket, at valid_from"

MILLISECOND = 1_000
_FIVE_MINUTES = 300 * 1_000 * MILLISECOND
#: Functions that stand for windows of time in other systems.
WINDOW_FUNCTIONS = frozenset({
    "window", "window_time", "session_window", "tumble", "tumble_start", "tumble_end", "hop", "hop_start", "hop_end",
    "session", "session_start", "session_end", "slide",
})  # fmt: skip
UNBOUNDED = "UNBOUNDED"
_SLIDING_KINDS = ("HOP", "HOPPING", "SLIDE", "SLIDING")
_OTHER_KINDS = ("SESSION", "WINDOW", "TUMBLING")
#: The words that a window begins with, in capitals, also those of windows that there are not.
WINDOW_WORDS = frozenset({"RANGE", "TUMBLE", "ROWS", UNBOUNDED, *_SLIDING_KINDS, *_OTHER_KINDS})


class WindowKind(enum.Enum):
    """The kinds of windows; a value is what stands in snapshots and checkpoints."""

    RANGE = "range"
    TUMBLE = "tumble"
    ROWS = "rows"
    UNBOUNDED = "unbounded"
    STATIC = "static"


@dataclass(frozen=True)
class Window(abc.ABC):
    """How long a row of an input is valid. What `size` means depends on the kind; 0 where there is none."""

    kind: ClassVar[WindowKind]
    #: Whether these are the rows of a static table, which are there from the start.
    is_static: ClassVar[bool] = False
    #: Whether the validity of each row ends at a time of its own, as long after its event time as that of all others.
    slides: ClassVar[bool] = False

    size: int = 0

    @property
    @abc.abstractmethod
    def text(self) -> str:
        """The window as it stands between brackets, and so in messages."""

    @property
    @abc.abstractmethod
    def counts_rows(self) -> bool:
        """Whether later rows of the stream push a row out, so that all rows need a place in one order."""

    @property
    @abc.abstractmethod
    def ends_by_time(self) -> bool:
        """Whether a row's event time alone tells when its validity ends."""

    @property
    @abc.abstractmethod
    def never_ends(self) -> bool:
        """Whether a row stays valid for ever."""

    @property
    @abc.abstractmethod
    def expected_size(self) -> tuple[int, int]:
        """Sorts windows by the rows that they may hold, as long as nothing is known about the streams."""

    @abc.abstractmethod
    def intervals(self, times: Times) -> tuple[Times, Times]:
        """The first and last moments at which rows of these event times are valid; `LARGEST` where no time ends it.

        Rows whose event times are the first moments have the same intervals: a snapshot keeps only these.
        """

    @abc.abstractmethod
    def latest_time(self, end: int) -> int:
        """The latest event time of rows that are valid up to `end`."""

    def fits_into(self, step: int) -> bool:
        """Whether steps of so many microseconds end only where this window may be cut."""
        return True

    @abc.abstractmethod
    def covers(self, other: Window) -> bool:
        """Whether the rows that this window holds are all that `other` would hold, so that one can become the other."""

    @abc.abstractmethod
    def seconds(self, rows_per_second: float | None) -> float | None:
        """For how long a row stays if its stream has so many rows a second of event time; None if it takes the rate."""


@final
class RangeWindow(Window):
    """``[RANGE 10 MINUTES]``: a row is valid for `size` microseconds after its event time."""

    kind = WindowKind.RANGE
    slides = True
    counts_rows = False
    ends_by_time = True
    never_ends = False

    @property
    def text(self) -> str:
        return f"RANGE {duration_text(self.size).upper()}"

    @property
    def expected_size(self) -> tuple[int, int]:
        return 2, self.size

    def intervals(self, times: Times) -> tuple[Times, Times]:
        if len(times) and np.maximum.reduce(times) > LARGEST - self.size:
            return times, np.where(times > LARGEST - self.size, LARGEST, times + self.size)
        return times, times + self.size

    def latest_time(self, end: int) -> int:
        return LARGEST if end == LARGEST else end - self.size

    def covers(self, other: Window) -> bool:
        return other.kind is self.kind and other.size <= self.size

    def seconds(self, rows_per_second: float | None) -> float | None:
        return self.size / 1e6


@final
class TumbleWindow(Window):
    """``[TUMBLE 5 MINUTES]``: time is cut into buckets of `size` microseconds, and a row is valid in all of its own.

    Bucket n is ``[n * size, (n + 1) * size - 1]``. A bucket that would reach beyond the times there are ends with them.
    """

    kind = WindowKind.TUMBLE
    counts_rows = False
    ends_by_time = True
    never_ends = False

    @property
    def text(self) -> str:
        return f"TUMBLE {duration_text(self.size).upper()}"

    @property
    def expected_size(self) -> tuple[int, int]:
        return 2, self.size

    def intervals(self, times: Times) -> tuple[Times, Times]:
        into = times % self.size
        until = self.size - 1 - into
        starts = np.where(times < into - LARGEST, -LARGEST, times - into)
        return starts, np.where(times > LARGEST - until, LARGEST, times + until)

    def latest_time(self, end: int) -> int:
        return LARGEST if end == LARGEST else max((end + 1) // self.size * self.size - 1, -LARGEST)

    def fits_into(self, step: int) -> bool:
        """Whether a step is whole buckets: a count of half a bucket would be of rows that are valid beyond it."""
        return step % self.size == 0

    def covers(self, other: Window) -> bool:
        return other == self

    def seconds(self, rows_per_second: float | None) -> float | None:
        """At most: a row in the middle of its bucket stays half as long."""
        return self.size / 1e6


class _EndlessWindow(Window):
    """No time ends the validity of a row."""

    ends_by_time = False

    def intervals(self, times: Times) -> tuple[Times, Times]:
        return times, np.full(len(times), LARGEST)

    def latest_time(self, end: int) -> int:
        return LARGEST


@final
class RowsWindow(_EndlessWindow):
    """``[ROWS 100]``: a row is valid until `size` more rows of its stream have arrived."""

    kind = WindowKind.ROWS
    counts_rows = True
    never_ends = False

    @property
    def text(self) -> str:
        return f"ROWS {self.size}"

    @property
    def expected_size(self) -> tuple[int, int]:
        return 1, self.size

    def covers(self, other: Window) -> bool:
        return other.kind is self.kind and other.size <= self.size

    def seconds(self, rows_per_second: float | None) -> float | None:
        return None if rows_per_second is None else self.size / rows_per_second


@final
class UnboundedWindow(_EndlessWindow):
    """``[UNBOUNDED]``: a row is valid for ever."""

    kind = WindowKind.UNBOUNDED
    counts_rows = False
    never_ends = True
    text = UNBOUNDED
    expected_size = (3, 0)

    def covers(self, other: Window) -> bool:
        return other.kind is self.kind or other.ends_by_time

    def seconds(self, rows_per_second: float | None) -> float | None:
        return math.inf


@final
class StaticWindow(_EndlessWindow):
    """A name without a window: the rows of a static table are there from the start and for ever."""

    kind = WindowKind.STATIC
    is_static = True
    counts_rows = False
    never_ends = True
    text = "STATIC"
    expected_size = (0, 0)

    def covers(self, other: Window) -> bool:
        return other.kind is self.kind

    def seconds(self, rows_per_second: float | None) -> float | None:
        return math.inf


_WINDOWS: tuple[type[Window], ...] = (RangeWindow, TumbleWindow, RowsWindow, UnboundedWindow, StaticWindow)


def window_of(kind: WindowKind | str, size: int = 0) -> Window:
    """The window of a kind, or of the kind's value in a snapshot.

    >>> window_of("rows", 10)
    RowsWindow(size=10)
    >>> window_of("hopping", 10)
    Traceback (most recent call last):
    midstream.errors.QueryError: window: unknown kind 'hopping'; kinds: range, tumble, rows, unbounded, static
    """
    name = kind.value if isinstance(kind, WindowKind) else kind
    for found in _WINDOWS:
        if found.kind.value == name:
            return found(size)
    kinds = ", ".join(known.kind.value for known in _WINDOWS)
    raise QueryError(f"window: unknown kind {name!r}; kinds: {kinds}")


def parse_window(words: str) -> Window:
    """A window from what stands between its brackets.

    >>> parse_window("RANGE 1.5 SECONDS")
    RangeWindow(size=1500000)
    >>> parse_window("RANGE INTERVAL '1' MINUTE").text
    'RANGE 1 MINUTE'
    >>> parse_window("rows 10")
    RowsWindow(size=10)
    """
    kind, _, size = words.partition(" ")
    if kind.upper() == UNBOUNDED and not size:
        return UnboundedWindow()
    if kind.upper() == "RANGE":
        if size.upper() == UNBOUNDED:
            return UnboundedWindow()
        return RangeWindow(_one_length(words, size))
    if kind.upper() == "TUMBLE":
        return _tumble(words, size)
    if kind.upper() == "ROWS":
        if not (size.isascii() and size.isdigit()) or len(size) > 19 or not 0 < int(size) <= LARGEST:
            raise QueryError(f"ROWS takes a whole number of rows, at least 1, not '{size}'")
        return RowsWindow(int(size))
    if kind.upper() in _SLIDING_KINDS:
        raise QueryError(f"a {kind.upper()} window is not supported; {_sliding_text(_FIVE_MINUTES)}")
    if kind.upper() in _OTHER_KINDS:
        raise QueryError(f"a {kind.upper()} window is not supported; {TUMBLE_TEXT}")
    raise QueryError(f"'[{words}]' is not a window")


def _one_length(words: str, written: str) -> int:
    """The length of a window, which is all that may stand behind its kind."""
    length, rest = split_duration(written)
    if length is not None and rest:
        raise QueryError(f"'[{words}]' has '{rest}' after its length; {_sliding_text(length)}")
    return duration(written)


def _sliding_text(length: int) -> str:
    """What to write instead of a window that moves on by a length of its own."""
    size = duration_text(length).upper()
    return (
        f"write [TUMBLE {size}] for buckets that do not overlap, or [RANGE {size}] for a window that slides with time"
    )


def _tumble(words: str, written: str) -> TumbleWindow:
    size = _one_length(words, written)
    if size == 0 or size % MILLISECOND:
        raise QueryError(f"TUMBLE takes whole milliseconds, at least 1, not '{written}'")
    return TumbleWindow(size)
