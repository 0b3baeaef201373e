"""The rows that arrive together: none of them is in a window yet, and they are partners of each other too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from midstream.kernels.types import FIRST_ID, Place
from midstream.state import rings
from midstream.state.indexes import NOWHERE, HashIndex, Ints
from midstream.state.window import WindowRows

_NO_ROWS = (np.empty(0, np.int64),) * 3
#: So many pairs of rows are looked at sooner than an index is made.
_LOOKED_AT = 1 << 12


class IndexedChunk:
    """Rows by input, with indexes that are made when they are asked for."""

    def __init__(self, rows: Mapping[int, WindowRows]):
        self.rows = {number: arrived for number, arrived in rows.items() if len(arrived)}
        self._indexes: dict[tuple[int, int], HashIndex] = {}
        self._sorted: dict[tuple[int, int], Ints] = {}

    def _index(self, number: int, key_class: int) -> HashIndex:
        """An index on a key class of an input; the first row has the first id that there is."""
        if (number, key_class) not in self._indexes:
            rows = self.rows[number]
            index = HashIndex(rings.capacity_for(len(rows)))
            index.insert(FIRST_ID, rows.codes[key_class], rows.starts, rows.ends)
            self._indexes[number, key_class] = index
        return self._indexes[number, key_class]

    def places(self, number: int, key_class: int, probing: int) -> tuple[Place, tuple[Ints, Ints, Ints]]:
        """Where so many rows look for partners among those of an input: in an index, or one after the other."""
        rows = self.rows.get(number)
        if rows is None:
            return NOWHERE, _NO_ROWS
        if len(rows) * probing <= _LOOKED_AT:
            return NOWHERE, (rows.codes[key_class], rows.starts, rows.ends)
        return self._index(number, key_class).place(FIRST_ID), _NO_ROWS

    def sorted_values(self, number: int, band: int) -> Ints:
        """The values of an input in a band, in order."""
        if (number, band) not in self._sorted:
            self._sorted[number, band] = np.sort(self.rows[number].band_codes[band])
        return self._sorted[number, band]
