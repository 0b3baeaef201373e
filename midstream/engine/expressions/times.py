"""Fields of timestamps, and truncation; timestamps are integers of microseconds here, in UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from midstream.cql.model import Call, Literal
from midstream.engine.expressions.numbers import without
from midstream.engine.expressions.vectors import Kernel, Vector

SECOND = 1_000_000
DAY = 86_400 * SECOND
_THURSDAY = 3  # 1970-01-01 was one: three days after a Monday, four after a Sunday


def time_field(call: Call) -> Kernel:
    """The kernel of YEAR, MONTH, DAY, HOUR and so on."""
    field = _FIELDS[call.function]

    def extract(a: Vector) -> Vector:
        return field(a[0]).astype(np.int32), a[1]

    return extract


def _in(x: Any, unit: str) -> Any:
    """Whole years, months or days since 1970, rounded down; NumPy knows the calendar, and no moment -2**63."""
    return np.asarray(x // DAY).view("M8[D]").astype(f"M8[{unit}]")


def _start(units: Any) -> Any:
    """Where years, months or days begin, in microseconds, which may wrap around before the first year of all."""
    return units.astype("M8[D]").astype(np.int64) * DAY


def _day(x: Any) -> Any:
    return (_in(x, "D") - _in(x, "M").astype("M8[D]")).astype(np.int64) + 1


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "year": lambda x: _in(x, "Y").astype(np.int64) + 1970,
    "quarter": lambda x: _in(x, "M").astype(np.int64) % 12 // 3 + 1,
    "month": lambda x: _in(x, "M").astype(np.int64) % 12 + 1,
    "day": _day,
    "dayofweek": lambda x: (x // DAY + _THURSDAY + 1) % 7 + 1,
    "hour": lambda x: x // (3_600 * SECOND) % 24,
    "minute": lambda x: x // (60 * SECOND) % 60,
    "second": lambda x: x // SECOND % 60,
}


def date_trunc(call: Call) -> Kernel:
    """The kernel of DATE_TRUNC to a literal unit."""
    unit = call.args[0]
    assert isinstance(unit, Literal)
    name = str(unit.value)
    size = _FIXED.get(name)
    cut = _CUTS[name] if size is None else lambda x: x - np.mod(x, size)

    def truncate(a: Vector) -> Vector:
        start = cut(a[0])
        return start, without(a[1], start > a[0])  # what lies before all that 64 bits hold has wrapped around

    return truncate


_FIXED = {
    "microsecond": 1, "millisecond": 1_000, "second": SECOND, "minute": 60 * SECOND, "hour": 3_600 * SECOND, "day": DAY,
}  # fmt: skip


def _monday(x: Any) -> Any:
    days = x // DAY
    return (days - (days + _THURSDAY) % 7) * DAY


def _quarter(x: Any) -> Any:
    months = _in(x, "M").astype(np.int64)
    return _start((months - months % 3).astype("M8[M]"))


_CUTS: dict[str, Callable[[Any], Any]] = {
    "week": _monday,
    "month": lambda x: _start(_in(x, "M")),
    "quarter": _quarter,
    "year": lambda x: _start(_in(x, "Y")),
}


def unix_micros(call: Call) -> Kernel:
    """Timestamps and intervals in microseconds already are what is asked for."""
    return lambda a: a
