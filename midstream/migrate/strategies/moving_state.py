"""Moving State: fill everything at the transition, by the same code that fills on demand.

Near the memory limit it stops: what is missing then is filled when probes need it.
"""

from __future__ import annotations

from midstream.engine.executors.protocol import Executor, PlanExecutor
from midstream.engine.lane import CatchUp, Lane, SingleLane
from midstream.engine.routing.choice import Moves
from midstream.engine.transition import Proposal, Situation
from midstream.migrate.record import UNFILLED_ROWS
from midstream.migrate.strategy import CostModel, Strategy, Transition
from midstream.state.missing import Cause

#: Rows filled between two looks at the memory that is left.
_SLICE = 512


class MovingState(Strategy):
    """Compute all states of the new plan before the next row is taken."""

    name = "moving-state"
    unit = UNFILLED_ROWS
    cost_model = CostModel.AT_ONCE
    moves = Moves.AT_ONCE

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        return None

    def begin(self, transition: Transition) -> Executor:
        return _complete(transition, None)

    def begin_moving(self, transition: Transition) -> Lane:
        """A new stage takes all live results at once."""
        stage, catch_up = transition.successor_stage()
        return SingleLane(_complete(transition, catch_up), stage)


def _complete(transition: Transition, catch_up: CatchUp | None) -> Executor:
    cause = Cause("migration")
    executor = transition.successor(cause)
    waiting = 0 if catch_up is None else len(catch_up)
    transition.recorder.begin(executor.holes(cause) + waiting)
    _fill_while_it_fits(executor, cause, transition.situation)
    rows, entries = executor.filled.rows, executor.filled.entries
    if catch_up is not None:
        catch_up.take_all()
        rows, entries = rows + catch_up.rows, entries + catch_up.results
    transition.recorder.count_computed(rows, entries)
    transition.recorder.end()
    return executor


def _fill_while_it_fits(executor: PlanExecutor, cause: Cause, situation: Situation) -> None:
    """Compute what is missing, or as much of it as there is memory for."""
    if not situation.is_limited:
        executor.complete(cause, situation.horizon)
    while executor.lacks_entries(cause):
        if not situation.may_fill(executor):
            executor.give_up(cause)
            return
        executor.fill_some(_SLICE, situation.horizon, cause)
