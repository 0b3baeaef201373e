"""The stage of a plan with operators below joins: from the operators upwards everything happens when a step closes.

                          join
                         /    \\
                  distinct     join             kept: the values of (a b), the combinations (c d)
                     |         /  \\
     executor ->   (a b)     (c d)  window e    probed when a step closes: the window of e

Rows of a closed step never meet rows to come. So what an operator gives out is joined when its step closes, and then
forgotten: nothing derived from an operator is ever kept. What comes from the executor is kept while it is alive: by the
operator above it, or, where it is joined with what an operator gives out, in a state. At a close one pass goes from
the operators up to the topmost join, piece by piece, and its combinations go to the stage of the query's own operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.joins.access import BandPath, HashPath, Path, Store
from midstream.engine.joins.checks import checks_of_join
from midstream.engine.joins.combos import Delta, heads_of, make_block, select, split_by_inputs
from midstream.engine.joins.matching import join_with
from midstream.engine.joins.nodes import INDEXED_AT_ONCE, add_indexes, indexed_path, least_block
from midstream.engine.operators.lower_distinct import LowerDistinct
from midstream.engine.operators.stage import StoredStage
from midstream.engine.operators.stepped import Stepped, start_of_step
from midstream.engine.stats import StateStats
from midstream.kernels.types import LARGEST, Combos, Layout, Ring
from midstream.plan.nodes import Leaf, Node, OperatorNode, quoted
from midstream.plan.tree import Plan
from midstream.state.join_state import JoinState
from midstream.state.window import BaseWindow, Renumbering


class _Window:
    """An input that is joined with what an operator gives out: its base window."""

    def __init__(self, number: int, windows: Sequence[BaseWindow]):
        self.inputs = (number,)
        self._window = windows[number]

    def follow_path(self, path: Path) -> None:
        pass  # every window has its indexes

    def store(self) -> tuple[Store, Ring]:
        """What is probed."""
        return self._window, self._window.ring()


class _Collected:
    """Combinations of a fragment that are joined with what an operator gives out, from when they are found on."""

    def __init__(self, inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        self.inputs = inputs
        self._windows = windows

    def follow_path(self, path: Path) -> None:
        self._path = path
        self.state = JoinState(self.inputs, {path.signature: path.access}, meter=self._windows[0].meter)

    def add(self, combos: Combos, open_from: int) -> None:
        keys = self._path.keys(Delta(self.inputs, combos, self._windows))
        self.state.store(combos, {self._path.signature: keys})

    def store(self) -> tuple[Store, Ring]:
        return self.state, self.state.ring()


class _Derived(Protocol):
    """What an operator below has a part in: known only when steps close."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs, in the order of the columns."""

    def find(self, begin: int, end: int) -> Iterator[Delta]:
        """The combinations between two moments, in pieces; a piece is valid until the next one is asked for."""


class _KeptDistinct:
    """DISTINCT over a fragment."""

    def __init__(self, query: Query, inputs: tuple[int, ...], windows: Sequence[BaseWindow]):
        self.inputs = inputs
        self._windows = windows
        self.operator = LowerDistinct(query, inputs, windows)

    def add(self, combos: Combos, open_from: int) -> None:
        self.operator.add(combos, open_from)

    def find(self, begin: int, end: int) -> Iterator[Delta]:
        for combos in self.operator.close(begin, end):
            yield Delta(self.inputs, combos, self._windows)


class _PassingDistinct:
    """DISTINCT over joins that have an operator below: what it takes at a close it gives out at once and forgets."""

    def __init__(self, query: Query, below: _Derived, windows: Sequence[BaseWindow]):
        self.inputs = below.inputs
        self._query, self._below, self._windows = query, below, windows

    def find(self, begin: int, end: int) -> Iterator[Delta]:
        operator = LowerDistinct(self._query, self.inputs, self._windows)
        for delta in self._below.find(begin, end):
            operator.add(delta.combos, begin)
        for combos in operator.close(begin, end):
            yield Delta(self.inputs, combos, self._windows)


_Kept: TypeAlias = _Window | _Collected
_Taker: TypeAlias = _KeptDistinct | _Collected


