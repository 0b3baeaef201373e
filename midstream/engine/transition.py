"""What a change of plan finds when it begins, and what can be said about a change before anybody makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from midstream.cql.model import Query
from midstream.engine.executors.protocol import Executor, ExecutorKind
from midstream.engine.joins.backlog import Backlog
from midstream.engine.joins.comparison import StateChange, compare_states
from midstream.engine.lane import CatchUp, Lane
from midstream.engine.operators.held import HeldBack
from midstream.engine.operators.stage import Stage
from midstream.kernels.types import SMALLEST
from midstream.plan.tree import Plan
from midstream.state import rings
from midstream.state.window import BaseWindow


@dataclass(frozen=True)
class Proposal:
    """A change to another plan, another kind of executor, or both, that somebody thinks about. Asking changes nothing.

    `latest_end` gives the largest end of any live row of a stream; it looks at all of them, so it is a function.
    `is_moving` tells that operators are on their way already.
    """

    query: Query
    old: Plan
    new: Plan
    old_kind: ExecutorKind
    new_kind: ExecutorKind
    is_migrating: bool = False
    latest_end: Callable[[], int] = lambda: int(SMALLEST)
    is_moving: bool = False

    @property
    def moves_operators(self) -> bool:
        """Whether operators below joins stand elsewhere in the new plan, or are still on their way."""
        return self.is_moving or self.old.skeleton != self.new.skeleton

    def state_changes(
        self, entries: Callable[[frozenset[int]], float | None] = lambda identity: None
    ) -> tuple[StateChange, ...]:
        """What becomes of the states of both plans; `entries` tells how many one of them has."""
        held = self.old_kind.state_shapes(self.query, self.old)
        return compare_states(held, self.new_kind.state_shapes(self.query, self.new), entries)


def begin_at(stage: Stage, moment: int) -> None:
    """Have a stage go on where another has ended; what it has of closed steps, of static tables, is out."""
    for _ in stage.advance(moment):
        pass


class MayFill(Protocol):
    """Whether there is memory to fill what nobody has asked for yet."""

    def __call__(self, beginning: Executor | None = None) -> bool: ...


@dataclass(frozen=True)
class Situation:
    """The query, the base windows, what runs, how far it has purged, and how to make the stage of a plan.

    `may_fill` tells, also later on, whether there is memory to fill what nobody has asked for yet; while a transition
    begins, it is given the executor that is to take over. Only if memory `is_limited` can the answer be no.
    """

    query: Query
    windows: Sequence[BaseWindow]
    lane: Lane
    horizon: int
    make_stage: Callable[[Plan], HeldBack]
    may_fill: MayFill = lambda beginning=None: True
    is_limited: bool = False

    @property
    def executor(self) -> Executor:
        """What runs the plan, or the plan that a migration leads to."""
        return self.lane.executor

    @property
    def held(self) -> HeldBack:
        """The stage that can hold results back."""
        return self.lane.held

    def propose(self, plan: Plan, kind: ExecutorKind) -> Proposal:
        """A change from what runs to a plan on a kind of executor."""
        running = self.executor
        is_migrating = any(True for _ in self.lane.migrations())
        return Proposal(
            self.query, running.plan, plan, running.kind, kind, is_migrating, self.latest_end, self.lane.is_moving
        )

    def begin_stage(self, plan: Plan, moment: int, fragments: Iterable[tuple[int, ...]]) -> tuple[HeldBack, CatchUp]:
        """A stage for a plan that begins at a moment, and what it has to take of the rows that the windows hold.

        That is the results of some fragments, given by their inputs.
        """
        stage = self.make_stage(plan)
        begin_at(stage, moment)
        return stage, CatchUp(stage, Backlog(self.query, self.windows, fragments))

    def latest_end(self) -> int:
        """The largest end of any live row; static rows do not count."""
        latest = self.horizon
        for source, window in zip(self.query.inputs, self.windows, strict=True):
            if not source.is_static and len(window):
                latest = max(latest, int(rings.read(window.ends, window.head, window.tail).max()))
        return latest
