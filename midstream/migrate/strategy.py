"""What a strategy is, what it declares, and what it is asked."""

from __future__ import annotations

import abc
import enum
from dataclasses import dataclass

from midstream.engine.executors.fragmented import make_executor
from midstream.engine.executors.protocol import Executor, ExecutorKind, PlanExecutor
from midstream.engine.lane import CatchUp, Lane
from midstream.engine.operators.held import HeldBack
from midstream.engine.routing.choice import Moves
from midstream.engine.transition import Proposal, Situation
from midstream.migrate.options import Option, Options
from midstream.migrate.record import Recorder
from midstream.plan.tree import Plan
from midstream.state.missing import Cause


class CostModel(enum.Enum):
    """When a strategy works and on what, which decides how `midstream.adapt` estimates its cost."""

    AT_ONCE = "computes the new states before the next push"
    OVER_PUSHES = "computes the new states as probes need them, and some after each push"
    BOTH_PLANS = "computes nothing, and runs both plans until the old rows are gone"
    SPLIT_TIME = "as BOTH_PLANS, but the new plan gets only rows that are valid after a split time"


@dataclass(frozen=True)
class Transition:
    """A change to a plan on a kind of executor in a situation, with its options and the recorder that follows it."""

    situation: Situation
    plan: Plan
    kind: ExecutorKind
    options: Options
    recorder: Recorder

    @property
    def proposal(self) -> Proposal:
        """What a strategy has to know to say whether it can do it."""
        return self.situation.propose(self.plan, self.kind)

    def fresh(self, since: dict[int, int]) -> PlanExecutor:
        """An executor of the new plan with empty states, which knows only rows from `since` on."""
        found = self.situation
        executor = make_executor(self.kind, found.query, self.plan, found.windows, since)
        executor.start(Cause("restore"))
        return executor

    def successor(self, cause: Cause) -> PlanExecutor:
        """An executor of the new plan that keeps what it can of what runs; what it lacks, it lacks for this cause.

        An executor that knows only later rows hands nothing over: the base windows are enough.
        """
        found, running = self.situation, self.situation.executor
        executor = make_executor(self.kind, found.query, self.plan, found.windows)
        executor.start(cause, running.hand_over() if running.knows_all_rows else ())
        return executor

    def successor_stage(self) -> tuple[HeldBack, CatchUp]:
        """A stage of the new plan that goes on from the oldest open step, and what it has to take for that.

        What the stages that run have taken for open steps is dropped: the base windows are enough.
        """
        found = self.situation
        return found.begin_stage(self.plan, found.lane.keeps_from(), self.plan.fragment_inputs)

    def tails(self) -> dict[int, int]:
        """The id that the next row of each stream will get; static tables are neither old nor new and left out."""
        inputs = zip(self.situation.query.inputs, self.situation.windows, strict=True)
        return {number: window.tail for number, (relation, window) in enumerate(inputs) if not relation.is_static}


class Strategy(abc.ABC):
    """A way to get from a running plan to another.

    A strategy says what it is in class attributes, and need not mention what it leaves as it is here.
    """

    #: The options of `migrate` that it has; others are refused.
    options: tuple[Option, ...] = ()
    #: How entries of STAIRs follow a router while the engine goes by this strategy.
    moves: Moves = Moves.IN_STAGES
    #: Whether what ran goes on beside the new plan, so that there is one more plan at once.
    runs_beside: bool = False

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What users call it."""

    @property
    @abc.abstractmethod
    def unit(self) -> str:
        """What `holes_left` of its migrations counts, in the plural."""

    @property
    @abc.abstractmethod
    def cost_model(self) -> CostModel:
        """How its cost is estimated."""

    def suits(self, kind: ExecutorKind) -> bool:
        """Whether it has to do with what a kind of executor keeps; one that does not is refused there."""
        return True

    def refusal(self, proposal: Proposal) -> str | None:
        """Why it cannot make this transition, or None; the caller is told which strategies can."""
        return None

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        """Why it cannot move operators, or None; asked beside `refusal` where operators move."""
        return f"{self.name} changes the order of joins alone, and here operators below joins move"

    def refusal_of_options(self, options: Options, proposal: Proposal) -> str | None:
        """Why it cannot make this transition with these options, or None; asked after `refusal`."""
        return None

    @abc.abstractmethod
    def begin(self, transition: Transition) -> Executor:
        """Make a transition in which no operator moves; the executor that runs from now on.

        What it cannot do it has refused before: an error in here closes the engine.
        """

    def begin_moving(self, transition: Transition) -> Lane:
        """Make a transition in which operators move; what runs from now on."""
        raise NotImplementedError(f"{self.name} refuses to move operators")

    def reason_against(self, proposal: Proposal) -> str | None:
        """Why it cannot make this transition, whether operators move or not; None if it can."""
        refusal = self.refusal(proposal)
        return self.refusal_to_move(proposal) if refusal is None and proposal.moves_operators else refusal

    def make(self, transition: Transition) -> Lane:
        """Make the transition, which it has not refused; what runs from now on."""
        if transition.proposal.moves_operators:
            return self.begin_moving(transition)
        return transition.situation.lane.run(self.begin(transition))
