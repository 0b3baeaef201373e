"""count(*) and count(x): how many results there are, or how many of them have a value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from midstream.engine.operators.aggregates.accumulator import NumberedRows
from midstream.kernels import sums
from midstream.state.arrow import validity_of, values_of
from midstream.state.indexes import Ints


class Count:
    """Counts results. The word of an argument is 1, or 0 if it is null; without an argument there is none."""

    def __init__(self, has_argument: bool):
        self.words = int(has_argument)
        self._counts = NumberedRows()

    def encode(self, groups: Ints, values: pa.Array | None, out: Ints) -> None:
        if values is not None:
            valid = validity_of(values)
            out[:, 0] = 1 if valid is None else valid

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> pa.Array:
        amounts = signs * words[:, 0] if self.words else signs
        found = np.empty(len(ends), np.int64)
        sums.add_counts(groups, amounts, ends, self._counts.array, found)
        return pa.array(found)

    def resize(self, groups: int) -> None:
        self._counts.resize(groups)

    def keep(self, kept: Ints) -> None:
        self._counts.keep(kept)

    def renumbering(self) -> None:
        return None

    @property
    def nbytes(self) -> int:
        return self._counts.array.nbytes


class CountOfCounts(Count):
    """Adds up the counts of several places."""

    def __init__(self) -> None:
        super().__init__(has_argument=True)

    def encode(self, groups: Ints, values: pa.Array | None, out: Ints) -> None:
        assert values is not None
        out[:, 0] = values_of(values, "<i8")
