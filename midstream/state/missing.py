"""What a join state lacks: boxes of missing combinations.

A box is a product of row sets, one per input: the rows below a mark, perhaps only some of them, that have not been
taken out again. It stands for all combinations made only of such rows. A fill through an input takes rows out of that
input's sets after it has stored every missing combination with them. As soon as one set of a box has no live row left,
nothing is missing there and the box is gone.

Boxes of one state may overlap: a combination is missing if at least one box has it. Each box knows its cause, so that
a migration ends when *its* boxes are gone. A row in a set with a record is missing, being filled right now, or filled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from midstream.kernels import boxes as kernels
from midstream.kernels.boxes import FILLED, MISSING
from midstream.kernels.types import Combos
from midstream.state.indexes import HashIndex, Ints
from midstream.state.window import Renumbering

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cause:
    """Why combinations are missing. Two causes of the same kind are different ones."""

    kind: Literal["migration", "restore", "eviction"]


class Record:
    """Which rows of one input have been filled, for the ids from `base` up to the mark."""

    def __init__(self, base: int, mark: int):
        self.base = base
        self.mark = mark
        self.head = base
        self.remaining = self._scanned = self._size = max(mark - base, 0)
        self.states: NDArray[np.uint8] = kernels.room_for(self._size)
        self._at_first: NDArray[np.uint8] | None = None

    @classmethod
    def of_rows(cls, ids: Ints) -> Record:
        """A record in which only these rows are missing: all others are filled from the start."""
        record = cls(int(ids.min()), int(ids.max()) + 1)
        record.states[:] = kernels.ALL_FILLED
        kernels.put(record.states, ids - record.base, np.full(len(ids), MISSING, np.uint8))
        record.remaining = kernels.missing_in(record.states, 0, record.remaining)
        record._at_first = record.states.copy()
        return record

    def renumbered(self, renumbering: Renumbering) -> Record:
        """The same rows under their new ids."""
        base, mark = (int(bound) for bound in renumbering.apply(np.array([self.base, self.mark])))
        record = Record(base, mark)
        kept = renumbering.kept[(renumbering.kept >= self.base) & (renumbering.kept < self.mark)]
        kernels.put(record.states, renumbering.apply(kept) - base, self.states_of(kept))
        record.remaining = kernels.missing_in(record.states, 0, record.remaining)
        return record

    def newest(self, limit: int) -> Ints:
        """Up to `limit` missing rows, the newest first. The next call goes on below them: fill them."""
        found, self._scanned = kernels.missing_from_top(self.states, self._scanned, self.head - self.base, limit)
        ids: Ints = found + self.base
        return ids

    def all_missing(self) -> Ints:
        """All live rows that are missing."""
        ids = np.arange(self.head, self.base + self._size)
        found: Ints = ids[self.states_of(ids) == MISSING]
        return found

    def refilled(self) -> Ints:
        """The live rows that were missing from the start and have been filled; none if that is not known any more."""
        if self._at_first is None:
            return np.empty(0, np.int64)
        ids = np.arange(self.head, self.base + self._size)
        was_missing = kernels.states_of(self._at_first, ids - self.base) == MISSING
        found: Ints = ids[was_missing & (self.states_of(ids) != MISSING)]
        return found

    @property
    def nbytes(self) -> int:
        return self.states.nbytes + (0 if self._at_first is None else self._at_first.nbytes)

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


class Box:
    """Missing combinations over `inputs`: of each input the rows below its mark.

    With `rows`, only these rows of an input; with `lows`, only its rows from that id on.
    """

    def __init__(
        self,
        inputs: tuple[int, ...],
        marks: Mapping[int, int],
        cause: Cause,
        rows: Mapping[int, Ints] | None = None,
        lows: Mapping[int, int] | None = None,
    ):
        self.inputs = inputs
        self.cause = cause
        self.marks = {number: marks[number] for number in inputs}
        self._chosen = frozenset(rows or {})
        self._records: dict[int, Record] = {}
        for number, low in (lows or {}).items():
            if number in self.marks:
                self._records[number] = Record(low, self.marks[number])
        for number, ids in (rows or {}).items():
            low = -1 if lows is None else lows.get(number, -1)
            chosen = ids[(ids >= low) & (ids < self.marks[number])]
            self._records[number] = Record.of_rows(chosen) if len(chosen) else Record(0, 0)
            self.marks[number] = self._records[number].mark

    def claim(self, number: int, head: int, ids: Ints) -> Ints:
        """Where in `ids` missing rows of an input are, each row once; from now on they are being filled."""
        record = self._record(number, head)
        places: Ints = kernels.claim(np.ascontiguousarray(ids), record.mark, record.states, record.base)
        return places

    def claim_by_key(self, number: int, head: int, index: HashIndex, keys: Ints) -> Combos:
        """The missing rows of an input that its index finds by these keys; from now on they are being filled."""
        record = self._record(number, head)
        return index.claim(head, keys, record.mark, record.states, record.base)

    def newest(self, number: int, head: int, limit: int) -> Ints:
        """Up to `limit` rows of an input that are still in the box, the newest first. The caller fills them."""
        return self._record(number, head).newest(limit)

    def all_missing(self, number: int, head: int) -> Ints:
        """All live rows of an input that are in the box."""
        record = self._records.get(number)
        return np.arange(head, self.marks[number]) if record is None else record.all_missing()

    def tell_filling(self, number: int, ids: Ints) -> tuple[Ints, Ints]:
        """Where in `ids` rows of an input are that are being filled right now, and where all others are."""
        record = self._records[number]
        filling, others = kernels.tell_filling(np.ascontiguousarray(ids), record.mark, record.states, record.base)
        return filling, others

    def has_marks_of(self, other: Box, number: int) -> bool:
        """True if both boxes have the same marks on the inputs of this one, and only `number` has a record."""
        same = all(other.marks.get(own) == mark for own, mark in self.marks.items())
        return same and not any(filled != number for filled in (*self._records, *other._records))

    def reordered(self, inputs: tuple[int, ...]) -> Box:
        """The same box for combinations whose columns are in another order."""
        box = Box(inputs, self.marks, self.cause)
        box._chosen = self._chosen
        box._records = self._records
        return box

    def was_evicted_by(self, number: int) -> bool:
        """Whether it is about evicted rows of this input, with all rows of the others; or about all rows of all."""
        return self.cause.kind == "eviction" and self._chosen <= {number}

    def refilled(self, number: int) -> Ints:
        """The live rows of an input that were evicted with this box and have been filled in since."""
        record = self._records.get(number)
        return np.empty(0, np.int64) if record is None else record.refilled()

    def settle(self, number: int, claimed: Ints) -> None:
        """The combinations of the claimed rows are stored: those that are in the box leave it."""
        record = self._records[number]
        record.remaining -= kernels.settle(claimed, record.mark, record.states, record.base)

    def covered(self, combos: Combos, number: int, horizon: int, pending: Collection[int] = ()) -> Mask | None:
        """Which combinations are in the box, contain a row of an input that is being filled, and live; None if all.

        Rows of other inputs that are being filled have left the box, but for the `pending` inputs, whose turn comes
        after this one.
        """
        passed = np.empty(len(combos.starts), np.bool_)
        record = self._records[number]
        marks = np.array([self.marks[own] for own in self.inputs])
        column = self.inputs.index(number)
        all_pass = kernels.in_box(combos, marks, column, (record.states, record.base), horizon, passed)
        for other, filled in self._records.items():
            if other != number:
                # Rows below the base are not in the box: they had left their window when the record began, or are
                # below the box's lower bound.
                places = self.inputs.index(other)
                passed &= combos.rows[:, places] >= filled.base
                alive = np.flatnonzero(passed)
                states = filled.states_of(combos.rows[alive, places])
                has_left = states == FILLED if other in pending else states != MISSING
                passed[alive[has_left]] = False
                all_pass = False
        return None if all_pass else passed

    def has(self, combos: Combos) -> Mask:
        """Which combinations are in the box; no rows are being filled."""
        found = np.ones(len(combos.starts), np.bool_)
        for column, number in enumerate(self.inputs):
            rows = combos.rows[:, column]
            found &= rows < self.marks[number]
            record = self._records.get(number)
            if record is not None:
                found &= rows >= record.base
                places = np.flatnonzero(found)
                found[places] = record.states_of(rows[places]) == MISSING
        return found

    def first(self, number: int) -> int | None:
        """An id below which the box has no live row of an input; None if that is not known."""
        record = self._records.get(number)
        return None if record is None else record.base

    def remaining(self, number: int, head: int) -> int:
        """How many live rows of an input are still in the box."""
        record = self._records.get(number)
        return max(self.marks[number] - head, 0) if record is None else record.remaining

    def forget(self, heads: Mapping[int, int]) -> bool:
        """Rows below the heads have expired; whether anything can still be missing."""
        for number, record in self._records.items():
            record.forget(heads[number])
        return all(self.remaining(number, heads[number]) > 0 for number in self.inputs)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input have new ids."""
        if number in self._records:
            self._records[number] = self._records[number].renumbered(renumbering)
            self.marks[number] = self._records[number].mark
        elif number in self.marks:
            self.marks[number] = int(renumbering.apply(np.array([self.marks[number]]))[0])

    def _record(self, number: int, head: int) -> Record:
        """Which rows of an input have been filled; kept from the first fill through this input on."""
        if number not in self._records:
            self._records[number] = Record(head, self.marks[number])
        return self._records[number]

    @property
    def nbytes(self) -> int:
        return sum(record.nbytes for record in self._records.values())


