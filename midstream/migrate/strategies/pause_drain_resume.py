"""Pause, drain, resume: the way of stateless operators. It works only if the new plan has the states of the old one."""

from __future__ import annotations

from midstream.engine.executors.protocol import Executor
from midstream.engine.transition import Proposal
from midstream.migrate.record import UNFILLED_ROWS
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategy import CostModel, Strategy, Transition


class PauseDrainResume(Strategy):
    """Swap children; anything else would wait for itself."""

    name = "pause-drain-resume"
    unit = UNFILLED_ROWS
    cost_model = CostModel.OVER_PUSHES

    def refusal(self, proposal: Proposal) -> str | None:
        if proposal.is_migrating:
            return "pause-drain-resume cannot start before the migration under way has ended"
        if proposal.moves_operators:
            return None
        computed = {change.shape.identity for change in proposal.state_changes() if change.fate == "computed"}
        plan = proposal.new
        missing = [join for join in plan.joins() if join.inputs in computed]
        if not missing:
            return None
        return (
            "pause-drain-resume would have to drain the old plan's states before the new plan starts, but "
            f"{plan.text(missing[0])} can only be filled from rows that are in those states, and rows leave them only "
            "as new ones arrive, which are paused: neither side can go first"
        )

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        return (
            "pause-drain-resume would have to drain the old plan before the new one starts, but what an operator that "
            "moves has to know can only be found from rows that stay in the windows, and rows leave them only as new "
            "ones arrive, which are paused: neither side can go first"
        )

    def begin(self, transition: Transition) -> Executor:
        return JustInTime().begin(transition)
