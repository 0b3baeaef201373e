"""Durations as people write them, turned into whole microseconds.

A duration is an integer of microseconds, a `datetime.timedelta`, or text: amounts with fixed units one after the
other, such as ``30 seconds``, ``500 ms``, ``0.5 hours`` or ``1 minute 30 seconds``. Months and years have no fixed
length and are refused.
"""

from __future__ import annotations

import datetime
import re
from fractions import Fraction

from midstream.errors import QueryError

Duration = int | str | datetime.timedelta

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
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_MICROSECONDS = {**_UNITS, **{f"{name}s": size for name, size in _UNITS.items()}} | {
    short: _UNITS[name] for short, name in _SHORT.items()
}
_AMOUNT = re.compile(r"[+-]?(\d{1,25}(\.\d{0,25})?|\.\d{1,25})")
_PART = re.compile(r"\s*([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)")

UNITS_TEXT = "microseconds, milliseconds, seconds, minutes, hours, days or weeks"


def microseconds(amount: str, unit: str) -> int:
    """An amount and its unit, both as text, in microseconds; the amount may be signed and have decimals.

    >>> microseconds("1.5", "SECONDS")
    1500000
    """
    size = _MICROSECONDS.get(unit.lower())
    if size is None:
        raise QueryError(f"'{unit}' is not a unit of fixed length; write {UNITS_TEXT}")
    if not _AMOUNT.fullmatch(amount):
        raise QueryError(f"'{amount}' is not an amount of {unit.lower()}; write a number such as 10 or 0.5")
    exact = Fraction(amount) * size
    if exact.denominator != 1:
        raise QueryError(f"{amount} {unit.lower()} is not a whole number of microseconds")
    if abs(exact) > LARGEST:
        raise QueryError(f"{amount} {unit.lower()} is too long; the longest duration is {LARGEST} microseconds")
    return int(exact)


def duration(value: Duration) -> int:
    """A duration in microseconds; the amounts in a text may be negative.

    >>> duration("1 minute 30 seconds")
    90000000
    >>> duration(datetime.timedelta(milliseconds=5))
    5000
    >>> duration("10")
    Traceback (most recent call last):
    ...
    midstream.errors.QueryError: '10' is not a duration; write a number and a unit, such as '30 seconds'
    """
    if isinstance(value, bool) or not isinstance(value, int | str | datetime.timedelta):
        raise QueryError(
            f"{value!r} is not a duration; give microseconds as an int, a timedelta, or text such as '30 seconds'"
        )
    if isinstance(value, datetime.timedelta):
        value = value // datetime.timedelta(microseconds=1)
    if isinstance(value, int):
        if abs(value) > LARGEST:
            raise QueryError(f"{value} is too long; the longest duration is {LARGEST} microseconds")
        return value
    total, position = 0, 0
    while match := _PART.match(value, position):
        sign, amount, unit = match.groups()
        total += microseconds(sign + amount, unit)
        position = match.end()
    if position == 0 or value[position:].strip():
        raise QueryError(f"'{value}' is not a duration; write a number and a unit, such as '30 seconds'")
    if abs(total) > LARGEST:
        raise QueryError(f"'{value}' is too long; the longest duration is {LARGEST} microseconds")
    return total


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
