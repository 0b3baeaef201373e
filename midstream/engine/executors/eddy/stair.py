"""A STAIR: what there is of one input on its side of an edge, for probes that come over the edge.

It holds entries that have a row of its input: rows that stand alone, as a set of ids over the base window, found by the
window's own index, and combinations, in one join state for each set of inputs. All of them are found by the edge's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.executors.eddy.key_filter import ALL_KEYS, KeyFilter
from midstream.engine.joins.access import BandPath, HashPath, Path
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.nodes import INDEXED_AT_ONCE
from midstream.engine.routing.edges import Edge, path_along
from midstream.kernels.types import Combos, KeyCounts
from midstream.state.indexes import Ints
from midstream.state.join_state import JoinState
from midstream.state.row_set import RowSet
from midstream.state.window import BaseWindow, Renumbering

#: Where more of a window's rows stand alone, no probe is worth being sorted out.
_MOST_ALONE = 0.9
#: A filter is made once a row has probed for so many that stand alone.
_ROWS_A_PROBE = 8


class Stair:
    """The STAIR of the input `stream` on an edge. `states` has the combinations by the set of their inputs."""

    def __init__(self, query: Query, stream: int, edge: Edge, windows: Sequence[BaseWindow]):
        self.stream, self.edge = stream, edge
        self.alone = frozenset((stream,))
        self.window = windows[stream]
        self.rows = RowSet()
        self.states: dict[frozenset[int], JoinState] = {}
        #: How many combinations have looked for partners here.
        self.probes = 0
        #: If it is off, and has only rows alone: the inputs of the combinations that it was to hold.
        self.off: frozenset[int] | None = None
        #: No row of its input above this one stands in any entry; None if nobody has looked.
        self.newest: int | None = None
        self.path = path_along(query, edge, stream, windows)
        self.row_path = self.path
        if isinstance(self.path, HashPath) and not self.window.may_be_indexed(edge.classes, INDEXED_AT_ONCE):
            self.row_path = HashPath(query, (stream,), edge.classes[:1], windows)
        self._windows = windows
        self._expires = not all(window.layout.window.never_ends for window in windows)
        self._filter: KeyFilter | None = None
        #: How many rows have probed since a filter was made or given up.
        self._probed = 0

    @property
    def key(self) -> tuple[int, Edge]:
        """What tells it from others over the same spanning tree."""
        return self.stream, self.edge

    def contents(self) -> list[frozenset[int]]:
        """The sets of inputs that it has entries of."""
        found = [inputs for inputs, state in self.states.items() if len(state)]
        return [self.alone, *found] if len(self.rows) else found

    def store(self, delta: Delta) -> None:
        """Add entries, none of which is there in any form."""
        if len(delta.inputs) == 1:
            if delta.first_new is None:
                self.rows.add(delta.ids)
            else:
                self.rows.add_run(delta.first_new, delta.first_new + len(delta))
            if self._filter is not None:
                self._filter.add(self.row_path.keys(delta))
            return
        inputs = frozenset(delta.inputs)
        state = self.states.get(inputs)
        if state is None:
            ways = {self.path.signature: self.path.access}
            state = self.states[inputs] = JoinState(delta.inputs, ways, meter=self.window.meter)
        state.store(delta.combos, {self.path.signature: self.path.keys(delta)})

    def add_rows(self, ids: Ints) -> None:
        """Have rows stand alone."""
        self.rows.add(ids)
        if self._filter is not None:
            self._filter.add(self._keys_of(ids))

    def remove_rows(self, ids: Ints) -> None:
        """Have rows stand alone no longer."""
        before = len(self.rows)
        self.rows.discard(ids)
        if self._filter is None or len(ids) == 0:
            return
        # The filter may forget the key of a row only once, and only if the window still has the row. To forget more
        # than are left takes longer than to make another.
        if before - len(self.rows) != len(ids) or len(ids) > len(self.rows) or int(ids.min()) < self.window.head:
            self._filter = None
        else:
            self._filter.remove(self._keys_of(ids))

    def begin_anew(self, first: int, last: int) -> None:
        """Have nothing but rows from one id up to another, alone."""
        self.states.clear()
        self.newest = None
        self.rows.add_run(first, last)
        self._filter = None

    def _keys_of(self, ids: Ints) -> Ints:
        """The keys of rows of its stream."""
        return self.row_path.keys(Delta.of_rows(self.stream, ids, self._windows))

    def find_filter(self, probing: int) -> KeyCounts:
        """The keys that rows which stand alone may have, for so many rows that probe; all keys if that is as good."""
        if len(self.rows) > _MOST_ALONE * len(self.window):
            self._filter = None
            return ALL_KEYS
        self._probed += probing
        if (self._filter is None or self._filter.is_worn) and _ROWS_A_PROBE * self._probed >= len(self.rows):
            self._filter = KeyFilter(self._keys_of(self.rows.ids()))
            self._probed = 0
        return ALL_KEYS if self._filter is None else self._filter.counts

    def find(self, inputs: frozenset[int], rows: Ints) -> Ints:
        """The ids of the combinations of these inputs that have one of these rows of its stream."""
        state = self.states.get(inputs)
        if state is None or len(state) == 0 or len(rows) == 0:
            return np.empty(0, np.int64)
        return state.find_members(
            self.path.signature,
            self.stream,
            rows,
            lambda: self.path.keys(Delta.of_rows(self.stream, rows, self._windows)),
        )

    def find_touched(self, inputs: frozenset[int], delta: Delta) -> Ints:
        """The rows of its stream that stand in entries of these inputs and that a probe may find; not for a loop."""
        if inputs == self.alone:
            if isinstance(self.row_path, HashPath):
                keys, held = delta.keys(self.row_path.classes), self.rows.held(self.window.head)
                return self.row_path.index(self.window).find_held(keys, held, self.find_filter(len(delta)))
            found = self._touched(self.row_path, self.window, delta)
            return found[self.rows.has(found)]
        state = self.states[inputs]
        found = self._touched(self.path, state, delta)
        return state.members_at(found)[:, state.inputs.index(self.stream)]

    @staticmethod
    def _touched(path: Path, store: BaseWindow | JoinState, delta: Delta) -> Ints:
        if isinstance(path, HashPath):
            return path.index(store).find(store.ring().head, np.unique(delta.keys(path.classes)))
        assert isinstance(path, BandPath), "loops touch everything"
        return np.unique(path.index(store).find(store.ring(), *path.ranges(delta)))

    def purge(self, horizon: int, heads: Mapping[int, int]) -> None:
        """Forget what can never matter again: what has expired, if anything does, and what was removed."""
        self.rows.forget(heads[self.stream])
        for state in self.states.values():
            if self._expires or state.has_evicted:
                state.purge(horizon, heads)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        if number == self.stream:
            self.newest = None
            self.rows.renumber(renumbering)
        for state in self.states.values():
            state.renumber(number, renumbering)

    def take(self, inputs: frozenset[int], ids: Ints) -> Combos:
        """Remove combinations by their ids; what they were."""
        state = self.states[inputs]
        taken = state.combos_at(ids)
        state.remove(ids)
        return taken

    @property
    def nbytes(self) -> int:
        filter_bytes = 0 if self._filter is None else self._filter.nbytes
        return filter_bytes + self.rows.nbytes + sum(state.nbytes for state in self.states.values())
