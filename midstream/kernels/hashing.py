"""64-bit codes: mixing, combining, and hashing of values that are no integers.

A code of a string or a decimal is a hash: equal values have equal codes, and a match is verified on the values. Codes
have no seed, because rows are stored and routed by them. Where in a hash table in memory a code goes is told by
`bucket_hash`, which has one, so that nobody can choose keys that share a bucket.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel

_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)
_SECOND, _THIRD = np.int64(0x2545F4914F6CDD1D), np.int64(0x5851F42D4C957F2D)
_EIGHT = np.uint64(8)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SIGN = np.int64(-0x8000000000000000)
#: A count of a filter that has been reached is not known to have gone down again.
_MOST = np.uint16(0xFFFF)


@njit(inline="always")
def mix(value):
    """Spread the bits of an integer over all 64 bits; distinct values stay distinct."""
    bits = np.uint64(value)
    bits ^= bits >> _SHIFT
    bits *= _MULTIPLIER
    bits ^= bits >> _SHIFT
    bits *= _MULTIPLIER
    bits ^= bits >> _SHIFT
    return np.int64(bits)


@njit(inline="always")
def secrets_of(seed):
    """Three words that nobody can tell without the seed, for `bucket_hash`."""
    return np.uint64(mix(seed)), np.uint64(mix(seed ^ _SECOND)), np.uint64(mix(seed ^ _THIRD))


@njit(inline="always")
def bucket_hash(code, secrets):
    """A number below 2^32 whose lower bits choose the bucket of a code.

    For random secrets, two codes share a bucket with a probability of one in the number of buckets, whoever chose the
    codes without knowing the secrets: of a sum and a product of halves as these, the upper half is pairwise
    independent (Thorup's pair-multiply-shift). The step before it is a bijection; it has usual keys, such as numbers in
    a row, spread as evenly as random ones under every seed.
    """
    first, second, third = secrets
    bits = np.uint64(code)
    bits ^= bits >> _SHIFT
    bits *= _MULTIPLIER
    return np.int64(((first + (bits >> _SHIFT)) * (second + (bits & _LOWER)) + third) >> _SHIFT)


@njit(inline="always")
def filter_hash(code, shift):
    """The place of a key in a filter with 2 to the power of ``64 - shift`` places."""
    return np.int64((np.uint64(code) * _ODD) >> np.uint64(shift))


@kernel
def combine(codes, more):
    """Fold the codes of one more attribute into `codes`, in place: the code of a composite key."""
    for i in range(codes.size):
        codes[i] = mix(mix(codes[i]) ^ more[i])


@kernel
def hash_bytes(offsets, data, out):
    """The code of each byte string ``data[offsets[i]:offsets[i + 1]]``."""
    for i in range(out.size):
        at = offsets[i]
        end = offsets[i + 1]
        state = np.int64(end - at)
        while at + 8 <= end:
            word = np.uint64(0)
            for k in range(8):
                word |= np.uint64(data[at + k]) << (np.uint64(k) * _EIGHT)
            state = mix(state ^ np.int64(word))
            at += 8
        word = np.uint64(0)
        shift = np.uint64(0)
        while at < end:
            word |= np.uint64(data[at]) << shift
            shift += _EIGHT
            at += 1
        out[i] = mix(state ^ np.int64(word))


@kernel
def hash_pairs(words, out):
    """The code of each 16-byte value, given as two 64-bit words a row."""
    for i in range(out.size):
        out[i] = mix(mix(words[i, 0]) ^ words[i, 1])


@kernel
def float_codes(bits, out):
    """Codes of doubles, given by their bits: equal for equal values (-0.0 and 0.0, every NaN), and in their order.

    Comparing the codes as integers orders the doubles, NaN last.
    """
    infinity = np.int64(0x7FF0000000000000)
    for i in range(out.size):
        value = bits[i]
        magnitude = value & ~_SIGN
        if magnitude > infinity:
            out[i] = np.int64(0x7FF8000000000000)
        elif magnitude == 0:
            out[i] = 0
        elif value < 0:
            out[i] = -magnitude
        else:
            out[i] = value


@kernel
def enter_keys(keys, counts, shift):
    """Count keys in a filter, up to the most that a count can be, where it stays."""
    for i in range(keys.size):
        place = filter_hash(keys[i], shift)
        if counts[place] < _MOST:
            counts[place] += np.uint16(1)


@kernel
def leave_keys(keys, counts, shift):
    """Count keys no longer, each of which has been entered; for how many that could not be done."""
    stuck = 0
    for i in range(keys.size):
        place = filter_hash(keys[i], shift)
        if counts[place] < _MOST:
            counts[place] -= np.uint16(1)
        else:
            stuck += 1
    return stuck
