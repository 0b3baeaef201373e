"""All STAIRs over one spanning tree, and the hops between them.

Combinations of the same inputs have their columns in the same order wherever they are, so that they can be stored and
sent on together. It is the order in which the first of them came up.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.executors.eddy.marks import Marks
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.protocol import IndexUsed
from midstream.engine.joins.access import HashPath, Step
from midstream.engine.joins.checks import Checks, Mask, checks_of_join
from midstream.engine.joins.combos import Block, Delta, heads_of
from midstream.engine.joins.matching import Looked, join_all_in_steps, join_in_steps
from midstream.engine.joins.nodes import least_block
from midstream.engine.routing.edges import Edge
from midstream.kernels.rings import find_live
from midstream.kernels.types import SMALLEST, Combos, Layout
from midstream.plan.tree import Plan
from midstream.state.row_set import RowSet
from midstream.state.window import BaseWindow, Renumbering


class StairStore:
    """The STAIRs at both ends of every edge. What ended before `horizon` is dead."""

    def __init__(self, query: Query, edges: Sequence[Edge], windows: Sequence[BaseWindow]):
        self.windows = windows
        self.edges = frozenset(edges)
        self.inputs = frozenset(number for edge in edges for number in (edge.left, edge.right))
        self.stairs = {
            (stream, edge): Stair(query, stream, edge, windows) for edge in edges for stream in (edge.left, edge.right)
        }
        self.marks = Marks(windows)
        #: How many combinations were demoted, or rows stand alone, for want of memory.
        self.demoted = 0
        self.horizon = int(SMALLEST)
        self._query = query
        self._orders: dict[frozenset[int], tuple[int, ...]] = {}
        self._crossings: dict[tuple[frozenset[int], Edge], Crossing] = {}

    def stair(self, stream: int, edge: Edge) -> Stair:
        """The STAIR of an input on an edge."""
        return self.stairs[stream, edge]

    def order(self, inputs: frozenset[int]) -> tuple[int, ...]:
        """The order of the columns of combinations of these inputs."""
        order = self._orders.get(inputs)
        return self._orders.setdefault(inputs, tuple(sorted(inputs))) if order is None else order

    def set_orders(self, plan: Plan, edges: Sequence[Edge]) -> None:
        """Have the columns in the order in which hops along these edges, one for each join of a plan, put them."""
        for join, edge in zip(plan.joins(), edges, strict=True):
            sides = (join.left, join.right) if edge.left in join.left.inputs else (join.right, join.left)
            left, right = (self.order(side.inputs) for side in sides)
            self._orders.setdefault(join.inputs, left + right)

    def crossing(self, joined: frozenset[int], edge: Edge) -> Crossing:
        """How combinations of the inputs `joined` go over an edge that leads out of them."""
        key = (joined, edge)
        if key not in self._crossings:
            end = edge.inner_end(joined)
            own, dual = self.stair(end, edge), self.stair(edge.other(end), edge)
            self._crossings[key] = Crossing(self, joined, own, dual)
        return self._crossings[key]

    def make_hop(self, joined: frozenset[int], stair: Stair, entries: frozenset[int]) -> Hop:
        """How combinations of the inputs `joined` are joined with those entries of a STAIR that have these inputs."""
        order = self._orders.get(joined | entries)
        hop = Hop(self._query, self.windows, self.order(joined), stair, self.order(entries), order)
        self._orders.setdefault(hop.target, hop.inputs)
        return hop

    def restore(self, since: Mapping[int, int] | None = None) -> None:
        """Have nothing but rows of the windows, each alone in every STAIR of its input, from where it can go any way.

        With `since`, only rows from these ids on, by input; of other inputs all.
        """
        for (stream, _), stair in self.stairs.items():
            head, tail = self.windows[stream].head, self.windows[stream].tail
            stair.begin_anew(head if since is None else max(head, since.get(stream, head)), tail)
        self.marks.add_all()

    def select_live(self, delta: Delta) -> Delta:
        """What of a delta is not dead: neither has it ended, nor has one of its rows left its window."""
        live = self.find_live(delta.inputs, delta.combos)
        return delta if live.all() else delta.at(np.flatnonzero(live))

    def find_live(self, inputs: tuple[int, ...], combos: Combos) -> Mask:
        """Which of these combinations are not dead."""
        heads = np.array([self.windows[number].head for number in inputs])
        live: Mask = np.empty(len(combos.starts), np.bool_)
        find_live(combos, self.horizon, heads, live)
        return live

    def purge(self, horizon: int) -> None:
        """Forget what can never matter again."""
        self.horizon = horizon
        heads = heads_of(self.windows)
        for stair in self.stairs.values():
            stair.purge(horizon, heads)
        self.marks.forget()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        for stair in self.stairs.values():
            stair.renumber(number, renumbering)
        self.marks.renumber(number, renumbering)

    def indexes_used(self) -> Iterator[IndexUsed]:
        """The hash indexes of base windows that lead to rows."""
        for stair in self.stairs.values():
            if isinstance(stair.row_path, HashPath):
                yield stair.stream, stair.row_path.classes

    @property
    def nbytes(self) -> int:
        return self.marks.nbytes + sum(stair.nbytes for stair in self.stairs.values())


class Crossing:
    """How combinations of some inputs go over an edge: they are stored in the STAIR `own` and probe its `dual`."""

    def __init__(self, store: StairStore, joined: frozenset[int], own: Stair, dual: Stair):
        self.own, self.dual = own, dual
        self._store, self._joined = store, joined
        self._hops: dict[frozenset[int], Hop] = {}

    def hops(self) -> list[Hop]:
        """The steps to all entries that the dual has now."""
        return [self._hops.get(entries) or self._make_hop(entries) for entries in self.dual.contents()]

    def _make_hop(self, entries: frozenset[int]) -> Hop:
        hop = self._hops[entries] = self._store.make_hop(self._joined, self.dual, entries)
        return hop


class InRows:
    """A row that a window's index has found stands in a STAIR."""

    def __init__(self, column: int, rows: RowSet):
        self._column, self._rows = column, rows

    def __call__(self, combos: Combos, first: int, passed: Mask) -> None:
        passed &= self._rows.has(combos.rows[first : first + len(passed), self._column])


