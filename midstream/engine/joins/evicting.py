"""Eviction: giving up entries of a join state that can be computed again.

The state drops every entry that has one of the given rows of an input, and from then on lacks these combinations: a box
of these rows with all rows of the other inputs says so. A probe that needs them fills them in again, as it fills what a
migration left out, so results stay exact whatever is evicted.

The box's marks are the rows that come next, not those of an earlier migration: entries with newer rows are dropped too.
There is one such box per state and input: a further eviction takes the rows that are still in it again, with the marks
of now, and leaves alone those that have been filled in since. It may overlap with other boxes. Only between two chunks.

A state can also be switched off. It is empty then, and stays so: combinations pass it on their way up without being
stored, and whoever probes it finds what it would hold in the base windows. Switched on again, it is a new state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from midstream.engine.joins.combos import heads_of, tails_of
from midstream.engine.joins.nodes import JoinNode
from midstream.state.indexes import Ints
from midstream.state.missing import Box, Cause
from midstream.state.window import BaseWindow


def evict(
    node: JoinNode,
    number: int,
    rows: Ints,
    windows: Sequence[BaseWindow],
    since: Mapping[int, int] | None = None,
) -> int:
    """Drop the entries of a join's state that have one of these rows of an input; how many there were.

    With `since`, the plan knows only rows from these ids on, by input.
    """
    assert node.state is not None, "the root of a plan keeps no state"
    again, rows = _find_evicted(node, number, rows, windows)
    evicted = node.state.evict(number, rows)
    if evicted:
        _replace_boxes(node, number, rows, again, windows, since)
    return evicted


def lose(
    node: JoinNode,
    number: int,
    rows: Ints,
    windows: Sequence[BaseWindow],
    since: Mapping[int, int] | None = None,
) -> None:
    """As `evict`, for rows with which combinations may be missing already, without any box that says so."""
    assert node.state is not None, "the root of a plan keeps no state"
    again, rows = _find_evicted(node, number, rows, windows)
    node.state.evict(number, rows)
    _replace_boxes(node, number, rows, again, windows, since)


def withhold(
    node: JoinNode,
    firsts: Mapping[int, int],
    lasts: Mapping[int, int],
    windows: Sequence[BaseWindow],
    since: Mapping[int, int] | None = None,
) -> None:
    """Say that a join's state has nothing with the rows of each input from one id on and before another.

    These were never joined. The state has no entries with later rows either.
    """
    assert node.state is not None, "the root of a plan keeps no state"
    missing, heads = node.state.missing, heads_of(windows)
    if len(node.state) == 0 and all(box.cause.kind == "eviction" for box in missing):
        node.state.clear()
        node.state.missing.add(_box_of(node, lasts, Cause("eviction"), since), heads)
        return
    for number in node.inputs:
        skipped = np.arange(max(firsts[number], heads[number]), lasts[number])
        again, rows = _find_evicted(node, number, skipped, windows)
        if len(rows):
            if again:
                node.state.evict(number, rows)
            missing.replace(again, _box_of(node, lasts, Cause("eviction"), since, {number: rows}), heads)


def _find_evicted(node: JoinNode, number: int, rows: Ints, windows: Sequence[BaseWindow]) -> tuple[list[Box], Ints]:
    """The boxes of earlier evictions by an input, and these rows of it with those that are still missing there."""
    assert node.state is not None
    again = [box for box in node.state.missing if box.was_evicted_by(number)]
    return again, np.concatenate([rows, *(box.all_missing(number, windows[number].head) for box in again)])


def _replace_boxes(
    node: JoinNode,
    number: int,
    rows: Ints,
    again: list[Box],
    windows: Sequence[BaseWindow],
    since: Mapping[int, int] | None,
) -> None:
    assert node.state is not None
    box = _box_of(node, tails_of(windows), Cause("eviction"), since, {number: rows})
    node.state.missing.replace(again, box, heads_of(windows))


def evict_all(node: JoinNode, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None) -> int:
    """Drop all entries of a join's state; how many there were."""
    assert node.state is not None, "the root of a plan keeps no state"
    evicted = len(node.state)
    node.state.clear()
    declare_missing(node, Cause("eviction"), windows, since)
    return evicted


def switch_off(node: JoinNode) -> None:
    """Empty a join's state and store nothing in it from now on."""
    assert node.state is not None, "the root of a plan keeps no state"
    node.state.clear()
    node.is_off = True


def switch_on(node: JoinNode, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None) -> None:
    """Go on storing in a join's state; what it should have had all along is missing."""
    assert node.is_off
    node.is_off = False
    declare_missing(node, Cause("eviction"), windows, since)


def declare_missing(
    node: JoinNode, cause: Cause, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
) -> None:
    """Say that every combination of the rows that the windows hold is missing from a join's state."""
    assert node.state is not None
    node.state.missing.add(_box_of(node, tails_of(windows), cause, since), heads_of(windows))


def _box_of(
    node: JoinNode,
    lasts: Mapping[int, int],
    cause: Cause,
    since: Mapping[int, int] | None,
    rows: Mapping[int, Ints] | None = None,
) -> Box:
    """All combinations of rows below these ids, of some inputs only with these rows."""
    lows = None if since is None else {number: first for number, first in since.items() if number in node.inputs}
    return Box(node.inputs, lasts, cause, rows, lows)
