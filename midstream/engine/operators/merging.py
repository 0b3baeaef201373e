"""Rows of groups, state by state -> runs of equal rows.

Rows of one group that follow each other and are equal are one run. The rows of a close come in pieces, mostly in one.
Where there are several, they are not kept: what is equal is found piece by piece, and a row is made again when it is
given out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from midstream.engine.operators.interner import are_equal, are_hashed, code_rows, width_of
from midstream.engine.operators.runs import Runs
from midstream.engine.operators.states import States
from midstream.state.indexes import Ints
from midstream.state.sizes import can_be_large, row_bytes


class RowPiece(NamedTuple):
    """Some states that give a row each, and these rows."""

    states: Ints
    rows: list[pa.Array]


class _LastRow(NamedTuple):
    codes: Ints
    values: list[pa.Array]


def merge_rows(pieces: Iterable[RowPiece], states: States, make_again: Callable[[Ints], list[pa.Array]]) -> Runs:
    """The runs of rows of states, which are sorted by group and time; `make_again` makes the rows of some of them."""
    shown, repeats, largest = [np.empty(0, np.int64)], [np.empty(0, np.bool_)], 0
    last: _LastRow | None = None
    kept: list[RowPiece] = []
    for piece in pieces:
        if len(piece.states) == 0:
            continue
        found, last = _find_repeats(piece, last)
        shown.append(piece.states)
        repeats.append(found)
        largest = max(largest, sum(int(row_bytes(values).max()) for values in piece.rows if can_be_large(values.type)))
        kept = [piece] if len(shown) == 2 else []  # the first one, as long as it is the only one
    of_rows = np.concatenate(shown)
    groups, firsts, lasts = states.groups[of_rows], states.firsts[of_rows], states.lasts[of_rows]
    goes_on = np.concatenate(repeats)[1:] & (groups[1:] == groups[:-1]) & (firsts[1:] == lasts[:-1] + 1)
    is_first, is_last = np.ones((2, len(groups)), np.bool_)
    is_first[1:], is_last[:-1] = ~goes_on, ~goes_on
    begins, ends = np.flatnonzero(is_first), np.flatnonzero(is_last)

    def values_at(places: Ints) -> list[pa.Array]:
        if not kept:
            return make_again(of_rows[begins[places]])
        chosen = pa.array(begins[places])
        return [values.take(chosen) for values in kept[0].rows]

    return Runs(firsts[begins], lasts[ends], values_at, largest if kept else max(largest, states.largest))


def _find_repeats(piece: RowPiece, last: _LastRow | None) -> tuple[NDArray[np.bool_], _LastRow]:
    """Which rows of a piece equal the row before; that of the first one is the last row of the piece before."""
    length = len(piece.states)
    codes = code_rows(piece.rows, length, width_of(len(piece.rows)))
    hashed = [values for values in piece.rows if are_hashed(values.type)]
    found = np.zeros(length, np.bool_)
    found[1:] = (codes[1:] == codes[:-1]).all(axis=1)
    for values in hashed:
        found[1:] &= are_equal(values.slice(1), values.slice(0, length - 1))
    if last is not None:
        found[0] = (codes[0] == last.codes).all() and all(
            are_equal(values.slice(0, 1), before)[0] for values, before in zip(hashed, last.values, strict=True)
        )
    return found, _LastRow(codes[-1].copy(), [values.slice(length - 1) for values in hashed])
