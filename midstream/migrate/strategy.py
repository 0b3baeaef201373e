"""What a strategy is, and what it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from midstream.engine.executors.protocol import Executor
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.transition import Situation
from midstream.migrate.record import Recorder
from midstream.plan.tree import Plan


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
    """A change to a plan in a situation, with its options and the recorder that follows it."""

    situation: Situation
    plan: Plan
    options: Options
    recorder: Recorder

    def fresh(self, since: dict[int, int] | None = None) -> TreeExecutor:
        """An executor of the new plan with empty states, which knows only rows from `since` on."""
        found = self.situation
        return TreeExecutor(found.query, self.plan, found.windows, since)

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

    def refusal(self, situation: Situation, plan: Plan) -> str | None:
        """Why it cannot make this transition, or None; the caller is told which strategies can."""

    def begin(self, transition: Transition) -> Executor:
        """Make the transition; what runs from now on."""
