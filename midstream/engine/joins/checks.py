"""What a proposed combination has to pass before it counts.

An index proposes by one 64-bit key and the time interval. What that leaves open is tested here on whole blocks: the
parts of composite keys, the values behind hashes, further bands, arrival numbers of ROWS windows, and thetas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from midstream.cql.model import Band, Query, Theta, columns_of
from midstream.engine.expressions import compile_expression
from midstream.engine.joins.combos import Block
from midstream.kernels import checks as kernels
from midstream.kernels.types import SMALLEST, Combos
from midstream.state.columns import BytesColumn, PairColumn
from midstream.state.keys import is_hashed
from midstream.state.sizes import cut_into_pieces
from midstream.state.window import BaseWindow, PayloadName

Mask = NDArray[np.bool_]


class Check(Protocol):
    """A test of the combinations of a block from `first` on."""

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        """Clear `passed` where the test fails."""


class SameCodes:
    """Two inputs agree on a key class's code."""

    def __init__(self, sides: tuple[int, int], windows: tuple[BaseWindow, BaseWindow], key_class: int):
        self._sides, self._windows, self._class = sides, windows, key_class

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        left, right = self._windows
        kernels.same_codes(combos.rows, first, self._sides, (left.codes[self._class], right.codes[self._class]), passed)


class SameValues:
    """Two inputs agree on the value behind a hashed key class's code."""

    def __init__(
        self, sides: tuple[int, int], windows: tuple[BaseWindow, BaseWindow], names: tuple[PayloadName, PayloadName]
    ):
        self._sides, self._windows, self._names = sides, windows, names

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        left = self._windows[0].columns[self._names[0]]
        right = self._windows[1].columns[self._names[1]]
        if isinstance(left, BytesColumn) and isinstance(right, BytesColumn):
            heads = self._windows[0].head, self._windows[1].head
            kernels.same_bytes(combos.rows, first, self._sides, heads, left.parts, right.parts, passed)
        else:
            assert isinstance(left, PairColumn) and isinstance(right, PairColumn)
            kernels.same_pairs(combos.rows, first, self._sides, (left.words, right.words), passed)


class InBand:
    """An exact band that was not the way to the entries holds."""

    def __init__(self, sides: tuple[int, int], windows: tuple[BaseWindow, BaseWindow], number: int, band: Band):
        self._sides, self._windows, self._number = sides, windows, number
        self._bounds = (band.low is not None, int(band.low or 0), band.high is not None, int(band.high or 0))

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        codes = tuple(window.band_codes[self._number] for window in self._windows)
        kernels.in_band(combos.rows, first, self._sides, codes, self._bounds, passed)


