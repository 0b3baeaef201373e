"""The tree executor with nested loops for every join, as paper 003 has it: a delta meets every entry of a state.

Only joins go by loops. With demand, checks still ask an index, and what waits is found through one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from midstream.cql.model import Query
from midstream.engine.executors.tree import Tree, TreeExecutor
from midstream.engine.joins.access import LoopPath, Step, Store
from midstream.engine.joins.checks import checks_of_join
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.nodes import JoinNode
from midstream.kernels.types import Layout, Ring
from midstream.plan.tree import Plan
from midstream.state.join_state import JoinState
from midstream.state.window import BaseWindow


class CountedLoopPath(LoopPath):
    """Nested loops that count the pairs which they look at."""

    pairs = 0

    def steps(self, store: Store, ring: Ring, delta: Delta, layout: Layout) -> Iterator[Step]:
        self.pairs += len(delta) * (ring.tail - ring.head)
        return super().steps(store, ring, delta, layout)


class NestedLoops(Tree):
    """A tree that has an index for no join. It is made to run one plan from its first row to its last."""

    name = "tree, nested loops"

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> TreeExecutor:
        executor = super().make(query, plan, windows, since)
        for node in executor.joins():
            for child in (node.left, node.right):
                path = child.path = CountedLoopPath(child.inputs, windows)
                if isinstance(child, JoinNode):
                    child.state = JoinState(child.inputs, {path.signature: path.access}, meter=node.meter)
            node.checks = checks_of_join(query, node.left.inputs, node.right.inputs, None, windows, used_classes=())
        return executor


def count_pairs(executor: TreeExecutor) -> int:
    """How many pairs the nested loops of an executor have looked at so far."""
    paths = [child.path for node in executor.joins() for child in (node.left, node.right)]
    return sum(path.pairs for path in paths if isinstance(path, CountedLoopPath))
