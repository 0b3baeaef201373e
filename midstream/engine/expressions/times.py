"""Fields of timestamps, and truncation; timestamps are integers of microseconds here, in UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from midstream.cql.model import Call, Literal
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
    """Whole units since 1970, rounded down; NumPy knows the calendar."""
    return np.asarray(x).view("M8[us]").astype(f"M8[{unit}]")


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
    if name in _FIXED:
        size = _FIXED[name]
        return lambda a: (a[0] - np.mod(a[0], size), a[1])
    cut = {"week": _monday, "month": _month, "quarter": _quarter, "year": _year}[name]
    return lambda a: (cut(a[0]), a[1])


_FIXED = {
    "microsecond": 1, "millisecond": 1_000, "second": SECOND, "minute": 60 * SECOND, "hour": 3_600 * SECOND, "day": DAY,
}  # fmt: skip


def _monday(x: Any) -> Any:
    days = x // DAY
    return (days - (days + _THURSDAY) % 7) * DAY


def _month(x: Any) -> Any:
    return _in(x, "M").astype("M8[us]").astype(np.int64)


def _year(x: Any) -> Any:
    return _in(x, "Y").astype("M8[us]").astype(np.int64)


def _quarter(x: Any) -> Any:
    months = _in(x, "M").astype(np.int64)
    return (months - months % 3).astype("M8[M]").astype("M8[us]").astype(np.int64)


def unix_micros(call: Call) -> Kernel:
    """Timestamps and intervals in microseconds already are what is asked for."""
    return lambda a: a
