"""Rows of codes -> dense ids: a hash table whose keys are whole rows of integers."""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.hashing import bucket_hash, mix, secrets_of


@njit(inline="always")
def _bucket(codes, row, seed, secrets):
    state = np.int64(seed)
    for k in range(codes.shape[1] - 1):
        state = mix(state ^ codes[row, k])
    return bucket_hash(state ^ codes[row, codes.shape[1] - 1], secrets)


@njit(inline="always")
def _are_equal(keys, entry, codes, row):
    for k in range(codes.shape[1]):
        if keys[entry, k] != codes[row, k]:
            return False
    return True


@kernel
def find_or_add(slots, keys, count, codes, seed, ids, added):
    """Write the id of each row of `codes` into `ids`; those that are not among the first `count` keys are added.

    A slot has an id + 1, or 0. There is room for all rows in `keys`, and for twice as many in `slots`. The places of
    the rows that were added go to `added`; returns how many keys there are now.
    """
    secrets = secrets_of(seed)
    mask = slots.size - 1
    first = count
    for i in range(codes.shape[0]):
        at = _bucket(codes, i, seed, secrets) & mask
        while True:
            found = slots[at]
            if found == 0:
                for k in range(codes.shape[1]):
                    keys[count, k] = codes[i, k]
                added[count - first] = i
                ids[i] = count
                count += 1
                slots[at] = count
                break
            if _are_equal(keys, found - 1, codes, i):
                ids[i] = found - 1
                break
            at = (at + 1) & mask
    return count


@kernel
def enter(slots, keys, count, seed):
    """Enter the first `count` keys, which all differ, into a table that has none of them."""
    secrets = secrets_of(seed)
    mask = slots.size - 1
    for entry in range(count):
        at = _bucket(keys, entry, seed, secrets) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = entry + 1