class _DerivedJoin:
    """A join with what an operator gives out on one side or on both."""

    def __init__(self, query: Query, left: _Derived | _Kept, right: _Derived | _Kept, windows: Sequence[BaseWindow]):
        self.inputs = left.inputs + right.inputs
        self._windows = windows
        # Of two derived sides the left one is stored for a moment.
        is_left_stored = isinstance(left, _Window | _Collected) or not isinstance(right, _Window | _Collected)
        self._stored, probing = (left, right) if is_left_stored else (right, left)
        assert not isinstance(probing, _Window | _Collected), "two sides without an operator are part of a fragment"
        self._probing = probing
        self._path = indexed_path(query, self._stored.inputs, probing.inputs, windows, INDEXED_AT_ONCE)
        self._layout = Layout(0, len(left.inputs)) if is_left_stored else Layout(len(left.inputs), 0)
        used_band = self._path.number if isinstance(self._path, BandPath) else None
        self._checks = checks_of_join(query, left.inputs, right.inputs, used_band, windows)
        if isinstance(self._stored, _Window | _Collected):
            self._stored.follow_path(self._path)

    def find(self, begin: int, end: int) -> Iterator[Delta]:
        store, ring = self._store(begin, end)
        for delta in self._probing.find(begin, end):
            block = make_block(len(self.inputs), least_block(self._path), len(delta))
            matches = join_with(self._path, store, ring, delta, self._layout, self._checks, block)
            while True:
                try:
                    next(matches)
                except StopIteration as ended:
                    self._windows[0].meter.slots_visited += ended.value.slots
                    break
                yield Delta(self.inputs, block.content(), self._windows)
                block.count = 0
            if block.count:
                yield Delta(self.inputs, block.content(), self._windows)

    def _store(self, begin: int, end: int) -> tuple[Store, Ring]:
        if isinstance(self._stored, _Window | _Collected):
            return self._stored.store()
        path = self._path
        state = JoinState(self._stored.inputs, {path.signature: path.access}, meter=self._windows[0].meter)
        for delta in self._stored.find(begin, end):
            state.store(delta.combos, {path.signature: path.keys(delta)})
        return state, state.ring()

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash index of the window that it probes, if it does."""
        if isinstance(self._stored, _Window) and isinstance(self._path, HashPath):
            yield self._stored.inputs[0], self._path.classes


class LowerOperators:
    """Takes the results of fragments, and gives those of the topmost join to the query's own stage."""

    starts_from_live_results = True

    def __init__(self, query: Query, plan: Plan, windows: Sequence[BaseWindow]):
        assert query.step is not None
        self._step = query.step
        self._query, self._plan, self._windows = query, plan, windows
        self._own = Stepped(query, windows)
        self._begin_empty()

    def _begin_empty(self) -> None:
        self._fragments = self._plan.fragment_inputs
        self._joins: list[_DerivedJoin] = []
        #: What takes the combinations of each fragment, and what it is called.
        self._takers: dict[tuple[int, ...], _Taker] = {}
        self._names: dict[tuple[int, ...], str] = {}
        root = self._build(self._plan.root)
        assert not isinstance(root, _Window | _Collected)
        self._root = root
        self._order = np.argsort(root.inputs)
        add_indexes(self._windows, self.indexes_used())

    def _build(self, node: Node) -> _Derived | _Kept:
        inputs = tuple(sorted(node.inputs))
        taker: _Taker
        if isinstance(node, OperatorNode):
            if inputs not in self._fragments:
                below = self._build(node.below)
                assert not isinstance(below, _Window | _Collected)
                return _PassingDistinct(self._query, below, self._windows)
            taker = _KeptDistinct(self._query, inputs, self._windows)
            self._takers[inputs], self._names[inputs] = taker, self._plan.text(node)
            return taker
        if isinstance(node, Leaf):
            return _Window(node.input, self._windows)
        if inputs in self._fragments:
            taker = _Collected(inputs, self._windows)
            aliases = (quoted(self._plan.aliases[number]) for number in inputs)
            self._takers[inputs], self._names[inputs] = taker, " ".join(aliases)
            return taker
        join = _DerivedJoin(self._query, self._build(node.left), self._build(node.right), self._windows)
        self._joins.append(join)
        return join

    # The stage -------------------------------------------------------------------------------------------------------

    def take(self, combos: Combos) -> Iterator[pa.Table]:
        open_from = self._own.keeps_from()
        is_alive = combos.ends >= open_from
        if not is_alive.all():
            combos = select(combos, np.flatnonzero(is_alive))
        for number, own in split_by_inputs(combos, self._fragments):
            self._takers[self._fragments[number]].add(own, open_from)
        return iter(())

    def closes(self, watermark: int) -> bool:
        return self._own.closes(watermark)

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        if self._own.closes(watermark):
            self._hand_up(start_of_step(watermark, self._step) - 1)
            yield from self._own.advance(watermark)
            heads = heads_of(self._windows)
            for state in self._states():
                state.purge(self._own.keeps_from(), heads)

    def finish(self) -> Iterator[pa.Table]:
        self._hand_up(int(LARGEST))
        yield from self._own.finish()
        self._begin_empty()

    def _hand_up(self, end: int) -> None:
        """Give the results of the topmost join, from the oldest open step up to a moment, to the query's own stage."""
        for delta in self._root.find(self._own.keeps_from(), end):
            combos = delta.combos
            for _ in self._own.take(combos._replace(rows=np.ascontiguousarray(combos.rows[:, self._order]))):
                raise AssertionError("a stage with steps gives out nothing before it is driven on")

    def _states(self) -> Iterator[JoinState]:
        return (taker.state for taker in self._takers.values() if isinstance(taker, _Collected))

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        for taker in self._takers.values():
            (taker.state if isinstance(taker, _Collected) else taker.operator).renumber(number, renumbering)
        self._own.renumber(number, renumbering)

    def keeps_from(self) -> int:
        return self._own.keeps_from()

    def follow(self, plan: Plan) -> None:
        """The joins above the operators stay as they are: they are the same, at most with their sides exchanged."""
        assert plan.skeleton == self._plan.skeleton
        self._plan = plan
        for node in plan.nodes():
            inputs = tuple(sorted(node.inputs))
            if isinstance(node, OperatorNode) and inputs in self._names:
                self._names[inputs] = plan.text(node)

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        for join in self._joins:
            yield from join.indexes_used()

    def state_stats(self) -> list[StateStats]:
        found = []
        for inputs, taker in self._takers.items():
            held = taker.state if isinstance(taker, _Collected) else taker.operator
            aliases = tuple(self._plan.aliases[number] for number in inputs)
            found.append(StateStats(self._names[inputs], "operator", len(held), held.nbytes, 0, aliases))
        return found

    @property
    def nbytes(self) -> int:
        return self._own.nbytes

    def snapshot(self) -> StoredStage:
        return self._own.snapshot()

    def restore(self, stored: StoredStage) -> None:
        self._own.restore(stored)
