"""Which keys the rows of a STAIR may have that stand alone.

They are found by the index of their window, in which all other rows of the input are, too. Where many of these stand in
combinations, or nowhere, a probe would look at them in vain. A filter of keys sorts most of such probes out. It may
take a key for one of the STAIR's that is not, never the other way round. Keys that have gone stay in it for a while;
when a third of the keys have gone, or as many have come as there were, it is made anew.
"""

from __future__ import annotations

import numpy as np

from midstream.kernels.hashing import enter_keys
from midstream.kernels.types import KeyBits
from midstream.state import rings
from midstream.state.indexes import Ints

_PLACES_A_KEY = 4
_LEAST_CHANGES = 1 << 10
#: In place of a filter: every key may be there.
ALL_KEYS = KeyBits(np.empty(0, np.bool_), 0)


class KeyFilter:
    """Made of the keys that are there.

    >>> found = KeyFilter(np.array([5, 7]))
    >>> found.add(np.array([9]))
    >>> int(found.bits.bits.sum())
    3
    """

    def __init__(self, keys: Ints):
        size = rings.capacity_for(_PLACES_A_KEY * 2 * len(keys))
        #: What a probe reads.
        self.bits = KeyBits(np.zeros(size, np.bool_), 64 - (size - 1).bit_length())
        self._more = max(_LEAST_CHANGES, len(keys))
        self._fewer = max(_LEAST_CHANGES, len(keys) // 3)
        enter_keys(keys, *self.bits)

    def add(self, keys: Ints) -> None:
        """Rows with these keys have come."""
        enter_keys(keys, *self.bits)
        self._more -= len(keys)

    def note_gone(self, count: int) -> None:
        """So many rows have gone; their keys stay."""
        self._fewer -= count

    @property
    def is_worn(self) -> bool:
        """Whether it should be made anew."""
        return self._more < 0 or self._fewer < 0

    @property
    def nbytes(self) -> int:
        return self.bits.bits.nbytes
