"""Which keys the rows of a STAIR may have that stand alone.

They are found by the index of their window, in which all other rows of the input are, too. Where many of these stand in
combinations, or nowhere, a probe would look at them in vain. A filter of keys sorts most of such probes out: it counts
keys by a hash, so that a key goes with its last row. It may take a key for one of the STAIR's that is not, never the
other way round. Rows that leave their window stay counted, and so do keys of more rows than a count can tell. It is
made anew when as many keys have come as there were, or when a third of them should have gone and has not.
"""

from __future__ import annotations

import numpy as np

from midstream.kernels.hashing import enter_keys, leave_keys
from midstream.kernels.types import KeyCounts
from midstream.state import rings
from midstream.state.indexes import Ints

_PLACES_A_KEY = 4
_LEAST_CHANGES = 1 << 10
#: In place of a filter: every key may be there.
ALL_KEYS = KeyCounts(np.empty(0, np.uint16), 0)


class KeyFilter:
    """Made of the keys that are there, each as often as there are rows with it.

    >>> found = KeyFilter(np.array([5, 7]))
    >>> found.add(np.array([9]))
    >>> found.remove(np.array([5]))
    >>> int(found.counts.counts.sum())
    2
    """

    def __init__(self, keys: Ints):
        size = rings.capacity_for(_PLACES_A_KEY * 2 * len(keys))
        #: What a probe reads.
        self.counts = KeyCounts(np.zeros(size, np.uint16), 64 - (size - 1).bit_length())
        self._more = max(_LEAST_CHANGES, len(keys))
        self._stuck = max(_LEAST_CHANGES, len(keys) // 3)
        enter_keys(keys, *self.counts)

    def add(self, keys: Ints) -> None:
        """Rows with these keys have come."""
        enter_keys(keys, *self.counts)
        self._more -= len(keys)

    def remove(self, keys: Ints) -> None:
        """Rows with these keys, all of which are counted, have gone."""
        stuck = leave_keys(keys, *self.counts)
        self._stuck -= stuck
        self._more += len(keys) - stuck

    @property
    def is_worn(self) -> bool:
        """Whether it should be made anew."""
        return self._more < 0 or self._stuck < 0

    @property
    def nbytes(self) -> int:
        return self.counts.counts.nbytes
