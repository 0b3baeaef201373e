"""The words of a hash multimap's buckets: the id of the newest entry, and above it marks of the keys in the chain.

    bits 63 ... 48   one mark for each of 16 classes of keys; a class is told by the upper bits of the key's hash
    bits 47 ... 0    the id of the newest entry of the chain

A key whose class has no mark is not in the chain: nobody has to look at a slot to find that out. What has left the ring
leaves its mark behind, until another entry finds the whole chain dead and begins with its own mark alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.types import NO_ID

_MARKS_AT = 48
_IDS = np.int64((1 << _MARKS_AT) - 1)
#: How far a hash, which is below 2^32, is shifted so that one of 16 classes is left.
_CLASS_SHIFT = 28


@njit(inline="always")
def newest_entry(buckets, hashed):
    """The newest entry of the chain that a key with this hash would be in; NO_ID if it cannot be there."""
    word = buckets[hashed & (buckets.size - 1)]
    is_marked = (word >> (_MARKS_AT + (hashed >> _CLASS_SHIFT))) & 1
    return word & _IDS if is_marked else np.int64(NO_ID)


@njit(inline="always")
def begin_chain(buckets, hashed, entry, head):
    """Have a chain begin with another entry, of a key with this hash; the one that follows, perhaps below the head."""
    bucket = hashed & (buckets.size - 1)
    word = buckets[bucket]
    before = word & _IDS
    mark = np.int64(1) << (_MARKS_AT + (hashed >> _CLASS_SHIFT))
    marks = (word & ~_IDS) | mark if before >= head else mark
    buckets[bucket] = marks | entry
    return before
