"""The live nodes of a running plan: leaves that show a base window, joins that keep a state for the join above.

        join            state: none (the root emits), unless results are kept
       /    \\
     join    leaf       state: combinations of R and S, found through the path of the join above
    /    \\
  leaf    leaf          base windows R and S, shared by all plans
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from midstream.cql.model import Query
from midstream.engine.joins.access import BandPath, HashPath, LoopPath, Path, path_into
from midstream.engine.joins.checks import Checks, checks_of_join
from midstream.engine.joins.combos import Block, Delta
from midstream.engine.joins.gauge import COMBINATION
from midstream.engine.joins.matching import join_with
from midstream.kernels.types import Layout
from midstream.plan.nodes import Join, Leaf, Node
from midstream.state.join_state import Access, JoinState, Signature
from midstream.state.meter import Meter
from midstream.state.window import BaseWindow

_SMALLEST_BLOCK = 256
_SMALLEST_LOOP_BLOCK = 1 << 13


def least_block(path: Path) -> int:
    """The room that a probe by a path needs at least: nested loops propose much that is refused, a block at a time."""
    return _SMALLEST_LOOP_BLOCK if path.access is Access.LOOP else _SMALLEST_BLOCK


@dataclass
class LeafNode:
    """An input's base window. `path` is how the join above finds its rows."""

    number: int
    window: BaseWindow
    path: Path | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.number,)


@dataclass
class JoinNode:
    """A join of two nodes. `state` holds its combinations for the join above; the root has none, or keeps results."""

    left: LiveNode
    right: LiveNode
    checks: Checks
    meter: Meter
    path: Path | None = None
    state: JoinState | None = None
    #: Nothing is stored in the state, which is empty; whoever probes it finds its combinations in the windows.
    is_off: bool = False

    def __post_init__(self) -> None:
        self.inputs: tuple[int, ...] = self.left.inputs + self.right.inputs
        width = len(self.left.inputs)
        self._left_layout, self._right_layout = Layout(0, width), Layout(width, 0)
        #: What probes have looked at to find the combinations, the same in every run.
        self.lookups = 0
        #: How many entries were looked at that are no partners.
        self.vain_work = 0
        #: How many combinations have passed while nothing was stored.
        self.passed_off = 0
        #: How many combinations have looked for partners in the state.
        self.probes = 0
        #: How many combinations the last chunk has found: about as many will need room in the next.
        self.found_lately = 0
        #: Further ways to find entries, beside `path`.
        self.asked: tuple[Path, ...] = ()

    def keep_results(self, windows: Sequence[BaseWindow]) -> None:
        """Have a state for the combinations of the topmost join, too. Nobody probes it, so it needs no index."""
        self.path = LoopPath(self.inputs, windows)
        self.state = JoinState(self.inputs, {self.path.signature: self.path.access}, meter=self.meter)

    @cached_property
    def least_block(self) -> int:
        """The room that a probe of either child needs at least."""
        return max(least_block(child.path) for child in (self.left, self.right) if child.path is not None)

    @property
    def work(self) -> int:
        """What it has taken to find and store the combinations, in lookups."""
        stored = 0 if self.state is None else self.state.stored_in_all
        return self.lookups + COMBINATION * stored

    @property
    def passed(self) -> int:
        """How many combinations have gone on to the join above."""
        return self.passed_off + (0 if self.state is None else self.state.stored_in_all)

    @property
    def lacks_entries(self) -> bool:
        """Whether combinations may be missing from the state."""
        return self.state is not None and bool(self.state.missing)

    @property
    def is_probed_by_route(self) -> bool:
        """Whether probes go through the windows: the state is off, or no index says which entries a probe lacks."""
        return self.is_off or (self.lacks_entries and self.path is not None and self.path.access is Access.LOOP)

    def other(self, child: LiveNode) -> LiveNode:
        return self.right if child is self.left else self.left

    def child_with(self, number: int) -> LiveNode:
        """The child that has an input of this join."""
        return self.left if number in self.left.inputs else self.right

    def matches(
        self,
        delta: Delta,
        child: LiveNode,
        block: Block,
        before: Mapping[int, int] | None = None,
        since: Mapping[int, int] | None = None,
    ) -> Iterator[None]:
        """Join a delta of the other child with what `child` holds, into `block`.

        Yields whenever the block has to be emptied. Of a leaf whose input is in `before`, rows from that id on
        are left out; of one in `since`, those below that id.
        """
        assert child.path is not None
        if isinstance(child, LeafNode):
            store: BaseWindow | JoinState = child.window
            last = None if before is None else before.get(child.number)
            first = None if since is None else since.get(child.number)
            ring = child.window.ring(last, first)
        else:
            assert child.state is not None
            store, ring = child.state, child.state.ring()
        layout = self._left_layout if child is self.left else self._right_layout
        found_before = block.found
        looked = yield from join_with(child.path, store, ring, delta, layout, self.checks, block)
        lookups = looked.lookups(child.path, len(delta))
        self.lookups += lookups
        self.vain_work += lookups - (block.found - found_before)
        self.meter.slots_visited += looked.slots
        self.meter.lookups += lookups


