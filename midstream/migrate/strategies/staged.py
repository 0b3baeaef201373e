"""Staged: entries of STAIRs that a routing wants elsewhere move in slices, each once it has paid for itself.

When slices move is the executor's to say (`midstream.engine.executors.eddy.stages`); a migration only follows how much
is still misplaced. It may take long: what costs nothing where it is stays there until it expires.
"""

from __future__ import annotations

from midstream.engine.executors.protocol import Executor, ExecutorKind
from midstream.engine.lane import Lane, SingleLane
from midstream.engine.transition import Proposal
from midstream.migrate.options import Options
from midstream.migrate.record import MISPLACED_ENTRIES
from midstream.migrate.strategies.jisc import fill
from midstream.migrate.strategy import CostModel, Strategy, Transition

_NOTHING_BESIDE = Options(budget_holes=0)


class Staged(Strategy):
    """Go by the new routing, and leave it to the STAIRs when their entries move."""

    name = "staged"
    unit = MISPLACED_ENTRIES
    cost_model = CostModel.OVER_PUSHES

    def suits(self, kind: ExecutorKind) -> bool:
        return kind.moves_entries

    def refusal(self, proposal: Proposal) -> str | None:
        if self.suits(proposal.new_kind):
            return None
        return f"staged moves entries of STAIRs, and {proposal.new_kind.name} has none"

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        return None

    def begin(self, transition: Transition) -> Executor:
        return fill(transition, _NOTHING_BESIDE)

    def begin_moving(self, transition: Transition) -> Lane:
        """A new stage starts from the live results, as after a restore; some of them after each push."""
        stage, catch_up = transition.successor_stage()
        return SingleLane(fill(transition, _NOTHING_BESIDE), stage, catch_up)
