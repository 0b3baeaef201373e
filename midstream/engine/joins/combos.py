"""Combinations on their way through a plan: deltas with their key codes, and blocks that probes write into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from midstream.kernels import partition
from midstream.kernels import rings as kernels
from midstream.kernels.distinct import find_distinct_rows
from midstream.kernels.types import LARGEST, Combos
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow, WindowRows, composite

#: The most combinations that are on their way from one join to the next, or to the output, at a time.
LARGEST_BLOCK = 1 << 17
#: In the place of a row id: the input is one of another fragment. No row has so high an id, so that the result is not
#: older for it than for any other input.
OF_OTHERS = LARGEST


class Delta:
    """Combinations over some inputs, `inputs[k]` being the input of column k, with key codes looked up once."""

    #: The first id of new rows, which follow each other; None of other combinations.
    first_new: int | None = None

    def __init__(self, inputs: tuple[int, ...], combos: Combos, windows: Sequence[BaseWindow]):
        self.inputs = inputs
        self.combos = combos
        self._windows = windows
        self._codes: dict[int, Ints] = {}
        self._band_codes: dict[int, Ints] = {}

    @classmethod
    def of_window_rows(cls, number: int, first: int, rows: WindowRows, windows: Sequence[BaseWindow]) -> Delta:
        """Rows that have just entered an input's window."""
        ids = np.arange(first, first + len(rows)).reshape(-1, 1)
        delta = cls((number,), Combos(ids, rows.starts, rows.ends), windows)
        delta._codes, delta._band_codes = rows.codes, rows.band_codes
        delta.first_new = first
        return delta

    def begin_at(self, horizon: int) -> Delta:
        """The same combinations, none of which begins before the horizon.

        Rows that were kept back for a while may be older than that. They must not meet what ended before it: that is
        dead, and may name rows whose place others have taken.
        """
        if len(self) == 0 or int(self.combos.starts.min()) >= horizon:
            return self
        begun = self.with_combos(self.combos._replace(starts=np.maximum(self.combos.starts, horizon)))
        begun._codes, begun._band_codes = self._codes, self._band_codes
        return begun

    @classmethod
    def of_rows(cls, number: int, ids: Ints, windows: Sequence[BaseWindow]) -> Delta:
        """Rows that an input's window holds."""
        window = windows[number]
        slots = ids & (window.capacity - 1)
        matrix = np.ascontiguousarray(ids.reshape(-1, 1))
        return cls((number,), Combos(matrix, window.starts[slots], window.ends[slots]), windows)

    @classmethod
    def concatenate(cls, deltas: Sequence[Delta]) -> Delta:
        """Combinations of the same inputs, one after the other."""
        first, *others = deltas
        if not others:
            return first
        combos = (np.concatenate(arrays) for arrays in zip(*(delta.combos for delta in deltas), strict=True))
        return cls(first.inputs, Combos(*combos), first._windows)

    def at(self, places: Ints) -> Delta:
        """The combinations at these places, which are in order and different; a view where they follow each other."""
        if len(places) == len(self):
            return self
        if len(places) and places[-1] - places[0] == len(places) - 1:
            return self.with_combos(Combos(*(array[places[0] : places[-1] + 1] for array in self.combos)))
        return self.with_combos(select(self.combos, places))

    def split(self, key_class: int, bounds: Ints, are_exact: bool, way_of_class: Ints) -> list[Delta]:
        """The combinations of each way, by the code of a key class that they have; see the kernel."""
        codes = self.codes(key_class)
        parted, parted_codes = _allocate(self.combos.rows.shape[1], len(codes)), np.empty(len(codes), np.int64)
        begins = partition.split(codes, bounds, are_exact, way_of_class, self.combos, parted, parted_codes).tolist()
        parts = []
        for begin, end in pairwise(begins):
            part = self.with_combos(Combos(*(array[begin:end] for array in parted)))
            part._codes[key_class] = parted_codes[begin:end]
            parts.append(part)
        return parts

    def with_combos(self, combos: Combos) -> Delta:
        """Other combinations of the same inputs."""
        return Delta(self.inputs, combos, self._windows)

    def __len__(self) -> int:
        return len(self.combos.starts)

    @property
    def ids(self) -> Ints:
        """The row ids of combinations of one input."""
        ids: Ints = self.combos.rows[:, 0]
        return ids

    def codes(self, key_class: int) -> Ints:
        """The code of a key class in each combination; the inputs that have the class agree on it."""
        known = self._codes.get(key_class)
        if known is None:
            column = next(at for at, number in enumerate(self.inputs) if key_class in self._windows[number].codes)
            known = self._gather(self._windows[self.inputs[column]].codes[key_class], column)
            self._codes[key_class] = known
        return known

    def has_codes(self, key_class: int) -> bool:
        """Whether one of the inputs has the key class."""
        return any(key_class in self._windows[number].codes for number in self.inputs)

    def keys(self, classes: tuple[int, ...]) -> Ints:
        """The code of a composite key."""
        if len(classes) == 1:
            return self.codes(classes[0])
        return composite([self.codes(number) for number in classes])

    def band_codes(self, band: int, number: int) -> Ints:
        """The value of a band's expression over one input, as a code."""
        if band not in self._band_codes:
            column = self.inputs.index(number)
            self._band_codes[band] = self._gather(self._windows[number].band_codes[band], column)
        return self._band_codes[band]

    def _gather(self, ring: Ints, column: int) -> Ints:
        out = np.empty(len(self), np.int64)
        kernels.gather(ring, self.combos.rows, column, out)
        return out


