"""Values to text: what CAST writes, in the form that Spark writes it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.engine.expressions.decimals import to_unscaled
from midstream.engine.expressions.times import DAY

#: The days since 1970 that Arrow's calendar has: it ends with the year 32767 on both sides.
_FIRST_DAY, _LAST_DAY = (int(np.datetime64(day, "D").astype(np.int64)) for day in ("-32767-01-01", "32767-12-31"))


def from_plain(array: pa.Array) -> pa.Array:
    """Integers and booleans: Arrow writes them as Spark does."""
    return array.cast(pa.string())


def from_dates(array: pa.Array) -> pa.Array:
    """Dates as days since 1970; null where Arrow's calendar has no such day.

    >>> from_dates(pa.array([0, 2**31 - 1], pa.date32())).to_pylist()
    ['1970-01-01', None]
    """
    return _null_outside(array, pa.int32(), _FIRST_DAY, _LAST_DAY).cast(pa.string())


def from_timestamps(array: pa.Array) -> pa.Array:
    """Timestamps in microseconds: the fraction without the zeros at its end; null as for dates.

    >>> from_timestamps(pa.array([1_500_000, 0, 2**63 - 1], pa.timestamp("us"))).to_pylist()
    ['1970-01-01 00:00:01.5', '1970-01-01 00:00:00', None]
    """
    return from_times(_null_outside(array, pa.int64(), _FIRST_DAY * DAY, (_LAST_DAY + 1) * DAY - 1))


def from_times(array: pa.Array) -> pa.Array:
    """Times of day in microseconds: the fraction without the zeros at its end."""
    return pc.replace_substring_regex(array.cast(pa.string()), r"\.?0*$", "", max_replacements=1)


def _null_outside(array: pa.Array, integers: pa.DataType, low: int, high: int) -> pa.Array:
    """Values that are integers inside, with null where these are out of bounds."""
    inside = array.view(integers)
    fine = pc.and_(pc.greater_equal(inside, low), pc.less_equal(inside, high))
    return pc.if_else(fine, array, pa.scalar(None, array.type))


def from_decimals(array: pa.Array) -> pa.Array:
    """All places of the scale, never an exponent.

    >>> from decimal import Decimal
    >>> from_decimals(pa.array([Decimal("-0.00000010")])).to_pylist()
    ['-0.00000010']
    """
    scale = array.type.scale
    if scale <= 0:
        return array.cast(pa.decimal256(76, 0)).cast(pa.string())
    number = to_unscaled(array)
    digits = pc.utf8_lpad(pc.abs(number).cast(pa.string()), scale + 1, "0")
    sign = pc.if_else(pc.less(number, pa.scalar(0, number.type)), "-", "")
    whole, rest = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, whole, ""), rest, ".")


def from_floats(array: pa.Array) -> pa.Array:
    """The shortest digits that read back as the same float, laid out as Java does.

    >>> from_floats(pa.array([1.0, 1e7, 0.00012, float("nan")])).to_pylist()
    ['1.0', '1.0E7', '1.2E-4', 'NaN']
    """
    written = pc.utf8_lower(array.cast(pa.string()))
    size = np.abs(array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64))
    plain = pa.array((size == 0) | ((size >= 1e-3) & (size < 1e7)))
    special = pa.array(~np.isfinite(size))
    words = pc.if_else(pc.match_substring(written, "nan"), "NaN", pc.replace_substring(written, "inf", "Infinity"))
    pointed = pc.if_else(pc.match_substring(written, "."), written, pc.binary_join_element_wise(written, "0", "."))
    return pc.if_else(special, words, pc.if_else(plain, pointed, _scientific(written)))


def _scientific(written: pa.Array) -> pa.Array:
    """A float's text as one digit, a point, at least one digit, E and the exponent."""
    parts = pc.extract_regex(
        written, r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<rest>[0-9]+))?(?:e\+?(?P<exponent>-?[0-9]+))?$"
    )
    sign, whole, rest, exponent = (parts.field(name) for name in ("sign", "whole", "rest", "exponent"))
    digits = pc.binary_join_element_wise(whole, rest, "")
    leading = pc.subtract(pc.utf8_length(digits), pc.utf8_length(pc.utf8_ltrim(digits, characters="0")))
    power = pc.subtract(pc.subtract(pc.utf8_length(whole), 1), leading)
    power = pc.add(power, pc.if_else(pc.equal(exponent, ""), "0", exponent).cast(pa.int32()))
    digits = pc.utf8_trim(digits, characters="0")
    rest = pc.utf8_slice_codeunits(digits, 1)
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    mantissa = pc.binary_join_element_wise(pc.utf8_slice_codeunits(digits, 0, 1), rest, ".")
    scientific = pc.binary_join_element_wise(mantissa, power.cast(pa.string()), "E")
    return pc.if_else(written.is_valid(), pc.binary_join_element_wise(sign, scientific, ""), None)


def from_bytes(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Bytes as the text that they are in UTF-8; null where they are not."""
    try:
        return array.cast(type)
    except pa.ArrowInvalid:
        return pa.array(
            [_decode(octets) for octets in array.to_pylist()], type
        )  # only a column with broken text gets here


def _decode(octets: bytes | None) -> str | None:
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return None
