"""Moving State: fill every hole at the transition, by the same code that fills on demand."""

from __future__ import annotations

from midstream.engine.course import Course, Situation
from midstream.migrate.jisc import successor
from midstream.migrate.strategy import Transition
from midstream.plan.tree import Plan

_ALL = 1 << 20


class MovingState:
    """Compute all states of the new plan before the next row is taken."""

    name = "moving-state"

    def refusal(self, situation: Situation, plan: Plan) -> str | None:
        return None

    def begin(self, transition: Transition) -> Course:
        executor = successor(transition)
        executor.filler.floor = transition.situation.floor
        transition.recorder.begin(executor.holes())
        for node in executor.joins():
            while node.state is not None and node.state.hole is not None:
                executor.filler.fill_some(node, _ALL)
        transition.recorder.batch(0, executor.filler.rows_filled, executor.filler.entries_filled, 0)
        transition.recorder.end()
        return executor
