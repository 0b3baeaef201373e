"""The states of rows in a box of missing combinations, two bits each, and what is asked of them.

Two bits, because a box over a large window is touched all over by the first rows after a change of plan, and every page
of memory that is touched for the first time costs as much as looking a few rows up.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel

MISSING, FILLED, FILLING = 0, 1, 2
#: Four rows that are filled.
ALL_FILLED = 0b01010101


@njit(inline="always")
def state_at(states, place):
    """The state of the row at a place."""
    return (states[place >> 2] >> ((place & 3) << 1)) & 3


@njit(inline="always")
def set_state(states, place, state):
    """Set the state of the row at a place."""
    shift = (place & 3) << 1
    states[place >> 2] = (states[place >> 2] & ~(3 << shift)) | (state << shift)


def room_for(size: int) -> np.ndarray:
    """The states of so many rows, all missing."""
    return np.zeros((size + 3) >> 2, np.uint8)


@kernel
def states_of(states, places):
    """The states of the rows at these places."""
    found = np.empty(places.size, np.uint8)
    for i in range(places.size):
        found[i] = state_at(states, places[i])
    return found


@kernel
def put(states, places, values):
    """Give the rows at these places these states."""
    for i in range(places.size):
        set_state(states, places[i], values[i])


@kernel
def claim(ids, mark, states, base):
    """The places of the ids that are below the mark and missing, each id once; they are being filled from now on."""
    places = np.empty(ids.size, np.int64)
    count = 0
    for i in range(ids.size):
        entry = ids[i]
        if entry >= base and entry < mark and state_at(states, entry - base) == MISSING:
            set_state(states, entry - base, FILLING)
            places[count] = i
            count += 1
    return places[:count]


@kernel
def tell_filling(ids, mark, states, base):
    """The places of the ids that are being filled, and those of all others."""
    places = np.empty(ids.size, np.int64)
    count = 0
    others = ids.size
    for i in range(ids.size):
        entry = ids[i]
        if entry >= base and entry < mark and state_at(states, entry - base) == FILLING:
            places[count] = i
            count += 1
        else:
            others -= 1
            places[others] = i
    return places[:count], places[others:][::-1].copy()


@kernel
def missing_from_top(states, top, bottom, limit):
    """Up to `limit` places below `top`, from top to bottom, that are missing, and how far down was looked."""
    found = np.empty(limit, np.int64)
    count = 0
    while top > bottom and count < limit:
        top -= 1
        if state_at(states, top) == MISSING:
            found[count] = top
            count += 1
    return found[:count], top


@kernel
def settle(claimed, mark, states, base):
    """Mark those of the claimed ids that are being filled as filled; how many they are."""
    count = 0
    for i in range(claimed.size):
        entry = claimed[i]
        if entry >= base and entry < mark and state_at(states, entry - base) == FILLING:
            set_state(states, entry - base, FILLED)
            count += 1
    return count


@kernel
def missing_in(states, begin, end):
    """How many rows of a range of places are missing."""
    count = 0
    for place in range(begin, end):
        if state_at(states, place) == MISSING:
            count += 1
    return count


@kernel
def in_box(combos, marks, filling, record, horizon, passed):
    """Which combinations have only rows below the marks, contain a row being filled, and end at `horizon` or later.

    `filling` is the column of the rows being filled, and `record` their states and the first one's id. Returns whether
    all combinations pass.
    """
    rows, _, ends = combos
    states, base = record
    width = marks.size
    size = marks[filling] - base
    all_pass = True
    for i in range(passed.size):
        place = rows[i, filling] - base
        passes = ends[i] >= horizon and place >= 0 and place < size and state_at(states, place) == FILLING
        if passes:
            for k in range(width):
                if rows[i, k] >= marks[k]:
                    passes = False
                    break
        passed[i] = passes
        all_pass = all_pass and passes
    return all_pass
