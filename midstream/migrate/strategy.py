"""What a strategy is, and what it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from midstream.engine.executors.protocol import Executor, ExecutorKind, PlanExecutor
from midstream.engine.transition import Proposal, Situation
from midstream.migrate.record import Recorder
from midstream.plan.tree import Plan
from midstream.state.missing import Cause


@dataclass(frozen=True)
class Options:
    """What a caller may set: how many holes to fill after each push, or for how long; None is the default.

    `hold` keeps the new plan's results back until the old plan is dropped.
    """

    budget_holes: int | None = None
    budget_seconds: float | None = None
    hold: bool = False


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
        executor = self.kind.make(found.query, self.plan, found.windows, since)
        executor.start(Cause("restore"))
        return executor

    def successor(self, cause: Cause) -> PlanExecutor:
        """An executor of the new plan that keeps what it can of what runs; what it lacks, it lacks for this cause.

        An executor that knows only later rows hands nothing over: the base windows are enough.
        """
        found, running = self.situation, self.situation.executor
        executor = self.kind.make(found.query, self.plan, found.windows)
        executor.start(cause, running.hand_over() if running.knows_all_rows else ())
        return executor

    def tails(self) -> dict[int, int]:
        """The id that the next row of each stream will get; static tables are neither old nor new and left out."""
        inputs = zip(self.situation.query.inputs, self.situation.windows, strict=True)
        return {number: window.tail for number, (one, window) in enumerate(inputs) if not one.is_static}


class Strategy(Protocol):
    """A way to get from a running plan to another."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def runs_beside(self) -> bool:
        """Whether what ran goes on beside the new plan, so that there is one more plan at once."""

    def refusal(self, proposal: Proposal) -> str | None:
        """Why it cannot make this transition, or None; the caller is told which strategies can."""

    def begin(self, transition: Transition) -> Executor:
        """Make the transition; what runs from now on."""