LiveNode = LeafNode | JoinNode


def lazy_side(join: JoinNode) -> LiveNode:
    """The child of a join whose combinations may wait for those of the other: the one with more inputs, or the left."""
    return join.right if len(join.right.inputs) > len(join.left.inputs) else join.left


def indexed_path(
    query: Query, inside: tuple[int, ...], outside: tuple[int, ...], windows: Sequence[BaseWindow], at_once: int
) -> Path:
    """The best way to find entries; into a window, one for which there is an index or may be one.

    A window gets an index on a composite key if it has at most `at_once` rows.
    """
    path = path_into(query, inside, outside, windows)
    if len(inside) > 1 or not isinstance(path, HashPath) or windows[inside[0]].may_be_indexed(path.classes, at_once):
        return path
    return HashPath(query, inside, path.classes[:1], windows)


def add_way(node: JoinNode, path: Path, windows: Sequence[BaseWindow]) -> None:
    """Let the state of a join be found by one more path."""
    assert node.state is not None and node.path is not None
    if path.signature in (node.path.signature, *(known.signature for known in node.asked)):
        return
    entries = Delta(node.inputs, node.state.entries(node.inputs), windows)
    node.state.add_index(path.signature, path.access, path.keys(entries))
    node.asked = (*node.asked, path)


def keep_ways(node: JoinNode, asked: Collection[Signature]) -> None:
    """Let the state of a join be found by the join's path, and of the further ways by these alone."""
    if node.state is not None and node.path is not None:
        node.asked = tuple(path for path in node.asked if path.signature in asked)
        node.state.keep_indexes([node.path.signature, *(path.signature for path in node.asked)])


def index_state(node: JoinNode, windows: Sequence[BaseWindow]) -> None:
    """Let the state of a join be found by the join's path, and in no other way."""
    assert node.state is not None and node.path is not None
    path, state = node.path, node.state
    if path.access is not Access.LOOP and path.signature not in state.indexes:
        entries = Delta(node.inputs, state.entries(node.inputs), windows)
        state.add_index(path.signature, path.access, path.keys(entries))
    state.keep_indexes([path.signature])


def indexes_used(joins: Iterable[JoinNode]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The hash indexes of base windows that joins probe: the input and the key classes of each."""
    for node in joins:
        for child in (node.left, node.right):
            if isinstance(child, LeafNode) and isinstance(child.path, HashPath):
                yield child.number, child.path.classes


def add_indexes(windows: Sequence[BaseWindow], used: Iterable[tuple[int, tuple[int, ...]]]) -> None:
    """Give the windows the hash indexes that probes are going to use."""
    for number, classes in used:
        windows[number].add_index(classes)


#: A window with more rows gets no new index: one class of a composite key finds its rows and the others are checked.
INDEXED_AT_ONCE = 1 << 15


def build_tree(
    query: Query, node: Node, windows: Sequence[BaseWindow], indexed_at_once: int = INDEXED_AT_ONCE
) -> LiveNode:
    """Live nodes for a plan's tree, every join state empty and complete.

    It changes nothing: what its paths need of the windows has to be there before they are taken, see `add_indexes`.
    """
    if isinstance(node, Leaf):
        return LeafNode(node.input, windows[node.input])
    assert isinstance(node, Join), "an executor runs joins alone"
    meter = windows[0].meter
    left = build_tree(query, node.left, windows, indexed_at_once)
    right = build_tree(query, node.right, windows, indexed_at_once)
    left.path = indexed_path(query, left.inputs, right.inputs, windows, indexed_at_once)
    right.path = indexed_path(query, right.inputs, left.inputs, windows, indexed_at_once)
    for child, path in ((left, left.path), (right, right.path)):
        if isinstance(child, JoinNode):
            child.state = JoinState(child.inputs, {path.signature: path.access}, meter=meter)
    used_band = left.path.number if isinstance(left.path, BandPath) else None
    return JoinNode(left, right, checks_of_join(query, left.inputs, right.inputs, used_band, windows), meter)
