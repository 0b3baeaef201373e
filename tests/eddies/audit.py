"""The two invariants of STAIRs, looked at from inside, by brute force.

A. Every combination of every connected part of the spanning tree is there for whoever comes next: some part of it
   stands in a STAIR on an edge that leads out of it.
B. No two entries of a STAIR agree on all inputs that they share.

Only for queries with nothing but equalities, whose key codes stand in the base windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import midstream as ms
from midstream.engine.executors.eddy.executor import EddyExecutor
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore

from ..migrate.audit import join_naively

#: An entry: its row of each input.
Entry = dict[int, int]


def eddies_of(executor: Any) -> Iterator[EddyExecutor]:
    """The executors with STAIRs that run, also inside of migrations under way."""
    if isinstance(executor, EddyExecutor):
        yield executor
    for name in ("executor", "old", "_new"):
        if hasattr(executor, name):
            yield from eddies_of(getattr(executor, name))


def audit(engine: ms.Engine) -> int:
    """Check all STAIRs that know all rows; how many entries they have."""
    counted = 0
    for eddy in eddies_of(engine._pipeline.executor):
        store = eddy.store
        entries = {key: list(entries_of(store, stair)) for key, stair in store.stairs.items()}
        for (stream, edge), found in entries.items():
            check_b(found, f"{engine.plan.aliases[stream]} on {edge}")
        if eddy.knows_all_rows:
            check_a(engine, store, entries)
        counted += sum(map(len, entries.values()))
    return counted


def entries_of(store: StairStore, stair: Stair) -> Iterator[Entry]:
    """All live entries of a STAIR."""
    heads = {number: window.head for number, window in enumerate(store.windows)}
    for row in stair.rows.ids().tolist():
        if store.windows[stair.stream].ends[row & (stair.window.capacity - 1)] >= store.horizon:
            yield {stair.stream: row}
    for state in stair.states.values():
        for rows in state.members_at(state.living(store.horizon, heads)).tolist():
            yield dict(zip(state.inputs, rows, strict=True))


def check_b(entries: list[Entry], where: str) -> None:
    for entry, other in itertools.combinations(entries, 2):
        agree = all(other[number] == row for number, row in entry.items() if number in other)
        assert not agree, f"{where}: {entry} and {other} agree"


def check_a(engine: ms.Engine, store: StairStore, entries: dict[Any, list[Entry]]) -> None:
    edges = list(store.edges)
    inputs = {number for edge in edges for number in (edge.left, edge.right)}
    for size in range(1, len(inputs)):
        for part in map(frozenset, itertools.combinations(sorted(inputs), size)):
            inner = [edge for edge in edges if {edge.left, edge.right} <= part]
            if len(inner) != size - 1:
                continue  # not connected
            order = tuple(sorted(part))
            outer = [(edge.inner_end(part), edge) for edge in edges if edge.leads_out_of(part)]
            for rows in join_naively(engine, order, engine._pipeline._windows, engine._pipeline._horizon):
                combination = dict(zip(order, rows, strict=True))
                assert any(entry.items() <= combination.items() for key in outer for entry in entries[key]), (
                    f"{combination} is in no STAIR on an edge out of it"
                )
