"""Conversion of values: one kernel for every pair of families that CAST knows; what does not convert is null.

Timestamps convert to and from numbers as seconds since 1970, as in Spark. Finer units are cut to coarser ones downwards
(nanoseconds to microseconds too), also before 1970, so that the order of instants is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from midstream.cql.typing_types import family
from midstream.engine.expressions import casts_numbers as numbers
from midstream.engine.expressions import casts_times as times
from midstream.engine.expressions import formatting, parsing
from midstream.engine.expressions.vectors import Kernel, both_valid, computed_in, physical, validity, writer
from midstream.state.arrow import cast_text

_TEXT = pa.string()


def conversion(source: pa.DataType, target: pa.DataType) -> Kernel:
    """The kernel of CAST from one type to another.

    >>> conversion(pa.float64(), pa.int8())((np.array([1.9, 300.0]), None))
    (array([1, 0], dtype=int8), array([ True, False]))
    """
    make = _CONVERSIONS.get((family(source), family(target)))
    if family(source) == "null":
        return _nothing(target)
    assert make is not None, f"the query layer lets no cast from {source} to {target} pass"
    return make(source, target)


def _nothing(target: pa.DataType) -> Kernel:
    dtype = physical(target)
    if dtype is None:
        return lambda a: pa.nulls(len(a), target)
    return lambda a: (np.zeros(len(a), dtype), np.False_)


def _chain(*types: pa.DataType) -> Kernel:
    """A conversion by way of other types."""
    steps = [conversion(a, b) for a, b in pairwise(types) if a != b]

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return convert


def _from_text(read: Callable[[pa.Array, pa.DataType], Any]) -> Callable[[pa.DataType, pa.DataType], Kernel]:
    def make(source: pa.DataType, target: pa.DataType) -> Kernel:
        def convert(a: pa.Array) -> Any:
            known = pc.fill_null(cast_text(a, _TEXT), "")
            result = read(known, target)
            valid = validity(a)
            if isinstance(result, tuple):
                return result[0], both_valid(result[1], valid)
            return result

        return convert

    return make


def _to_text(write: Callable[[pa.Array], pa.Array]) -> Callable[[pa.DataType, pa.DataType], Kernel]:
    """Values written by way of Arrow, times in microseconds and without a zone."""

    def make(source: pa.DataType, target: pa.DataType) -> Kernel:
        if physical(source) is None:
            return lambda a: _as_type(write(a), target)
        plain = {"timestamp": pa.timestamp("us"), "time": pa.time64("us"), "date": pa.date32()}.get(
            family(source), source
        )
        before, to_arrow = _chain(source, plain), writer(plain)
        return lambda a: _as_type(write(to_arrow(before(a), len(a[0]))), target)

    return make


def _as_type(array: pa.Array, type: pa.DataType) -> pa.Array:
    return array if array.type == type else array.cast(type)


def _within_arrow(source: pa.DataType, target: pa.DataType) -> Kernel:
    return lambda a: cast_text(a, target)


def _bytes_to_text(source: pa.DataType, target: pa.DataType) -> Kernel:
    raw = pa.large_binary() if pt.is_large_string(target) else pa.binary()
    return lambda a: formatting.from_bytes(cast_text(a, raw), target)


def _text_to_timestamp(source: pa.DataType, target: pa.DataType) -> Kernel:
    read, to_unit = _from_text(lambda a, _: parsing.to_timestamps(a)), times.between_times(pa.timestamp("us"), target)
    parse = read(source, target)
    return lambda a: to_unit(parse(a))


def _text_to_date(source: pa.DataType, target: pa.DataType) -> Kernel:
    read, to_unit = _from_text(lambda a, _: parsing.to_dates(a)), times.between_times(pa.date32(), target)
    parse = read(source, target)
    return lambda a: to_unit(parse(a))


_CONVERSIONS: dict[tuple[str, str], Callable[[pa.DataType, pa.DataType], Kernel]] = {
    ("integer", "integer"): numbers.integer_to_integer,
    ("integer", "float"): numbers.astype,
    ("integer", "decimal"): numbers.integer_to_decimal,
    ("integer", "boolean"): numbers.to_boolean,
    ("integer", "timestamp"): times.integer_to_timestamp,
    ("integer", "text"): _to_text(formatting.from_plain),
    ("float", "integer"): numbers.float_to_integer,
    ("float", "float"): numbers.astype,
    ("float", "decimal"): numbers.float_to_decimal,
    ("float", "boolean"): numbers.to_boolean,
    ("float", "timestamp"): times.float_to_timestamp,
    ("float", "text"): _to_text(formatting.from_floats),
    ("decimal", "integer"): numbers.decimal_to_integer,
    ("decimal", "float"): numbers.decimal_to_float,
    ("decimal", "decimal"): numbers.decimal_to_decimal,
    ("decimal", "boolean"): numbers.decimal_to_boolean,
    ("decimal", "timestamp"): times.decimal_to_timestamp,
    ("decimal", "text"): _to_text(formatting.from_decimals),
    ("boolean", "boolean"): numbers.astype,
    ("boolean", "integer"): numbers.astype,
    ("boolean", "float"): numbers.astype,
    ("boolean", "decimal"): lambda source, target: _chain(source, pa.int8(), target),
    ("boolean", "text"): _to_text(formatting.from_plain),
    ("text", "text"): _within_arrow,
    ("text", "bytes"): _within_arrow,
    ("text", "integer"): _from_text(lambda a, target: parsing.to_integers(a, computed_in(target))),
    ("text", "float"): _from_text(parsing.to_floats),
    ("text", "decimal"): _from_text(parsing.to_decimals),
    ("text", "boolean"): _from_text(lambda a, target: parsing.to_booleans(a)),
    ("text", "date"): _text_to_date,
    ("text", "timestamp"): _text_to_timestamp,
    ("bytes", "bytes"): _within_arrow,
    ("bytes", "text"): _bytes_to_text,
    ("date", "date"): times.between_times,
    ("date", "timestamp"): times.between_times,
    ("date", "text"): _to_text(formatting.from_dates),
    ("timestamp", "date"): times.between_times,
    ("timestamp", "timestamp"): times.between_times,
    ("timestamp", "integer"): times.timestamp_to_integer,
    ("timestamp", "float"): times.timestamp_to_float,
    ("timestamp", "decimal"): times.timestamp_to_decimal,
    ("timestamp", "text"): _to_text(formatting.from_timestamps),
    ("duration", "duration"): times.between_times,
    ("time", "time"): times.between_times,
    ("time", "text"): _to_text(formatting.from_times),
}
