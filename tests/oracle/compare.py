"""Rows of output as comparable Python values, and the difference of two multisets of them."""

from __future__ import annotations

import collections
import decimal
import math
import struct
from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types

from .expr import Value

Rows = collections.Counter[tuple[Value, ...]]
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def canonical(value: Value, type_: pa.DataType) -> Value:
    """One hashable form per value: floats by their bits (all NaNs alike), timestamps as nanoseconds."""
    if value is None:
        return None
    if isinstance(value, bool):
        return ("bool", value)
    if types.is_timestamp(type_):
        return ("time", value if type_.unit == "ns" else value * 1000)
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack(">d", value).hex(), repr(value))
    if isinstance(value, decimal.Decimal):
        return ("decimal", value)
    if isinstance(value, dict):
        return ("struct", tuple((name, canonical(part, pa.null())) for name, part in value.items()))
    if isinstance(value, list):
        return ("list", tuple(canonical(part, pa.null()) for part in value))
    if isinstance(value, tuple):
        return ("values", tuple(canonical(part, pa.null()) for part in value))
    return value


def canonical_column(column: pa.ChunkedArray) -> list[Value]:
    """The values of a column of a result table in their canonical form."""
    type_ = column.type
    if types.is_timestamp(type_):
        size = NANOSECONDS[type_.unit]
        return [None if value is None else ("time", value * size) for value in column.cast(pa.int64()).to_pylist()]
    return [canonical(value, type_) for value in column.to_pylist()]


def rows_of(table: pa.Table) -> list[tuple[Value, ...]]:
    return list(zip(*(canonical_column(column) for column in table.columns), strict=True)) if table.num_rows else []


def multiset(rows: Iterable[tuple[Value, ...]]) -> Rows:
    return collections.Counter(rows)


def difference(expected: Rows, found: Rows, names: list[str], show: int = 8) -> str | None:
    """What is missing and what is too much, or None if the multisets are equal."""
    if expected == found:
        return None
    lines = [f"expected {sum(expected.values())} rows, found {sum(found.values())}; columns: {', '.join(names)}"]
    for title, rest in (("missing", expected - found), ("too much", found - expected)):
        lines.append(f"{title}: {sum(rest.values())}")
        for row, count in list(rest.items())[:show]:
            lines.append(f"  {count} x " + ", ".join(_show(value) for value in row))
        if len(rest) > show:
            lines.append(f"  ... and {len(rest) - show} more")
    return "\n".join(lines)


def _show(value: Value) -> str:
    if isinstance(value, tuple):
        return str(value[-1] if value[0] != "time" else f"{value[1] / 1000:.10g}us")
    return repr(value)
