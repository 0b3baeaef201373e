"""Decimals: arithmetic and rescaling with Spark's rounding, and null where the result's digits do not hold it.

Everything is computed in Arrow's 256-bit decimals, as integers: a decimal is its *unscaled* number, and the scale is
known from its type. Arrow limits the digits that a result declares, not what 256 bits hold, so operands are declared
with few digits and results are checked against the digits that they may have. Rounding is half up, away from zero.

An intermediate number of more than 70 digits counts as overflow. It takes operands near 38 digits of very different
scales to get there.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from midstream.cql.model import Call, Expr, Literal
from midstream.engine.expressions.vectors import Kernel, Value

_DIGITS = 76
_DECLARED = pa.decimal256(30, 0)
_ZERO = pa.scalar(Decimal(0), _DECLARED)
_FIVE = pa.scalar(Decimal(5), _DECLARED)
_LIMIT = 70


def to_unscaled(value: Value) -> Value:
    """The unscaled numbers of decimals, as 256-bit integers.

    >>> to_unscaled(pa.array([Decimal("1.50")])).to_pylist()
    [Decimal('150')]
    """
    return _declare(value.cast(pa.decimal256(_DIGITS, value.type.scale)), _DECLARED)


def power_of_ten(exponent: int) -> pa.Scalar:
    """Ten to a power up to 75, as an unscaled number."""
    return _declare(pa.scalar(Decimal((0, (1,), exponent)), pa.decimal256(_DIGITS, 0)), _DECLARED)


def times(a: Value, b: Value) -> Value:
    """The product of unscaled numbers; the caller knows that 256 bits hold it."""
    return _declare(pc.multiply(a, b), _DECLARED)


def quotient(a: Value, b: Value) -> Value:
    """The whole part of a / b; null where b is zero or a has more than 70 digits."""
    a = _null_unless(pc.less(pc.abs(a), power_of_ten(_LIMIT)), a)
    b = _null_unless(pc.not_equal(b, _ZERO), b)
    # Declared like this, Arrow's rule gives the quotient exactly four places, which are then cut off.
    return _truncate(pc.divide(_declare(a, pa.decimal256(_LIMIT, 0)), _declare(b, pa.decimal256(1, 0))))


def cut_digits(value: Value, count: int) -> Value:
    """Unscaled numbers without their last digits."""
    return _truncate(_declare(value, pa.decimal256(_DIGITS, count))) if count else value


def shift(value: Value, places: int) -> Value:
    """Unscaled numbers at a scale that is larger by `places`; if that is negative, rounded half up.

    >>> shift(to_unscaled(pa.array([Decimal("1.25"), Decimal("-1.25")])), -1).to_pylist()
    [Decimal('13'), Decimal('-13')]
    """
    if places >= 0:
        return times(value, power_of_ten(places)) if places else value
    value = cut_digits(value, -places - 1)
    half = pc.if_else(pc.less(value, _ZERO), pc.negate(_FIVE), _FIVE)
    return quotient(_declare(pc.add(value, half), _DECLARED), power_of_ten(1))


def check_digits(value: pa.Array, type: pa.DataType) -> pa.Array:
    """Unscaled numbers as decimals of a type; null where they have more digits than it allows."""
    kept = _null_unless(pc.less(pc.abs(value), power_of_ten(type.precision)), value)
    return _declare(kept, pa.decimal256(type.precision, type.scale)).cast(type)


def rescale(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Decimals of one type as decimals of another."""
    return check_digits(shift(to_unscaled(array), type.scale - array.type.scale), type)


def arithmetic(call: Call) -> Kernel:
    """The kernel of ``+ - * / %`` over decimals, in the type that the call has."""
    a, b = (arg.type.scale for arg in call.args)
    result = call.type
    scale = max(a, b)

    def add(x: Value, y: Value) -> pa.Array:
        operation = pc.add if call.function == "add" else pc.subtract
        total = operation(shift(to_unscaled(x), scale - a), shift(to_unscaled(y), scale - b))
        return check_digits(shift(_declare(total, _DECLARED), result.scale - scale), result)

    def multiply(x: Value, y: Value) -> pa.Array:
        return check_digits(shift(times(to_unscaled(x), to_unscaled(y)), result.scale - a - b), result)

    def divide(x: Value, y: Value) -> pa.Array:
        # One digit more than the result has decides how it is rounded.
        more = result.scale + 1 + b - a
        dividend = to_unscaled(x)
        if more > 0:
            dividend = _null_unless(pc.less(pc.abs(dividend), power_of_ten(max(_LIMIT - more, 0))), dividend)
            dividend = times(dividend, power_of_ten(more))
        return check_digits(shift(cut_digits(quotient(dividend, to_unscaled(y)), max(-more, 0)), -1), result)

    def modulo(x: Value, y: Value) -> pa.Array:
        dividend, divisor = shift(to_unscaled(x), scale - a), shift(to_unscaled(y), scale - b)
        rest = _declare(pc.subtract(dividend, times(quotient(dividend, divisor), divisor)), _DECLARED)
        return check_digits(shift(rest, result.scale - scale), result)

    return {"add": add, "subtract": add, "multiply": multiply, "divide": divide, "modulo": modulo}[call.function]


def negate(call: Call) -> Kernel:
    return lambda a: pc.negate(a)


def absolute(call: Call) -> Kernel:
    return lambda a: pc.abs(a)


def floor(call: Call) -> Kernel:
    return lambda a: pc.floor(_widen(a)).cast(pa.decimal256(_DIGITS, 0)).cast(call.type)


def ceil(call: Call) -> Kernel:
    return lambda a: pc.ceil(_widen(a)).cast(pa.decimal256(_DIGITS, 0)).cast(call.type)


def rounding(call: Call) -> Kernel:
    """ROUND to a literal number of places, before the point if negative."""
    digits = _places(call.args[1])
    given = call.args[0].type
    if digits < -38 or given.scale - digits >= _DIGITS - 1:  # more places than Arrow rounds: nothing but zero is left
        return lambda a: times(to_unscaled(a), _ZERO).cast(call.type)
    scale = call.type.scale

    def round_half_up(a: pa.Array) -> pa.Array:
        near = pc.round(_widen(a), ndigits=min(digits, a.type.scale), round_mode="half_towards_infinity")
        return check_digits(to_unscaled(near.cast(pa.decimal256(_DIGITS, scale))), call.type)

    return round_half_up


def _places(expr: Expr) -> int:
    assert isinstance(expr, Literal)
    return int(str(expr.value))


def _widen(array: pa.Array) -> pa.Array:
    """Decimals with room for one more digit than 38."""
    return array.cast(pa.decimal256(_DIGITS - 1, array.type.scale))


def _truncate(value: Value) -> Value:
    return _declare(value.cast(pa.decimal256(_DIGITS, 0), safe=False), _DECLARED)


def _null_unless(condition: Value, value: Value) -> Value:
    return pc.if_else(condition, value, pa.scalar(None, value.type))


def _declare(value: Value, type: pa.DataType) -> Value:
    """The same 256 bits, declared as another type."""
    if isinstance(value, pa.Scalar):
        return pa.array([value], value.type).view(type)[0]
    return value.view(type)