class Missing:
    """The boxes of one join state; false if there are none, and then the state is complete.

    A row of an input is claimed in every box that has it, and leaves all of them when it is settled.
    """

    def __init__(self, boxes: Iterable[Box] = ()):
        self._boxes = list(boxes)

    def __bool__(self) -> bool:
        return bool(self._boxes)

    def __iter__(self) -> Iterator[Box]:
        return iter(self._boxes)

    def add(self, box: Box, heads: Mapping[int, int]) -> None:
        """One more box, unless it is empty."""
        if box.forget(heads):
            self._boxes.append(box)

    @property
    def only_box(self) -> Box | None:
        """The box, if there is exactly one."""
        return self._boxes[0] if len(self._boxes) == 1 else None

    def is_due_to(self, cause: Cause) -> bool:
        """Whether a box is left that has this cause."""
        return any(box.cause is cause for box in self._boxes)

    def replace(self, gone: Collection[Box], box: Box, heads: Mapping[int, int]) -> None:
        """One box instead of others, all of whose combinations it has."""
        self._boxes = [other for other in self._boxes if other not in gone]
        self.add(box, heads)

    def give_up(self, cause: Cause) -> None:
        """What is missing for this cause is filled on demand from now on, as what was evicted is."""
        for box in self._boxes_of(cause):
            box.cause = Cause("eviction")

    def adopt(self, cause: Cause) -> None:
        """A migration that takes the state over has to fill what earlier ones, or a restore, have left."""
        for box in self._boxes:
            if box.cause.kind != "eviction":
                box.cause = cause

    def claim(self, number: int, head: int, ids: Ints) -> Ints:
        """Where in `ids` missing rows of an input are, each row once; from now on they are being filled."""
        places = [box.claim(number, head, ids) for box in self._boxes]
        return places[0] if len(places) == 1 else np.unique(np.concatenate(places))

    def claim_by_key(self, number: int, head: int, index: HashIndex, keys: Ints) -> Combos:
        """The missing rows of an input that its index finds by these keys; from now on they are being filled."""
        parts = [box.claim_by_key(number, head, index, keys) for box in self._boxes]
        if len(parts) == 1:
            return parts[0]
        rows, starts, ends = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        _, places = np.unique(rows[:, 0], return_index=True)
        return Combos(rows[places], starts[places], ends[places])

    def newest(self, number: int, head: int, limit: int, cause: Cause | None = None) -> Ints:
        """Up to `limit` missing rows of an input, of boxes with this cause or of all. The caller fills them.

        Boxes in which the input has no row left are dropped.
        """
        for box in self._boxes_of(cause):
            ids = box.newest(number, head, limit)
            if len(ids):
                return ids
            if box.remaining(number, head) == 0:
                self._boxes.remove(box)
        return np.empty(0, np.int64)

    def covered(self, combos: Combos, number: int, horizon: int, pending: Collection[int] = ()) -> Mask | None:
        """Which combinations are missing, contain a row of an input that is being filled, and live; None if all."""
        union: Mask | None = None
        for box in self._boxes:
            passed = box.covered(combos, number, horizon, pending)
            if passed is None:
                return None
            union = passed if union is None else union | passed
        return union

    def has(self, combos: Combos) -> Mask:
        """Which combinations are missing; no rows are being filled."""
        found = np.zeros(len(combos.starts), np.bool_)
        for box in self._boxes:
            found |= box.has(combos)
        return found

    def settle(self, number: int, head: int, claimed: Ints) -> None:
        """The combinations of the claimed rows are stored: they leave all boxes, and boxes left empty are dropped."""
        for box in list(self._boxes):
            if len(claimed):
                box.settle(number, claimed)
            if box.remaining(number, head) == 0:
                self._boxes.remove(box)

    def first(self, number: int) -> int | None:
        """An id below which no live row of an input is in a box; None if that is not known."""
        firsts = [box.first(number) for box in self._boxes]
        known = [first for first in firsts if first is not None]
        return min(known) if known and len(known) == len(firsts) else None

    def last(self, number: int) -> int | None:
        """An id from which on no row of an input is in a box; None for an input of other states."""
        return max((box.marks[number] for box in self._boxes if number in box.marks), default=None)

    def remaining(self, number: int, head: int, cause: Cause | None = None) -> int:
        """How many live rows of an input are in a box, of those with this cause or of all; each row counts once."""
        boxes = self._boxes_of(cause)
        if len(boxes) < 2:
            return sum(box.remaining(number, head) for box in boxes)
        return len(np.unique(np.concatenate([box.all_missing(number, head) for box in boxes])))

    def forget(self, heads: Mapping[int, int]) -> None:
        """Rows below the heads have expired; boxes left empty are dropped."""
        self._boxes = [box for box in self._boxes if box.forget(heads)]

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input have new ids."""
        for box in self._boxes:
            box.renumber(number, renumbering)

    def reordered(self, inputs: tuple[int, ...]) -> Missing:
        """The same boxes for combinations whose columns are in another order."""
        return Missing(box.reordered(inputs) for box in self._boxes)

    def _boxes_of(self, cause: Cause | None) -> list[Box]:
        return [box for box in self._boxes if cause is None or box.cause is cause]

    @property
    def nbytes(self) -> int:
        return sum(box.nbytes for box in self._boxes)
