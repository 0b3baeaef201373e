"""Arithmetic and mathematics over vectors: what fails on a value gives null there, and only there.

Integers are computed with wrap-around, and the places where that happened are found afterwards from signs alone; in a
large batch only if its smallest and largest values do not rule it out.
Timestamps, dates and intervals are integers here. Floats follow IEEE except that division by zero is null, as in
Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from midstream.cql.model import Call, Literal
from midstream.engine.expressions.vectors import Kernel, Vector, both_valid, computed_in, physical

_EXACT = 2.0**63
_LOWEST = np.iinfo(np.int64).min
_MANY = 1_000  # from so many rows on it pays to look first whether any of them can overflow
_NEAR = 2.0**63 - 2.0**12  # the error of a float product of int64 at 2**63 is below 3 * 2**10


def arithmetic(call: Call) -> Kernel:
    """The kernel of ``+ - * / %`` over numbers and times."""
    dtype = computed_in(call.args[0].type)
    table = _FLOATS if dtype.kind == "f" else _INTEGERS
    return table[call.function](dtype)


def without(valid: Any, bad: Any) -> Any:
    """Validity less the places where something went wrong."""
    if not np.count_nonzero(bad):
        return valid
    return ~bad if valid is None else valid & ~bad


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _bounds(x: Any) -> tuple[int, int]:
    """The smallest and the largest of some integers."""
    return (int(x.min()), int(x.max())) if np.ndim(x) else (int(x), int(x))


def _add_integers(dtype: np.dtype[Any]) -> Kernel:
    lowest, highest = _limits(dtype)

    def add(a: Vector, b: Vector) -> Vector:
        (x, p), (y, q) = a, b
        total = x + y
        if total.size > _MANY:
            (low, high), (least, most) = _bounds(x), _bounds(y)
            if lowest <= low + least and high + most <= highest:
                return total, both_valid(p, q)
        return total, without(both_valid(p, q), ((x ^ total) & (y ^ total)) < 0)

    return add


def _subtract_integers(dtype: np.dtype[Any]) -> Kernel:
    lowest, highest = _limits(dtype)

    def subtract(a: Vector, b: Vector) -> Vector:
        (x, p), (y, q) = a, b
        difference = x - y
        if difference.size > _MANY:
            (low, high), (least, most) = _bounds(x), _bounds(y)
            if lowest <= low - most and high - least <= highest:
                return difference, both_valid(p, q)
        return difference, without(both_valid(p, q), ((x ^ y) & (x ^ difference)) < 0)

    return subtract


def _multiply_integers(dtype: np.dtype[Any]) -> Kernel:
    return _multiply_longs if dtype == np.int64 else _multiply_narrow(dtype)


def _multiply_longs(a: Vector, b: Vector) -> Vector:
    (x, p), (y, q) = a, b
    product = x * y
    if product.size > _MANY:
        (low, high), (least, most) = _bounds(x), _bounds(y)
        if max(-low, high) * max(-least, most) < 2**63:
            return product, both_valid(p, q)
    estimate = np.multiply(x, y, dtype=np.float64)
    size = np.abs(estimate)
    near = size >= _NEAR
    if np.count_nonzero(near):
        # So close to the limit a wrapped product has the other sign; further out the estimate alone decides.
        near &= (size > _EXACT + (_EXACT - _NEAR)) | ((product < 0) != (estimate < 0))
    return product, without(both_valid(p, q), near)


def _multiply_narrow(dtype: np.dtype[Any]) -> Kernel:
    low, high = _limits(dtype)

    def multiply(a: Vector, b: Vector) -> Vector:
        (x, p), (y, q) = a, b
        product = np.multiply(x, y, dtype=np.int64)
        return product.astype(dtype), without(both_valid(p, q), (product < low) | (product > high))

    return multiply


def _modulo_integers(a: Vector, b: Vector) -> Vector:
    (x, p), (y, q) = a, b
    zero = y == 0
    return np.fmod(x, np.where(zero, y.dtype.type(1), y)), without(both_valid(p, q), zero)


def whole_quotient(call: Call) -> Kernel:
    """DIV of int64, cut towards zero; the smallest integer has no negative."""

    def divide(a: Vector, b: Vector) -> Vector:
        (x, p), (y, q) = a, b
        bad = (y == 0) | ((y == -1) & (x == _LOWEST))
        divisor = np.where(bad, np.int64(1), y)
        quotient = np.floor_divide(x, divisor)
        cut = (np.fmod(x, divisor) != 0) & ((x < 0) != (divisor < 0))
        return quotient + cut, without(both_valid(p, q), bad)

    return divide


def _add_floats(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], both_valid(a[1], b[1])


def _subtract_floats(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], both_valid(a[1], b[1])


def _multiply_floats(a: Vector, b: Vector) -> Vector:
    return a[0] * b[0], both_valid(a[1], b[1])


def _divide_floats(a: Vector, b: Vector) -> Vector:
    return a[0] / b[0], without(both_valid(a[1], b[1]), b[0] == 0)


def _modulo_floats(a: Vector, b: Vector) -> Vector:
    return np.fmod(a[0], b[0]), without(both_valid(a[1], b[1]), b[0] == 0)


_FLOATS: dict[str, Callable[[np.dtype[Any]], Kernel]] = {
    "add": lambda dtype: _add_floats,
    "subtract": lambda dtype: _subtract_floats,
    "multiply": lambda dtype: _multiply_floats,
    "divide": lambda dtype: _divide_floats,
    "modulo": lambda dtype: _modulo_floats,
}
_INTEGERS: dict[str, Callable[[np.dtype[Any]], Kernel]] = {
    "add": _add_integers,
    "subtract": _subtract_integers,
    "multiply": _multiply_integers,
    "modulo": lambda dtype: _modulo_integers,
}


def negate(call: Call) -> Kernel:
    return _unary(call, np.negative)


def absolute(call: Call) -> Kernel:
    return _unary(call, np.abs)


def _unary(call: Call, operation: Any) -> Kernel:
    """Negation or absolute value; the smallest integer has none."""
    dtype = physical(call.type)
    if dtype is None or dtype.kind == "f":
        return lambda a: (operation(a[0]), a[1])
    lowest = np.iinfo(dtype).min
    return lambda a: (operation(a[0]), without(a[1], a[0] == lowest))


def sqrt(call: Call) -> Kernel:
    return lambda a: (np.sqrt(a[0]), a[1])


def exp(call: Call) -> Kernel:
    return lambda a: (np.exp(a[0]), a[1])


def ln(call: Call) -> Kernel:
    """Null from zero downwards, as in Spark."""
    return lambda a: (np.log(a[0]), without(a[1], a[0] <= 0))


def sign(call: Call) -> Kernel:
    return lambda a: (np.sign(a[0]), a[1])


def power(call: Call) -> Kernel:
    """The same for a constant exponent as for one in each row: of a constant half NumPy would take the square root."""

    def compute(a: Vector, b: Vector) -> Vector:
        exponents = np.full(len(a[0]), b[0]) if np.ndim(a[0]) and not np.ndim(b[0]) else b[0]
        return np.power(a[0], exponents), both_valid(a[1], b[1])

    return compute


def is_nan(call: Call) -> Kernel:
    """False for null."""
    return lambda a: ((np.isnan(a[0]) if a[1] is None else np.isnan(a[0]) & a[1]), None)


def floor(call: Call) -> Kernel:
    return _whole(np.floor)


def ceil(call: Call) -> Kernel:
    return _whole(np.ceil)


def _whole(operation: Any) -> Kernel:
    """A float to an int64; NaN gives 0 as in Spark, what is out of range null."""

    def whole(a: Vector) -> Vector:
        result = operation(a[0])
        outside = (result < -_EXACT) | (result >= _EXACT)
        safe = np.where(outside | np.isnan(result), 0.0, result)
        return safe.astype(np.int64), without(a[1], outside)

    return whole


def rounding(call: Call) -> Kernel:
    """ROUND of integers to tens, hundreds and so on, and of floats to places; ties go away from zero."""
    places = call.args[1]
    assert isinstance(places, Literal)
    digits = int(str(places.value))
    dtype = physical(call.type)
    assert dtype is not None
    if dtype.kind == "f":
        return lambda a: (round_floats(np.asarray(a[0], np.float64), digits).astype(dtype), a[1])
    return _round_integers(dtype, -digits)


def _round_integers(dtype: Any, zeros: int) -> Kernel:
    if zeros > 19:
        return lambda a: (np.zeros_like(a[0]), a[1])
    unit, low, high = 10**zeros, np.iinfo(dtype).min, np.iinfo(dtype).max
    half = (unit + 1) // 2
    ceiling, bottom = high // unit * unit, -(-low // unit * unit)

    def round_integers(a: Vector) -> Vector:
        x = a[0].astype(np.int64)
        if zeros == 19:  # ten to the 19th is no int64: only 0 is left, and from half of it on nothing
            return np.zeros_like(a[0]), without(a[1], (x >= half) | (x <= -half))
        rest = np.fmod(x, unit)
        base = x - rest
        up, down = rest >= half, rest <= -half
        outside = (up & (base >= ceiling)) | (down & (base <= bottom))
        rounded = base + (up.astype(np.int64) - down) * unit
        return rounded.astype(dtype), without(a[1], outside)

    return round_integers


def round_floats(x: Any, digits: int) -> Any:
    """Floats rounded half up at their shortest decimal form, as Spark does it: 2.675 to two places is 2.68.

    A float that is the nearest one to a tie counts as the tie. Dividing the tie by the power of ten gives that
    float, so the question is answered without a decimal.

    >>> round_floats(np.array([2.675, -2.5, 1.005]), 2).tolist()
    [2.68, -2.5, 1.01]
    """
    if digits > 22 or digits < -308:
        return x if digits > 0 else np.where(np.isfinite(x), 0.0, x)
    size = np.abs(x)
    if digits >= 0:
        scale = 10.0**digits
        scaled = size * scale
        below = np.floor(scaled)
        # The product may fall on the wrong side of a whole number; the nearest quotient is never wrong.
        below = np.where((below + 1) / scale <= size, below + 1, np.where(below / scale > size, below - 1, below))
        up = (below + 0.5) / scale <= size
        result = (below + up) / scale
        exact = (scaled >= 2.0**52) | ~np.isfinite(scaled)
    else:
        scale = 10.0**-digits
        below = np.floor(size / scale)
        result = (below + (size - below * scale >= scale / 2)) * scale
        exact = ~np.isfinite(size)
    return np.where(exact, x, np.where(x < 0, -result, result))
