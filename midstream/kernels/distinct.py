"""What is there once: distinct rows of a matrix, by a table that has the places of those seen.

A place in a table is one more than that of the row: memory that comes zeroed is an empty table.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.hashing import mix


@njit(inline="always")
def table_size(size):
    """A power of two that is at least twice the size, so that few of the places of a table are taken."""
    capacity = 4
    while capacity < 2 * size:
        capacity *= 2
    return capacity


@kernel
def find_distinct_rows(rows):
    """The places of the rows of a matrix that are not equal to an earlier one, in their order."""
    size, width = rows.shape
    table = np.zeros(table_size(size), np.int64)
    mask = table.size - 1
    found = np.empty(size, np.int64)
    count = 0
    for row in range(size):
        hashed = mix(rows[row, 0])
        for k in range(1, width):
            hashed = mix(hashed ^ rows[row, k])
        at = hashed & mask
        is_new = True
        while table[at] != 0:
            other = table[at] - 1
            k = 0
            while k < width and rows[other, k] == rows[row, k]:
                k += 1
            if k == width:
                is_new = False
                break
            at = (at + 1) & mask
        if is_new:
            table[at] = row + 1
            found[count] = row
            count += 1
    return found[:count].copy()
