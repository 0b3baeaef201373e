"""STAIRs under a memory limit: combinations are demoted to the rows of the STAIR's own input.

A row that stands alone is one of a set over its window and takes next to nothing, and it stands for all combinations
with it: probes find them again on their way. So nothing is lost, and where the routing wants the combinations, they are
promoted again as after any other move. The combinations that live shortest go first: they would have been of use for
the shortest time. All combinations with one row go together, else the row would stand in entries of two sets.

A STAIR whose entries go before they are used is switched off: it wants rows alone until there is room again.
"""

from __future__ import annotations

import numpy as np

from midstream.engine.executors.eddy.guide import Guide
from midstream.engine.executors.eddy.inserting import insert
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore
from midstream.engine.joins.combos import Delta, heads_of
from midstream.engine.routing.edges import Edge
from midstream.state.indexes import Ints
from midstream.state.join_state import JoinState


class StairHolding:
    """The combinations of one set of inputs in a STAIR."""

    #: What is not there stands there in another form.
    is_useful_in_part = True

    def __init__(self, store: StairStore, guide: Guide, stair: Stair, inputs: frozenset[int]):
        self._store, self._guide, self._stair, self._inputs = store, guide, stair, inputs
        self._empty = JoinState(store.order(inputs), {stair.path.signature: stair.path.access})
        self.stream = stair.stream

    @property
    def state(self) -> JoinState:
        """The entries; an empty state if there are none."""
        return self._stair.states.get(self._inputs, self._empty)

    @property
    def probes(self) -> int:
        return self._stair.probes

    @property
    def is_off(self) -> bool:
        return self._stair.off == self._inputs

    def evict(self, left: int, horizon: int) -> int:
        """Demote the combinations that live shortest."""
        state, heads = self.state, heads_of(self._store.windows)
        living = state.living(horizon, heads)
        surplus = len(living) - left
        if surplus > 0:
            own = state.rows_of(self.stream, living)
            shortest = find_shortest_lived(own, state.combos_at(living).ends, surplus)
            self._demote(self._inputs, living[np.isin(own, shortest)])
        state.pack(horizon, heads)
        return len(living) - len(state)

    def evict_all(self) -> int:
        evicted = self._demote(self._inputs, self.state.ids())
        self.state.clear()
        return evicted

    def switch_off(self) -> None:
        """Have only rows alone in the STAIR."""
        for inputs, state in list(self._stair.states.items()):
            self._demote(inputs, state.ids())
        self._stair.states.clear()
        self._guide.switch(self._stair, self._inputs)

    def switch_on(self) -> None:
        """Have combinations in the STAIR again; rows that came meanwhile stand alone as if they had been demoted."""
        self._guide.switch(self._stair, None)
        self._guide.note_demoted(self._stair, len(self._stair.rows))

    def _demote(self, inputs: frozenset[int], ids: Ints) -> int:
        """Have rows of the STAIR's input stand alone in place of these combinations, and of all others with them.

        How many combinations of these were not dead.
        """
        store, stair = self._store, self._stair
        if len(ids) == 0:
            return 0
        order = stair.states[inputs].inputs
        taken = store.select_live(Delta(order, stair.take(inputs, ids), store.windows))
        store.marks.add(taken)
        rows = np.unique(taken.combos.rows[:, order.index(stair.stream)])
        insert(store, stair, Delta.of_rows(stair.stream, rows, store.windows))
        self._guide.note_demoted(stair, len(taken))
        return len(taken)


class Holdings:
    """What all STAIRs of a store hold, by sets of inputs."""

    def __init__(self, store: StairStore, guide: Guide):
        self._store, self._guide = store, guide
        self._known: dict[tuple[int, Edge, frozenset[int]], StairHolding] = {}

    def find(self) -> list[StairHolding]:
        """Those that there are now, and those that are off."""
        return [
            self._find(stair, inputs)
            for stair in self._store.stairs.values()
            for inputs in stair.states.keys() | ({stair.off} if stair.off is not None else set())
        ]

    def _find(self, stair: Stair, inputs: frozenset[int]) -> StairHolding:
        key = (*stair.key, inputs)
        if key not in self._known:
            self._known[key] = StairHolding(self._store, self._guide, stair, inputs)
        return self._known[key]


def find_shortest_lived(rows: Ints, ends: Ints, wanted: int) -> Ints:
    """Of the rows of entries that end then, those whose last entries end first: enough to have so many entries.

    >>> find_shortest_lived(np.array([7, 8, 7, 9]), np.array([3, 4, 9, 5]), 2)
    array([8, 9])
    """
    found, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
    last = np.full(len(found), np.iinfo(np.int64).min)
    np.maximum.at(last, place, ends)
    order = np.lexsort((found, last))
    enough = int(np.searchsorted(np.cumsum(counts[order]), wanted)) + 1
    return found[order[:enough]]
