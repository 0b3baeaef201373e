"""What waits at a join, and how it is found: combinations of one node, and the rows of windows among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.joins.access import HashPath, path_into
from midstream.engine.joins.checks import Mask
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.gauge import Gauge
from midstream.engine.joins.nodes import INDEXED_AT_ONCE, JoinNode, LeafNode, LiveNode, indexed_path
from midstream.kernels.types import Combos
from midstream.state.join_state import Access, JoinState
from midstream.state.row_set import RowSet
from midstream.state.window import BaseWindow


class NotWaiting:
    """The row of an input does not wait for a join further up."""

    def __init__(self, column: int, rows: RowSet):
        self._column, self._rows = column, rows

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        if len(self._rows):
            passed &= ~self._rows.has(combos.rows[first : first + len(passed), self._column])


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
        #: How the eager side is asked; a large window may have no index on all classes.
        asked = indexed_path(query, eager.inputs, node.inputs, windows, INDEXED_AT_ONCE)
        assert isinstance(asked, HashPath)
        self.asked = asked
        #: How the windows of the eager side are asked, by input, as soon as they are.
        self._asked_windows: dict[int, HashPath] = {}
        self.state = JoinState(node.inputs, {path.signature: Access.HASH}, meter=windows[0].meter)

    def __len__(self) -> int:
        return len(self.state)

    @property
    def _is_eager_whole(self) -> bool:
        """Whether everything that has come to the eager side, and does not wait, is found there."""
        return isinstance(self.eager, LeafNode) or not (self.eager.lacks_entries or self.eager.is_off)

    @property
    def can_ask(self) -> bool:
        """Whether a partner can be looked for now; rows of a window were looked up in single windows already."""
        return self._is_eager_whole or isinstance(self.node, JoinNode)

    def has_partner(self, delta: Delta) -> Mask:
        """Which combinations have a partner in the eager side, as far as indexes tell."""
        if self._is_eager_whole:
            held = self.eager.window if isinstance(self.eager, LeafNode) else self.eager.state
            assert held is not None
            return _find_partners(self.asked, held, delta)
        if not self._asked_windows:
            self._ask_windows()
        found = np.ones(len(delta), np.bool_)
        for number, path in self._asked_windows.items():
            found &= _find_partners(path, self._windows[number], delta)
        return found

    def _ask_windows(self) -> None:
        for number in self.eager.inputs:
            path = indexed_path(self._query, (number,), self.node.inputs, self._windows, INDEXED_AT_ONCE)
            if isinstance(path, HashPath):
                self._windows[number].add_index(path.classes)
                self._asked_windows[number] = path

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that are asked."""
        if isinstance(self.eager, LeafNode):
            yield self.eager.number, self.asked.classes
        for number, path in self._asked_windows.items():
            yield number, path.classes

    def add(self, delta: Delta) -> None:
        """Have combinations wait."""
        self.state.store(delta.combos, {self._path.signature: self._path.keys(delta)})

    def has(self, delta: Delta) -> Mask:
        """Which of these combinations of the node wait here."""
        found = np.zeros(len(delta), np.bool_)
        self._path.index(self.state).find_same(self.state.ring(), self._path.keys(delta), delta.combos.rows, found)
        return found

    def take(self, arrived: Delta) -> Combos:
        """Take out the combinations that combinations of the eager side may match."""
        keys = np.unique(arrived.keys(self._path.classes))
        ids = self._path.index(self.state).find(self.state.ring().head, keys)
        combos = self.state.combos_at(ids)
        # The key of each is one of many; that one of them is there at the time of this very one is not asked.
        meets = (combos.starts <= arrived.combos.ends.max()) & (combos.ends >= arrived.combos.starts.min())
        ids = ids[meets]
        self.state.remove(ids)
        return Combos(*(np.ascontiguousarray(array[meets]) for array in combos))

    def take_living(self, horizon: int, heads: Mapping[int, int]) -> Combos:
        """Take out everything that is not dead, and forget the rest."""
        combos = self.state.combos_at(self.state.living(horizon, heads))
        self.state.clear()
        return combos

    def take_all(self) -> Combos:
        combos = self.state.entries(self.node.inputs)
        self.state.clear()
        return combos


def _find_partners(path: HashPath, held: BaseWindow | JoinState, delta: Delta) -> Mask:
    """Which combinations have a partner, as far as an index tells."""
    found = np.zeros(len(delta), np.bool_)
    intervals = (delta.combos.starts, delta.combos.ends)
    path.index(held).find_partners(held.ring(), delta.keys(path.classes), intervals, found)
    return found
