"""Conversion between numbers: integers, floats, decimals and booleans. See `casts`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from midstream.engine.expressions import formatting, parsing
from midstream.engine.expressions.decimals import cut_digits, rescale, shift, to_unscaled
from midstream.engine.expressions.numbers import without
from midstream.engine.expressions.vectors import Kernel, Vector, computed_in, read_booleans, reader, validity, writer
from midstream.state.arrow import unscaled, unscaled_type


def integer_to_integer(source: pa.DataType, target: pa.DataType) -> Kernel:
    before, after = computed_in(source), computed_in(target)
    low, high = np.iinfo(after).min, np.iinfo(after).max
    check_low, check_high = np.iinfo(before).min < low, np.iinfo(before).max > high

    def convert(a: Vector) -> Vector:
        x, valid = a
        if check_low:
            valid = without(valid, x < before.type(low))
        if check_high:
            valid = without(valid, x > before.type(high))
        return x.astype(after), valid

    return convert


def astype(source: pa.DataType, target: pa.DataType) -> Kernel:
    dtype = computed_in(target)
    return lambda a: (a[0].astype(dtype), a[1])


def float_to_integer(source: pa.DataType, target: pa.DataType) -> Kernel:
    """Towards zero. As in Spark, the float 2**63 still counts as the largest int64, which it is nearest to."""
    dtype = computed_in(target)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    top = float(high)

    def convert(a: Vector) -> Vector:
        cut = np.trunc(np.asarray(a[0], np.float64))
        fine = (cut >= low) & (cut <= top)
        edge = fine & (cut >= 2.0 ** np.iinfo(dtype).bits / (2.0 if low else 1.0))
        result = np.where(fine & ~edge, cut, 0.0).astype(dtype)
        return np.where(edge, dtype.type(high), result), without(a[1], ~fine)

    return convert


def to_boolean(source: pa.DataType, target: pa.DataType) -> Kernel:
    return lambda a: (a[0] != 0, a[1])


def integer_to_decimal(source: pa.DataType, target: pa.DataType) -> Kernel:
    write = writer(source)
    roomy = pa.decimal128(20, 0)
    return lambda a: _fit(write(a, len(a[0])).cast(roomy), target)


def _fit(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array if array.type == target else rescale(array, target)


def float_to_decimal(source: pa.DataType, target: pa.DataType) -> Kernel:
    """By way of the shortest digits, as in Spark: 2.675 is 2.68 at two places."""
    write = writer(pa.float64())

    def convert(a: Vector) -> pa.Array:
        written = write((np.asarray(a[0], np.float64), a[1]), len(a[0])).cast(pa.string())
        return parsing.to_decimals(written, target)

    return convert


def decimal_to_decimal(source: pa.DataType, target: pa.DataType) -> Kernel:
    return lambda a: rescale(a, target)


def decimal_to_integer(source: pa.DataType, target: pa.DataType) -> Kernel:
    return lambda a: whole(
        cut_digits(to_unscaled(a), source.scale) if source.scale > 0 else shift(to_unscaled(a), -source.scale), target
    )


def whole(number: pa.Array, target: pa.DataType) -> Vector:
    """Unscaled numbers as integers of a type; null outside of it."""
    limits = np.iinfo(computed_in(target))
    low, high = (pa.scalar(int(limit), pa.decimal256(30, 0)) for limit in (limits.min, limits.max))
    fine = pc.and_(pc.greater_equal(number, low), pc.less_equal(number, high))
    kept = pc.if_else(fine, number, pa.scalar(None, number.type)).cast(target)
    values, valid = reader(target)(kept)
    return values, valid


def decimal_to_float(source: pa.DataType, target: pa.DataType) -> Kernel:
    """The nearest float. Up to 15 digits that is one exact division; beyond, by way of the digits."""
    dtype = computed_in(target)
    if source.precision <= 15 and source.scale >= 0:
        unit = 10.0**source.scale

        def divide(a: pa.Array) -> Vector:
            low_words = (
                np.frombuffer(a.buffers()[1], np.int64, 2 * len(a), a.offset * 16)[::2] if len(a) else np.empty(0)
            )
            return (low_words / unit).astype(dtype), validity(a)

        if pt.is_decimal128(source):
            return divide
    read = reader(target)
    return lambda a: read(formatting.from_decimals(a).cast(target))


def decimal_to_boolean(source: pa.DataType, target: pa.DataType) -> Kernel:
    zero = pa.scalar(0, unscaled_type(source))
    return lambda a: read_booleans(pc.not_equal(unscaled(a), zero))
