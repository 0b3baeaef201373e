"""Rings: gathering values by id, finding the first live row, evicting entries, and collecting dead ones."""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.types import EVICTED, LARGEST


@kernel
def gather(values, rows, column, out):
    """``out[i]`` is the value of the row that combination i has of one input."""
    mask = values.size - 1
    for i in range(out.size):
        out[i] = values[rows[i, column] & mask]


@kernel
def gather_pairs(values, rows, column, out):
    """As `gather` for values of two words."""
    mask = values.shape[0] - 1
    for i in range(out.shape[0]):
        slot = rows[i, column] & mask
        out[i, 0] = values[slot, 0]
        out[i, 1] = values[slot, 1]


@kernel
def gather_offsets(lengths, rows, column, offsets):
    """Offsets of the byte strings that `gather_bytes` will copy; returns their total length."""
    mask = lengths.size - 1
    total = 0
    offsets[0] = 0
    for i in range(offsets.size - 1):
        total += lengths[rows[i, column] & mask]
        offsets[i + 1] = total
    return total


@kernel
def gather_bytes(offsets, heap, rows, column, out_offsets, out):
    """Copy the byte string of each combination's row of one input to its place in `out`."""
    mask = offsets.size - 1
    heap_mask = heap.size - 1
    for i in range(out_offsets.size - 1):
        at = offsets[rows[i, column] & mask] & heap_mask
        begin = out_offsets[i]
        for k in range(out_offsets[i + 1] - begin):
            out[begin + k] = heap[at + k]


@kernel
def first_alive(ends, head, tail, horizon):
    """The first id from `head` on whose validity has not ended before the horizon."""
    mask = ends.size - 1
    while head < tail and ends[head & mask] < horizon:
        head += 1
    return head


@kernel
def alive(ends, head, tail, horizon):
    """All ids whose validity has not ended before the horizon."""
    mask = ends.size - 1
    ids = np.empty(tail - head, np.int64)
    count = 0
    for entry in range(head, tail):
        if ends[entry & mask] >= horizon:
            ids[count] = entry
            count += 1
    return ids[:count]


@njit(inline="always")
def is_dead(ends, members, slot, horizon, first_rows):
    """Whether the entry in a slot ended before the horizon, or has a row below the first of its input."""
    if ends[slot] < horizon:
        return True
    for k in range(first_rows.size):
        if members[slot, k] < first_rows[k]:
            return True
    return False


@njit(inline="always")
def dead_of_sample(ring, horizon, first_rows, samples, offset):
    """How many of evenly spread samples of the ring's entries are dead."""
    _, ends, members, head, tail = ring
    mask = ends.size - 1
    size = tail - head
    dead = 0
    for i in range(samples):
        entry = head + (i * size + offset % size) // samples
        if is_dead(ends, members, entry & mask, horizon, first_rows):
            dead += 1
    return dead


@kernel
def evict(ring, column, chosen, base):
    """End the entries whose row in a column is chosen, ``chosen[i]`` being about row ``base + i``; their ids."""
    mask = ring.ends.size - 1
    found = np.empty(ring.tail - ring.head, np.int64)
    count = 0
    for entry in range(ring.head, ring.tail):
        slot = entry & mask
        place = ring.members[slot, column] - base
        if place >= 0 and place < chosen.size and chosen[place] and ring.ends[slot] != EVICTED:
            ring.ends[slot] = EVICTED
            found[count] = entry
            count += 1
    return found[:count].copy()


@kernel
def find_rows(ring, column, chosen, base):
    """The ids of the entries whose row in a column is chosen, as `evict` has it; evicted ones are left out."""
    _, ends, members, head, tail = ring
    mask = ends.size - 1
    found = np.empty(64, np.int64)
    count = 0
    for entry in range(head, tail):
        slot = entry & mask
        place = members[slot, column] - base
        if place >= 0 and place < chosen.size and chosen[place] and ends[slot] != EVICTED:
            if count == found.size:
                found = np.concatenate((found, np.empty(count, np.int64)))
            found[count] = entry
            count += 1
    return found[:count].copy()


@kernel
def living(ring, horizon, first_rows):
    """The ids of the entries that are not dead; the horizon is after the end of evicted ones."""
    mask = ring.ends.size - 1
    ids = np.empty(ring.tail - ring.head, np.int64)
    count = 0
    for entry in range(ring.head, ring.tail):
        if not is_dead(ring.ends, ring.members, entry & mask, horizon, first_rows):
            ids[count] = entry
            count += 1
    return ids[:count]


@kernel
def collect(ring, horizon, first_rows, samples, least_dead, budget):
    """Forget dead entries at the head of a ring; move up to `budget` live ones that stand in the way to its tail.

    Nothing is moved unless at least `least_dead` of so many evenly spread samples of the entries are dead. Returns the
    new head, how many entries that left were evicted, and the former ids of those that moved to the ids from the tail
    on. There is room for the moves: each takes the place of an entry that left.
    """
    starts, ends, members, head, tail = ring
    if dead_of_sample(ring, horizon, first_rows, samples, tail) < least_dead:
        budget = 0
    mask = ends.size - 1
    stop = tail
    width = members.shape[1]
    moved = np.empty(min(budget, tail - head), np.int64)
    count = 0
    evicted = 0
    while head < stop:
        slot = head & mask
        if not is_dead(ends, members, slot, horizon, first_rows):
            if count == moved.size:
                break
            moved[count] = head
            count += 1
            to = tail & mask
            starts[to] = starts[slot]
            ends[to] = ends[slot]
            for k in range(width):
                members[to, k] = members[slot, k]
            tail += 1
        elif ends[slot] == EVICTED:
            evicted += 1
        head += 1
    return head, evicted, moved[:count].copy()


@kernel
def close_rows(ordinals, arrival_ends, cursor, size, first_ordinal, arrivals):
    """Set the arrival number at which rows leave a ROWS window of `size`, for rows whose n-th successor came now.

    `arrivals` are the numbers of the stream's new rows, the first of which is its row number `first_ordinal`. Returns
    the first id that has no n-th successor yet; `cursor` is what the last call returned and the ring's tail. Rows that
    stand behind later ones of their stream are passed over: they have been closed before, see `close_late_rows`.
    """
    mask = ordinals.size - 1
    entry, tail = cursor
    # Rows below this number have their n-th successor; a sum of number and size may be beyond the largest integer.
    has_successor = first_ordinal + arrivals.size - size
    while entry < tail and ordinals[entry & mask] < has_successor:
        if arrival_ends[entry & mask] == LARGEST:
            arrival_ends[entry & mask] = arrivals[ordinals[entry & mask] + size - first_ordinal] - 1
        entry += 1
    return entry


@kernel
def close_late_rows(ordinals, arrival_ends, entries, size, first_ordinal, arrivals):
    """As `close_rows`, for these rows, all of which have their n-th successor; those that are closed stay so."""
    mask = ordinals.size - 1
    for i in range(entries.size):
        slot = entries[i] & mask
        if arrival_ends[slot] == LARGEST:
            arrival_ends[slot] = arrivals[ordinals[slot] + size - first_ordinal] - 1


@kernel
def find_live(combos, horizon, first_rows, live):
    """Which combinations are not dead, see `is_dead`; how many."""
    rows, _, ends = combos
    width = rows.shape[1]
    count = 0
    for i in range(live.size):
        is_live = ends[i] >= horizon
        for k in range(width):
            is_live = is_live and rows[i, k] >= first_rows[k]
        live[i] = is_live
        count += is_live
    return count
