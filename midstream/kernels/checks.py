"""Tests of combinations that an index has proposed, as masks, and the packing of those that pass."""

from __future__ import annotations

from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.types import LARGEST, SMALLEST


@njit(inline="always")
def is_at_least(left, right, low):
    """Whether ``left - right >= low``. Compares before it adds: a sum that overflows is undefined."""
    if low > 0 and right > LARGEST - low:
        return False
    if low < 0 and right < SMALLEST - low:
        return True
    return left >= right + low


@njit(inline="always")
def is_at_most(left, right, high):
    """Whether ``left - right <= high``, as `is_at_least`."""
    if high > 0 and right > LARGEST - high:
        return True
    if high < 0 and right < SMALLEST - high:
        return False
    return left <= right + high


@kernel
def same_codes(rows, first, sides, columns, passed):
    """Clear `passed` where the codes of two inputs differ; `sides` are their columns in `rows`, `columns` the codes."""
    left, right = columns
    left_mask = left.size - 1
    right_mask = right.size - 1
    for i in range(passed.size):
        if left[rows[first + i, sides[0]] & left_mask] != right[rows[first + i, sides[1]] & right_mask]:
            passed[i] = False


@kernel
def same_pairs(rows, first, sides, columns, passed):
    """As `same_codes` for 16-byte values, kept as two words a row."""
    left, right = columns
    left_mask = left.shape[0] - 1
    right_mask = right.shape[0] - 1
    for i in range(passed.size):
        a = rows[first + i, sides[0]] & left_mask
        b = rows[first + i, sides[1]] & right_mask
        if left[a, 0] != right[b, 0] or left[a, 1] != right[b, 1]:
            passed[i] = False


@kernel
def same_bytes(rows, first, sides, heads, left, right, passed):
    """As `same_codes` for byte strings, each side a tuple of offsets, lengths and heap.

    `heads` are the first rows of the two windows. The bytes of rows below them are gone, so those do not pass.
    """
    left_offsets, left_lengths, left_heap = left
    right_offsets, right_lengths, right_heap = right
    left_mask = left_offsets.size - 1
    right_mask = right_offsets.size - 1
    left_heap_mask = left_heap.size - 1
    right_heap_mask = right_heap.size - 1
    for i in range(passed.size):
        left_row = rows[first + i, sides[0]]
        right_row = rows[first + i, sides[1]]
        if left_row < heads[0] or right_row < heads[1]:
            passed[i] = False
            continue
        a = left_row & left_mask
        b = right_row & right_mask
        length = left_lengths[a]
        if length != right_lengths[b]:
            passed[i] = False
            continue
        at = left_offsets[a] & left_heap_mask
        bt = right_offsets[b] & right_heap_mask
        for k in range(length):
            if left_heap[at + k] != right_heap[bt + k]:
                passed[i] = False
                break


@kernel
def raise_to(rows, first, column, values, highest):
    """Raise ``highest[i]`` to the value of the combination's row of one input."""
    mask = values.size - 1
    for i in range(highest.size):
        value = values[rows[first + i, column] & mask]
        if value > highest[i]:
            highest[i] = value


@kernel
def at_most(rows, first, column, values, highest, passed):
    """Clear `passed` where ``highest[i]`` is above the value of the combination's row of one input."""
    mask = values.size - 1
    for i in range(highest.size):
        if highest[i] > values[rows[first + i, column] & mask]:
            passed[i] = False


@kernel
def pack(combos, first, passed):
    """Move the combinations that passed together, from `first` on; returns where they end."""
    rows, starts, ends = combos
    width = rows.shape[1]
    count = first
    for i in range(passed.size):
        if passed[i]:
            if count != first + i:
                for k in range(width):
                    rows[count, k] = rows[first + i, k]
                starts[count] = starts[first + i]
                ends[count] = ends[first + i]
            count += 1
    return count


@kernel
def in_band(rows, first, sides, columns, bounds, passed):
    """Clear `passed` unless ``low <= left - right <= high``, computed without overflow.

    `bounds` are whether there is a low bound, the bound, whether there is a high one, and that.
    """
    left, right = columns
    has_low, low, has_high, high = bounds
    left_mask = left.size - 1
    right_mask = right.size - 1
    for i in range(passed.size):
        a = left[rows[first + i, sides[0]] & left_mask]
        b = right[rows[first + i, sides[1]] & right_mask]
        if (has_low and not is_at_least(a, b, low)) or (has_high and not is_at_most(a, b, high)):
            passed[i] = False
