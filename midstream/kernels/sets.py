"""Set operations over time: how often a row is in the result of a set operation, from how often it is in each branch.

A set operation is a *program* in postfix notation: a number from 0 on stands for how often a row is in a branch, a
negative one for what is done with the last one or two counts. Every branch stands there once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel

UNION_ALL, UNION, EXCEPT_ALL, EXCEPT, INTERSECT_ALL, INTERSECT, DISTINCT = -1, -2, -3, -4, -5, -6, -7


@njit(inline="always")
def _evaluate(program, counts, stack):
    """How often a row is in the result that is in the branches so often."""
    size = 0
    for word in program:
        if word >= 0:
            stack[size] = counts[word]
            size += 1
        elif word == DISTINCT:
            stack[size - 1] = min(stack[size - 1], 1)
        else:
            size -= 1
            left, right = stack[size - 1], stack[size]
            if word == UNION_ALL:
                stack[size - 1] = left + right
            elif word == UNION:
                stack[size - 1] = min(left + right, 1)
            elif word == EXCEPT_ALL:
                stack[size - 1] = max(left - right, 0)
            elif word == EXCEPT:
                stack[size - 1] = left > 0 and right == 0
            elif word == INTERSECT_ALL:
                stack[size - 1] = min(left, right)
            else:
                stack[size - 1] = left > 0 and right > 0
    return stack[0]


@kernel
def find_runs(changes, branches, counts, program, begin, end):
    """For k = 1, 2, ..., every run of moments from `begin` to `end` at which a row is in the result at least k times.

    `changes` are where those of each row begin, their times and their signs; `branches` tells the branch of each.
    `counts` is how often each row was in each branch before, and afterwards how often it is there at the end. Returns
    whose runs these are, and their first and last moments.
    """
    offsets, times, signs = changes
    stack = np.empty(program.size, np.int64)
    # A change in one branch changes the result by one at most.
    room = times.size
    for who in range(offsets.size - 1):
        room += _evaluate(program, counts[who], stack)
    whose, firsts, lasts = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    begun = np.empty(room, np.int64)  # where the run of each level began
    count = 0
    for who in range(offsets.size - 1):
        levels = _evaluate(program, counts[who], stack)
        if levels == 0 and offsets[who] == offsets[who + 1]:
            continue
        begun[:levels] = begin
        i = offsets[who]
        while i < offsets[who + 1]:
            time = times[i]
            while i < offsets[who + 1] and times[i] == time:
                counts[who, branches[i]] += signs[i]
                i += 1
            now = _evaluate(program, counts[who], stack)
            while levels > now:
                levels -= 1
                if begun[levels] < time:  # else it was carried in and is gone from the first moment on
                    whose[count], firsts[count], lasts[count] = who, begun[levels], time - 1
                    count += 1
            while levels < now:
                begun[levels] = time
                levels += 1
        while levels > 0:
            levels -= 1
            whose[count], firsts[count], lasts[count] = who, begun[levels], end
            count += 1
    return whose[:count], firsts[:count], lasts[:count]
