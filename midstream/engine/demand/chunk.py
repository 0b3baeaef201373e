"""The rows that arrive together: none of them is in a window yet, and they are partners of each other too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from midstream.kernels.types import FIRST_ID, Ring
from midstream.state import rings
from midstream.state.indexes import HashIndex, Ints
from midstream.state.window import WindowRows

_NO_MEMBERS = np.empty((0, 1), np.int64)


class IndexedChunk:
    """Rows by input, with indexes that are made when they are asked for."""

    def __init__(self, rows: Mapping[int, WindowRows]):
        self.rows = {number: arrived for number, arrived in rows.items() if len(arrived)}
        self._indexes: dict[tuple[int, int], HashIndex] = {}
        self._sorted: dict[tuple[int, int], Ints] = {}

    def index(self, number: int, key_class: int) -> tuple[HashIndex, Ring]:
        """An index on a key class of an input, and the ring that it is over."""
        rows = self.rows[number]
        if (number, key_class) not in self._indexes:
            index = HashIndex(rings.capacity_for(len(rows)))
            index.insert(FIRST_ID, rows.codes[key_class], rows.starts, rows.ends)
            self._indexes[number, key_class] = index
        ring = Ring(rows.starts, rows.ends, _NO_MEMBERS, FIRST_ID, FIRST_ID + len(rows))
        return self._indexes[number, key_class], ring

    def sorted_values(self, number: int, band: int) -> Ints:
        """The values of an input in a band, in order."""
        if (number, band) not in self._sorted:
            self._sorted[number, band] = np.sort(self.rows[number].band_codes[band])
        return self._sorted[number, band]