class Block:
    """Room for combinations, which grows as it fills. With `largest`, it is emptied instead once it is that large."""

    def __init__(self, width: int, capacity: int, largest: int | None = None):
        self.combos = _allocate(width, capacity)
        self.count = 0
        #: How many combinations have ever been found, and proposed to the checks before.
        self.found = self.proposed = 0
        self._largest = largest

    @property
    def may_grow(self) -> bool:
        return self._largest is None or len(self.combos.starts) < self._largest

    def grow(self) -> None:
        """Double the room, keeping what is there; no further than to the largest size, if it is not reached yet."""
        capacity = 2 * len(self.combos.starts)
        if self._largest is not None and self.may_grow:
            capacity = min(capacity, self._largest)
        bigger = _allocate(self.combos.rows.shape[1], capacity)
        for new, old in zip(bigger, self.combos, strict=True):
            new[: self.count] = old[: self.count]
        self.combos = bigger

    def content(self) -> Combos:
        """What has been written, as a view."""
        (rows, starts, ends), count = self.combos, self.count
        return Combos(rows[:count], starts[:count], ends[:count])

    def take(self, found: Block, columns: Sequence[int] | Ints) -> Iterator[None]:
        """Move everything here from another block, its columns in this order; it fits in when this one is empty.

        Yields if this one has to be emptied first.
        """
        while self.count + found.count > len(self.combos.starts) and self.may_grow:
            self.grow()
        if self.count + found.count > len(self.combos.starts):
            yield
        while self.count + found.count > len(self.combos.starts):
            self.grow()
        end = self.count + found.count
        rows, starts, ends = found.content()
        for target, source in zip(self.combos, Combos(rows[:, columns], starts, ends), strict=True):
            target[self.count : end] = source
        self.count = end
        found.count = 0

    @property
    def is_half_full(self) -> bool:
        return 2 * self.count >= len(self.combos.starts)


def make_block(width: int, least: int, probing: int) -> Block:
    """A block for what so many combinations find: large if they are many, but not too large."""
    return Block(width, min(LARGEST_BLOCK, max(least, 2 * probing)), LARGEST_BLOCK)


def emit(steps: Iterator[None], block: Block, order: Ints) -> Iterator[Combos]:
    """What is written into a block that is emptied when it is full, its columns in this order."""
    for _ in steps:
        yield _reorder(block.content(), order)
        block.count = 0
    if block.count:
        yield _reorder(block.content(), order)


def _reorder(combos: Combos, order: Ints) -> Combos:
    return Combos(np.ascontiguousarray(combos.rows[:, order]), combos.starts, combos.ends)


def _allocate(width: int, capacity: int) -> Combos:
    return Combos(np.empty((capacity, width), np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.int64))


def select(combos: Combos, places: Ints) -> Combos:
    """The combinations at these places."""
    return Combos(combos.rows[places], combos.starts[places], combos.ends[places])


def find_distinct(rows: Ints) -> Ints:
    """The places of the rows of a matrix that are not equal to an earlier one, in their order.

    >>> find_distinct(np.array([[1, 2], [0, 5], [1, 2], [1, 1]])).tolist()
    [0, 1, 3]
    """
    found: Ints = find_distinct_rows(rows)
    return found


def heads_of(windows: Sequence[BaseWindow]) -> Mapping[int, int]:
    """The first id that each window holds."""
    return {number: window.head for number, window in enumerate(windows)}


def tails_of(windows: Sequence[BaseWindow]) -> Mapping[int, int]:
    """The id that the next row of each window gets."""
    return {number: window.tail for number, window in enumerate(windows)}


def widen(combos: Combos, inputs: Sequence[int], width: int) -> Combos:
    """Combinations of some inputs, which are in order, with a column for every one of `width` inputs."""
    if len(inputs) == width:
        return combos
    rows = np.full((len(combos.starts), width), OF_OTHERS)
    rows[:, _columns(inputs)] = combos.rows
    return Combos(rows, combos.starts, combos.ends)


def split_by_inputs(combos: Combos, parts: Sequence[Sequence[int]]) -> Iterator[tuple[int, Combos]]:
    """The combinations of each part of the inputs, by the part's number, with the columns of its inputs alone.

    The inputs of a part are in order, and parts have none in common.
    """
    for part, inputs in enumerate(parts):
        if len(inputs) == combos.rows.shape[1]:
            yield part, combos
            return
        places = np.flatnonzero(combos.rows[:, inputs[0]] != OF_OTHERS)
        if len(places) == 0:
            continue
        own = combos if len(places) == len(combos.starts) else select(combos, places)
        yield part, own._replace(rows=np.ascontiguousarray(own.rows[:, _columns(inputs)]))


def _columns(inputs: Sequence[int]) -> slice | list[int]:
    """Columns of a matrix: a slice if they follow each other."""
    is_slice = inputs[-1] - inputs[0] == len(inputs) - 1
    return slice(inputs[0], inputs[-1] + 1) if is_slice else list(inputs)
