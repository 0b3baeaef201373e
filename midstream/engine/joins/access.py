"""How a join finds the partners of a combination in one of its children.

Equal keys go through a hash index, bands through a sorted one, anything else through nested loops. A `Path` is built
once per join and child; it turns a delta of the other child into probing steps, names the rows whose combinations the
child must hold before it is probed, and gives the child's own entries their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from midstream.cql.model import Band, Query, Rounding
from midstream.engine.joins.combos import Delta
from midstream.kernels import loops, runs
from midstream.kernels.types import LARGEST, SMALLEST, Combos, HeldRows, KeyCounts, Layout, Ring
from midstream.state.indexes import HashIndex, Ints, SortedIndex
from midstream.state.join_state import Access, JoinState, Signature
from midstream.state.keys import codes_of, floats_of
from midstream.state.missing import Missing
from midstream.state.window import BaseWindow

Store = BaseWindow | JoinState
Step = Callable[[Combos, Ints], bool]

_FAR_FROM_OVERFLOW = 2.0**1020


class Path(Protocol):
    """The way from a delta of one child to the entries of the other."""

    access: Access
    driver: int
    signature: Signature

    def steps(self, store: Store, ring: Ring, delta: Delta, layout: Layout) -> Iterable[Step]:
        """Steps that each join the delta with some of the entries; a step is called until it returns True."""

    def claim(self, delta: Delta, missing: Missing) -> Delta:
        """Claim the driver's rows without whose combinations a probe with this delta could miss an entry."""

    def keys(self, delta: Delta) -> Ints:
        """The keys under which combinations of the child are stored."""


class HashPath:
    """Through equal keys."""

    access = Access.HASH

    def __init__(self, query: Query, inside: tuple[int, ...], classes: tuple[int, ...], windows: Sequence[BaseWindow]):
        self.classes = classes
        self._windows = windows
        owned = {number: [c for c in classes if number in query.key_classes[c].inputs] for number in inside}
        self.driver = max(inside, key=lambda number: len(owned[number]))
        self._driver_class = owned[self.driver][0]
        self.signature: Signature = ("hash", classes)

    def steps(self, store: Store, ring: Ring, delta: Delta, layout: Layout) -> Iterable[Step]:
        keys, index = delta.keys(self.classes), self.index(store)
        return (lambda out, cursor: index.probe(ring, keys, delta.combos, out, cursor, layout),)

    def held_step(self, window: BaseWindow, delta: Delta, layout: Layout, held: HeldRows, filter: KeyCounts) -> Step:
        """A step that joins the delta with those rows of a window that are in a set and pass a filter of keys."""
        keys, index = delta.keys(self.classes), self.index(window)
        return lambda out, cursor: index.probe_held(keys, delta.combos, out, cursor, layout, held, filter)

    def index(self, store: Store) -> HashIndex:
        """The index that leads to the entries."""
        if isinstance(store, BaseWindow):
            return store.hash_indexes[self.classes]
        index = store.indexes[self.signature]
        assert isinstance(index, HashIndex)
        return index

    def claim(self, delta: Delta, missing: Missing) -> Delta:
        window = self._windows[self.driver]
        index, keys = window.hash_indexes[(self._driver_class,)], delta.codes(self._driver_class)
        claimed = missing.claim_by_key(self.driver, window.head, index, keys)
        return Delta((self.driver,), claimed, self._windows)

    def keys(self, delta: Delta) -> Ints:
        return delta.keys(self.classes)


class BandPath:
    """Through a band: the entries whose value lies in a range around the probing one."""

    access = Access.SORTED

    def __init__(self, inside: tuple[int, ...], number: int, band: Band, windows: Sequence[BaseWindow]):
        self.number = number
        self.signature: Signature = ("band", number, band.left_input in inside)
        self._rounding = band.rounding if band.type == pa.float64() else None
        self._windows = windows
        if band.left_input in inside:
            self.driver, self._partner = band.left_input, band.right_input
            self._low, self._high = band.low, band.high
        else:
            self.driver, self._partner = band.right_input, band.left_input
            self._low = None if band.high is None else -band.high
            self._high = None if band.low is None else -band.low

    def steps(self, store: Store, ring: Ring, delta: Delta, layout: Layout) -> Iterator[Step]:
        ranges, index = self.ranges(delta), self.index(store)
        for run in range(index.run_count):
            yield lambda out, cursor, run=run: index.probe(  # type: ignore[misc]
                run, ring, ranges, delta.combos, out, cursor, layout
            )

    def index(self, store: Store) -> SortedIndex:
        """The index that leads to the entries."""
        if isinstance(store, BaseWindow):
            return store.sorted_indexes[self.number]
        index = store.indexes[self.signature]
        assert isinstance(index, SortedIndex)
        return index

    def claim(self, delta: Delta, missing: Missing) -> Delta:
        window = self._windows[self.driver]
        found = window.sorted_indexes[self.number].find(window.ring(), *self.ranges(delta))
        places = missing.claim(self.driver, window.head, found)
        return Delta.of_rows(self.driver, found[places], self._windows)

    def keys(self, delta: Delta) -> Ints:
        return delta.band_codes(self.number, self.driver)

    def ranges(self, delta: Delta) -> tuple[Ints, Ints]:
        """The codes between which partners' values lie; a low one above a high one finds nothing."""
        codes = delta.band_codes(self.number, self._partner)
        if self._rounding is not None:
            return find_float_ranges(floats_of(codes), self._low, self._high, self._rounding)
        lows, highs = np.full(len(codes), SMALLEST), np.full(len(codes), LARGEST)
        empty = np.zeros(len(codes), np.bool_)
        for amount, bounds, is_low in ((self._low, lows, True), (self._high, highs, False)):
            if amount is not None:
                empty |= _shift(codes, int(amount), is_low, bounds)
        lows[empty], highs[empty] = LARGEST, SMALLEST
        return lows, highs


