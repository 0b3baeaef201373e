"""Durations as people write them, turned into whole microseconds.

A duration is a `datetime.timedelta`, 0, or text: amounts with fixed units one after the other, such as ``30 seconds``,
``5 min``, ``1h30min``, ``0.5 hours``. SQL's ``INTERVAL '1' MINUTE`` is understood too. A number alone is refused,
because it does not say whether seconds or microseconds are meant, and so are months and years, which have no fixed
length. Every duration that a user gives, in a query or as an argument, embedded or on Spark, is read here.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
from fractions import Fraction
from typing import Literal

from midstream.errors import QueryError, did_you_mean, shown

Duration = str | datetime.timedelta | Literal[0]

LARGEST = 2**63 - 1

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "µs": "microsecond",  # the micro sign
    "μs": "microsecond",  # the Greek letter
    "usec": "microsecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}
_PLURALS = ("usec", "msec", "sec", "min", "hr")
_MICROSECONDS = (
    {**_UNITS, **{f"{name}s": size for name, size in _UNITS.items()}}
    | {short: _UNITS[name] for short, name in _SHORT.items()}
    | {f"{short}s": _UNITS[_SHORT[short]] for short in _PLURALS}
)
_AMOUNT = re.compile(r"[+-]?(\d{1,25}(\.\d{0,25})?|\.\d{1,25})")
_PART = re.compile(r"\s*([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([^\W\d_]+)")
_INTERVAL = re.compile(r"\s*INTERVAL\b", re.IGNORECASE)
_IN_QUOTES = re.compile(r"'([^']*)'")

UNITS_TEXT = "microseconds, milliseconds, seconds, minutes, hours, days or weeks"
_RIGHT = "write a number and a unit, such as '30 seconds'"


def microseconds(amount: str, unit: str) -> int:
    """An amount and its unit, both as text, in microseconds; the amount may be signed and have decimals.

    >>> microseconds("1.5", "SECONDS"), microseconds("5", "min")
    (1500000, 300000000)
    """
    size = _MICROSECONDS.get(unit.lower())
    if size is None:
        what = "could be minutes or months" if unit.lower() == "m" else "is not a unit of fixed length"
        hint = did_you_mean(unit, [f"{name}s" for name in _UNITS])
        raise QueryError(f"'{unit}' {what}; {hint}write {UNITS_TEXT}")
    if not _AMOUNT.fullmatch(amount):
        raise QueryError(f"'{amount}' is not an amount of {unit.lower()}; write a number such as 10 or 0.5")
    exact = Fraction(amount) * size
    if exact.denominator != 1:
        raise QueryError(f"{amount} {unit.lower()} is not a whole number of microseconds; write one that is")
    return _within_limits(int(exact), f"{amount} {unit.lower()}")


def duration(value: Duration) -> int:
    """A duration in microseconds, 0 or more.

    >>> duration("1 minute 30 sec"), duration("500ms"), duration("INTERVAL '1' MINUTE")
    (90000000, 500000, 60000000)
    >>> duration(datetime.timedelta(milliseconds=5))
    5000
    >>> duration(30)
    Traceback (most recent call last):
    ...
    midstream.errors.QueryError: 30 has no unit; write text such as '30 seconds', or give a timedelta
    """
    length = parse_signed_duration(value)
    if length < 0:
        raise QueryError(f"{str(value)!r} is negative; write 0 seconds or more")
    return length


def parse_signed_duration(value: Duration) -> int:
    """As `duration`, but the amounts may be negative.

    >>> parse_signed_duration("-1 hour")
    -3600000000
    """
    if isinstance(value, datetime.timedelta):
        return _within_limits(int(value // datetime.timedelta(microseconds=1)), str(value))
    if isinstance(value, str):
        return _from_text(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or value != value or abs(value) == math.inf:
        raise QueryError(f"{shown(value)} is not a duration; write text such as '30 seconds', or give a timedelta")
    if value != 0:
        raise QueryError(f"{shown(value)} has no unit; write text such as '30 seconds', or give a timedelta")
    return 0


def split_duration(text: str) -> tuple[int | None, str]:
    """The duration that a text begins with, in microseconds, None if it begins with none, and what follows it.

    >>> split_duration("5 MINUTES EVERY 1 MINUTE"), split_duration("soon")
    ((300000000, 'EVERY 1 MINUTE'), (None, 'soon'))
    """
    parts = text
    if interval := _INTERVAL.match(text):
        parts = _IN_QUOTES.sub(r" \1 ", text[interval.end() :])
    total, position = 0, 0
    while match := _PART.match(parts, position):
        sign, amount, unit = match.groups()
        total += microseconds(sign + amount, unit)
        position = match.end()
    length = _within_limits(total, f"'{text}'") if position else None
    return length, " ".join(parts[position:].split())


def _from_text(text: str) -> int:
    length, rest = split_duration(text)
    if length is None or rest:
        if length is None and _AMOUNT.fullmatch(rest):
            raise QueryError(f"'{text}' has no unit; {_RIGHT}")
        raise QueryError(f"'{text}' is not a duration; {_RIGHT}")
    return length


def _within_limits(length: int, written: str) -> int:
    if abs(length) > LARGEST:
        raise QueryError(f"{written} is too long; the longest duration is {LARGEST} microseconds")
    return length


def duration_text(value: int) -> str:
    """Microseconds in the largest unit that they are a whole number of.

    >>> duration_text(600_000_000), duration_text(1), duration_text(0)
    ('10 minutes', '1 microsecond', '0 seconds')
    """
    if value == 0:
        return "0 seconds"
    name, size = next((name, size) for name, size in reversed(_UNITS.items()) if value % size == 0)
    amount = value // size
    return f"{amount} {name}" if amount == 1 else f"{amount} {name}s"
