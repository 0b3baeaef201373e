"""Contenders that the product does not offer, for comparison: CACQ's SteMs, and Parallel Track as the papers end it.

`Stems` keeps no join state at all. A row that arrives probes the base windows of all other inputs one after the other::

    row of B  ->  A's window  ->  C's window  ->  D's window  ->  results

Each result is found by exactly one of its rows. Of the rows that arrive together, one of a higher input number finds
those of lower ones and not the other way round, as if inputs entered one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import midstream as ms
from midstream.engine.executors.protocol import Executor, HeldState, IndexUsed
from midstream.engine.joins.access import LoopPath, path_into
from midstream.engine.joins.combos import Block, Delta
from midstream.engine.joins.filling import drain
from midstream.engine.joins.nodes import JoinNode, build, indexes_used
from midstream.engine.stats import StateStats
from midstream.engine.transition import Situation
from midstream.errors import EngineError
from midstream.kernels.types import Combos
from midstream.migrate import Options, Strategy, Transition
from midstream.migrate.parallel_track import Parallel, ParallelTrack
from midstream.migrate.record import Recorder
from midstream.plan import Plan, parse_plan
from midstream.plan.tree import Join, Leaf, Node
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow, Renumbering

_SMALLEST_BLOCK = 256
_LARGEST_RESULT_BLOCK = 1 << 17


class Stems:
    """A executor without join states. The plan says in which order a row visits the other inputs."""

    def __init__(self, situation: Situation, plan: Plan):
        self.plan = plan
        self.kind = situation.executor.kind
        self._windows = situation.windows
        self._routes = [_Route(situation, plan, number) for number in range(len(situation.query.inputs))]

    def process(self, deltas: Mapping[int, Delta], floor: int) -> Iterator[Combos]:
        # Rows of inputs that come later in the order have not entered yet, as far as a route is concerned.
        first_new = {number: int(delta.combos.rows[0, 0]) for number, delta in deltas.items() if len(delta)}
        for number in sorted(first_new):
            later = {other: first for other, first in first_new.items() if other > number}
            yield from self._routes[number].results(deltas[number], later, self._windows)

    def purge(self, watermark: int) -> None: ...

    def renumber(self, number: int, renumbering: Renumbering) -> None: ...

    def after_push(self, watermark: int) -> Executor:
        return self

    @property
    def plans_at_once(self) -> int:
        return 1

    def migrations(self) -> Iterator[object]:
        return iter(())

    knows_all_rows = True
    nbytes = 0

    def hand_over(self) -> Sequence[HeldState]:
        return ()

    def indexes_used(self) -> Iterator[IndexUsed]:
        for route in self._routes:
            yield from route.indexes_used()

    def state_stats(self) -> list[StateStats]:
        return []


class _Route:
    """The way of one input's rows: a chain of joins, of which only the probes into base windows are used."""

    def __init__(self, situation: Situation, plan: Plan, number: int):
        tree: Node = Leaf(number)
        for other in _visited(situation, plan, number):
            tree = Join(tree, Leaf(other))
        self._steps: list[JoinNode] = []
        node = build(situation.query, tree, situation.windows)
        while isinstance(node, JoinNode):
            self._steps.insert(0, node)
            node = node.left

    def indexes_used(self) -> Iterator[IndexUsed]:
        return indexes_used(self._steps)

    def results(self, delta: Delta, before: Mapping[int, int], windows: Sequence[BaseWindow]) -> Iterator[Combos]:
        if not self._steps:
            yield delta.combos
            return
        for step in self._steps[:-1]:
            block = Block(len(step.inputs), max(_SMALLEST_BLOCK, 2 * len(delta)), False)
            drain(step.matches(delta, step.right, block, before))
            if not block.count:
                return
            delta = Delta(step.inputs, block.content(), windows)
        last = self._steps[-1]
        order = np.argsort(last.inputs)
        block = Block(len(last.inputs), min(_LARGEST_RESULT_BLOCK, max(_SMALLEST_BLOCK, 2 * len(delta))), True)
        for _ in last.matches(delta, last.right, block, before):
            yield _in_order_of_from(block.content(), order)
            block.count = 0
        if block.count:
            yield _in_order_of_from(block.content(), order)


def _in_order_of_from(combos: Combos, order: Ints) -> Combos:
    return Combos(np.ascontiguousarray(combos.rows[:, order]), combos.starts, combos.ends)


def _visited(situation: Situation, plan: Plan, number: int) -> list[int]:
    """The other inputs as the plan has them from left to right, those first that a predicate leads to."""
    left = [node.input for node in plan.nodes() if isinstance(node, Leaf) and node.input != number]
    visited: list[int] = []
    while left:
        found = (number, *visited)
        paths = {other: path_into(situation.query, (other,), found, situation.windows) for other in left}
        chosen = next((other for other in left if not isinstance(paths[other], LoopPath)), left[0])
        visited.append(chosen)
        left.remove(chosen)
    return visited


class CombinedTrack(ParallelTrack):
    """Parallel Track that ends as papers 001 and 002 have it, after two windows, of any kind.

    There a combined entry is purged only when both its smallest and its largest timestamp are out of the window, so one
    of an old row and a row that came just before the old one expired stays for another window. Here only the end is as
    late: what has expired is purged as everywhere else (`lab.combined_purge` keeps it, for RANGE windows). A plan of a
    single join has no combined entries.
    """

    name = "parallel-track, combined"

    def begin(self, transition: Transition) -> Executor:
        since = transition.tails()
        found = transition.situation
        kind = _Combined if len(found.query.inputs) > 2 else Parallel
        tracks = kind(found.executor, transition.fresh(since), since, list(found.windows), transition.recorder)
        if transition.options.hold:
            tracks.hold(found.held)
        return tracks.or_successor()


class _Combined(Parallel):
    _until: dict[int, int] | None = None

    def _left(self) -> int:
        old = super()._left()
        if old:
            return old
        if self._until is None:
            self._until = {number: self._windows[number].tail for number in self._since}
        return sum(max(0, mark - self._windows[number].head) for number, mark in self._until.items())

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        if self._until is not None and number in self._until:
            self._until[number] = int(renumbering.apply(np.array([self._until[number]]))[0])
        super().renumber(number, renumbering)


def engine_on(executor: str, query: ms.Query, plan: str, late: str = "count") -> ms.Engine:
    """An engine that runs a plan on an executor: "tree" or "stems"."""
    engine = ms.Engine(query, plan=plan, late=late)
    if executor == "stems":
        engine._pipeline.begin(lambda situation: Stems(situation, situation.executor.plan))
    elif executor != "tree":
        raise EngineError(f"lab: unknown executor {executor!r}; executors: tree, stems")
    return engine


def migrate_by(strategy: Strategy, engine: ms.Engine, plan: str, options: Options | None = None) -> Recorder:
    """As `Engine.migrate`, by a strategy that need not be one of the product's; its recorder."""
    target = parse_plan(plan, engine.query.aliases)
    recorder = Recorder(strategy.name, str(engine.plan), str(target), None)

    def begin(situation: Situation) -> Executor:
        transition = Transition(situation, target, situation.executor.kind, options or Options(), recorder)
        refusal = strategy.refusal(transition.proposal)
        if refusal is not None:
            raise EngineError(f"migrate: {refusal}")
        situation.held.release()
        began = time.perf_counter()
        executor = strategy.begin(transition)
        recorder.spend(began)
        return executor

    engine._pipeline.begin(begin)
    engine._recorders = [recorder]
    return recorder
