"""Conversion of dates, timestamps, durations and times, between units and to numbers. See `casts`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from midstream.engine.expressions.casts_numbers import float_to_integer, integer_to_integer, whole
from midstream.engine.expressions.decimals import check_digits, cut_digits, shift, to_unscaled
from midstream.engine.expressions.numbers import without
from midstream.engine.expressions.vectors import Kernel, Vector, computed_in, ticks_per_second, writer

_MICROS = 1_000_000
_DAY = 86_400
_LONG = pa.int64()


def _ticks(type: pa.DataType) -> int:
    """Units of a time-like type in a day; a date is one day, or its milliseconds."""
    if pt.is_date(type):
        return 1 if pt.is_date32(type) else _DAY * 1_000
    return _DAY * ticks_per_second(type)


def between_times(source: pa.DataType, target: pa.DataType) -> Kernel:
    """Between dates, timestamps, durations or times of any unit."""
    if pt.is_date64(target) and not pt.is_date(source):  # milliseconds, but of whole days
        to_days, to_unit = between_times(source, pa.date32()), between_times(pa.date32(), target)
        return lambda a: to_unit(to_days(a))
    before, after, dtype = _ticks(source), _ticks(target), computed_in(target)
    if before == after:
        return lambda a: (a[0].astype(dtype, copy=False), a[1])
    if before > after:
        step = before // after
        narrow = integer_to_integer(_LONG, pa.from_numpy_dtype(dtype))
        return lambda a: narrow((np.floor_divide(a[0].astype(np.int64, copy=False), step), a[1]))
    factor = after // before
    limit = np.iinfo(np.int64).max // factor

    def refine(a: Vector) -> Vector:
        x = a[0].astype(np.int64)
        valid = without(a[1], (x > limit) | (x < -limit))
        return (x * factor).astype(dtype, copy=False), valid

    return refine


def timestamp_to_integer(source: pa.DataType, target: pa.DataType) -> Kernel:
    per_second, narrow = ticks_per_second(source), integer_to_integer(_LONG, target)
    return lambda a: narrow((np.floor_divide(a[0], per_second), a[1]))


def timestamp_to_float(source: pa.DataType, target: pa.DataType) -> Kernel:
    per_second, dtype = float(ticks_per_second(source)), computed_in(target)
    return lambda a: ((a[0] / per_second).astype(dtype), a[1])


def timestamp_to_decimal(source: pa.DataType, target: pa.DataType) -> Kernel:
    write, to_micros = writer(_LONG), between_times(source, pa.timestamp("us"))

    def convert(a: Vector) -> pa.Array:
        micros = to_unscaled(write(to_micros(a), len(a[0])).cast(pa.decimal128(20, 0)))
        return check_digits(shift(micros, target.scale - 6), target)

    return convert


def integer_to_timestamp(source: pa.DataType, target: pa.DataType) -> Kernel:
    """Seconds; as in Spark the ends of time take what lies beyond."""
    per_second = ticks_per_second(target)
    limit = np.iinfo(np.int64).max // per_second

    def convert(a: Vector) -> Vector:
        x = (
            a[0].astype(np.int64)
            if computed_in(source) != np.uint64
            else np.minimum(a[0], np.uint64(2**63 - 1)).astype(np.int64)
        )
        seconds = np.clip(x, -limit - 1, limit + 1)
        ends = np.where(seconds > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
        return np.where(np.abs(seconds) > limit, ends, seconds * per_second), a[1]

    return convert


def float_to_timestamp(source: pa.DataType, target: pa.DataType) -> Kernel:
    to_long, to_unit = float_to_integer(pa.float64(), _LONG), between_times(pa.timestamp("us"), target)
    return lambda a: to_unit(to_long((np.asarray(a[0], np.float64) * _MICROS, a[1])))


def decimal_to_timestamp(source: pa.DataType, target: pa.DataType) -> Kernel:
    to_unit = between_times(pa.timestamp("us"), target)

    def convert(a: pa.Array) -> Vector:
        places = 6 - source.scale
        micros = shift(to_unscaled(a), places) if places >= 0 else cut_digits(to_unscaled(a), -places)
        result: Vector = to_unit(whole(micros, _LONG))
        return result

    return convert