class Hop:
    """The step of combinations, columns in the order `probing`, to entries of a STAIR, columns in the order `entries`.

    What it finds has the columns `inputs`: those of the side of the edge's left end come first, whoever probes. They
    are wanted in the order `order`, or as they come.
    """

    def __init__(
        self,
        query: Query,
        windows: Sequence[BaseWindow],
        probing: tuple[int, ...],
        stair: Stair,
        entries: tuple[int, ...],
        order: tuple[int, ...] | None = None,
    ):
        edge = stair.edge
        is_left = stair.stream == edge.left
        left, right = (entries, probing) if is_left else (probing, entries)
        self.inputs = left + right
        self.order = self.inputs if order is None else order
        self._columns = [self.inputs.index(number) for number in self.order]
        self.target = frozenset(self.inputs)
        self.least_block = least_block(stair.path)
        self._layout = Layout(0, len(entries)) if is_left else Layout(len(probing), 0)
        self._checks = checks_of_join(query, left, right, edge.band, windows, edge.classes)
        self._stair, self.entries = stair, frozenset(entries)
        self._is_alone = self.entries == stair.alone
        self._meter = stair.window.meter
        self._windows = windows

    def matches(self, delta: Delta, block: Block) -> Generator[None, None, None]:
        """Join a delta with the entries, into `block`, in the order that is wanted.

        Yields whenever the block has to be emptied.
        """
        steps, checks = self._steps(delta)
        if self.order == self.inputs:
            looked = yield from join_in_steps(steps, checks, block)
            self._count(looked, delta)
            return
        capacity = len(block.combos.starts)
        found = Block(len(self.inputs), capacity, capacity)
        joining = join_in_steps(steps, checks, found)
        while True:
            try:
                next(joining)
            except StopIteration as end:
                self._count(end.value, delta)
                break
            yield from block.take(found, self._columns)
        yield from block.take(found, self._columns)

    def find_all(self, delta: Delta, block: Block) -> None:
        """As `matches`, into a block that has no largest size."""
        steps, checks = self._steps(delta)
        if self.order == self.inputs:
            self._count(join_all_in_steps(steps, checks, block), delta)
            return
        found = Block(len(self.inputs), max(self.least_block, 2 * len(delta)))
        self._count(join_all_in_steps(steps, checks, found), delta)
        for _ in block.take(found, self._columns):
            raise AssertionError("only a block with a largest size has to be emptied")

    def _count(self, looked: Looked, delta: Delta) -> None:
        self._meter.slots_visited += looked.slots
        self._meter.lookups += looked.lookups(self._stair.path, len(delta))

    def _steps(self, delta: Delta) -> tuple[Iterable[Step], Checks]:
        """What leads a delta to the entries, and what has to be tested on the way."""
        stair = self._stair
        if not self._is_alone:
            state = stair.states[self.entries]
            return stair.path.steps(state, state.ring(), delta, self._layout), self._checks
        rows, path, window = stair.rows, stair.row_path, stair.window
        if isinstance(path, HashPath) and len(rows) < len(window):
            step = path.held_step(window, delta, self._layout, rows.held(window.head), stair.find_filter(len(delta)))
            return (step,), self._checks
        checks = self._checks if rows.is_run else self._checks.after(InRows(self._layout.entry_at, rows))
        return path.steps(window, window.ring(rows.high, rows.low), delta, self._layout), checks

    def all_matches(self, delta: Delta) -> Delta:
        """Everything that a delta joins with."""
        block = Block(len(self.inputs), max(self.least_block, 2 * len(delta)))
        self.find_all(delta, block)
        return Delta(self.order, block.content(), self._windows)
