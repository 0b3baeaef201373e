"""What waits at a join, and how it is found: combinations of one node, and the rows of windows among them.

As long as nothing is to wait there, there is neither a state for it nor an index on the side that would be asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.access import HashPath, path_into
from midstream.engine.joins.checks import Mask
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.gauge import Gauge
from midstream.engine.joins.nodes import INDEXED_AT_ONCE, JoinNode, LeafNode, LiveNode, add_way, indexed_path
from midstream.kernels.types import Combos
from midstream.state.indexes import Ints
from midstream.state.join_state import Access, JoinState
from midstream.state.row_set import RowSet
from midstream.state.window import BaseWindow


class NotWaiting:
    """The row of an input does not wait for a join further up."""

    def __init__(self, column: int, rows: RowSet):
        self._column, self._rows = column, rows

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        if len(self._rows):
            self._rows.clear_flags(combos.rows, first, self._column, passed)


class Split(NamedTuple):
    """The places of the combinations that have a partner, and of those that have none; and the keys of all.

    Keys are None if they were not looked up by the key that what waits is found by.
    """

    having: Ints
    lacking: Ints
    keys: Ints | None


class Waiting:
    """The combinations of `node` that wait at a join, below its lazy child `top`, for its other child `eager`.

    Whether one has a partner is asked of the eager side: of its window or, if nothing is missing from it and it is on,
    of its state. Otherwise it is asked of the windows below, one by one: a combination without a partner in one of them
    has none in the join of all.
    """

    def __init__(
        self,
        query: Query,
        node: LiveNode,
        top: JoinNode,
        eager: LiveNode,
        windows: Sequence[BaseWindow],
        gauge: Gauge,
    ):
        self.node, self.top, self.eager, self.gauge = node, top, eager, gauge
        self.inputs = node.inputs
        self._query, self._windows = query, windows
        path = path_into(query, node.inputs, eager.inputs, windows)
        assert isinstance(path, HashPath)
        self._path = path
        self._state: JoinState | None = None
        #: How the eager side is asked; None as long as it is not.
        self.asked: HashPath | None = None
        #: How the windows of the eager side are asked, by input, as soon as they are.
        self._asked_windows: dict[int, HashPath] = {}

    @property
    def state(self) -> JoinState:
        """What waits."""
        if self._state is None:
            ways = {self._path.signature: Access.HASH}
            self._state = JoinState(self.node.inputs, ways, meter=self._windows[0].meter)
        return self._state

    def __len__(self) -> int:
        return 0 if self._state is None else len(self._state)

    @property
    def nbytes(self) -> int:
        return 0 if self._state is None else self._state.nbytes

    # Asking the eager side -------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Give the eager side the index that it is asked by."""
        # A large window may have no index on all classes.
        asked = indexed_path(self._query, self.eager.inputs, self.node.inputs, self._windows, INDEXED_AT_ONCE)
        assert isinstance(asked, HashPath)
        self.asked = asked
        if isinstance(self.eager, LeafNode):
            self.eager.window.add_index(asked.classes)
        else:
            add_way(self.eager, asked, self._windows)

    def retire(self) -> None:
        """The eager side is not asked any more, and nothing waits."""
        assert len(self) == 0
        self.asked = self._state = None
        self._asked_windows = {}

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that are asked."""
        if isinstance(self.eager, LeafNode) and self.asked is not None:
            yield self.eager.number, self.asked.classes
        for number, path in self._asked_windows.items():
            yield number, path.classes

    @property
    def _is_eager_whole(self) -> bool:
        """Whether everything that has come to the eager side, and does not wait, is found there."""
        return isinstance(self.eager, LeafNode) or not (self.eager.lacks_entries or self.eager.is_off)

    @property
    def can_ask(self) -> bool:
        """Whether a partner can be looked for now; rows of a window were looked up in single windows already."""
        return self._is_eager_whole or isinstance(self.node, JoinNode)

    def split(self, delta: Delta) -> Split:
        """Which combinations have a partner in the eager side, as far as indexes tell, and which have none."""
        if not self._is_eager_whole:
            found = self._find_in_windows(delta)
            return Split(np.flatnonzero(found), np.flatnonzero(~found), None)
        held = self.eager.window if isinstance(self.eager, LeafNode) else self.eager.state
        assert held is not None and self.asked is not None
        keys = delta.keys(self.asked.classes)
        index, intervals = self.asked.index(held), (delta.combos.starts, delta.combos.ends)
        having, lacking = index.split_by_partner(held.ring(), keys, intervals)
        return Split(having, lacking, keys if self.asked.classes == self._path.classes else None)

    def _find_in_windows(self, delta: Delta) -> Mask:
        """Which combinations have a partner in each window of the eager side."""
        if not self._asked_windows:
            self._ask_windows()
        everywhere = np.ones(len(delta), np.bool_)
        for number, path in self._asked_windows.items():
            found, window = np.zeros(len(delta), np.bool_), self._windows[number]
            intervals = (delta.combos.starts, delta.combos.ends)
            path.index(window).find_partners(window.ring(), delta.keys(path.classes), intervals, found)
            everywhere &= found
        return everywhere

    def _ask_windows(self) -> None:
        for number in self.eager.inputs:
            path = indexed_path(self._query, (number,), self.node.inputs, self._windows, INDEXED_AT_ONCE)
            if isinstance(path, HashPath):
                self._windows[number].add_index(path.classes)
                self._asked_windows[number] = path

    # What waits ------------------------------------------------------------------------------------------------------

    def add(self, delta: Delta, split: Split) -> None:
        """Have those of the combinations wait that lack a partner."""
        waits = delta.at(split.lacking)
        keys = self._path.keys(waits) if split.keys is None else split.keys[split.lacking]
        self.state.store(waits.combos, {self._path.signature: keys})

    def has(self, delta: Delta, horizon: int) -> Mask:
        """Which of these combinations of the node wait here, whatever their intervals; what ended earlier is dead."""
        found = np.zeros(len(delta), np.bool_)
        index, keys = self._path.index(self.state), self._path.keys(delta)
        index.find_same(self.state.ring(), keys, delta.combos.rows, horizon, found)
        return found

    def take(self, arrived: Delta) -> Combos:
        """Take out the combinations that combinations of the eager side match, as far as the index tells."""
        intervals = (arrived.combos.starts, arrived.combos.ends)
        return self.state.take(self._path.signature, arrived.keys(self._path.classes), intervals)

    def take_living(self, horizon: int, heads: Mapping[int, int]) -> Combos:
        """Take out everything that is not dead, and forget the rest."""
        combos = self.state.combos_at(self.state.living(horizon, heads))
        self.state.clear()
        return combos

    def take_all(self) -> Combos:
        combos = self.state.entries(self.node.inputs)
        self.state.clear()
        return combos

    def purge(self, horizon: int, heads: Mapping[int, int]) -> None:
        """Forget what can never match any more."""
        if self._state is not None:
            self._state.purge(horizon, heads)
