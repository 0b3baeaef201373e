"""Totals of integers -> sums and averages, each rounded once."""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.digits import FRACTION, divide, round_to_double
from midstream.kernels.sums import COUNT, HIGH, LOW, MIDDLE

_BITS = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_NEGATIVE = np.int64(-0x8000000000000000)
# The digits of a sum of 192 bits, and those that a factor below 2^32 and a carry add.
_SUM_DIGITS, _MORE_DIGITS = 6, 2
# Integers up to here are doubles.
_EXACT_DOUBLES = np.int64(1) << np.int64(53)


@njit(inline="always")
def _write_magnitude(totals, row, digits, first):
    """Write the magnitude of a total's sum into digits from `first` on, 0 into all others; whether it is negative."""
    digits[:] = _ZERO
    is_negative = totals[row, HIGH] < 0
    carry = _ONE if is_negative else _ZERO
    for limb in range(3):
        word = totals[row, LOW + limb]
        bits = np.uint64(~word if is_negative else word)
        low = (bits & _MASK) + carry
        high = (bits >> _BITS) + (low >> _BITS)
        digits[first + 2 * limb] = low & _MASK
        digits[first + 2 * limb + 1] = high & _MASK
        carry = high >> _BITS
    return is_negative


@kernel
def fit_integers(totals, out, valid):
    """The sum of every total as an int64; it is not valid if it does not fit, or if the count is 0."""
    for row in range(out.size):
        low = totals[row, LOW]
        sign = low >> 63
        out[row] = low
        valid[row] = totals[row, COUNT] > 0 and totals[row, MIDDLE] == sign and totals[row, HIGH] == sign


@kernel
def average_to_doubles(totals, out):
    """sum / count of every total, rounded once; 0 where the count is 0."""
    bits = out.view(np.int64)
    digits = np.empty(FRACTION + _SUM_DIGITS, np.uint64)
    for row in range(out.size):
        count, low = totals[row, COUNT], totals[row, LOW]
        is_small = -_EXACT_DOUBLES <= low <= _EXACT_DOUBLES and totals[row, HIGH] == low >> 63
        if count == 0:
            out[row] = 0.0
        elif is_small and totals[row, MIDDLE] == low >> 63 and count <= _EXACT_DOUBLES:
            # Both are doubles, and so the division is the only rounding.
            out[row] = np.float64(low) / np.float64(count)
        else:
            is_negative = _write_magnitude(totals, row, digits, FRACTION)
            left = divide(digits, count)
            magnitude = round_to_double(digits, np.int64(-32 * FRACTION), left != _ZERO)
            bits[row] = magnitude | _NEGATIVE if is_negative else magnitude


@kernel
def divide_decimals(totals, divisors, factor, limit, out, valid):
    """sum * factor / divisor of every total, halves rounded away from 0: two words each, the lower one first.

    `factor` is less than 2^32. A result is not valid if its count is 0 or its magnitude is not below the limit, which
    is given as two words.
    """
    digits = np.empty(_SUM_DIGITS + _MORE_DIGITS, np.uint64)
    limit_low, limit_high = np.uint64(limit[0]), np.uint64(limit[1])
    for row in range(valid.size):
        is_negative = _write_magnitude(totals, row, digits, 0)
        carry = _ZERO
        for place in range(digits.size):
            value = digits[place] * np.uint64(factor) + carry
            digits[place] = value & _MASK
            carry = value >> _BITS
        left = divide(digits, divisors[row])
        carry = _ONE if left * _TWO >= np.uint64(divisors[row]) else _ZERO
        for place in range(digits.size):
            value = digits[place] + carry
            digits[place] = value & _MASK
            carry = value >> _BITS
        low = digits[0] | (digits[1] << _BITS)
        high = digits[2] | (digits[3] << _BITS)
        beyond = digits[4] | digits[5] | digits[6] | digits[7]
        fits = beyond == _ZERO and (high < limit_high or (high == limit_high and low < limit_low))
        valid[row] = fits and totals[row, COUNT] > 0
        if is_negative:
            low = ~low + _ONE
            high = ~high + (_ONE if low == _ZERO else _ZERO)
        out[row, 0] = np.int64(low)
        out[row, 1] = np.int64(high)
