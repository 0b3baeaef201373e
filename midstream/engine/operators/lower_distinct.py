"""DISTINCT below a join: each value of some inputs once, and for how long it is there.

    combinations  ->  values needed above  ->  ids  ->  changes by id and time  ->  runs, each with a representative

What stands above takes combinations of row ids, so a value is handed on as the row ids of one of the combinations that
have it: its *representative*. Nobody above looks at more of it than the value, so any combination would do whose rows
are still in the windows. That is sure of the one that ends last: nothing that is valid at F or later has been purged,
and if a value has a run at F or later, its last combination ends there or later too. The interval is that of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.joins.combos import Delta
from midstream.engine.operators.interner import Interner
from midstream.engine.operators.lifetimes import Lifetimes, make_records
from midstream.kernels import changes as kernels
from midstream.kernels.types import SMALLEST, Combos
from midstream.plan.rules import find_needed
from midstream.state.indexes import Ints
from midstream.state.sizes import cut_into_pieces
from midstream.state.window import BaseWindow, PayloadName, Renumbering

_RUNS_AT_ONCE = 1 << 16


class NeededValues:
    """Reads off the rows of combinations what is needed above: payload, and the codes of keys and bands."""

    def __init__(self, query: Query, inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        self._inputs, self._windows = inputs, windows
        needed = find_needed(query, frozenset(inputs))
        names: dict[tuple[int, PayloadName], None] = {(column.input, column.name): None for column in needed.columns}
        self._classes: list[int] = []
        for number, told_by in needed.classes:
            layout = windows[told_by].layout
            if number in layout.verified:  # codes are hashes, and may be those of other values
                names[told_by, layout.verified[number]] = None
            else:
                self._classes.append(number)
        self._bands = needed.bands
        self._columns = [(windows[number], inputs.index(number), name) for number, name in names]
        codes = len(self._classes) + len(self._bands)
        #: The types of what `compute` gives.
        self.types = [dict(window.layout.payload)[name] for window, _, name in self._columns] + [pa.int64()] * codes

    def compute(self, combos: Combos) -> Iterator[tuple[list[pa.Array], Combos]]:
        """An array for each needed value, and the combinations that they are of; in pieces if values are large."""
        columns = [(window.columns[name], place) for window, place, name in self._columns]
        for piece in cut_into_pieces(columns, combos.rows):
            part = Combos(*(array[piece] for array in combos))
            delta = Delta(self._inputs, part, self._windows)
            values = [column.take(part.rows, place) for column, place in columns]
            values += [pa.array(delta.codes(number)) for number in self._classes]
            values += [pa.array(delta.band_codes(number, told_by)) for number, told_by in self._bands]
            yield values, part


class LowerDistinct:
    """The values of combinations of some inputs, and a representative of each."""

    def __init__(self, query: Query, inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        assert query.step is not None
        self._inputs = inputs
        self._values = NeededValues(query, inputs, windows)
        self._rows = Interner(self._values.types, tells_zeros_apart=True)
        self._lifetimes = Lifetimes(query.step, meter=windows[0].meter)
        self._members: Ints = np.empty((0, len(inputs)), np.int64)
        self._latest: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        """How many values are known."""
        return len(self._rows)

    def add(self, combos: Combos, open_from: int) -> None:
        """Take combinations; what they were valid before a moment does not count."""
        for values, part in self._values.compute(combos):
            ids = self._rows.intern(values, len(part.starts))
            self._make_room()
            kernels.keep_latest(ids, part.rows, part.ends, self._members, self._latest)
            records = make_records(ids, np.maximum(part.starts, open_from), part.ends)
            self._lifetimes.add(records, len(self._rows))

    def _make_room(self) -> None:
        have = len(self._latest)
        if len(self._rows) > have:
            more = max(len(self._rows), 2 * have) - have
            self._members = np.concatenate((self._members, np.empty((more, len(self._inputs)), np.int64)))
            self._latest = np.concatenate((self._latest, np.full(more, SMALLEST)))

    def close(self, begin: int, end: int) -> Iterator[Combos]:
        """The representatives of the values between two moments, with the runs in which they are there."""
        changes = self._lifetimes.changes(begin, end)
        whose, firsts, lasts = kernels.find_runs(
            changes.offsets, changes.times, changes.signs, self._lifetimes.carried, begin, end, True
        )
        for first in range(0, len(whose), _RUNS_AT_ONCE):
            piece = slice(first, first + _RUNS_AT_ONCE)
            yield Combos(self._members[whose[piece]], firsts[piece], lasts[piece])
        kept = self._lifetimes.forget(self._rows.nbytes)
        if kept is not None:
            self._rows.keep(kept)
            self._members, self._latest = self._members[kept], self._latest[kept]

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        if number in self._inputs:
            column = self._inputs.index(number)
            self._members[:, column] = renumbering.apply(self._members[:, column])

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._lifetimes.nbytes + self._members.nbytes + self._latest.nbytes
