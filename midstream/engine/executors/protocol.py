"""What an executor is: it runs a query between two pushes.

The pipeline owns the base windows and the order of a batch; the executor says what becomes of the rows. A migration
under way is an executor too: it wraps the executors that it runs. Whatever others need to know about an executor is a
question here, so that nobody has to look which class it is.

    ExecutorKind.make    ->  PlanExecutor, which runs one plan; nothing has changed yet
    PlanExecutor.start   ->  it takes the states that another executor has handed over, the rest of its own are missing
    Executor.process     ->  results, push by push
    Executor.hand_over   ->  its states, for the executor that follows

The *horizon* is the time before which everything is dead: the watermark, or an earlier time if the output stage still
needs rows. What ended before it is purged, and is neither found nor filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from midstream.cql.model import Query
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.comparison import StateShape
from midstream.engine.routing.choice import RoutingChoice
from midstream.engine.routing.report import RoutingReport
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan.tree import Plan
from midstream.state.join_state import JoinState
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow, Renumbering

#: An input, and the key classes of an index on its window.
IndexUsed = tuple[int, tuple[int, ...]]


class HandedOver(Protocol):
    """Something that an executor hands over. Who does not know what it is leaves it alone: base windows are enough."""

    @property
    def inputs(self) -> frozenset[int]:
        """The inputs whose rows it has."""


@dataclass(frozen=True)
class HeldState:
    """A join state that an executor hands over, with its entries and what is missing from it."""

    shape: StateShape
    state: JoinState

    @property
    def inputs(self) -> frozenset[int]:
        return self.shape.identity


@dataclass(frozen=True)
class FillCounts:
    """What filling missing combinations has taken so far: rows that were filled, and entries stored for them."""

    rows: int = 0
    entries: int = 0


class Holding(Protocol):
    """A join state whose entries can be given up: what is needed again is computed again. Only between chunks."""

    @property
    def state(self) -> JoinState:
        """The entries."""

    @property
    def stream(self) -> int:
        """The input by whose rows entries are given up."""

    @property
    def probes(self) -> int:
        """How many combinations have looked for partners here."""

    @property
    def is_off(self) -> bool:
        """Whether nothing is kept here for the time being."""

    @property
    def is_useful_in_part(self) -> bool:
        """Whether probes can use a part of the entries."""

    def evict(self, left: int, horizon: int) -> int:
        """Give up entries until so many are left at most, and the room that they took; how many there were.

        What ended before `horizon` is dead, and goes without being counted.
        """

    def evict_all(self) -> int:
        """Give up all entries; how many there were."""

    def switch_off(self) -> None:
        """Keep nothing here from now on."""

    def switch_on(self) -> None:
        """Keep entries here again."""


class Evicting(Protocol):
    """Keeps entries of joins that it can give up."""

    def holdings(self) -> Sequence[Holding]:
        """Its states, also those that are off; one that is still there is the same object as the last time."""

    def give_up_rest(self) -> int:
        """Give up everything that it can be without, also the least that states take; how many entries there were."""

    def heed(self, may_fill: Callable[[], bool] | None) -> None:
        """From now on ask this before computing ahead what nobody has asked for yet; None stands for no limit."""

    def work_without(self, number: int, neighbour: int) -> float:
        """What joins have done that rows of an input without a partner in another take part in, in lookups.

        It is shared among the inputs of the combinations: rows of several of them may be kept out of the same join.
        """

    def suspend(self, is_on: bool, is_adaptive: bool = False) -> bool:
        """From now on have combinations wait that have no partner further up, or let nothing wait any more.

        With `is_adaptive`, they wait only where that pays. True if windows have an index that it does not use any more.
        """


class Executor(Protocol):
    """Takes rows that have just entered the base windows and gives the results that they complete."""

    @property
    def kind(self) -> ExecutorKind:
        """The kind of the executor that runs, or that a migration leads to."""

    @property
    def plan(self) -> Plan:
        """The plan that runs, or that a migration leads to."""

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        """Results, their columns in the order of FROM; what ended before `horizon` is dead."""

    def purge(self, horizon: int) -> None:
        """Forget what can never matter again; the base windows have already done so."""

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""

    def after_push(self, horizon: int) -> Executor:
        """Work between two pushes; what runs from now on, itself or what it led to."""

    @property
    def plans_at_once(self) -> int:
        """How many plans each row goes through."""

    def migrations(self) -> Iterator[object]:
        """A token for each migration under way, the newest first; compare them by `is`."""

    @property
    def knows_all_rows(self) -> bool:
        """Whether its states stand for all rows of the windows, and not only for those from some ids on."""

    def indexes_used(self) -> Iterator[IndexUsed]:
        """The hash indexes of base windows that its plans probe; perhaps some of them twice."""

    def evicting(self) -> Iterator[Evicting]:
        """Those of the executors that run, it may be itself, that keep entries which they can give up."""

    def refusal(self, plan: Plan, strategy: str | None) -> str | None:
        """Why it cannot go on by this plan on its own kind, by the strategy that was named if one was; else None."""

    def routing_report(self) -> RoutingReport | None:
        """Which way rows take from input to input; None if they go as the plan says."""

    def hand_over(self) -> Sequence[HandedOver]:
        """Give away the states that another executor may go on with; this one is not to be used any more."""

    @property
    def nbytes(self) -> int:
        """The bytes that it holds beyond the base windows."""

    def state_stats(self) -> list[StateStats]:
        """The size of every join state."""


class PlanExecutor(Executor, Protocol):
    """Runs one plan. What is missing from its states can be filled on demand, in slices or at once."""

    def start(self, cause: Cause, handed_over: Sequence[HandedOver] = ()) -> None:
        """Begin to run: take what it can use of these states; what else its own should hold is missing for this cause.

        Until then nothing has changed. One that knows only later rows gets no states, and misses nothing.
        """

    def lacks_entries(self, cause: Cause) -> bool:
        """Whether something is missing for this cause."""

    def holes(self, cause: Cause) -> int:
        """Live rows whose combinations may be missing for this cause, summed over the states."""

    def missing_bytes(self) -> int:
        """The bytes of the records of what is missing."""

    @property
    def filled(self) -> FillCounts:
        """What filling has taken so far."""

    def fill_some(self, limit: int, horizon: int, cause: Cause) -> int:
        """Fill up to so many rows of one state that lacks entries for this cause; how many there were.

        What ended before `horizon` is dead.
        """

    def give_up(self, cause: Cause) -> None:
        """What is missing for this cause is filled on demand alone from now on."""

    def complete(self, cause: Cause, horizon: int) -> None:
        """Compute everything that is missing for this cause; what ended before `horizon` is dead."""


@runtime_checkable
class ExecutorKind(Protocol):
    """A way to run plans, and how to make an executor of it. A kind that is derived from this says what differs."""

    #: The routing policy it goes by unless another is named; None if it follows plans alone.
    default_routing: str | None = None
    #: Whether it keeps entries in places that a routing wants them in, and can move them.
    moves_entries: bool = False

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def can_evict(self) -> bool:
        """Whether it can keep to a memory limit: it gives up what it keeps beside the windows, or keeps nothing."""

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> PlanExecutor:
        """An executor that has yet to be started. It changes nothing.

        With `since`, it knows only rows from these ids on, by input; inputs that are not in it, static tables, it knows
        whole.
        """

    def routed(self, choice: RoutingChoice) -> ExecutorKind:
        """The same kind with a choice of routing; itself if it follows plans alone."""
        return self

    def state_shapes(self, query: Query, plan: Plan) -> tuple[StateShape, ...]:
        """The join states that an executor of this kind keeps for a plan."""
