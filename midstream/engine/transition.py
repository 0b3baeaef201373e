"""What a change of plan finds when it begins, and what can be said about a change before anybody makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from midstream.cql.model import Query
from midstream.engine.executors.protocol import Executor, ExecutorKind
from midstream.engine.joins.comparison import StateChange, compare_states
from midstream.engine.operators.held import HeldBack
from midstream.kernels.types import SMALLEST
from midstream.plan.tree import Plan
from midstream.state import rings
from midstream.state.window import BaseWindow


@dataclass(frozen=True)
class Proposal:
    """A change to another plan, another kind of executor, or both, that somebody thinks about. Asking changes nothing.

    `latest_end` gives the largest end of any live row of a stream; it looks at all of them, so it is a function.
    """

    query: Query
    old: Plan
    new: Plan
    old_kind: ExecutorKind
    new_kind: ExecutorKind
    is_migrating: bool = False
    latest_end: Callable[[], int] = lambda: int(SMALLEST)

    def state_changes(
        self, entries: Callable[[frozenset[int]], float | None] = lambda identity: None
    ) -> tuple[StateChange, ...]:
        """What becomes of the states of both plans; `entries` tells how many one of them has."""
        held = self.old_kind.state_shapes(self.query, self.old)
        return compare_states(held, self.new_kind.state_shapes(self.query, self.new), entries)


@dataclass(frozen=True)
class Situation:
    """The query, the base windows, what runs, how far it has purged, and the stage that can hold results back."""

    query: Query
    windows: Sequence[BaseWindow]
    executor: Executor
    horizon: int
    held: HeldBack

    def propose(self, plan: Plan, kind: ExecutorKind) -> Proposal:
        """A change from what runs to a plan on a kind of executor."""
        running = self.executor
        is_migrating = any(True for _ in running.migrations())
        return Proposal(self.query, running.plan, plan, running.kind, kind, is_migrating, self.latest_end)

    def latest_end(self) -> int:
        """The largest end of any live row; static rows do not count."""
        latest = self.horizon
        for source, window in zip(self.query.inputs, self.windows, strict=True):
            if not source.is_static and len(window):
                latest = max(latest, int(rings.read(window.ends, window.head, window.tail).max()))
        return latest
