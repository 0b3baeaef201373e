"""Storing an entry in a STAIR so that no result is found twice.

Entries of one STAIR that agree on every input they share stand for some combinations both: a probe that finds them
gets these combinations twice. It is not enough to see to that when entries are moved; a later insert can bring it about
as well, see `docs/concepts/stairs.md`. So it holds at every insert:

* equal entries count once;
* a row of the STAIR's input that would stand in entries of two sets of inputs stands alone instead: it *collapses*, and
  all entries with it give way to the row itself, which stands for them all.

Most inserts cannot break the rule and are not looked at: see `marks`.
"""

from __future__ import annotations

import numpy as np

from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore
from midstream.engine.joins.combos import Delta, find_distinct
from midstream.kernels.types import LARGEST
from midstream.state.indexes import Ints


def insert(store: StairStore, stair: Stair, delta: Delta) -> None:
    """Store combinations in a STAIR; in one that is off, the rows of its input alone."""
    if stair.off is not None and len(delta.inputs) > 1:
        store.marks.add(delta)
        delta = Delta.of_rows(stair.stream, _own_rows(stair, delta), store.windows)
    if not store.marks:
        stair.store(delta)
        stair.newest = None
        return
    before, stair.newest = stair.newest, _newest(stair, delta)
    marked = None
    if before is None or _rows_of(stair, delta).min(initial=LARGEST) <= before:
        marked = store.marks.find(delta)
    if marked is None:
        # No row of its input that comes now stands in an entry yet, or none of what comes can come twice.
        stair.store(delta)
        return
    if not marked.all():
        stair.store(delta.at(np.flatnonzero(~marked)))
        delta = delta.at(np.flatnonzero(marked))
    if len(delta.inputs) == 1:
        _stand_alone(store, stair, delta.ids[~stair.rows.has(delta.ids)])
    else:
        _insert_combinations(store, stair, delta)


def _insert_combinations(store: StairStore, stair: Stair, delta: Delta) -> None:
    delta = _drop_collapsed(store, delta, stair.rows.has(_rows_of(stair, delta)))
    own = _own_rows(stair, delta)
    inputs = frozenset(delta.inputs)
    elsewhere = np.unique(
        np.concatenate([own[:0], *(_find_rows(store, stair, other, own) for other in stair.states if other != inputs)])
    )
    if len(elsewhere):
        _stand_alone(store, stair, elsewhere)
        delta = _drop_collapsed(store, delta, np.isin(_rows_of(stair, delta), elsewhere))
    delta = _select_new(store, stair, delta)
    if len(delta):
        stair.store(delta)


def _newest(stair: Stair, delta: Delta) -> int:
    """The newest row of a STAIR's input that may stand in an entry when those of a delta have been stored."""
    if stair.newest is None:
        return stair.window.tail - 1
    return max(stair.newest, int(_rows_of(stair, delta).max(initial=stair.newest)))


def _rows_of(stair: Stair, delta: Delta) -> Ints:
    """The rows of a STAIR's input in a delta."""
    rows: Ints = delta.combos.rows[:, delta.inputs.index(stair.stream)]
    return rows


def _own_rows(stair: Stair, delta: Delta) -> Ints:
    """The same, each of them once."""
    rows = _rows_of(stair, delta)
    return rows[find_distinct(rows.reshape(-1, 1))]


def _drop_collapsed(store: StairStore, delta: Delta, is_collapsed: np.ndarray) -> Delta:
    """The rest of a delta; what has collapsed gets marks."""
    if not is_collapsed.any():
        return delta
    store.marks.add(delta.at(np.flatnonzero(is_collapsed)))
    return delta.at(np.flatnonzero(~is_collapsed))


def _find_rows(store: StairStore, stair: Stair, inputs: frozenset[int], rows: Ints) -> Ints:
    """Those of these rows of a STAIR's input that stand in a live combination of the given inputs."""
    state = stair.states[inputs]
    combos = state.combos_at(stair.find(inputs, rows))
    live = store.find_live(state.inputs, combos)
    found: Ints = combos.rows[live, state.inputs.index(stair.stream)]
    return found


def _stand_alone(store: StairStore, stair: Stair, rows: Ints) -> None:
    """Have rows of a STAIR's input stand alone in place of all combinations with them."""
    if len(rows) == 0:
        return
    for inputs, state in stair.states.items():
        ids = stair.find(inputs, rows)
        if len(ids):
            store.marks.add(Delta(state.inputs, stair.take(inputs, ids), store.windows))
    stair.add_rows(rows)


def _select_new(store: StairStore, stair: Stair, delta: Delta) -> Delta:
    """The combinations of a delta that the STAIR does not have yet, each of them once.

    Dead entries do not count: a row that has left its window may have been given the id of one that has not.
    """
    inputs = frozenset(delta.inputs)
    there = np.empty((0, len(delta.inputs)), np.int64)
    if inputs in stair.states:
        state = stair.states[inputs]
        combos = state.combos_at(stair.find(inputs, _own_rows(stair, delta)))
        there = combos.rows[store.find_live(state.inputs, combos)]
    first = find_distinct(np.concatenate((there, delta.combos.rows)))
    return delta.at(first[first >= len(there)] - len(there))
