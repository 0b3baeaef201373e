"""Dates with times in text -> moments in UTC, alike on every version of Python, and back."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pyarrow as pa

_FRACTION = re.compile(r"\.(\d{1,6})(?!\d)")


def parse_moment(text: str) -> datetime.datetime:
    """The moment that a text such as ``2026-01-31 12:00:00.5`` tells, without a zone and in UTC; else a ValueError.

    >>> parse_moment("2026-01-31 12:00:00.5+01:00")
    datetime.datetime(2026, 1, 31, 11, 0, 0, 500000)
    """
    clean = text.strip()
    clean = clean[:-1] + "+00:00" if clean.endswith(("Z", "z")) else clean
    clean = _FRACTION.sub(lambda digits: "." + digits.group(1).ljust(6, "0"), clean)
    found = datetime.datetime.fromisoformat(clean)
    return found if found.tzinfo is None else found.astimezone(datetime.timezone.utc).replace(tzinfo=None)


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
