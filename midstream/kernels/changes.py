"""Changes over time: what begins and what ends, in order, and the runs of moments between.

A *record* is a row of integers: whom it concerns (a dense id), the first and the last moment at which it is valid, and
more that nobody looks at here. It is a change of +1 where it begins and of -1 after its last moment.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.types import LARGEST

#: The columns of a record.
WHO, FIRST, LAST = 0, 1, 2
#: In place of a record: no change, there only to tell that somebody is still there.
NO_RECORD = -1

_SMALL = 24


@kernel
def order(begun, ended, carried, begin, end, tells_carried):
    """The changes of a span of time, from `begin` to `end`, by whom they concern, and then by time.

    `begun` are the records that begin in the span, `ended` those that had begun before and end in it. With
    `tells_carried`, there is an entry without a change at `begin` for everyone who is carried into the span.

    Returns where the changes of everyone in `carried` begin, the place of each change's record (those of `ended` come
    after those of `begun`), its time, and its sign.
    """
    size = carried.size
    offsets = np.zeros(size + 1, np.int64)
    if tells_carried:
        for who in range(size):
            if carried[who] > 0:
                offsets[who + 1] += 1
    for i in range(begun.shape[0]):
        offsets[begun[i, WHO] + 1] += 2 if begun[i, LAST] < end else 1
    for i in range(ended.shape[0]):
        offsets[ended[i, WHO] + 1] += 1
    for who in range(size):
        offsets[who + 1] += offsets[who]
    count = offsets[size]
    places, times, signs = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    filled = offsets[:size].copy()
    if tells_carried:
        for who in range(size):
            if carried[who] > 0:
                _put(places, times, signs, filled, who, NO_RECORD, begin, 0)
    for i in range(begun.shape[0]):
        _put(places, times, signs, filled, begun[i, WHO], i, begun[i, FIRST], 1)
        if begun[i, LAST] < end:
            _put(places, times, signs, filled, begun[i, WHO], i, begun[i, LAST] + 1, -1)
    for i in range(ended.shape[0]):
        _put(places, times, signs, filled, ended[i, WHO], begun.shape[0] + i, ended[i, LAST] + 1, -1)
    for who in range(size):
        _sort_by_time(places, times, signs, offsets[who], offsets[who + 1])
    return offsets, places, times, signs


@njit(inline="always")
def _put(places, times, signs, filled, who, place, time, sign):
    at = filled[who]
    places[at] = place
    times[at] = time
    signs[at] = sign
    filled[who] = at + 1


@njit(inline="always")
def _sort_by_time(places, times, signs, first, last):
    """Sort the changes between two places by time."""
    if last - first > _SMALL:
        chosen = np.argsort(times[first:last], kind="mergesort")
        places[first:last] = places[first:last][chosen]
        times[first:last] = times[first:last][chosen]
        signs[first:last] = signs[first:last][chosen]
    else:
        for i in range(first + 1, last):
            place, time, sign = places[i], times[i], signs[i]
            at = i
            while at > first and times[at - 1] > time:
                places[at], times[at], signs[at] = places[at - 1], times[at - 1], signs[at - 1]
                at -= 1
            places[at], times[at], signs[at] = place, time, sign


@kernel
def find_runs(offsets, times, signs, carried, begin, end, is_distinct):
    """For k = 1, 2, ..., every run of moments between `begin` and `end` at which at least k are there.

    `carried` is how many were there before, and afterwards how many are there at the end. With `is_distinct`, k is 1
    alone. Returns whose runs these are, and their first and last moments.
    """
    room = 0
    for who in range(carried.size):
        if carried[who] > 0:
            room += 1 if is_distinct else carried[who]
    for i in range(signs.size):
        room += signs[i] > 0
    whose, firsts, lasts = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    begun = np.empty(64, np.int64)  # where the run of each level began
    count = 0
    for who in range(carried.size):
        there = carried[who]
        if there == 0 and offsets[who] == offsets[who + 1]:
            continue
        levels = min(there, 1) if is_distinct else there
        while begun.size < levels:
            begun = np.concatenate((begun, np.empty_like(begun)))
        begun[:levels] = begin
        i = offsets[who]
        while i < offsets[who + 1]:
            time = times[i]
            while i < offsets[who + 1] and times[i] == time:
                there += signs[i]
                i += 1
            now = min(there, 1) if is_distinct else there
            while levels > now:
                levels -= 1
                if begun[levels] < time:  # else it was carried in and is gone from the first moment on
                    whose[count], firsts[count], lasts[count] = who, begun[levels], time - 1
                    count += 1
            while begun.size < now:
                begun = np.concatenate((begun, np.empty_like(begun)))
            while levels < now:
                begun[levels] = time
                levels += 1
        while levels > 0:
            levels -= 1
            whose[count], firsts[count], lasts[count] = who, begun[levels], end
            count += 1
        carried[who] = there
    return whose[:count], firsts[:count], lasts[:count]


@kernel
def find_states(offsets, times, signs, carried, end):
    """The moments at which something changes, or is told, for somebody who is there from that moment on.

    `carried` as in `find_runs`. Returns for each of them the place of its last change, of whom it is, until when it
    holds, and whether somebody is there at all.
    """
    count = times.size
    places, whose, lasts = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    is_there = np.empty(count, np.bool_)
    found = 0
    for who in range(carried.size):
        there = carried[who]
        i = offsets[who]
        while i < offsets[who + 1]:
            time = times[i]
            while i < offsets[who + 1] and times[i] == time:
                there += signs[i]
                i += 1
            places[found], whose[found] = i - 1, who
            lasts[found] = times[i] - 1 if i < offsets[who + 1] else end
            is_there[found] = there > 0
            found += 1
        carried[who] = there
    return places[:found], whose[:found], lasts[:found], is_there[:found]


@kernel
def cut(firsts, lasts, step, cursor, rows, cut_firsts, cut_lasts):
    """Cut intervals at the borders of steps, until there is no room left; what never ends is not cut.

    The cursor has the interval to go on with and, where it is in the midst of it, its next moment and 1. Writes the
    interval that each piece belongs to, and the piece. Returns how many pieces there are.
    """
    count = 0
    while cursor[0] < firsts.size and count < rows.size:
        row = cursor[0]
        first = cursor[1] if cursor[2] else firsts[row]
        left = step - 1 - first % step
        is_last = lasts[row] == LARGEST or first > LARGEST - left or lasts[row] <= first + left
        rows[count], cut_firsts[count], cut_lasts[count] = row, first, lasts[row] if is_last else first + left
        count += 1
        if is_last:
            cursor[0], cursor[2] = row + 1, 0
        else:
            cursor[1], cursor[2] = first + left + 1, 1
    return count


@kernel
def keep_latest(whose, rows, ends, members, latest):
    """Keep, for everyone, the row of `rows` that ends last: in `members`, and its end in `latest`."""
    for i in range(whose.size):
        who = whose[i]
        if ends[i] >= latest[who]:
            latest[who] = ends[i]
            for k in range(rows.shape[1]):
                members[who, k] = rows[i, k]


@kernel
def count_references(references, records, sign):
    """Count the records of everyone up or down."""
    for i in range(records.shape[0]):
        references[records[i, WHO]] += sign
