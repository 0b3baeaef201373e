"""Eviction: giving up entries of a join state that can be computed again.

The state drops every entry that has one of the given rows of an input, and from then on lacks these combinations: a box
of these rows with all rows of the other inputs says so. A probe that needs them fills them in again, as it fills what a
migration left out, so results stay exact whatever is evicted.

The box's marks are the rows that come next, not those of an earlier migration: entries with newer rows are dropped too.
It may overlap with boxes that are there, and rows may be evicted again that have been filled in since. Only between two
pushes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from midstream.engine.joins.combos import heads_of
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
    evicted = node.state.evict(number, rows)
    if evicted:
        marks = {own: windows[own].tail for own in node.inputs}
        lows = None if since is None else {own: first for own, first in since.items() if own in marks}
        box = Box(node.inputs, marks, Cause("eviction"), {number: rows}, lows)
        node.state.missing.add(box, heads_of(windows))
    return evicted
