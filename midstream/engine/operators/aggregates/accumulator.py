"""What all accumulators have in common: one protocol, and arrays with a row for every group or pair."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from midstream.engine.operators.states import StateValues
from midstream.state.indexes import Ints

_FEWEST_ROWS = 64


class Accumulator(Protocol):
    """The state of one aggregate for every group, by group id: 0, 1, 2, ..."""

    @property
    def words(self) -> int:
        """The int64 words that an argument takes in a record."""

    def encode(self, groups: Ints, values: pa.Array | None, out: Ints) -> None:
        """Write the arguments of new results into ``out[:, :words]``, an int64 matrix; `values` is None for count(*).

        Their groups are known by `resize`. Of every result encoded, two changes will come: one with the sign +1 and
        later one with -1.
        """

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> StateValues:
        """Apply changes in order; the value of the aggregate after each of the changes at the places `ends`.

        What is given back is of use until `renumbering` is called.

        Changes are sorted by group, then time, and ends ascend. A sign is +1, -1, or 0: nothing changes, but the value
        may be asked for, and what stands in its words means nothing. `words` has a row for each change, perhaps with a
        stride; the other arrays are contiguous.
        """

    def resize(self, groups: int) -> None:
        """There are so many group ids now; new groups are empty."""

    def keep(self, kept: Ints) -> None:
        """Group ids are given anew: the group i is the one that was kept[i]. All others are empty and forgotten."""

    def renumbering(self) -> Ints | None:
        """To be called when all changes of a step are applied: whether words of stored records have to be replaced.

        If they have, the first word of a record, unless it is negative, is the place of the new word in this array.
        """

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""


class NumberedRows:
    """An int64 array with a row for every id, which grows by doubling; the rows of new ids are zero."""

    def __init__(self, *shape: int):
        """`shape` is that of one row."""
        self.count = 0
        self.array: Ints = np.zeros((_FEWEST_ROWS, *shape), np.int64)

    def resize(self, count: int) -> None:
        assert count >= self.count, "ids are forgotten by keep"
        if count > len(self.array):
            larger = np.zeros((max(count, 2 * len(self.array)), *self.array.shape[1:]), np.int64)
            larger[: self.count] = self.array[: self.count]
            self.array = larger
        self.count = count

    def keep(self, kept: Ints) -> None:
        rows = self.array[kept]
        self.array = np.zeros((max(len(kept), _FEWEST_ROWS), *self.array.shape[1:]), np.int64)
        self.array[: len(kept)] = rows
        self.count = len(kept)
