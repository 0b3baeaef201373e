"""Large magnitudes as digits of 32 bits, the lowest first, in words of 64 bits: division and rounding to a double.

A number is a sign and ``sum(digits[i] * 2^(32 i + exponent))``. A quotient can be rounded only once, because it is told
whether something is left over: `divide` goes on downwards through `FRACTION` digits that were 0, so that the quotient
has at least 65 bits, however large the divisor is. A double has 53, and all that is left over lies below the half of
its last bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BITS = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_DOUBLE_BITS, _WORD_BITS = 53, 64
_LOWEST_NORMAL, _HIGHEST = -1022, 1023
_INFINITY = np.int64(0x7FF0000000000000)

# Digits below those of a number, for its quotient: 2^(32 * 4) divided by less than 2^63 is more than 2^65.
FRACTION = 4


@njit(inline="always")
def divide(digits, divisor):
    """Divide in place by a positive int64; what is left over."""
    by = np.uint64(divisor)
    left = _ZERO
    for place in range(digits.size - 1, -1, -1):
        if by <= _MASK:
            value = (left << _BITS) | digits[place]
            digits[place] = value // by
            left = value % by
        else:
            quotient = _ZERO
            for bit in range(31, -1, -1):
                left = (left << _ONE) | ((digits[place] >> np.uint64(bit)) & _ONE)
                quotient <<= _ONE
                if left >= by:
                    left -= by
                    quotient |= _ONE
            digits[place] = quotient
    return left


@njit(inline="always")
def round_to_double(digits, exponent, is_inexact):
    """The bits of the double nearest to a magnitude, ties to even; infinity if that is beyond the largest one.

    Its highest digit that is not 0 has at least two others below it, unless it is 0 as a whole. `is_inexact` tells that
    there is more below the lowest digit.
    """
    top = digits.size - 1
    while top > 2 and digits[top] == _ZERO:
        top -= 1
    lead = digits[top]
    found = np.int64(0)
    if lead != _ZERO:
        # The highest 64 bits from the first 1 on, whether there is more below them, and what the first one is worth.
        length = np.uint64(1)
        for step in (16, 8, 4, 2, 1):
            if lead >> np.uint64(step) != _ZERO:
                lead >>= np.uint64(step)
                length += np.uint64(step)
        lowest = digits[top - 2]
        word = (digits[top] << (np.uint64(64) - length)) | (digits[top - 1] << (_BITS - length)) | (lowest >> length)
        is_more = is_inexact or (lowest & ((_ONE << length) - _ONE)) != _ZERO
        for place in range(top - 2):
            is_more = is_more or digits[place] != _ZERO
        power = exponent + 32 * top + np.int64(length) - 1

        # Below the normal doubles there are fewer bits: the lowest is worth 2^-1074.
        kept = _DOUBLE_BITS - max(_LOWEST_NORMAL - power, 0)
        if power > _HIGHEST:
            found = _INFINITY
        elif kept >= 0:
            half = _ONE << np.uint64(_WORD_BITS - kept - 1)
            mantissa = (word >> np.uint64(_WORD_BITS - kept - 1)) >> _ONE
            is_half = (word & half) != _ZERO
            is_more = is_more or (word & (half - _ONE)) != _ZERO
            if is_half and (is_more or (mantissa & _ONE) != _ZERO):
                mantissa += _ONE
            # The mantissa's own first bit, or a carry beyond it, adds 1 to the field of the exponent.
            found = np.int64(mantissa) + ((max(power, _LOWEST_NORMAL) - _LOWEST_NORMAL) << 52)
    return found
