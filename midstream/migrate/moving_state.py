"""Moving State: fill every hole at the transition, by the same code that fills on demand."""

from __future__ import annotations

from midstream.engine.executors.protocol import Executor
from midstream.engine.transition import Situation
from midstream.migrate.jisc import successor
from midstream.migrate.strategy import Transition
from midstream.plan.tree import Plan


class MovingState:
    """Compute all states of the new plan before the next row is taken."""

    name = "moving-state"
    runs_beside = False

    def refusal(self, situation: Situation, plan: Plan) -> str | None:
        return None

    def begin(self, transition: Transition) -> Executor:
        executor = successor(transition)
        executor.filler.floor = transition.situation.floor
        transition.recorder.begin(executor.holes())
        executor.complete()
        transition.recorder.computed(executor.filler.rows_filled, executor.filler.entries_filled)
        transition.recorder.end()
        return executor
