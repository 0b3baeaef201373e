"""Amounts of memory as people write them, turned into bytes."""

from __future__ import annotations

import numbers
import re
from fractions import Fraction

from midstream.errors import EngineError, did_you_mean, shown

#: The least that a limit may be: below it there is no room for the windows that every engine begins with.
LEAST_LIMIT = 1_000_000

_MOST = 2**63 - 1

_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_AMOUNT = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]+)\s*")
_RIGHT = "give a number of bytes, or text such as '2GB' (2,000,000,000 bytes) or '2GiB'"


def read_limit(value: object, call: str = "engine") -> int:
    """A memory limit in bytes.

    >>> read_limit("2GB"), read_limit("2GiB"), read_limit("1.5 MB"), read_limit(4_000_000)
    (2000000000, 2147483648, 1500000, 4000000)
    >>> read_limit("2 Gb/s")
    Traceback (most recent call last):
    midstream.errors.EngineError: engine: memory_limit='2 Gb/s' is no amount of memory; give a number of bytes, or ...
    """
    if isinstance(value, str):
        limit = _read_text(value, call)
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
        limit = int(value)
    else:
        raise EngineError(f"{call}: memory_limit={shown(value)} is no amount of memory; {_RIGHT}")
    if limit < LEAST_LIMIT:
        raise EngineError(f"{call}: memory_limit={shown(value)} is below the least, {LEAST_LIMIT:,} bytes; {_RIGHT}")
    if limit > _MOST:
        raise EngineError(f"{call}: memory_limit={shown(value)} is more than a machine has; for no limit, leave it out")
    return limit


def _read_text(text: str, call: str) -> int:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise EngineError(f"{call}: memory_limit={shown(text)} is no amount of memory; {_RIGHT}")
    amount, unit = found.groups()
    if unit.lower() not in _UNITS:
        hint = did_you_mean(unit, ["GB", "MB", "KB", "TB", "GiB", "MiB", "KiB", "TiB"])
        raise EngineError(f"{call}: memory_limit={shown(text)} has no unit of memory; {hint}{_RIGHT}")
    return int(Fraction(amount) * _UNITS[unit.lower()])
