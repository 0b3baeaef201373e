"""Joining a delta with the entries of one store: kernels propose and checks decide, block by block."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple

from midstream.engine.joins.access import HashPath, Path, Step, Store
from midstream.engine.joins.checks import Checks
from midstream.engine.joins.combos import Block, Delta
from midstream.kernels.types import COUNT, VISITED, Layout, Ring
from midstream.state.indexes import Ints, new_cursor


class Looked(NamedTuple):
    """How many slots a join has visited, and how many entries it has proposed to the checks."""

    slots: int
    proposed: int

    def lookups(self, path: Path, rows: int) -> int:
        """The entries that so many rows have looked at by a path: a number that is the same in every run.

        Which keys share a bucket is chance, so what was really passed is not. The look into its bucket counts as half
        an entry for each row.
        """
        return rows // 2 + self.proposed if isinstance(path, HashPath) else self.slots


def join_with(
    path: Path, store: Store, ring: Ring, delta: Delta, layout: Layout, checks: Checks, block: Block
) -> Generator[None, None, Looked]:
    """Join a delta with the entries that a path leads to, into `block`; returns what was looked at.

    Yields whenever the block has to be emptied.
    """
    return join_in_steps(path.steps(store, ring, delta, layout), checks, block)


def join_in_steps(steps: Iterable[Step], checks: Checks, block: Block) -> Generator[None, None, Looked]:
    """As `join_with`, by the steps of a path."""
    visited, before = 0, block.proposed
    for step in steps:
        cursor = new_cursor()
        while not _take_step(step, cursor, checks, block):
            yield
        visited += int(cursor[VISITED])
    return Looked(visited, block.proposed - before)


def join_all_in_steps(steps: Iterable[Step], checks: Checks, block: Block) -> Looked:
    """As `join_in_steps`, into a block that has no largest size and grows instead of being emptied."""
    visited, before = 0, block.proposed
    for step in steps:
        cursor = new_cursor()
        is_done = _take_step(step, cursor, checks, block)
        assert is_done, "only a block with a largest size has to be emptied"
        visited += int(cursor[VISITED])
    return Looked(visited, block.proposed - before)


def _take_step(step: Step, cursor: Ints, checks: Checks, block: Block) -> bool:
    """Go on with a step; whether it is at its end. If not, the block has to be emptied."""
    while True:
        cursor[COUNT] = block.count
        is_done = step(block.combos, cursor)
        block.proposed += int(cursor[COUNT]) - block.count
        checks.apply(block, int(cursor[COUNT]))
        if is_done:
            return True
        if block.is_half_full:
            if not block.may_grow:
                return False
            block.grow()
