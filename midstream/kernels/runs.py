"""A sorted index in runs: every batch is a sorted run, and runs of like size are merged.

There are at most logarithmically many runs, so that an insert costs a share of a few merges and a range costs a binary
search in each run. Ids that the ring has forgotten are skipped when read and left out when runs are merged.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.types import AFRESH, COUNT, EVICTED, LARGEST, NEXT, NO_REASON, ROW, SMALLEST, VISITED


@kernel
def merge(left_values, left_ids, right_values, right_ids, head):
    """One sorted run of two, without the ids below `head`."""
    size = left_values.size + right_values.size
    values = np.empty(size, np.int64)
    ids = np.empty(size, np.int64)
    i = 0
    j = 0
    count = 0
    while i < left_values.size or j < right_values.size:
        if j == right_values.size or (i < left_values.size and left_values[i] <= right_values[j]):
            value = left_values[i]
            entry = left_ids[i]
            i += 1
        else:
            value = right_values[j]
            entry = right_ids[j]
            j += 1
        if entry >= head:
            values[count] = value
            ids[count] = entry
            count += 1
    return values[:count].copy(), ids[:count].copy()


@njit(inline="always")
def _first_at_least(values, bound):
    low = 0
    high = values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def probe(run, ring, ranges, combos, out, cursor, layout):
    """Join combinations with the entries of a run whose value lies in the combination's range; as `chains.probe`."""
    values, ids = run
    lows, highs = ranges
    members = ring.members
    slot_mask = ring.starts.size - 1
    width = members.shape[1]
    is_leaf = members.shape[0] == 0
    probe_width = combos.rows.shape[1]
    count = cursor[COUNT]
    row = cursor[ROW]
    at = cursor[NEXT]
    visited = 0
    while row < lows.size:
        start = combos.starts[row]
        end = combos.ends[row]
        high = highs[row]
        if at == AFRESH:
            at = _first_at_least(values, lows[row])
        while at < values.size and values[at] <= high:
            entry = ids[at]
            visited += 1
            if entry >= ring.head and entry < ring.tail:
                slot = entry & slot_mask
                if ring.starts[slot] <= end and ring.ends[slot] >= start:
                    if count == out.starts.size:
                        cursor[ROW] = row
                        cursor[NEXT] = at
                        cursor[COUNT] = count
                        cursor[VISITED] += visited
                        return False
                    if is_leaf:
                        out.rows[count, layout.entry_at] = entry
                    else:
                        for k in range(width):
                            out.rows[count, layout.entry_at + k] = members[slot, k]
                    for k in range(probe_width):
                        out.rows[count, layout.probe_at + k] = combos.rows[row, k]
                    out.starts[count] = max(start, ring.starts[slot])
                    out.ends[count] = min(end, ring.ends[slot])
                    count += 1
            at += 1
        at = AFRESH
        row += 1
    cursor[ROW] = row
    cursor[NEXT] = AFRESH
    cursor[COUNT] = count
    cursor[VISITED] += visited
    return True


@kernel
def find(run, ring, lows, highs, found, cursor):
    """The ids of all entries of a run with a value in one of the ranges, until `found` is full; as `probe`.

    Those that were evicted are left out.
    """
    values, ids = run
    slot_mask = ring.ends.size - 1
    count = cursor[COUNT]
    row = cursor[ROW]
    at = cursor[NEXT]
    while row < lows.size:
        if at == AFRESH:
            at = _first_at_least(values, lows[row])
        while at < values.size and values[at] <= highs[row]:
            if ids[at] >= ring.head and ring.ends[ids[at] & slot_mask] != EVICTED:
                if count == found.size:
                    cursor[ROW] = row
                    cursor[NEXT] = at
                    cursor[COUNT] = count
                    return False
                found[count] = ids[at]
                count += 1
            at += 1
        at = AFRESH
        row += 1
    cursor[ROW] = row
    cursor[NEXT] = AFRESH
    cursor[COUNT] = count
    return True


@kernel
def find_partners(run, ring, ranges, intervals, found):
    """Set ``found[i]`` where an entry of a run lies in the range of row i, and its interval intersects the row's.

    Rows that are found already are passed over.
    """
    values, ids = run
    lows, highs = ranges
    starts, ends = intervals
    slot_mask = ring.ends.size - 1
    for row in range(lows.size):
        if found[row]:
            continue
        at = _first_at_least(values, lows[row])
        while at < values.size and values[at] <= highs[row]:
            slot = ids[at] & slot_mask
            if ids[at] >= ring.head and ring.starts[slot] <= ends[row] and ring.ends[slot] >= starts[row]:
                found[row] = True
                break
            at += 1


@kernel
def wake(run, ring, ranges, intervals, reasons, reason):
    """The ids of the entries of a run that wait for this reason and match a row, each once; as `partners.wake`."""
    values, ids = run
    lows, highs = ranges
    starts, ends = intervals
    slot_mask = ring.ends.size - 1
    woken = np.empty(64, np.int64)
    count = 0
    for row in range(lows.size):
        at = _first_at_least(values, lows[row])
        while at < values.size and values[at] <= highs[row]:
            slot = ids[at] & slot_mask
            is_match = ids[at] >= ring.head and ring.starts[slot] <= ends[row] and ring.ends[slot] >= starts[row]
            if is_match and reasons[slot] == reason:
                reasons[slot] = NO_REASON
                if count == woken.size:
                    woken = np.concatenate((woken, np.empty(count, np.int64)))
                woken[count] = ids[at]
                count += 1
            at += 1
    return woken[:count].copy()


@kernel
def shift(values, amount, lows, bounds):
    """``bounds[i]`` is ``values[i] + amount``; where that is beyond int64 it is held at the end.

    A low bound above all values, or a high bound below all, leaves nothing to find. `lows` tells which kind of bound
    it is; returns the places at which nothing is to be found.
    """
    empty = np.zeros(values.size, np.bool_)
    for i in range(values.size):
        value = values[i]
        if amount > 0 and value > LARGEST - amount:
            bounds[i] = LARGEST
            empty[i] = lows
        elif amount < 0 and value < SMALLEST - amount:
            bounds[i] = SMALLEST
            empty[i] = not lows
        else:
            bounds[i] = value + amount
    return empty
