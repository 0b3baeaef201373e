"""Pause, drain, resume: the way of stateless operators. It works only if the new plan has the states of the old one."""

from __future__ import annotations

from midstream.engine.executors.protocol import Executor
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.transition import Situation
from midstream.migrate.jisc import JustInTime
from midstream.migrate.strategy import Transition
from midstream.plan.tree import Plan


class PauseDrainResume:
    """Swap children; anything else would wait for itself."""

    name = "pause-drain-resume"
    runs_beside = False

    def refusal(self, situation: Situation, plan: Plan) -> str | None:
        if not isinstance(situation.executor, TreeExecutor):
            return "pause-drain-resume cannot start before the migration under way has ended"
        old = {node.inputs for node in situation.executor.plan.joins()}
        missing = [node for node in plan.joins() if node.inputs not in old]
        if not missing:
            return None
        return (
            "pause-drain-resume would have to drain the old plan's states before the new plan starts, but "
            f"{plan.text(missing[0])} can only be filled from rows that are in those states, and rows leave them only "
            "as new ones arrive, which are paused: neither side can go first"
        )

    def begin(self, transition: Transition) -> Executor:
        return JustInTime().begin(transition)
