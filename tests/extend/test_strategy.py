"""A strategy from outside: defined here, given to `migrate` itself, and held to the contract of all strategies."""

from __future__ import annotations

import pytest

import midstream as ms
from midstream.adapt import estimate
from midstream.engine.executors.protocol import Executor
from midstream.migrate import BUDGET, STRATEGIES, CostModel, Strategy, Transition
from midstream.migrate.record import UNFILLED_ROWS
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategies.moving_state import MovingState
from midstream.plan import parse_plan

from ..migrate.changes import MIXED
from ..migrate.migrating import check_block
from ..migrate.workload import NEW, OLD, make_engine, push

QUOTA = 60


class BySize(Strategy):
    """Few rows are filled at once; many, as they are probed."""

    name = "by-size"
    unit = UNFILLED_ROWS
    cost_model = CostModel.OVER_PUSHES
    options = (BUDGET,)
    most_rows = 8

    def begin(self, transition: Transition) -> Executor:
        rows = sum(len(window) for window in transition.situation.windows)
        return (MovingState() if rows <= self.most_rows else JustInTime()).begin(transition)


@pytest.mark.parametrize("strategy", [BySize.name, MIXED])
def test_it_keeps_the_contract(strategy: str) -> None:
    tally = check_block(7_000_000, strategy, QUOTA, given=[BySize()])
    assert tally.made[BySize.name] > 0 and tally.results > 0
    assert strategy == MIXED or set(tally.made) == {BySize.name}


@pytest.mark.parametrize("pushes", [0, 3])
def test_both_of_its_ways_are_gone(pushes: int) -> None:
    """The contract above means little if one of them is never taken."""
    engine = make_engine(OLD)
    for number in range(pushes):
        push(engine, number)
    record = engine.migrate(NEW, BySize(), budget=0)
    assert (record.strategy, record.unit, record.is_done) == ("by-size", "unfilled rows", pushes == 0)


def test_it_is_an_engine_s_own_and_has_only_the_options_that_it_declares() -> None:
    engine = ms.Engine(make_engine(OLD).query, plan=OLD, strategy=BySize())
    with pytest.raises(ms.EngineError, match=r"hold=True is no option of by-size, which has budget; .*parallel-track"):
        engine.migrate(NEW, hold=True)
    assert engine.migrate(NEW, budget=3).strategy == "by-size"
    assert engine.migrate(OLD, "jisc").strategy == "jisc"


def test_its_cost_is_estimated() -> None:
    query = make_engine(OLD).query
    old, new = (parse_plan(plan, query.aliases) for plan in (OLD, NEW))
    found = estimate(query, old, new, strategies=[*STRATEGIES, BySize()])
    assert [(estimated.strategy, estimated.manner) for estimated in found.strategies][-1] == ("by-size", "over pushes")


def test_what_is_no_strategy_is_refused() -> None:
    class Nameless(Strategy):
        def begin(self, transition: Transition) -> Executor:
            raise NotImplementedError

    with pytest.raises(TypeError, match="abstract"):
        Nameless()  # type: ignore[abstract]
    with pytest.raises(ms.EngineError, match=r"unknown strategy .*BySize"):
        make_engine(OLD).migrate(NEW, BySize)  # type: ignore[arg-type]
