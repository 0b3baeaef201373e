"""The hole of a join state: a box of combinations that are missing.

The box is a product of row sets, one per input: the rows below a mark that have not been taken out again. It stands for
all combinations made only of such rows. A fill through an input takes rows out of that input's set after it has stored
every missing combination with them. As soon as one set has no live row left, nothing is missing and the hole is gone.

A row in a set with a record is missing, being filled right now, or filled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from midstream.kernels import boxes as kernels
from midstream.kernels.boxes import FILLED, MISSING
from midstream.kernels.types import Combos
from midstream.state.indexes import Ints
from midstream.state.window import Renumbering


class Record:
    """Which rows of one input have been filled, for the ids from `base` up to the mark."""

    def __init__(self, head: int, mark: int):
        self.base = head
        self.mark = mark
        self.head = head
        self.remaining = self._scanned = self._size = max(mark - head, 0)
        self.states: NDArray[np.uint8] = kernels.room_for(self._size)

    def claim(self, ids: Ints) -> Ints:
        """Where in `ids` rows of the box are, each row once; from now on they are being filled."""
        places: Ints = kernels.claim(np.ascontiguousarray(ids), self.mark, self.states, self.base)
        return places

    def missing(self, limit: int) -> Ints:
        """Up to `limit` rows that are still in the box, the newest first."""
        found, self._scanned = kernels.missing_from_top(self.states, self._scanned, self.head - self.base, limit)
        ids: Ints = found + self.base
        return ids

    def states_of(self, ids: Ints) -> NDArray[np.uint8]:
        """The states of rows between the base and the mark."""
        states: NDArray[np.uint8] = kernels.states_of(self.states, ids - self.base)
        return states

    def forget(self, head: int) -> None:
        """Rows below `head` have expired: those not filled no longer need to be."""
        begin, end = self.head - self.base, min(head - self.base, self._size)
        if end > begin:
            self.remaining -= kernels.missing_in(self.states, begin, end)
            self.head = self.base + end


class Hole:
    """Missing combinations of a join state over `inputs`; `marks` are the next row ids at the time it was made."""

    def __init__(self, inputs: tuple[int, ...], marks: dict[int, int]):
        self._inputs = inputs
        self.marks = {number: marks[number] for number in inputs}
        self._records: dict[int, Record] = {}

    def claim(self, number: int, head: int, ids: Ints) -> Ints:
        """Where in `ids` an input's rows of the box are, each row once; from now on they are being filled."""
        return self.record(number, head).claim(ids)

    def missing(self, number: int, head: int, limit: int) -> Ints:
        """Up to `limit` rows of an input that are still in the box, the newest first."""
        return self.record(number, head).missing(limit)

    def tell_filling(self, number: int, ids: Ints) -> tuple[Ints, Ints]:
        """Where in `ids` rows of an input are that are being filled right now, and where all others are."""
        record = self._records[number]
        filling, others = kernels.tell_filling(np.ascontiguousarray(ids), record.mark, record.states, record.base)
        return filling, others

    def is_twin(self, other: Hole, number: int) -> bool:
        """Whether, but for what was filled through one input, this hole misses what the other does of its inputs."""
        same = all(other.marks.get(one) == mark for one, mark in self.marks.items())
        return same and not any(one != number for one in (*self._records, *other._records))

    def reordered(self, inputs: tuple[int, ...]) -> Hole:
        """The same hole for combinations whose columns are in another order."""
        twin = Hole(inputs, self.marks)
        twin._records = self._records
        return twin

    def settle(self, number: int, claimed: Ints) -> None:
        """The claimed rows' combinations are stored: the rows leave the box."""
        record = self._records[number]
        kernels.settle(claimed, record.states, record.base)
        record.remaining -= len(claimed)

    def covered(
        self, combos: Combos, number: int, floor: int, pending: Collection[int] = ()
    ) -> NDArray[np.bool_] | None:
        """Which combinations are in the box, contain a row of an input that is being filled, and live; None if all.

        Rows of other inputs that are being filled have left the box, but for the `pending` inputs, whose turn comes
        after this one.
        """
        passed = np.empty(len(combos.starts), np.bool_)
        record = self._records[number]
        marks = np.array([self.marks[one] for one in self._inputs])
        column = self._inputs.index(number)
        all_pass = kernels.in_box(combos, marks, column, (record.states, record.base), floor, passed)
        for other, filled in self._records.items():
            if other != number:
                # Rows below the base had left their window when the record began: in no live combination.
                places = self._inputs.index(other)
                passed &= combos.rows[:, places] >= filled.base
                alive = np.flatnonzero(passed)
                states = filled.states_of(combos.rows[alive, places])
                has_left = states == FILLED if other in pending else states != MISSING
                passed[alive[has_left]] = False
                all_pass = False
        return None if all_pass else passed

    def remaining(self, number: int, head: int) -> int:
        """How many live rows of an input are still in the box."""
        record = self._records.get(number)
        return max(self.marks[number] - head, 0) if record is None else record.remaining

    def forget(self, heads: Mapping[int, int]) -> bool:
        """Rows below the heads have expired; whether anything can still be missing."""
        for number, record in self._records.items():
            record.forget(heads[number])
        return all(self.remaining(number, heads[number]) > 0 for number in self._inputs)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input have new ids."""
        if number not in self.marks:
            return
        mark = self.marks[number]
        self.marks[number] = int(renumbering.apply(np.array([mark]))[0])
        old = self._records.get(number)
        if old is None:
            return
        new = Record(renumbering.first, self.marks[number])
        kept = renumbering.kept[(renumbering.kept >= old.base) & (renumbering.kept < mark)]
        kernels.put(new.states, renumbering.apply(kept) - new.base, old.states_of(kept))
        new.remaining = kernels.missing_in(new.states, 0, new.remaining)
        self._records[number] = new

    def record(self, number: int, head: int) -> Record:
        """Which rows of an input have been filled; kept from the first fill through this input on."""
        if number not in self._records:
            self._records[number] = Record(head, self.marks[number])
        return self._records[number]

    @property
    def nbytes(self) -> int:
        return sum(record.states.nbytes for record in self._records.values())
