"""Dates with times in text -> moments in UTC, alike on every version of Python."""

from __future__ import annotations

import datetime
import re

_FRACTION = re.compile(r"\.(\d{1,6})(?!\d)")


def moment(text: str) -> datetime.datetime:
    """The moment that a text such as ``2026-01-31 12:00:00.5`` tells, without a zone and in UTC; else a ValueError.

    >>> moment("2026-01-31 12:00:00.5+01:00")
    datetime.datetime(2026, 1, 31, 11, 0, 0, 500000)
    """
    clean = text.strip()
    clean = clean[:-1] + "+00:00" if clean.endswith(("Z", "z")) else clean
    clean = _FRACTION.sub(lambda digits: "." + digits.group(1).ljust(6, "0"), clean)
    found = datetime.datetime.fromisoformat(clean)
    return found if found.tzinfo is None else found.astimezone(datetime.timezone.utc).replace(tzinfo=None)
