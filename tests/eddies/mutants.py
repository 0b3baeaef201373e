"""Ways to get STAIRs wrong, each of which some random run must notice. Each patches one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from midstream.engine.executors.eddy import executor, inserting, moving, operations
from midstream.engine.executors.eddy.executor import EddyExecutor
from midstream.engine.executors.eddy.key_filter import KeyFilter
from midstream.engine.executors.eddy.marks import Marks
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore
from midstream.engine.joins.combos import Block, Delta
from midstream.kernels.types import KeyCounts
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow

Mutant = Callable[[pytest.MonkeyPatch], None]


def store_plainly(stairs: StairStore, stair: Stair, delta: Delta) -> None:
    if len(delta):
        stair.store(delta)


def without_rule(patch: pytest.MonkeyPatch) -> None:
    """Every insert is taken as it is, as Theorem A.2 would allow."""
    for module in (executor, moving, operations):
        patch.setattr(module, "insert", store_plainly)


def marks_for_demotions_only(patch: pytest.MonkeyPatch) -> None:
    """Only what was demoted is looked at; what was promoted, collapsed or restored is not."""
    add, cut_down = Marks.add, operations.cut_down

    def cutting(stairs: StairStore, delta: Delta, part: frozenset[int]) -> Delta:
        if part != frozenset(delta.inputs):
            add(stairs.marks, delta)
        return cut_down(stairs, delta, part)

    patch.setattr(Marks, "add", lambda marks, delta: None)
    patch.setattr(Marks, "add_all", lambda marks: None)
    for module in (moving, operations):
        patch.setattr(module, "cut_down", cutting)


def marks_on_own_rows_only(patch: pytest.MonkeyPatch) -> None:
    """Of an entry that is moved, only the row of the STAIR's own input gets a mark, and only that one is looked at."""
    add, take_out = Marks.add, operations.take_out

    def own_rows(stairs: StairStore, stair: Stair, delta: Delta) -> Delta:
        own = delta.combos.rows[:, delta.inputs.index(stair.stream)]
        return Delta.of_rows(stair.stream, own, stairs.windows)

    def taking(stairs: StairStore, stair: Stair, inputs: frozenset[int], rows: Ints) -> Delta:
        taken = take_out(stairs, stair, inputs, rows)
        add(stairs.marks, own_rows(stairs, stair, taken))
        return taken

    def insert_by_own_rows(stairs: StairStore, stair: Stair, delta: Delta) -> None:
        marked = stairs.marks.find(own_rows(stairs, stair, delta))
        is_marked = np.zeros(len(delta), np.bool_) if marked is None else marked
        store_plainly(stairs, stair, delta.at(np.flatnonzero(~is_marked)))
        if is_marked.any():
            inserting.insert(stairs, stair, delta.at(np.flatnonzero(is_marked)))

    patch.setattr(Marks, "add", lambda marks, delta: None)
    for module in (executor, moving, operations):
        patch.setattr(module, "insert", insert_by_own_rows)
    for module in (moving, operations):
        patch.setattr(module, "take_out", taking)


def two_streams_in_flight(patch: pytest.MonkeyPatch) -> None:
    """The rows of all inputs are in their STAIRs before the first is sent on."""

    def sending(eddy: EddyExecutor, deltas: Mapping[int, Delta], block: Block) -> Iterator[None]:
        for number, delta in deltas.items():
            edge = eddy.guide.routings[0].next_edge(frozenset((number,)))
            inserting.insert(eddy.store, eddy.store.stair(number, edge), delta)
        yield from send_all(eddy, deltas, block)

    send_all = EddyExecutor._send_all
    patch.setattr(EddyExecutor, "_send_all", sending)


def purge_by_start(patch: pytest.MonkeyPatch) -> None:
    """A row is dead as soon as it began before the horizon."""
    purge = Stair.purge

    def purging(stair: Stair, horizon: int, heads: Mapping[int, int]) -> None:
        purge(stair, horizon, heads)
        ids = stair.rows.ids()
        stair.rows.discard(ids[starts_of(stair.window)[ids & (stair.window.capacity - 1)] < horizon])

    patch.setattr(Stair, "purge", purging)


def starts_of(window: BaseWindow) -> object:
    return window.starts


def forget_new_keys(patch: pytest.MonkeyPatch) -> None:
    """Keys of rows that have come since a filter was made are not in it."""
    patch.setattr(KeyFilter, "add", lambda filter, keys: None)


def forget_keys_with_their_first_row(patch: pytest.MonkeyPatch) -> None:
    """A key goes from a filter with the first row that has it."""

    def forget(filter: KeyFilter, keys: Ints) -> None:
        own = KeyFilter(keys)
        own.counts = KeyCounts(np.zeros_like(filter.counts.counts), filter.counts.shift)
        own.add(keys)
        filter.counts.counts[own.counts.counts > 0] = 0

    patch.setattr(KeyFilter, "remove", forget)


#: Each with the first of a few runs of which one shows it.
MUTANTS: dict[Mutant, int] = {
    without_rule: 0,
    marks_for_demotions_only: 0,
    marks_on_own_rows_only: 12,
    two_streams_in_flight: 0,
    purge_by_start: 0,
    forget_new_keys: 500,
    forget_keys_with_their_first_row: 500,
}
