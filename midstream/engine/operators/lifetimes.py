"""Lifetimes: who is there from when to when, and what changes in a span of time.

Everyone has a dense id. A record says that somebody is there for an interval; it may carry a few words more. It waits
for its beginning, then for its end, and is given back, as a change, in the span in which either comes. So a span costs
what changes in it and a look at everyone who is known, however many records wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from midstream.engine.operators.calendar import Calendar
from midstream.kernels import changes as kernels
from midstream.kernels.changes import FIRST, LAST, WHO
from midstream.kernels.types import LARGEST
from midstream.state.indexes import Ints
from midstream.state.meter import Meter

#: The columns of a record before its words.
RECORD = 3
#: Those who will never be there again are forgotten when they are more than the others, and more than this, unless what
#: is known of all takes so many bytes.
_FEW, _MANY_BYTES = 1024, 16 << 20


class Changes(NamedTuple):
    """Changes by whom they concern and by time; `places` are those of their records, or `NO_RECORD`."""

    offsets: Ints
    places: Ints
    times: Ints
    signs: Ints
    records: Ints


class Lifetimes:
    """Records of intervals, by the steps in which they begin and end."""

    def __init__(self, step: int, words: int = 0, meter: Meter | None = None):
        self._meter = Meter() if meter is None else meter
        self._beginning = Calendar(step, RECORD + words)
        self._ending = Calendar(step, RECORD + words)
        self._known = 0
        self._references: Ints = np.zeros(0, np.int64)
        self._carried: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._beginning) + len(self._ending)

    @property
    def carried(self) -> Ints:
        """How often everyone is there at the end of the last span; whoever asks for the changes keeps it so."""
        return self._carried[: self._known]

    @property
    def nbytes(self) -> int:
        arrays = self._references.nbytes + self._carried.nbytes
        return arrays + self._beginning.nbytes + self._ending.nbytes

    def add(self, records: Ints, known: int) -> None:
        """Take records of some of the first `known` ids. They begin in the oldest open step or later."""
        self._known = known
        if known > len(self._carried):
            more = np.zeros(max(known, 2 * len(self._carried)) - len(self._carried), np.int64)
            self._carried = np.concatenate((self._carried, more))
            self._references = np.concatenate((self._references, more))
        kernels.count_references(self._references, records, 1)
        self._beginning.enter(records, records[:, FIRST])

    def changes(self, begin: int, end: int, tells_carried: bool = False) -> Changes:
        """What changes between two moments, the last moment of a step or `LARGEST`, and who is told to be there."""
        until = None if end == LARGEST else end + 1
        begun, ended = self._beginning.fetch(until), self._ending.fetch(until)
        goes_on = (begun[:, LAST] >= end) & (begun[:, LAST] != LARGEST)
        if goes_on.any():
            lasting = begun[goes_on]
            self._ending.enter(lasting, lasting[:, LAST] + 1)
        kernels.count_references(self._references, begun[begun[:, LAST] < end], -1)
        kernels.count_references(self._references, ended, -1)
        offsets, places, times, signs = kernels.order(begun, ended, self.carried, begin, end, tells_carried)
        self._meter.slots_visited += self._known + len(times)
        records = np.concatenate((begun, ended)) if len(ended) else begun
        return Changes(offsets, places, times, signs, records)

    def forget(self, nbytes: int = 0) -> Ints | None:
        """Forget those whom nothing concerns any more, if they are many; `nbytes` is what is known of all.

        Returns the old ids of those who stay, in their order: from now on their places there are their ids.
        """
        stays = self._references[: self._known] > 0
        count = int(np.count_nonzero(stays))
        if self._known - count <= max(_FEW if nbytes < _MANY_BYTES else 0, count):
            return None
        kept = np.flatnonzero(stays)
        renumbering = np.cumsum(stays) - 1
        for calendar in (self._beginning, self._ending):
            calendar.renumber(WHO, renumbering)
        self._carried, self._references, self._known = self._carried[kept], self._references[kept], count
        return kept

    def renumber_word(self, word: int, renumbering: Ints) -> None:
        """A word of the records is an id, or negative for none; the id i becomes renumbering[i]."""
        for calendar in (self._beginning, self._ending):
            calendar.renumber(RECORD + word, renumbering)


def make_records(whose: Ints, starts: Ints, ends: Ints, words: int = 0) -> Ints:
    """Records whose words have yet to be written."""
    records = np.empty((len(whose), RECORD + words), np.int64)
    records[:, WHO], records[:, FIRST], records[:, LAST] = whose, starts, ends
    return records