def _shift(codes: Ints, amount: int, is_low: bool, bounds: Ints) -> NDArray[np.bool_]:
    """As `runs.shift`, also for an amount one above the largest int64, which a turned band can have."""
    within = min(amount, int(LARGEST))
    empty: NDArray[np.bool_] = runs.shift(codes, within, is_low, bounds)
    if within < amount:
        empty |= runs.shift(bounds.copy(), amount - within, is_low, bounds)
    return empty


def find_float_ranges(
    values: NDArray[np.float64], low: float | None, high: float | None, rounding: Rounding
) -> tuple[Ints, Ints]:
    """The codes between which every partner lies that the comparison, computed with floats, can accept.

    Let x be a partner of the value y, c the sum of the constants' sizes, u = 2**-53. An addition is off by at most u
    times its result, which is no larger than s = |x| + |y| + c, as long as nothing overflows. So after n additions a
    comparison that holds bounds x - y to within n * u * s, give or take terms in u**2. Solved for x, which is in s too,
    this is at most 2 * n * u * (|y| + c). The slack below is twice that and some more, for the additions here.

    If |y| + c is far from the largest float, only an x near it overflows, and then to the infinity on its own side,
    which the comparison and the range see alike. If it is not, both sides may be infinite, and everything is a partner.
    NaN is larger than any other float here and in the comparison, and no arithmetic but that of infinities makes one.
    """
    lows, highs = np.full(len(values), SMALLEST), np.full(len(values), LARGEST)
    with np.errstate(all="ignore"):
        size = np.abs(values) + rounding.constants
        slack = size * ((rounding.additions + 4) * 2.0**-51) + np.finfo(np.float64).tiny
        is_safe = ~(size >= _FAR_FROM_OVERFLOW)
        if low is not None:
            lows[is_safe] = codes_of(pa.array((values + low - slack)[is_safe]))
        if high is not None:
            highs[is_safe] = codes_of(pa.array((values + high + slack)[is_safe]))
    return lows, highs


class LoopPath:
    """Through all entries."""

    access = Access.LOOP

    def __init__(self, inside: tuple[int, ...], windows: Sequence[BaseWindow]):
        self.driver = inside[0]
        self.signature: Signature = ("loop",)
        self._windows = windows

    def steps(self, store: Store, ring: Ring, delta: Delta, layout: Layout) -> Iterator[Step]:
        yield lambda out, cursor: bool(loops.probe(ring, delta.combos, out, cursor, layout))

    def claim(self, delta: Delta, missing: Missing) -> Delta:
        """No row: all of them could be needed. Such a probe goes through the windows as long as entries are missing."""
        return Delta.of_rows(self.driver, np.empty(0, np.int64), self._windows)

    def keys(self, delta: Delta) -> Ints:
        return np.zeros(len(delta), np.int64)


def path_into(
    query: Query, inside: tuple[int, ...], outside: tuple[int, ...], windows: Sequence[BaseWindow] = ()
) -> Path:
    """The best way to find entries over the inputs `inside` for combinations over the inputs `outside`.

    It follows from the query alone. Without windows the path can be compared with others, but not taken.
    """
    classes = tuple(
        at
        for at, key_class in enumerate(query.key_classes)
        if not key_class.inputs.isdisjoint(inside) and not key_class.inputs.isdisjoint(outside)
    )
    if classes:
        return HashPath(query, inside, classes, windows)
    bands = [
        (band.low is None or band.high is None, at)
        for at, band in enumerate(query.bands)
        if (band.left_input in inside and band.right_input in outside)
        or (band.left_input in outside and band.right_input in inside)
    ]
    if bands:
        _, at = min(bands)
        return BandPath(inside, at, query.bands[at], windows)
    return LoopPath(inside, windows)
