"""An executor from outside: defined here, given to engines itself, and held to the contract of all strategies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import midstream as ms
from midstream.cql import Query
from midstream.engine.executors.tree import Tree, TreeExecutor
from midstream.engine.joins.combos import Delta
from midstream.kernels.types import Combos
from midstream.plan import Plan
from midstream.state.window import BaseWindow

from ..migrate.changes import MIXED
from ..migrate.migrating import check_block
from ..migrate.workload import NEW, OLD, make_engine, push

QUOTA = 30


class Counted(Tree):
    """The tree, with a count of its results."""

    name = "counted"

    def __init__(self) -> None:
        super().__init__()
        self.results = 0

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> TreeExecutor:
        return CountedExecutor(self, query, plan, windows, since)


class CountedExecutor(TreeExecutor):
    def __init__(
        self,
        kind: Counted,
        query: Query,
        plan: Plan,
        windows: Sequence[BaseWindow],
        since: Mapping[int, int] | None,
    ):
        super().__init__(query, plan, windows, since)
        self.kind = kind

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        assert isinstance(self.kind, Counted)
        for combos in super().process(deltas, horizon):
            self.kind.results += len(combos.starts)
            yield combos


def test_it_keeps_the_contract() -> None:
    kind = Counted()
    tally = check_block(9_100_000, MIXED, QUOTA, kinds=[kind])
    assert tally.count(MIXED) >= QUOTA and tally.results > 0 and kind.results > 0


def test_an_engine_begins_on_it_and_goes_on_with_others() -> None:
    kind, plain = Counted(), make_engine(OLD)
    engine = ms.Engine(plain.query, plan=OLD, executor=kind)
    for number in range(4):
        assert push(engine, number) == push(plain, number)
    counted = kind.results
    assert counted == engine.stats().rows_out > 0
    engine.migrate(NEW, "moving-state", executor="stems")
    assert (engine.executor, push(engine, 4)) == ("stems", push(plain, 4))
    assert kind.results == counted < engine.stats().rows_out
    engine = ms.Engine.restore(engine.query, engine.snapshot(), executor=kind)
    assert (engine.executor, push(engine, 5)) == ("counted", push(plain, 5))
    assert kind.results > counted
