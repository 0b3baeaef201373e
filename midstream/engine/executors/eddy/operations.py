"""The operations on STAIRs that move entries, on whole sets of them. `insert` is the rule's, and `probe` is a hop.

    demote    (r s) in S.b, cut down to its part s          s takes the place of (r s)
    promote   s in S.b, sent over the edge a                s is stored in S.a and probes R.a; what it finds, (r s),
                                                            takes its place

Only between two chunks, or in a STAIR that is about to be probed. What is dead is dropped on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from midstream.engine.executors.eddy.inserting import insert
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore
from midstream.engine.joins.combos import Delta, find_distinct, select
from midstream.engine.routing.edges import Edge
from midstream.kernels.types import LARGEST, SMALLEST, Combos
from midstream.state.indexes import Ints


def demote(store: StairStore, stair: Stair, inputs: frozenset[int], rows: Ints, part: frozenset[int]) -> None:
    """Have only a part, which has the STAIR's input, of the combinations that have one of these rows of that input."""
    assert stair.alone <= part <= inputs, "a part of the inputs, with that of the STAIR"
    insert(store, stair, cut_down(store, take_out(store, stair, inputs, rows), part))


def promote(store: StairStore, stair: Stair, inputs: frozenset[int], rows: Ints, via: Edge) -> None:
    """Have the entries that have one of these rows of the STAIR's input joined over another edge."""
    assert via != stair.edge and via.leads_out_of(inputs), "over another edge, to inputs that they do not have"
    for promoted in list(send_over(store, take_out(store, stair, inputs, rows), via)):
        insert(store, stair, promoted)


def take_out(store: StairStore, stair: Stair, inputs: frozenset[int], rows: Ints) -> Delta:
    """Take entries of these inputs that have one of these rows of the STAIR's input out of it."""
    if inputs == stair.alone:
        own = rows[stair.rows.has(rows)]
        stair.remove_rows(own)
        taken = Delta.of_rows(stair.stream, own, store.windows)
    else:
        order = stair.states[inputs].inputs
        taken = Delta(order, stair.take(inputs, stair.find(inputs, rows)), store.windows)
    taken = store.select_live(taken)
    store.marks.add(taken)
    return taken


def cut_down(store: StairStore, delta: Delta, part: frozenset[int]) -> Delta:
    """The parts of combinations that have these inputs, each of them once, valid as long as their own rows are."""
    if part == frozenset(delta.inputs):
        return delta
    order = store.order(part)
    columns = [delta.inputs.index(number) for number in order]
    rows = delta.combos.rows[:, columns]
    rows = rows[find_distinct(rows)]
    starts, ends = np.full(len(rows), SMALLEST), np.full(len(rows), LARGEST)
    for column, number in enumerate(order):
        window = store.windows[number]
        slots = rows[:, column] & (window.capacity - 1)
        np.maximum(starts, window.starts[slots], out=starts)
        np.minimum(ends, window.ends[slots], out=ends)
    return Delta(order, Combos(rows, starts, ends), store.windows)


def send_over(store: StairStore, delta: Delta, via: Edge) -> Iterator[Delta]:
    """Store combinations at their end of an edge and probe the other; what they become, by sets of inputs."""
    crossing = store.crossing(frozenset(delta.inputs), via)
    insert(store, crossing.own, delta)
    for hop in crossing.hops():
        found = store.select_live(hop.all_matches(delta))
        if len(found):
            store.marks.add(found)
            yield found


def merge(parts: Sequence[Delta]) -> Delta | None:
    """Combinations of the same inputs, each of them once; None if there are none."""
    there = [part for part in parts if len(part)]
    if len(there) < 2:
        return there[0] if there else None
    merged = Delta.concatenate(there)
    return merged.with_combos(select(merged.combos, find_distinct(merged.combos.rows)))
