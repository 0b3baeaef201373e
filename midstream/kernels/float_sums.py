"""Exact sums of doubles, which do not depend on the order of what is added and taken away.

Every finite double is a multiple of 2^-1074 and less than 2^1024. A sum is kept as such a multiple, in chunks:

    sum = 2^-1074 * (chunks[0] * 2^(32 first) + chunks[1] * 2^(32 (first + 1)) + ...)

A double is at most 84 bits from the beginning of a chunk, three pieces of 32 bits, each of which is added to a chunk of
64 bits. What goes beyond 32 bits stays there for the time being: carries are propagated when a value is asked for, when
the next group begins, or else after `CARRY_AFTER` changes, before a chunk can overflow. Then all chunks but the highest
have 32 bits, without a sign, and the highest has the sign and what 2^63 values can carry into it.

All groups have the same chunks: as many as the exponents of all their values need, seldom more than six, at most 67.
Whoever keeps the state finds the range by `find_range` before adding values, and makes room for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.digits import FRACTION, divide, round_to_double

# The words of a tally: how many values there are, and how many of them are not finite.
VALUES, NANS, INFINITIES, NEGATIVE_INFINITIES = 0, 1, 2, 3
TALLY_WORDS = 4
# Each change adds less than 2^32 to a chunk, so after so many of them it is still below 2^63.
CARRY_AFTER = 1 << 30
# The chunks that a value takes, and the one above for carries.
VALUE_CHUNKS, MORE_CHUNKS = 3, 1
_LOWEST_EXPONENT = -1074
_HIGHEST_CHUNK = 66

# The bits of doubles. Null is a NaN that no value has: all those of values are written as NAN.
INFINITY = np.int64(0x7FF0000000000000)
NAN = np.int64(0x7FF8000000000000)
NULL = np.int64(0x7FF8000000000001)
_NEGATIVE = np.int64(-0x8000000000000000)
_FRACTION_MASK, _FRACTION_BITS = np.int64(0xFFFFFFFFFFFFF), 52
_BITS, _MASK = np.int64(32), np.int64(0xFFFFFFFF)


class FloatSums(NamedTuple):
    """The state of all groups: `chunks` and `tallies` have a row each; `first` numbers the first chunk."""

    chunks: np.ndarray
    tallies: np.ndarray
    first: int


@njit(inline="always")
def _lowest_bit(bits):
    """The exponent of a finite double's lowest bit, counted from 2^-1074."""
    return max((bits & INFINITY) >> _FRACTION_BITS, 1) - 1


@kernel
def find_range(bits):
    """The numbers of the lowest chunk that any of these doubles needs, and of the highest; (0, -1) if none does."""
    lowest, highest = np.int64(_HIGHEST_CHUNK), np.int64(-1)
    for value in bits:
        if (value & INFINITY) != INFINITY and (value & ~_NEGATIVE) != 0:
            chunk = _lowest_bit(value) >> 5
            lowest, highest = min(lowest, chunk), max(highest, chunk)
    if highest < 0:
        return np.int64(0), np.int64(-1)
    return lowest, highest + VALUE_CHUNKS + MORE_CHUNKS - 1


@njit(inline="always")
def _carry(chunks, group):
    """Leave 32 bits in every chunk of a group but the highest."""
    for place in range(chunks.shape[1] - 1):
        value = chunks[group, place]
        chunks[group, place] = value & _MASK
        chunks[group, place + 1] += value >> _BITS


@njit(inline="always")
def _write_magnitude(chunks, group, digits):
    """Write the magnitude of a group's sum, after carrying, above the digits of a fraction; whether it is negative."""
    last = chunks.shape[1] - 1
    is_negative = chunks[group, last] < 0
    digits[:FRACTION] = 0
    carry = np.int64(is_negative)
    for place in range(last):
        value = chunks[group, place]
        value = (~value & _MASK if is_negative else value) + carry
        digits[FRACTION + place] = np.uint64(value & _MASK)
        carry = value >> _BITS
    value = chunks[group, last]
    value = (~value if is_negative else value) + carry
    digits[FRACTION + last] = np.uint64(value & _MASK)
    digits[FRACTION + last + 1] = np.uint64(value >> _BITS)
    return is_negative


@kernel
def add_floats(groups, signs, words, ends, sums, is_average, carry_after, out):
    """Add doubles, given by their bits, to the sums of groups, or take them away.

    `out` gets after each end the bits of the sum, or of the average, rounded once, and the number of values.
    """
    chunks, tallies, first = sums
    width = chunks.shape[1]
    digits = np.empty(FRACTION + width + 1, np.uint64)
    exponent = np.int64(_LOWEST_EXPONENT + 32 * (first - FRACTION))
    asked, uncarried = 0, 0
    for change in range(groups.size):
        group, sign, bits = groups[change], signs[change], words[change]
        if sign != 0 and bits != NULL:
            tallies[group, VALUES] += sign
            if bits == NAN:
                tallies[group, NANS] += sign
            elif bits == INFINITY:
                tallies[group, INFINITIES] += sign
            elif (bits & INFINITY) == INFINITY:
                tallies[group, NEGATIVE_INFINITIES] += sign
            elif (bits & ~_NEGATIVE) != 0:
                mantissa = bits & _FRACTION_MASK
                if (bits & INFINITY) != 0:
                    mantissa |= np.int64(1) << _FRACTION_BITS
                lowest = _lowest_bit(bits)
                shift = lowest & 31
                above = mantissa >> (32 - shift)
                if bits < 0:
                    sign = -sign
                place = (lowest >> 5) - first
                chunks[group, place] += sign * ((mantissa << shift) & _MASK)
                chunks[group, place + 1] += sign * (above & _MASK)
                chunks[group, place + 2] += sign * (above >> _BITS)
                uncarried += 1
        is_asked = asked < ends.size and ends[asked] == change
        is_last = change + 1 == groups.size or groups[change + 1] != group
        if is_asked or is_last or uncarried >= carry_after:
            _carry(chunks, group)
            uncarried = 0
        if is_asked:
            values = tallies[group, VALUES]
            ups, downs = tallies[group, INFINITIES], tallies[group, NEGATIVE_INFINITIES]
            if tallies[group, NANS] > 0 or (ups > 0 and downs > 0):
                found = NAN
            elif ups > 0:
                found = INFINITY
            elif downs > 0:
                found = INFINITY | _NEGATIVE
            elif width == 0:
                found = np.int64(0)
            else:
                is_negative = _write_magnitude(chunks, group, digits)
                left = np.uint64(0)
                if is_average and values > 0:
                    left = divide(digits, values)
                found = round_to_double(digits, exponent, left != np.uint64(0))
                if is_negative and found != 0:
                    found |= _NEGATIVE
            out[asked, 0] = found
            out[asked, 1] = values
            asked += 1
