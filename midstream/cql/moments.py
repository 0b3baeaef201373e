"""Texts -> days and moments in UTC, alike in literals and in CAST, and back."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pyarrow as pa

#: What may stand around a date or a moment: blanks and control characters.
BLANKS = "".join(map(chr, range(33))) + "\x7f"
#: How a date is written, and a moment, for Python as well as for Arrow.
DATE_PATTERN = r"(?s)^(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?$"
MOMENT_PATTERN = (
    r"^(?P<year>[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T]"
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?)?)?"
    r" ?(?:Z|UTC|GMT)?(?:(?P<sign>[+-])(?P<zone_hour>[0-9]{1,2}):?(?P<zone_minute>[0-9]{2})?)?)?)?)?$"
)
_FURTHEST_ZONE = datetime.timedelta(hours=18)


def parse_day(text: str) -> datetime.date:
    """The day that a text such as ``2026-1-31`` tells, or a ValueError; what follows a blank or a T does not count.

    >>> parse_day(" 2026-1-31"), parse_day("2026")
    (datetime.date(2026, 1, 31), datetime.date(2026, 1, 1))
    """
    return _day(_match(DATE_PATTERN, text))


def parse_moment(text: str) -> datetime.datetime:
    """The moment that a text such as ``2026-01-31 12:00:00.5`` tells, without a zone and in UTC; else a ValueError.

    >>> parse_moment("2026-01-31 12:00:00.5+01:00"), parse_moment("2026-1-31 1:2")
    (datetime.datetime(2026, 1, 31, 11, 0, 0, 500000), datetime.datetime(2026, 1, 31, 1, 2))
    """
    parts = _match(MOMENT_PATTERN, text)
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    micros = int((parts["fraction"] or "")[:6].ljust(6, "0"))
    minutes = int(parts["zone_minute"] or 0)
    ahead = datetime.timedelta(hours=int(parts["zone_hour"] or 0), minutes=minutes)
    if ahead > _FURTHEST_ZONE or minutes >= 60:
        raise ValueError(f"no zone is as far from UTC as in {text!r}")
    shown = datetime.datetime.combine(_day(parts), datetime.time(hour, minute, second, micros))
    return shown + ahead if parts["sign"] == "-" else shown - ahead


def _day(parts: dict[str, str | None]) -> datetime.date:
    year, month, day = (int(parts[name] or 1) for name in ("year", "month", "day"))
    return datetime.date(year, month, day)


def _match(pattern: str, text: str) -> dict[str, str | None]:
    found = re.fullmatch(pattern, text.strip(BLANKS))
    if found is None:
        raise ValueError(f"{text!r} is no date or time")
    return found.groupdict()


def moment_text(microseconds: int, type: pa.DataType) -> str:
    """An event time as the query's streams tell it: a date with time, in their zone, or a plain number.

    >>> moment_text(1_772_355_600_000_000, pa.timestamp("us")), moment_text(25, pa.int64())
    ('2026-03-01 09:00:00', '25')
    """
    if not pa.types.is_timestamp(type):
        return str(microseconds)
    try:
        return str(pa.scalar(microseconds, type).as_py())
    except (ValueError, OverflowError):  # years that Python does not know
        return f"{np.datetime64(microseconds, 'us')}Z"
