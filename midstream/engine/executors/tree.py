"""The tree executor: takes deltas bottom-up through a plan of joins with partial states.

One chunk, at a join with children L and R whose deltas dL and dR are known:

1. fill what L lacks of what dR will touch, join dR with L as it was before this chunk, and store dR in R;
2. fill what R lacks of what dL will touch, join dL with R including dR, and store dL in L: every new pair once;
3. hand the pairs up as this join's delta, or emit them at the root, which may keep them.

Deltas climb in parts of a bounded size. All of R's subtree comes before any of L's, so L is as it was while dR passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from midstream.cql.model import Query
from midstream.engine.executors.holdings import NodeHolding
from midstream.engine.executors.known_rows import KnownRows
from midstream.engine.executors.protocol import ExecutorKind, FillCounts, HandedOver, HeldState, IndexUsed
from midstream.engine.executors.takeover import take_over
from midstream.engine.joins.combos import Block, Delta, emit, heads_of, make_block
from midstream.engine.joins.comparison import StateShape, state_shapes
from midstream.engine.joins.evicting import declare_missing, evict, evict_all, switch_off, switch_on
from midstream.engine.joins.filling import Filler, store
from midstream.engine.joins.idling import IdleJoins
from midstream.engine.joins.level_filling import LevelFiller
from midstream.engine.joins.nodes import (
    JoinNode,
    LeafNode,
    LiveNode,
    add_indexes,
    build_tree,
    indexes_used,
    lazy_side,
)
from midstream.engine.joins.probing import Prober
from midstream.engine.joins.suspending import Sight, Suspender
from midstream.engine.routing.report import RoutingReport
from midstream.engine.stats import StateStats
from midstream.kernels.types import SMALLEST, Combos
from midstream.plan.nodes import quoted
from midstream.plan.tree import Plan
from midstream.state.indexes import Ints
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow, Renumbering

_FILLED_AT_ONCE = 1 << 20


class Tree(ExecutorKind):
    """The kind of executor that keeps a state for every join below the root; with `keeps_root`, for the root too."""

    name = "tree"
    can_evict = True

    def __init__(self, keeps_root: bool = False):
        self._keeps_root = keeps_root

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> TreeExecutor:
        return TreeExecutor(query, plan, windows, since, keeps_root=self._keeps_root)

    def state_shapes(self, query: Query, plan: Plan) -> tuple[StateShape, ...]:
        return state_shapes(query, plan, self._keeps_root)


class _Chunk(NamedTuple):
    """The new rows that are joined, by input, the first id of each, and the time before which all is dead."""

    deltas: Mapping[int, Delta]
    first_ids: Mapping[int, int]
    horizon: int

    @classmethod
    def of(cls, deltas: Mapping[int, Delta], horizon: int) -> _Chunk:
        """Inputs without a row are not among the deltas."""
        return cls(deltas, {number: int(delta.combos.rows[0, 0]) for number, delta in deltas.items()}, horizon)


class TreeExecutor:
    """Runs one plan over base windows that it shares with whoever else needs them.

    With `since`, it knows only rows from these ids on, by input; other inputs, static tables, it knows whole, and what
    joins these alone it computes when it starts: their rows never come again nor expire. With `keeps_root`, the topmost
    join keeps its combinations, the results, in a state like any other join.
    """

    kind = Tree()

    def __init__(
        self,
        query: Query,
        plan: Plan,
        windows: Sequence[BaseWindow],
        since: Mapping[int, int] | None = None,
        *,
        keeps_root: bool = False,
    ):
        if keeps_root:
            self.kind = Tree(keeps_root=True)
        self.plan = plan
        self._windows = windows
        self._known = KnownRows(since)
        self._shapes = state_shapes(query, plan, keeps_root)
        self._root = build_tree(query, plan.root, windows)
        self._joins = tuple(_walk_joins(self._root))
        self._order = np.argsort(self._root.inputs)  # of columns, to have results in the order of FROM
        if keeps_root and isinstance(self._root, JoinNode):
            self._root.keep_results(windows)
        self._holdings = [NodeHolding(self, node, windows) for node in self._joins if node.state is not None]
        self.prober = Prober(query, windows)
        self.filler: Filler = LevelFiller(windows, self.prober)
        self._query = query
        self._suspender: Suspender | None = None
        #: The same while something is asked or waits, None otherwise.
        self._busy_suspender: Suspender | None = None
        #: Which joins are idle in this chunk, if any may be.
        self._idle: IdleJoins | None = None

    def start(self, cause: Cause, handed_over: Sequence[HandedOver] = ()) -> None:
        """Keep what both plans have in common and declare the rest missing for this cause.

        What kept states lack because of earlier migrations is this one's to fill from now on. States that this plan
        does not need leave it their memory.
        """
        add_indexes(self._windows, self.indexes_used())
        missing = take_over(self._joins, self._shapes, handed_over, self._windows, cause)
        if self._known.since is None:
            self._declare_missing(missing, cause)
        else:
            assert not handed_over, "states of all rows are no use to an executor that knows only later ones"
            static = [node for node in missing if self._known.since.keys().isdisjoint(node.inputs)]
            self._declare_missing(static, cause)
            self.complete(cause, SMALLEST)

    def _declare_missing(self, nodes: Iterable[JoinNode], cause: Cause) -> None:
        """Declare every combination of the rows that the windows hold missing from the states of these joins."""
        for node in nodes:
            declare_missing(node, cause, self._windows)

    def refusal(self, plan: Plan, strategy: str | None) -> str | None:
        """None: any plan will do."""
        return None

    def routing_report(self) -> RoutingReport | None:
        """None: rows go as the plan says."""
        return None

    def hand_over(self) -> list[HeldState]:
        """All states that are not switched off, with what is missing from them."""
        self.suspend(is_on=False)
        nodes = {frozenset(node.inputs): node for node in self.joins()}
        found = []
        for shape in self._shapes:
            node = nodes[shape.identity]
            assert node.state is not None, "every join with a shape has a state"
            if not node.is_off:
                found.append(HeldState(shape, node.state))
        return found

    def complete(self, cause: Cause, horizon: int) -> None:
        """Compute everything that is missing for this cause; what ended before `horizon` is dead."""
        while self.lacks_entries(cause):
            self.fill_some(_FILLED_AT_ONCE, horizon, cause)

    def fill_some(self, limit: int, horizon: int, cause: Cause) -> int:
        """Fill up to so many rows of the first state that lacks some for this cause."""
        node = next(self._incomplete(cause))
        return self.filler.fill_some(node, limit, horizon, cause)

    def lacks_entries(self, cause: Cause) -> bool:
        """Whether something is missing for this cause."""
        return any(True for _ in self._incomplete(cause))

    def _incomplete(self, cause: Cause) -> Iterator[JoinNode]:
        return (node for node in self.joins() if node.state is not None and node.state.missing.is_due_to(cause))

    def give_up(self, cause: Cause) -> None:
        """What is missing for this cause is filled on demand alone from now on."""
        for node in self._incomplete(cause):
            assert node.state is not None
            node.state.missing.give_up(cause)

    @property
    def filled(self) -> FillCounts:
        """What filling has taken so far."""
        return FillCounts(self.filler.rows_filled, self.filler.entries_filled)

    def migrations(self) -> Iterator[object]:
        """None: a plan that runs alone is no migration."""
        return iter(())

    def suspend(self, is_on: bool, is_adaptive: bool = False) -> bool:
        """From now on have combinations wait that have no partner further up, or let nothing wait any more.

        True if windows have an index that is not used any more.
        """
        if is_on and self._suspender is None:
            self._suspender = Suspender(self._query, self._joins, self._windows, self.prober, self.filler, is_adaptive)
            self._suspender.prepare()
        elif not is_on and self._suspender is not None:
            self._suspender.give_up(self._known.since)
            self._suspender.end()
            self._suspender = None
            return True
        if self._suspender is None or not self._suspender.has_left_indexes:
            return False
        self._suspender.has_left_indexes = False
        return True

    def work_without(self, number: int, neighbour: int) -> float:
        """What was done for combinations with a row of one input and none of another, and to join these in vain."""
        work = 0.0
        for node in self._joins:
            if number in node.inputs:
                if neighbour not in node.inputs:
                    work += node.work / len(node.inputs)
                elif neighbour not in node.child_with(number).inputs:
                    work += node.vain_work / len(node.child_with(number).inputs)
        return work

    def evict(self, node: JoinNode, number: int, rows: Ints) -> int:
        """Give up the entries of a join's state that have one of these rows of an input; how many there were."""
        self._stop_idling()
        return evict(node, number, rows, self._windows, self._known.since)

    def evict_all(self, node: JoinNode) -> int:
        """Give up all entries of a join's state; how many there were."""
        self._stop_idling()
        return evict_all(node, self._windows, self._known.since)

    def switch_off(self, node: JoinNode) -> None:
        """Keep nothing of a join from now on."""
        self._stop_idling()
        switch_off(node)

    def switch_on(self, node: JoinNode) -> None:
        """Keep what a join finds again; all of it is missing so far."""
        self._stop_idling()
        switch_on(node, self._windows, self._known.since)

    def _stop_idling(self) -> None:
        """Have holes say what idle joins have left out, before states are changed."""
        if self._suspender is not None:
            self._suspender.idle.stop(self._known.since)

    def evicting(self) -> Iterator[TreeExecutor]:
        """Itself."""
        yield self

    def holdings(self) -> Sequence[NodeHolding]:
        """The states of its joins."""
        return self._holdings

    def give_up_rest(self) -> int:
        """What waits: it is given up last, since it is little beside what it would become in the states."""
        return 0 if self._suspender is None else self._suspender.drop(self._known.since)

    def heed(self, may_fill: Callable[[], bool] | None) -> None:
        """Nothing: whoever has it fill something asks."""

    @property
    def plans_at_once(self) -> int:
        """One."""
        return 1

    def indexes_used(self) -> Iterator[IndexUsed]:
        """The hash indexes of base windows that this plan probes."""
        yield from indexes_used(self.joins())
        yield from self.prober.indexes_used()
        if self._suspender is not None:
            yield from self._suspender.indexes_used()

    def joins(self) -> tuple[JoinNode, ...]:
        """The joins of the plan, children first."""
        return self._joins

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        """Take rows that have just entered the windows through the plan; yields results in the order of FROM."""
        root = self._root
        if isinstance(root, LeafNode):
            if root.number in deltas:
                yield deltas[root.number].combos
            return
        joined: Mapping[int, Delta] = {number: delta for number, delta in deltas.items() if len(delta)}
        self._idle = None if self._suspender is None else self._suspender.idle
        if self._idle is not None:
            joined = self._idle.begin_chunk(joined, self._known.since)
        chunk = _Chunk.of(joined, horizon)
        if any(node.lacks_entries for node in self._joins):
            self.filler.fill_ahead(self._joins, joined, horizon)
        is_busy = self._suspender is not None and self._suspender.is_busy
        self._busy_suspender = self._suspender if is_busy else None
        block = self._make_block(root, chunk)
        steps = self._pairs(root, block, chunk)
        if root.state is not None:
            steps = self._keeping(steps, root, block)
        yield from emit(steps, block, self._order)
        root.found_lately = block.found

    def _keeping(self, steps: Iterator[None], root: JoinNode, block: Block) -> Iterator[None]:
        """The same steps; the results are stored before the block is emptied, and at the end."""
        for _ in steps:
            store(root, Delta(root.inputs, block.content(), self._windows))
            yield
        store(root, Delta(root.inputs, block.content(), self._windows))

    def _parts(self, node: LiveNode, chunk: _Chunk) -> Iterator[Delta]:
        """The combinations of a node that contain a new row; each part is to be used before the next is asked for."""
        if isinstance(node, LeafNode):
            if node.number in chunk.deltas:
                yield from self._in_demand(node, chunk.deltas[node.number])
            return
        block = self._make_block(node, chunk)
        for _ in self._pairs(node, block, chunk):
            yield from self._in_demand(node, Delta(node.inputs, block.content(), self._windows))
            block.count = 0
        if block.count:
            yield from self._in_demand(node, Delta(node.inputs, block.content(), self._windows))
        node.found_lately = block.found

    def _in_demand(self, node: LiveNode, delta: Delta) -> Iterator[Delta]:
        """The combinations that need not wait, if there are any."""
        if self._busy_suspender is not None:
            delta = self._busy_suspender.suspend(node, delta)
        if len(delta):
            yield delta

    def _make_block(self, node: JoinNode, chunk: _Chunk) -> Block:
        rows = sum(len(chunk.deltas[number]) for number in node.inputs if number in chunk.deltas)
        expected = node.found_lately + node.found_lately // 4
        return make_block(len(node.inputs), max(node.least_block, expected) if rows else 0, rows)

    def _pairs(self, node: JoinNode, block: Block, chunk: _Chunk) -> Iterator[None]:
        for child, sibling, before in self._sides(node, chunk):
            for part in self._parts(child, chunk):
                if self._idle is not None:
                    self._idle.wake(node, self._known.since)
                if isinstance(child, JoinNode):  # what new rows of a leaf touch has been filled ahead
                    self.filler.fill_for(sibling, part, chunk.horizon)
                if self._busy_suspender is not None and sibling is lazy_side(node):
                    self._busy_suspender.wake(node, part, Sight(before, self._known.since, chunk.horizon))
                if isinstance(sibling, JoinNode):
                    sibling.probes += len(part)
                yield from self.prober.matches(node, part, sibling, block, before, self._known.since)
                store(child, part)

    def _sides(self, node: JoinNode, chunk: _Chunk) -> Iterator[tuple[LiveNode, LiveNode, Mapping[int, int] | None]]:
        """The children that have a delta, each with its sibling, and rows of windows that are left out there.

        If a join is idle, its lazy side has none: what comes to the other finds new rows there with the old ones.
        """
        lazy = None if self._idle is None else self._idle.find_passed_over(node)
        if lazy is not None:
            yield node.other(lazy), lazy, None
        else:
            yield node.right, node.left, chunk.first_ids
            yield node.left, node.right, None

    def purge(self, horizon: int) -> None:
        """Forget entries that can never matter again, after the windows have forgotten their rows."""
        self._known.purge(self._windows)
        heads = heads_of(self._windows)
        for node in self.joins():
            if node.state is not None:
                node.state.purge(horizon, heads)
        if self._suspender is not None:
            self._suspender.purge(horizon, self._known.since)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        self._known.renumber(number, renumbering)
        for node in self.joins():
            if node.state is not None:
                node.state.renumber(number, renumbering)
        if self._suspender is not None:
            self._suspender.renumber(number, renumbering)

    def after_push(self, horizon: int) -> TreeExecutor:
        """Nothing to do: a plan runs until it is changed."""
        return self

    @property
    def knows_all_rows(self) -> bool:
        """Whether no row of the windows is left out."""
        return self._known.are_all

    def missing_bytes(self) -> int:
        """What the records of missing rows take."""
        return sum(node.state.missing.nbytes for node in self.joins() if node.state is not None)

    def holes(self, cause: Cause | None = None) -> int:
        """Live rows whose combinations may be missing, for this cause or for any, summed over the states."""
        return sum(self._holes_of(node, cause) for node in self.joins())

    @property
    def nbytes(self) -> int:
        """The bytes of all states, and of what waits."""
        size = 0 if self._suspender is None else self._suspender.nbytes
        for node in self._joins:
            if node.state is not None:
                size += node.state.nbytes
        return size

    def _holes_of(self, node: JoinNode, cause: Cause | None = None) -> int:
        if node.state is None or node.path is None:
            return 0
        driver = node.path.driver
        return node.state.missing.remaining(driver, self._windows[driver].head, cause)

    def state_stats(self) -> list[StateStats]:
        """The size of every join state, and how many rows of its driver may lack combinations."""
        found = []
        for node in self.joins():
            if node.state is not None and node.path is not None:
                aliases = tuple(self.plan.aliases[number] for number in node.inputs)
                name = " ".join(quoted(alias) for alias in aliases)
                holes = self._holes_of(node)
                size = node.state.nbytes
                found.append(StateStats(name, "join", len(node.state), size, holes, aliases, node.is_off))
        if self._suspender is not None and self._suspender.waiting:
            aliases = tuple(self.plan.aliases[number] for number in sorted(self._root.inputs))
            waiting, size = self._suspender.waiting, self._suspender.nbytes
            found.append(StateStats("suspended", "suspended", waiting, size, 0, aliases))
        return found


def _walk_joins(node: LiveNode) -> Iterator[JoinNode]:
    if isinstance(node, JoinNode):
        yield from _walk_joins(node.left)
        yield from _walk_joins(node.right)
        yield node
