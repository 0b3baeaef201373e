"""Moving State: fill everything at the transition, by the same code that fills on demand."""

from __future__ import annotations

from midstream.engine.executors.protocol import Executor
from midstream.migrate.record import UNFILLED_ROWS
from midstream.migrate.strategy import CostModel, Strategy, Transition
from midstream.state.missing import Cause


class MovingState(Strategy):
    """Compute all states of the new plan before the next row is taken."""

    name = "moving-state"
    unit = UNFILLED_ROWS
    cost_model = CostModel.AT_ONCE

    def begin(self, transition: Transition) -> Executor:
        cause = Cause("migration")
        executor = transition.successor(cause)
        transition.recorder.begin(executor.holes(cause))
        executor.complete(cause, transition.situation.horizon)
        transition.recorder.count_computed(executor.filled.rows, executor.filled.entries)
        transition.recorder.end()
        return executor
