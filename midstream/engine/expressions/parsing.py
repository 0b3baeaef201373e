"""Text to values: what CAST reads. Text that is no value of the type gives null, and only there.

Every function here takes a column of text and gives a vector (or decimals in Arrow). What can be read is what Spark
reads with ANSI rules; blanks and control characters around it do not count. Named time zones are not read.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.cql.moments import BLANKS, DATE_PATTERN, MOMENT_PATTERN
from midstream.engine.expressions.decimals import check_digits, quotient, shift, times
from midstream.engine.expressions.times import DAY, SECOND
from midstream.engine.expressions.vectors import Vector, read_booleans, reader

_INTEGER = r"^[+-]?[0-9]+$"
_FLOAT = r"(?i)^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?[df]?|inf(?:inity)?|nan)$"
_DECIMAL = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<rest>[0-9]*)(?:[eE](?P<exponent>[+-]?[0-9]{1,4}))?$"
_TRUE = pa.array(["t", "true", "y", "yes", "1"])
_FALSE = pa.array(["f", "false", "n", "no", "0"])
_POWERS = pa.array([Decimal((0, (1,), e)) for e in range(71)], pa.decimal256(76, 0)).view(pa.decimal256(30, 0))
#: Where microseconds in 64 bits end; the calendar that is read begins at year 0, long after they do.
_LAST_SECOND, _LAST_MICRO = divmod(2**63 - 1, SECOND)


def to_integers(text: pa.Array, dtype: np.dtype[Any]) -> Vector:
    """Digits with a sign; what the type does not hold is null.

    >>> to_integers(pa.array([" 12 ", "1.5", "300"]), np.dtype(np.int8))
    (array([12,  0,  0], dtype=int8), array([ True, False, False]))
    """
    text = _trim(text)
    fine, _ = read_booleans(pc.fill_null(pc.match_substring_regex(text, _INTEGER), False))
    negative, _ = read_booleans(pc.fill_null(pc.starts_with(text, "-"), False))
    digits = pc.utf8_ltrim(pc.utf8_ltrim(text, characters="+-"), characters="0")
    size = reader(pa.int64())(pc.utf8_length(digits).cast(pa.int64()))[0]
    fine &= size <= 19
    digits = pc.if_else(pa.array(fine & (size > 0)), digits, "0")
    number, _ = reader(pa.uint64())(digits.cast(pa.uint64()))
    limits = np.iinfo(dtype)
    bound = np.where(negative, np.uint64(min(-int(limits.min), 2**63)), np.uint64(min(int(limits.max), 2**63 - 1)))
    fine &= number <= bound
    signed = np.where(fine, number, 0).view(np.int64)
    return np.where(negative, -signed, signed).astype(dtype), fine


def to_floats(text: pa.Array, type: pa.DataType) -> Vector:
    """Numbers as Java writes them; too large ones are infinite."""
    text = _trim(text)
    fine, _ = read_booleans(pc.fill_null(pc.match_substring_regex(text, _FLOAT), False))
    text = pc.replace_substring_regex(pc.if_else(pa.array(fine), text, "0"), r"([0-9.])[dDfF]$", r"\1")
    return reader(type)(text.cast(type))[0], fine


def to_booleans(text: pa.Array) -> Vector:
    """t, true, y, yes, 1 and their opposites, in any case."""
    word = pc.utf8_lower(_trim(text)).cast(pa.string())
    true, _ = read_booleans(pc.is_in(word, value_set=_TRUE))
    false, _ = read_booleans(pc.is_in(word, value_set=_FALSE))
    return true, true | false


def to_decimals(text: pa.Array, type: pa.DataType) -> pa.Array:
    """Numbers, also with an exponent, rounded half up to the scale of the type.

    >>> to_decimals(pa.array(["1.005", "1e3", "x"]), pa.decimal128(6, 2)).to_pylist()
    [Decimal('1.01'), Decimal('1000.00'), None]
    """
    parts = pc.extract_regex(_trim(text), _DECIMAL)
    sign, whole, rest, exponent = (_part(parts, name) for name in ("sign", "whole", "rest", "exponent"))
    digits = pc.utf8_ltrim(pc.binary_join_element_wise(whole, rest, ""), characters="0")
    size, places = _lengths(digits), _lengths(rest)
    fine = parts.is_valid().to_numpy(zero_copy_only=False) & (_lengths(whole) + places > 0) & (size <= 70)
    number = pc.if_else(pa.array(fine & (size > 0)), digits, "0").cast(pa.decimal256(76, 0))
    number = number.view(pa.decimal256(30, 0))
    number = pc.if_else(pc.equal(sign, "-"), pc.negate(number), number)
    # The unscaled result is number * 10**up, or number / 10**-up rounded half up.
    up = _integers(exponent, 0) - places + type.scale
    fine &= (up <= 0) | (size == 0) | (size + up <= 38)
    larger = times(pc.if_else(pa.array(fine), number, pa.scalar(None, number.type)), _POWERS.take(_index(up, 38)))
    smaller = shift(quotient(number, _POWERS.take(_index(-up - 1, 70))), -1)
    result = pc.if_else(pa.array(up >= 0), larger, smaller)
    return check_digits(pc.if_else(pa.array(fine), result, pa.scalar(None, result.type)), type)


def to_dates(text: pa.Array) -> Vector:
    """``yyyy``, ``yyyy-m``, ``yyyy-m-d``, and whatever follows a blank or a T; days since 1970."""
    parts = pc.extract_regex(_trim(text), DATE_PATTERN)
    days, fine = _days(parts)
    fine &= np.abs(days) < 2**31
    return np.where(fine, days, 0).astype(np.int32), fine


def to_timestamps(text: pa.Array) -> Vector:
    """A date as above, then perhaps a time with up to nine places, perhaps with an offset; microseconds in UTC."""
    parts = pc.extract_regex(_trim(text), MOMENT_PATTERN)
    days, fine = _days(parts)
    fields = {name: _integers(_part(parts, name), 0) for name in ("hour", "minute", "second")}
    zone_hour, zone_minute = (_integers(_part(parts, name), 0) for name in ("zone_hour", "zone_minute"))
    fine &= (fields["hour"] < 24) & (fields["minute"] < 60) & (fields["second"] < 60)
    fine &= (zone_hour * 60 + zone_minute <= 18 * 60) & (zone_minute < 60)
    micros = _integers(pc.utf8_rpad(pc.utf8_slice_codeunits(_part(parts, "fraction"), 0, 6), 6, "0"), 0)
    behind = np.where(pc.equal(_part(parts, "sign"), "-").to_numpy(zero_copy_only=False), -1, 1)
    seconds = fields["hour"] * 3600 + fields["minute"] * 60 + fields["second"]
    seconds += days * (DAY // SECOND) - behind * (zone_hour * 3600 + zone_minute * 60)
    fine &= (seconds < _LAST_SECOND) | ((seconds == _LAST_SECOND) & (micros <= _LAST_MICRO))
    return np.where(fine, seconds, 0) * SECOND + micros, fine


def _days(parts: pa.StructArray) -> tuple[Any, Any]:
    """Days since 1970 from year, month and day, and where there is such a day."""
    year, month, day = (_integers(_part(parts, name), 1) for name in ("year", "month", "day"))
    fine = parts.is_valid().to_numpy(zero_copy_only=False) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(fine, (year - 1970) * 12 + month - 1, 0)
    first, following = (start.astype("M8[M]").astype("M8[D]").astype(np.int64) for start in (months, months + 1))
    return first + day - 1, fine & (day <= following - first)


def _trim(text: pa.Array) -> pa.Array:
    return pc.utf8_trim(text, characters=BLANKS)


def _part(parts: pa.StructArray, name: str) -> pa.Array:
    """One group of a match, empty where nothing matched."""
    return parts.field(name)


def _integers(text: pa.Array, otherwise: int) -> Any:
    """Short texts of digits, perhaps with a sign, as integers; an empty one is the default."""
    text = pc.utf8_ltrim(text, characters="+")
    return reader(pa.int64())(pc.if_else(pc.equal(text, ""), str(otherwise), text).cast(pa.int64()))[0]


def _lengths(text: pa.Array) -> Any:
    return reader(pa.int64())(pc.utf8_length(text).cast(pa.int64()))[0]


def _index(numbers: Any, most: int) -> pa.Array:
    return pa.array(np.clip(numbers, 0, most))