class ArrivalsMeet:
    """All arrival numbers lie in the intervals of all rows of ROWS windows."""

    def __init__(self, inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        self._windows = [(column, windows[number]) for column, number in enumerate(inputs)]

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        highest = np.full(len(passed), SMALLEST)
        for column, window in self._windows:
            kernels.raise_to(combos.rows, first, column, window.arrivals, highest)
        for column, window in self._windows:
            if window.layout.window.counts_rows:
                kernels.at_most(combos.rows, first, column, window.arrival_ends, highest, passed)
                # A state is purged bit by bit, so an entry may still name a row whose place another one has taken.
                passed &= combos.rows[first : first + len(passed), column] >= window.head


class StillHeld:
    """The rows of some inputs are in their windows, so that there is something of them to read.

    A state is purged bit by bit, so an entry may name rows that have left. No new row meets it any more, but what is
    filled in or moved may be as old.
    """

    def __init__(self, chosen: Iterable[int], inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        self._windows = [(inputs.index(number), windows[number]) for number in sorted(chosen)]

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        for column, window in self._windows:
            passed &= combos.rows[first : first + len(passed), column] >= window.head


class ThetaHolds:
    """A predicate over columns of several inputs holds."""

    def __init__(self, theta: Theta, inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        self._evaluator = compile_expression(theta.expr)
        self._columns = [
            (windows[column.input], inputs.index(column.input), column) for column in columns_of(theta.expr)
        ]

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        rows = combos.rows[first : first + len(passed)]
        columns = [(window.columns[column.name], place) for window, place, column in self._columns]
        for piece in cut_into_pieces(columns, rows):
            part = rows[piece]
            values = {
                (column.input, column.name): payload.take(part, place)
                for (payload, place), (_, _, column) in zip(columns, self._columns, strict=True)
            }
            passed[piece] &= self._evaluator.mask(values, len(part))


class Checks:
    """All tests of one join: the cheap ones together, then the others, each only of what has passed those before."""

    def __init__(self, cheap: Sequence[Check], others: Sequence[Check]):
        self._stages = [stage for stage in (cheap, *([other] for other in others)) if stage]

    def after(self, check: Check) -> Checks:
        """The same tests after another one."""
        found = Checks([check], ())
        found._stages += self._stages
        return found

    @property
    def only_confirm_keys(self) -> bool:
        """Whether nothing is tested but that what has one hash is one key, which hardly ever fails."""
        return all(isinstance(check, SameCodes | SameValues) for stage in self._stages for check in stage)

    def apply(self, block: Block, end: int) -> None:
        """Keep of the combinations between ``block.count`` and `end` those that pass; they count from now on."""
        first = block.count
        for stage in self._stages:
            if end == first:
                break
            passed = np.ones(end - first, np.bool_)
            for check in stage:
                check(block.combos, first, passed)
            if not passed.all():
                end = kernels.pack(block.combos, first, passed)
        block.found += end - first
        block.count = end


def checks_of_join(
    query: Query,
    left: tuple[int, ...],
    right: tuple[int, ...],
    used_band: int | None,
    windows: Sequence[BaseWindow],
    used_classes: tuple[int, ...] | None = None,
) -> Checks:
    """What is left to test where a join brings `left` and `right` together, a band having been used or not.

    `used_classes` are the key classes that partners were found by, if these are not all that both sides have.
    """
    inputs = left + right
    cheap: list[Check] = []

    def sides(a: int, b: int) -> tuple[tuple[int, int], tuple[BaseWindow, BaseWindow]]:
        return (inputs.index(a), inputs.index(b)), (windows[a], windows[b])

    crossing = [
        (at, key_class)
        for at, key_class in enumerate(query.key_classes)
        if not key_class.inputs.isdisjoint(left) and not key_class.inputs.isdisjoint(right)
    ]
    if used_classes is None:
        used_classes = tuple(at for at, _ in crossing)
    for at, key_class in crossing:
        a = next(number for number in left if number in key_class.inputs)
        b = next(number for number in right if number in key_class.inputs)
        if used_classes != (at,):  # whose codes are compared by the index itself; those of a composite key are hashed
            cheap.append(SameCodes(*sides(a, b), at))
        if is_hashed(key_class.type):
            names = windows[a].layout.verified[at], windows[b].layout.verified[at]
            cheap.append(SameValues(*sides(a, b), names))
    for at, band in enumerate(query.bands):
        apart = (band.left_input in left) != (band.right_input in left)
        if band.exact and at != used_band and apart and {band.left_input, band.right_input} <= set(inputs):
            cheap.append(InBand(*sides(band.left_input, band.right_input), at, band))
    if query.tracks_arrivals:
        cheap.append(ArrivalsMeet(inputs, windows))
    thetas = [
        theta
        for theta in query.thetas
        if theta.inputs <= set(inputs) and not theta.inputs <= set(left) and not theta.inputs <= set(right)
    ]
    if not thetas:
        return Checks(cheap, ())
    held = StillHeld({number for theta in thetas for number in theta.inputs}, inputs, windows)
    return Checks(cheap, [held, *(ThetaHolds(theta, inputs, windows) for theta in thetas)])
