"""The step of a query: how long the stretches of event time are whose results go out together.

Whatever looks at all results that are valid at a moment, as DISTINCT and groups do, gives its results out step by step,
and so does a query with buckets. A step is a whole number of milliseconds. Without one that is given it is the least
common multiple of all TUMBLE lengths, so that a bucket is never cut, or else a tenth of the longest RANGE window.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

from midstream.cql.durations import LARGEST, Duration, duration_text, parse_signed_duration
from midstream.cql.model import Query
from midstream.cql.sources import Entry
from midstream.cql.syntax import Source
from midstream.cql.windows import MILLISECOND, Window, WindowKind
from midstream.errors import QueryError, shown

_logger = logging.getLogger("midstream")

#: A step is at least the longest window divided by this: each of its steps costs something.
MOST_STEPS = 10_000
#: A step of this length that nobody asked for is worth a warning.
LONG_STEP = 3_600_000 * MILLISECOND
_MINUTE = 60_000 * MILLISECOND


class _Windowed(Protocol):
    """What has a window: an entry of FROM, or an input of a query."""

    @property
    def alias(self) -> str: ...

    @property
    def window(self) -> Window: ...


_Any = TypeVar("_Any", bound=_Windowed)


@dataclass(frozen=True)
class Step:
    """The length of a step in microseconds, None for a query without steps, and whether the user gave it."""

    length: int | None = None
    is_given: bool = False


def read_step(source: Source, entries: Sequence[Entry], operator: str | None, given: Duration | None) -> Step:
    """The step of a query over some entries; `operator` is what needs one, such as GROUP BY, if something does."""
    tumbling = [entry for entry in entries if entry.window.kind is WindowKind.TUMBLE]
    operator = operator or (f"[{tumbling[0].window.text}]" if tumbling else None)
    if operator is None:
        if given is not None:
            _refuse(given, "is of no use: results of a plain join go out at once", "leave it out")
        return Step()
    counted = next((entry for entry in entries if entry.window.counts_rows), None)
    if counted is not None:
        which = f"[{counted.window.text}] of '{counted.alias}'"
        what = f"{operator} does not go with {which}, whose rows leave when others come and not at a time"
        raise source.error(counted.node, what, "write a RANGE, TUMBLE or UNBOUNDED window")
    multiple = math.lcm(*(entry.window.size for entry in tumbling))
    if multiple > LARGEST:
        lengths = " and ".join(dict.fromkeys(f"[{entry.window.text}]" for entry in tumbling))
        what = f"{lengths} have no common multiple that is a time"
        raise source.error(tumbling[-1].node, what, "write lengths that are multiples of each other")
    if given is None:
        return Step(_default(source, entries, operator, multiple if tumbling else None))
    return Step(_check(given, entries, multiple), is_given=True)


def warn_of_long_step(query: Query) -> None:
    """Log a warning if results wait for hours because a window is long and nobody has said what the step is."""
    tumbles = any(relation.window.kind is WindowKind.TUMBLE for relation in query.inputs)
    longest = _longest(query.inputs)
    if query.step is None or query.step_is_given or query.step < LONG_STEP or tumbles or longest is None:
        return
    _logger.warning(
        "midstream: results go out in steps of %s, a tenth of [%s] of '%s', and wait until the watermark has passed "
        "the end of their step; to get them sooner, give a step, such as step=%r",
        duration_text(query.step),
        longest.window.text,
        longest.alias,
        duration_text(_round_up(_least(longest), _MINUTE)),
    )


def _default(source: Source, entries: Sequence[Entry], operator: str, multiple: int | None) -> int:
    longest = _longest(entries)
    if longest is None:
        entry = next(entry for entry in entries if not entry.window.is_static)
        what = f"{operator} over [{entry.window.text}] windows alone needs a step"
        raise source.error(entry.node, what, "say how often results go out: step='1 minute'")
    step = _round_up(longest.window.size, 10 * MILLISECOND) // 10 if multiple is None else multiple
    step = max(step, MILLISECOND)
    if step < _least(longest):
        what = f"the TUMBLE windows make a step of {duration_text(step)}, under a {MOST_STEPS:,}th of"
        right = f"give at least step={duration_text(_round_up(_least(longest), step))!r}"
        raise source.error(longest.node, f"{what} [{longest.window.text}] of '{longest.alias}'", right)
    return step


def _check(given: Duration, entries: Sequence[Entry], multiple: int) -> int:
    try:
        step = parse_signed_duration(given)
    except QueryError as error:
        raise QueryError(f"query: step: {error}") from None
    if step <= 0 or step % MILLISECOND:
        _refuse(given, "is not a whole number of milliseconds, at least 1", "give one, such as step='1 minute'")
    longest = _longest(entries)
    for entry in entries:
        if not entry.window.fits_into(step):
            what = f"is not a multiple of [{entry.window.text}] of {entry.alias!r}"
            least = multiple if longest is None else max(multiple, _least(longest))
            _refuse(given, what, f"give one, such as step={duration_text(_round_up(least, multiple))!r}")
    if longest is not None and step < _least(longest):
        what = f"is under a {MOST_STEPS:,}th of [{longest.window.text}] of {longest.alias!r}"
        _refuse(given, what, f"give at least step={duration_text(_round_up(_least(longest), multiple))!r}")
    return step


def _longest(entries: Sequence[_Any]) -> _Any | None:
    """The entry with the longest window that time ends."""
    return max(
        (entry for entry in entries if entry.window.ends_by_time), key=lambda entry: entry.window.size, default=None
    )


def _least(longest: _Windowed) -> int:
    """The shortest step beside a window, in whole milliseconds."""
    return _round_up(longest.window.size, MOST_STEPS * MILLISECOND) // MOST_STEPS


def _round_up(length: int, unit: int) -> int:
    return -(-length // unit) * unit


def _refuse(given: Duration, what: str, right: str) -> NoReturn:
    raise QueryError(f"query: step={shown(given)} {what}; {right}")
