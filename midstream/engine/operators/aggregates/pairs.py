"""Aggregates that need the values themselves: every value of a group is a pair, known by an id.

    (group, value)  ->  pair id, the word of a record  ->  how many results have it

A value that goes may be there in other results, so pairs are counted. The dictionary knows groups by numbers that are
never used again, because group ids are. Pairs that no record refers to any more are forgotten when they are more than
the others; then ids are given anew, and stored records need the new ones.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from midstream.engine.operators.aggregates.accumulator import NumberedRows
from midstream.engine.operators.interner import Interner
from midstream.kernels import pairs as kernels
from midstream.state.arrow import validity_of
from midstream.state.indexes import Ints

#: As long as there are no more, forgetting pairs is not worth the calls.
FEWEST_FORGOTTEN = 256


class Pairs:
    """The pairs of all groups. A null is no pair."""

    words = 1

    def __init__(self, argument: pa.DataType):
        self.interner = Interner([pa.int64(), argument])
        self.rows = NumberedRows(kernels.PAIR_WORDS)
        self.newest = NumberedRows()
        self.held = 0
        self._numbers = NumberedRows()
        self._next_number = 0

    def encode(self, groups: Ints, values: pa.Array | None, out: Ints) -> None:
        assert values is not None
        ids = np.full(len(groups), kernels.NO_PAIR)
        valid = validity_of(values)
        there = np.arange(len(groups)) if valid is None else np.flatnonzero(valid)
        if valid is not None:
            values = values.take(pa.array(there))
        numbers = pa.array(self._numbers.array[groups[there]])
        ids[there] = self.interner.intern([numbers, values], len(there))
        self.rows.resize(len(self.interner))
        self.held += kernels.hold(groups, ids, self.rows.array, self.newest.array)
        out[:, 0] = ids

    def release(self, signs: Ints, ids: Ints) -> None:
        """Changes have been applied: records of results that have gone do not refer to pairs any more."""
        self.held -= kernels.release(signs, ids, self.rows.array)

    def list_pairs(self, groups: Ints) -> tuple[Ints, Ints]:
        """The pairs of some groups that records refer to, and where those of each group begin."""
        begins, listed = np.empty(len(groups) + 1, np.int64), np.empty(self.held, np.int64)
        count = kernels.list_pairs(groups, self.rows.array, self.newest.array, begins, listed)
        return begins, listed[:count]

    def resize(self, groups: int) -> None:
        new = slice(self._numbers.count, groups)
        self._numbers.resize(groups)
        self._numbers.array[new] = self._next_number + np.arange(new.stop - new.start)
        self._next_number += new.stop - new.start
        self.newest.resize(groups)

    def keep(self, kept: Ints) -> None:
        self._numbers.keep(kept)
        self.newest.keep(kept)

    def renumbering(self) -> Ints | None:
        forgotten = len(self.interner) - self.held
        return self.forget() if forgotten > max(self.held, FEWEST_FORGOTTEN) else None

    def forget(self) -> Ints:
        """Forget the pairs that no record refers to; the new ids of all pairs, `NO_PAIR` for those.

        Pairs of one group get ids in a row, so that their memory is close together.
        """
        begins, kept = self.list_pairs(np.arange(self.newest.count))
        new_ids = np.full(len(self.interner), kernels.NO_PAIR)
        new_ids[kept] = np.arange(len(kept))
        self.rows.keep(kept)
        self.interner.keep(kept)
        kernels.link(begins, self.rows.array, self.newest.array)
        return new_ids

    @property
    def nbytes(self) -> int:
        rows = (self.rows, self.newest, self._numbers)
        return self.interner.nbytes + sum(numbered.array.nbytes for numbered in rows)


class CountDistinct(Pairs):
    """count(DISTINCT x): how many pairs of a group are live."""

    def __init__(self, argument: pa.DataType):
        super().__init__(argument)
        self._distinct = NumberedRows()

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> pa.Array:
        ids, found = words[:, 0].copy(), np.empty(len(ends), np.int64)
        ids[signs == 0] = kernels.NO_PAIR
        kernels.count_distinct(groups, signs, ids, ends, self.rows.array, self._distinct.array, found)
        self.release(signs, ids)
        return pa.array(found)

    def resize(self, groups: int) -> None:
        super().resize(groups)
        self._distinct.resize(groups)

    def keep(self, kept: Ints) -> None:
        super().keep(kept)
        self._distinct.keep(kept)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._distinct.array.nbytes
