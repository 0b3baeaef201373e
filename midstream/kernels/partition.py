"""Rows -> cells: coordinates from codes, and a stable sort by cell, or by the class of a code, in two passes.

The function of `add_coordinates` may never change: rows that a checkpoint keeps were routed by it.
"""

from __future__ import annotations

import numpy as np

from midstream.kernels.caching import kernel
from midstream.kernels.hashing import mix

_HALF = np.uint64(32)


@kernel
def add_coordinates(codes, seed, share, stride, cells):
    """Add ``stride`` times the coordinate of each code, a number below `share`, to `cells`.

    The upper half of the mixed code is scaled down to the share: all of its bits count, and no division is needed. Hash
    tables inside of a cell hash codes in another way.
    """
    for i in range(codes.size):
        upper = np.uint64(mix(codes[i] ^ seed)) >> _HALF
        cells[i] += stride * np.int64((upper * np.uint64(share)) >> _HALF)


@kernel
def mark(codes, wanted, bit, marks):
    """Set a bit in the marks of the codes that are among `wanted`, which is sorted."""
    for i in range(codes.size):
        code = codes[i]
        low = 0
        high = wanted.size
        while low < high:
            middle = (low + high) // 2
            if wanted[middle] < code:
                low = middle + 1
            else:
                high = middle
        if low < wanted.size and wanted[low] == code:
            marks[i] |= bit


@kernel
def group(cells, count):
    """The places of the rows by cell, in their order inside a cell, and where in that list each cell begins.

    The last of the ``count + 1`` beginnings is the end.
    """
    begins = np.zeros(count + 1, np.int64)
    for i in range(cells.size):
        begins[cells[i] + 1] += 1
    for cell in range(count):
        begins[cell + 1] += begins[cell]
    free = begins.copy()
    order = np.empty(cells.size, np.int64)
    for i in range(cells.size):
        cell = cells[i]
        order[free[cell]] = i
        free[cell] += 1
    return order, begins


@kernel
def split(codes, bounds, are_exact, way_of_class, combos, parted, parted_codes):
    """Write combinations and their codes elsewhere, by the way that the class of each takes; where each way begins.

    The class of a code is how many of the `bounds`, which are sorted, are at most the code; if they `are_exact`, it is
    0 unless the code is one of them. The last of the beginnings is the end.
    """
    rows, starts, ends = combos
    parted_rows, parted_starts, parted_ends = parted
    width = rows.shape[1]
    begins = np.zeros(way_of_class.max() + 2, np.int64)
    ways = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        code = codes[i]
        number = 0
        high = bounds.size
        while number < high:
            middle = (number + high) // 2
            if bounds[middle] <= code:
                number = middle + 1
            else:
                high = middle
        if are_exact and (number == 0 or bounds[number - 1] != code):
            number = 0
        way = way_of_class[number]
        ways[i] = way
        begins[way + 1] += 1
    for way in range(begins.size - 1):
        begins[way + 1] += begins[way]
    free = begins.copy()
    for i in range(codes.size):
        place = free[ways[i]]
        free[ways[i]] = place + 1
        for k in range(width):
            parted_rows[place, k] = rows[i, k]
        parted_starts[place] = starts[i]
        parted_ends[place] = ends[i]
        parted_codes[place] = codes[i]
    return begins
