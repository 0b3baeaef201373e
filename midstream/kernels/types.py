"""The records of arrays that kernels take, and the meaning of a cursor's cells.

At every call Numba spells out the names of a named tuple to find its type; that of a plain tuple takes it a fraction of
the time. The kernels that every chunk calls take records apart by position, so that they can be given as plain tuples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Ids begin at 1, so that memory that comes zeroed from the system is a table of empty buckets.
FIRST_ID = 1
NO_ID = 0
AFRESH = -1
SMALLEST = np.iinfo(np.int64).min
LARGEST = np.iinfo(np.int64).max
# The end of an entry that was evicted. No row starts before EARLIEST, so no probe's interval reaches such an entry.
EVICTED = SMALLEST
EARLIEST = SMALLEST + 1
# In place of what a row waits for: nothing.
NO_REASON = -1

# Cells of a cursor: the probing row, where in its chain or run to go on (AFRESH: from the start), what the block holds,
# and, for measuring, how many slots were visited.
ROW, NEXT, COUNT, VISITED = 0, 1, 2, 3
CURSOR_CELLS = 4


class Chains(NamedTuple):
    """A hash multimap over a ring: `buckets` has each bucket's newest id; a slot is key, start, end, next older id.

    Above its id, a bucket has marks of the keys in its chain, see `midstream.kernels.buckets`. `seed` is what the
    choice of a bucket depends on besides the key; it stays the same as long as the slots do.
    """

    buckets: np.ndarray
    slots: np.ndarray
    seed: int


#: Where partners may be: a hash multimap, as a plain tuple, and the first id that counts.
Place = tuple[tuple[np.ndarray, np.ndarray, int], int]


class Ring(NamedTuple):
    """What a probe reads of a ring. `members` has a row id per input; it is empty where the id is the row itself."""

    starts: np.ndarray
    ends: np.ndarray
    members: np.ndarray
    head: int
    tail: int


class Combos(NamedTuple):
    """Combinations: row ids, one column per input, and the interval on which each is valid."""

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Layout(NamedTuple):
    """Where the probed entry's and the probing combination's columns begin in the combination that they make."""

    entry_at: int
    probe_at: int


class HeldRows(NamedTuple):
    """A set of rows of a window: those from `low` on and below `high`, or of these only those whose bit is set.

    The bit of a row is at ``row - base``; without bits, all of them are in the set.
    """

    bits: np.ndarray
    base: int
    low: int
    high: int


class KeyCounts(NamedTuple):
    """Keys that may be there: those with a count, at their hash shifted right by `shift`; without counts, all."""

    counts: np.ndarray
    shift: int
