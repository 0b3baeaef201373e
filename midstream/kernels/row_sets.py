"""Sets of row ids: a run of ids, or a bitmap over them, as a probe or an insert asks them."""

from __future__ import annotations

from midstream.kernels.caching import kernel


@kernel
def measure(ids):
    """The lowest and the highest of some ids, and whether each of them is one above the one before it."""
    lowest = highest = ids[0]
    is_run = True
    for i in range(1, ids.size):
        row = ids[i]
        is_run = is_run and row == ids[i - 1] + 1
        lowest = min(lowest, row)
        highest = max(highest, row)
    return lowest, highest, is_run


@kernel
def add(bits, base, ids):
    """Set the bits of ids, for all of which there are bits; how many were not set before."""
    added = 0
    for i in range(ids.size):
        place = ids[i] - base
        added += not bits[place]
        bits[place] = True
    return added


@kernel
def discard(bits, base, ids):
    """Clear the bits of ids, for all of which there are bits; how many were set before."""
    gone = 0
    for i in range(ids.size):
        place = ids[i] - base
        gone += bits[place]
        bits[place] = False
    return gone


@kernel
def has(held, ids, found):
    """Whether each id is in a set."""
    bits, base, low, high = held
    is_run = bits.size == 0
    for i in range(ids.size):
        row = ids[i]
        found[i] = low <= row < high and (is_run or bits[row - base])


@kernel
def mark(held, ids, found):
    """Set ``found[i]`` where the id i is in a set; how many are set now, by this call or before."""
    bits, base, low, high = held
    is_run = bits.size == 0
    count = 0
    for i in range(ids.size):
        row = ids[i]
        if low <= row < high and (is_run or bits[row - base]):
            found[i] = True
        count += found[i]
    return count


@kernel
def clear_flags(held, rows, first, column, flags):
    """Clear the flags of the combinations from `first` on whose row of one column is in a set."""
    bits, base, low, high = held
    is_run = bits.size == 0
    for i in range(flags.size):
        row = rows[first + i, column]
        if low <= row < high and (is_run or bits[row - base]):
            flags[i] = False
