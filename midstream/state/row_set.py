"""A set of rows of a base window: a run of ids as long as it has no gaps, else a bitmap over them.

Rows enter in the order of their ids, leave at the head, and are taken out from the last one down, so that most sets are
runs, which cost nothing to keep. A bitmap is made when the first gap appears, and forgotten when the last one has left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from midstream.kernels import row_sets as kernels
from midstream.kernels.types import FIRST_ID, HeldRows
from midstream.state.indexes import Ints
from midstream.state.window import Renumbering

Mask = NDArray[np.bool_]
_NO_BITS: Mask = np.empty(0, np.bool_)


class RowSet:
    """Ids, all of them from `low` on and below `high`.

    >>> rows = RowSet()
    >>> rows.add_run(5, 9)
    >>> rows.discard(np.array([6]))
    >>> rows.ids().tolist(), len(rows), rows.is_run
    ([5, 7, 8], 3, False)
    >>> rows.forget(7)
    >>> rows.ids().tolist(), rows.is_run
    ([7, 8], True)
    """

    def __init__(self) -> None:
        self.low = self.high = FIRST_ID
        self._count = 0
        # Of a set with gaps: whether the id `_base + i` is in it.
        self._bits = _NO_BITS
        self._base = FIRST_ID

    def __len__(self) -> int:
        return self._count

    @property
    def is_run(self) -> bool:
        """Whether all ids from `low` on and below `high` are in it."""
        return self._count == self.high - self.low

    def held(self, head: int = FIRST_ID) -> HeldRows:
        """What a kernel reads: the ids from `head` on."""
        return HeldRows(_NO_BITS if self.is_run else self._bits, self._base, max(head, self.low), self.high)

    def has(self, ids: Ints) -> Mask:
        """Which of these ids are in it."""
        found: Mask = np.empty(len(ids), np.bool_)
        kernels.has(self.held(), ids, found)
        return found

    def mark(self, ids: Ints, found: Mask) -> int:
        """Set `found` where ids are in it; how many are set then."""
        return int(kernels.mark(self.held(), ids, found))

    def clear_flags(self, rows: Ints, first: int, column: int, flags: Mask) -> None:
        """Clear the flags of the combinations from `first` on that have one of these ids in a column."""
        kernels.clear_flags(self.held(), rows, first, column, flags)

    def ids(self) -> Ints:
        """All ids, in their order."""
        if self.is_run:
            return np.arange(self.low, self.high)
        return np.flatnonzero(self._bits[self.low - self._base : self.high - self._base]) + self.low

    def last(self, limit: int) -> Ints:
        """The last ids, up to so many; it looks at no more than it needs to."""
        found: Ints = np.empty(0, np.int64)
        size = limit
        while len(found) < min(limit, self._count):
            found = np.arange(max(self.low, self.high - size), self.high)
            found = found[self.has(found)]
            size *= 2
        return found[-limit:]

    def add_run(self, first: int, last: int) -> None:
        """Add all ids from `first` on and below `last`."""
        if first >= last:
            return
        if self._count == 0:
            self.low, self.high, self._count, self._bits = first, last, last - first, _NO_BITS
        elif self.is_run and first <= self.high and last >= self.low:
            self.low, self.high = min(self.low, first), max(self.high, last)
            self._count = self.high - self.low
        else:
            self._reach(first, last)
            bits = self._bits[first - self._base : last - self._base]
            self._count += len(bits) - int(np.count_nonzero(bits))
            bits[:] = True
            self._drop_bits()

    def add(self, ids: Ints) -> None:
        """Add ids, in any order and perhaps some of them twice."""
        if len(ids) == 0:
            return
        lowest, highest, is_run = kernels.measure(ids)
        if is_run:
            self.add_run(lowest, highest + 1)
            return
        if self._count == 0:
            self.low = self.high = lowest
        self._reach(lowest, highest + 1)
        self._count += kernels.add(self._bits, self._base, ids)
        self._drop_bits()

    def discard(self, ids: Ints) -> None:
        """Take ids out; those that are not in it stay out."""
        there = ids[self.has(ids)]
        if len(there) == 0:
            return
        lowest, _, is_run = kernels.measure(there)
        if is_run and len(there) == self._count:
            self._clear()
            return
        if is_run and self.is_run and lowest == self.high - len(there):
            self.high -= len(there)
            self._count -= len(there)
            return
        self._reach(self.low, self.high)
        self._count -= kernels.discard(self._bits, self._base, there)
        self._settle()

    def forget(self, head: int) -> None:
        """Ids below `head` are gone."""
        if head <= self.low:
            return
        if head >= self.high:
            self._clear()
            return
        if self.is_run:
            self._count = self.high - head
            self.low = head
            return
        self._count -= int(np.count_nonzero(self._bits[self.low - self._base : head - self._base]))
        self.low = head + int(np.argmax(self._bits[head - self._base : self.high - self._base]))
        self._drop_bits()

    def renumber(self, renumbering: Renumbering) -> None:
        """The rows of the window have new ids."""
        places = np.flatnonzero(self.has(renumbering.kept))
        self._clear()
        self.add(places + renumbering.first)

    def copy(self) -> RowSet:
        """The same set, to be changed on its own."""
        other = RowSet()
        other.low, other.high, other._count = self.low, self.high, self._count
        other._bits, other._base = self._bits.copy(), self._base
        return other

    @property
    def nbytes(self) -> int:
        return self._bits.nbytes

    def _clear(self) -> None:
        self.low = self.high
        self._count = 0
        self._bits = _NO_BITS

    def _reach(self, first: int, last: int) -> None:
        """Have bits for everything between these ids and what is there."""
        low, high = min(first, self.low), max(last, self.high)
        if len(self._bits) == 0 or low < self._base or high - self._base > len(self._bits):
            bits = np.zeros(2 * (high - low), np.bool_)
            begin, end = self.low - low, self.high - low
            if len(self._bits) == 0:
                bits[begin:end] = True
            else:
                bits[begin:end] = self._bits[self.low - self._base : self.high - self._base]
            self._bits, self._base = bits, low
        else:
            # Beyond both ends, bits may still be set from ids that have been forgotten.
            self._bits[low - self._base : self.low - self._base] = False
            self._bits[self.high - self._base : high - self._base] = False
        self.low, self.high = low, high

    def _settle(self) -> None:
        """After ids were taken out, begin at the first id that is left and end at the last."""
        if self._count == 0:
            self._clear()
            return
        bits = self._bits[self.low - self._base : self.high - self._base]
        self.high -= int(np.argmax(bits[::-1]))
        self.low += int(np.argmax(bits))
        self._drop_bits()

    def _drop_bits(self) -> None:
        """A set without gaps needs no bitmap."""
        if self.is_run:
            self._bits = _NO_BITS
