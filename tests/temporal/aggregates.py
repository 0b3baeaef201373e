"""Sums and averages that are exact and rounded once, and the types that they have in Spark."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from fractions import Fraction

import pyarrow as pa
from pyarrow import types

from ..oracle.expr import Value, fit

LARGEST_PRECISION = 38


def find_type(function: str, argument: pa.DataType | None) -> pa.DataType:
    """The type of an aggregate."""
    if argument is None or function.startswith("count"):
        return pa.int64()
    if function in ("min", "max"):
        return argument
    if argument == pa.uint64():  # which Spark does not have
        argument = pa.decimal128(20, 0)
    if types.is_decimal(argument):
        more = 10 if function == "sum" else 4
        precision = min(argument.precision + more, LARGEST_PRECISION)
        return pa.decimal128(precision, argument.scale if function == "sum" else min(argument.scale + 4, precision))
    return pa.int64() if function == "sum" and types.is_integer(argument) else pa.float64()


def add_up(values: Sequence[Value], type_: pa.DataType) -> Value:
    """The sum of values of which none is null; null if there are none, or if the type cannot hold it."""
    if not values:
        return None
    if type_ == pa.float64():
        special = _add_specials(values)
        return special if special is not None else _add_floats(values)
    if types.is_decimal(type_):
        return round_decimal(sum((Fraction(value) for value in values), Fraction(0)), type_)
    return fit(sum(values), type_)


def average(values: Sequence[Value], type_: pa.DataType) -> Value:
    """The average of values of which none is null; null if there are none, or if the type cannot hold it."""
    if not values:
        return None
    if type_ == pa.float64():
        special = _add_specials(values)
        if special is not None:
            return special
    exact = sum((Fraction(value) for value in values), Fraction(0)) / len(values)
    return round_decimal(exact, type_) if types.is_decimal(type_) else float(exact)


def round_decimal(exact: Fraction, type_: pa.DataType) -> decimal.Decimal | None:
    """Half up, that is away from zero; null if it has too many digits."""
    scaled = abs(exact) * 10**type_.scale
    digits = math.floor(scaled + Fraction(1, 2))
    if digits >= 10**type_.precision:
        return None
    with decimal.localcontext(prec=2 * LARGEST_PRECISION):
        return decimal.Decimal(digits if exact >= 0 else -digits).scaleb(-type_.scale)


def _add_specials(values: Sequence[Value]) -> float | None:
    """The sum if NaN or an infinity takes part."""
    infinities = {value for value in values if isinstance(value, float) and math.isinf(value)}
    if len(infinities) == 2 or any(isinstance(value, float) and math.isnan(value) for value in values):
        return math.nan
    return infinities.pop() if infinities else None


def _add_floats(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:  # on the way, or in the end
        return _round_float(sum((Fraction(value) for value in values), Fraction(0)))


def _round_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
