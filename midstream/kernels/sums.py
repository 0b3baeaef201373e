"""Exact sums of integers, and counts, as results come and go.

Changes come sorted by group, then by time. Each adds something to the state of its group or takes it away again, and
the state after some of them, the ends, is written out. An argument is an integer of 38 digits, in two words, the lower
one first; an upper word that no such integer has stands for null. A total is a count of the values and their sum in 192
bits, so that 2^63 values cannot overflow it. A total may be an argument, too.
"""

from __future__ import annotations

import numpy as np

from midstream.kernels.caching import kernel

# The words of a total.
COUNT, LOW, MIDDLE, HIGH = 0, 1, 2, 3
TOTAL_WORDS = 4
# The upper word of a null.
NULL_HIGH = np.iinfo(np.int64).min


@kernel
def add_counts(groups, amounts, ends, counts, out):
    """Add amounts to the counts of groups; `out` gets the count after each end."""
    asked = 0
    for change in range(groups.size):
        group = groups[change]
        counts[group] += amounts[change]
        if asked < ends.size and ends[asked] == change:
            out[asked] = counts[group]
            asked += 1


@kernel
def add_integers(groups, signs, words, ends, totals, out):
    """Add arguments to the totals of groups, or take them away; `out` gets the total after each end."""
    asked = 0
    for change in range(groups.size):
        group = groups[change]
        sign = signs[change]
        if sign != 0 and words[change, 1] != NULL_HIGH:
            low, high = words[change, 0], words[change, 1]
            if sign < 0:
                low = -low
                high = ~high + np.int64(low == 0)
            addend = np.uint64(low)
            total = np.uint64(totals[group, LOW]) + addend
            carry = np.uint64(total < addend)
            totals[group, LOW] = np.int64(total)
            addend = np.uint64(high)
            total = np.uint64(totals[group, MIDDLE]) + addend
            carry_high = np.int64(total < addend)
            total += carry
            carry_high += np.int64(total < carry)
            totals[group, MIDDLE] = np.int64(total)
            totals[group, HIGH] += (high >> 63) + carry_high
            totals[group, COUNT] += sign
        if asked < ends.size and ends[asked] == change:
            for word in range(TOTAL_WORDS):
                out[asked, word] = totals[group, word]
            asked += 1


@kernel
def add_totals(groups, signs, words, ends, totals, out):
    """Add totals to the totals of groups, or take them away; `out` gets the total after each end."""
    asked = 0
    for change in range(groups.size):
        group = groups[change]
        sign = signs[change]
        if sign != 0:
            # What is taken away is added as its complement and one more.
            carry = np.uint64(1) if sign < 0 else np.uint64(0)
            for word in range(LOW, TOTAL_WORDS):
                addend = np.uint64(~words[change, word] if sign < 0 else words[change, word])
                total = np.uint64(totals[group, word]) + addend
                carried = np.uint64(total < addend)
                total += carry
                carry = carried + np.uint64(total < carry)
                totals[group, word] = np.int64(total)
            totals[group, COUNT] += sign * words[change, COUNT]
        if asked < ends.size and ends[asked] == change:
            for word in range(TOTAL_WORDS):
                out[asked, word] = totals[group, word]
            asked += 1
