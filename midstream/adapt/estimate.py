"""What a change of plan would cost under each strategy, from a measured load; without one, what follows from the plans.

Strategies differ in when they work and on what:

    at once       computes the new states before the next push: a pause
    over pushes   computes them as probes need them, and some after each push
    two plans     computes nothing, but runs both plans until the old rows are gone

Each strategy declares which of the models below it follows.
All figures are estimates for full windows under a load that stays as it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from midstream.adapt.load import Inputs
from midstream.adapt.measure import Measured, find_lag
from midstream.adapt.strategy_costs import moving_state_length
from midstream.cql.model import Query
from midstream.engine.executors.registry import find_executor
from midstream.engine.joins.comparison import Fate
from midstream.engine.transition import Proposal
from midstream.migrate import STRATEGIES, CostModel, Strategy
from midstream.migrate.strategies.jisc import HOLES_PER_ROW, LEAST_HOLES
from midstream.plan.nodes import Join
from midstream.plan.tree import Plan, is_kept_for_operator

PUSH_ROWS = 10_000
_COMPUTED: Fate = "computed"
_GIVEN_UP: Fate = "given up"

Manner = Literal["at once", "over pushes", "two plans", "refused"]


@dataclass(frozen=True)
class StateChange:
    """What becomes of a join state, and how many entries it has; None if nothing was measured."""

    name: str
    inputs: Inputs
    fate: Fate
    entries: float | None


@dataclass(frozen=True)
class Estimate:
    """What one strategy would take; a figure that is not known is None.

    `pause` is in seconds of processing, `length` in seconds of event time, `pushes` the most that a migration spread
    over pushes takes. `entries` are computed for the migration's sake or, with two plans, made by both of them until
    it ends, where the new plan alone would make `entries_alone`.
    """

    strategy: str
    manner: Manner
    refusal: str | None = None
    pause: float | None = 0.0
    length: float | None = 0.0
    pushes: int | None = None
    entries: float | None = None
    entries_alone: float | None = None


@dataclass(frozen=True)
class MigrationEstimate:
    """A change of plan: what becomes of the states, and what each strategy would take."""

    old: Plan
    new: Plan
    states: tuple[StateChange, ...]
    strategies: tuple[Estimate, ...]
    measured: Measured | None
    push_rows: int


@dataclass(frozen=True)
class _Change:
    """What the models below look at. `computed` are the new plan's joins that need it, with the driver of each."""

    query: Query
    old: Plan
    new: Plan
    computed: Mapping[Join, int]
    measured: Measured | None
    push_rows: int

    def length(self) -> float | None:
        """Seconds until the old rows are gone; None if that depends on rates that are not known."""
        if self.measured is not None:
            return self.measured.load.longest()
        found = [relation.window.seconds(None) for relation in self.query.inputs if not relation.is_static]
        known = [seconds for seconds in found if seconds is not None]
        return max(known) + find_lag(self.query) / 1e6 if len(known) == len(found) else None


def estimate(
    query: Query,
    old: Plan,
    new: Plan,
    measured: Measured | None = None,
    *,
    push_rows: int = PUSH_ROWS,
    executors: tuple[str, str] = ("tree", "tree"),
    strategies: Sequence[Strategy] = STRATEGIES,
) -> MigrationEstimate:
    """What a change from one plan to another would cost under each strategy, at pushes of so many rows.

    `executors` are those that the old plan runs on and the new one would. A strategy that does not suit the new one is
    left out. Nothing is made or changed.

    >>> import midstream as ms
    >>> from midstream.lab.generate import common_key
    >>> from midstream.plan import parse_plan
    >>> work = common_key(streams=3, rows=10, window=60.0)
    >>> query = ms.query(work.text, work.schemas, work.event_time)
    >>> found = estimate(query, parse_plan("(A B) C", query.aliases), parse_plan("A (B C)", query.aliases))
    >>> [(state.name, state.fate) for state in found.states]
    [('(B C)', 'computed'), ('(A B)', 'given up')]
    >>> [(estimated.strategy, estimated.length) for estimated in found.strategies if estimated.manner == "two plans"]
    [('parallel-track', 60.0), ('genmig', 60.0), ('genmig-reference-point', 60.0)]
    """
    before, after = (find_executor(executor, "estimate") for executor in executors)
    proposal = Proposal(query, old, new, before, after)
    states, computed = _compare_states(proposal, measured)
    change = _Change(query, old, new, computed, measured, push_rows)
    found = []
    for strategy in (strategy for strategy in strategies if strategy.suits(after)):
        refusal = strategy.reason_against(proposal)
        if refusal is not None:
            found.append(Estimate(strategy.name, "refused", refusal, pause=None, length=None))
        else:
            found.append(_MODELS[strategy.cost_model](strategy.name, change))
    return MigrationEstimate(old, new, states, tuple(found), measured, push_rows)


def _compare_states(proposal: Proposal, measured: Measured | None) -> tuple[tuple[StateChange, ...], dict[Join, int]]:
    """What becomes of the states of two plans, and the joins to compute with the input that drives them."""

    def entries(state: Inputs) -> float | None:
        return None if measured is None else measured.load.rows(state)

    old, new = ({join.inputs: join for join in plan.joins()} for plan in (proposal.old, proposal.new))
    states: list[StateChange] = []
    computed: dict[Join, int] = {}
    for change in proposal.state_changes(entries):
        inputs = change.shape.identity
        if change.fate == "computed":
            computed[new[inputs]] = change.shape.driver
        name = proposal.old.text(old[inputs]) if change.fate == "given up" else proposal.new.text(new[inputs])
        states.append(StateChange(name, inputs, change.fate, entries(inputs)))
    if proposal.moves_operators:
        for plan, fate in ((proposal.new, _COMPUTED), (proposal.old, _GIVEN_UP)):
            kept = [node for node in plan.nodes() if is_kept_for_operator(plan, node)]
            states += [StateChange(plan.text(node), node.inputs, fate, entries(node.inputs)) for node in kept]
        # What a new stage has to know are all live results of the fragments.
        for fragment in proposal.new.fragments:
            if isinstance(fragment.root, Join):
                computed.setdefault(fragment.root, min(fragment.root.inputs))
    return tuple(states), computed


def _estimate_at_once(name: str, change: _Change) -> Estimate:
    if change.measured is None:
        nothing = 0.0 if not change.computed else None
        return Estimate(name, "at once", pause=nothing, entries=nothing)
    load, costs = change.measured.load, change.measured.costs
    found = moving_state_length(change.old, change.new, load, costs, computed=tuple(change.computed))
    return Estimate(name, "at once", pause=found.seconds, entries=found.entries)


def _estimate_over_pushes(name: str, change: _Change) -> Estimate:
    """At most: a row in a hole that is neither probed nor filled in the background expires in the end."""
    if not change.computed:
        return Estimate(name, "over pushes", pushes=0, entries=0.0)
    longest = change.length()
    if change.measured is None:
        return Estimate(name, "over pushes", length=longest)
    load = change.measured.load
    holes = sum(load.inputs[driver].rows for driver in change.computed.values())
    by_filling = math.ceil(holes / max(LEAST_HOLES, int(change.push_rows * HOLES_PER_ROW)))
    seconds_a_push = change.push_rows / change.measured.push_rate
    assert longest is not None
    by_expiry = math.inf if math.isinf(longest) else math.ceil(longest / seconds_a_push) + 1
    pushes = int(min(by_filling, by_expiry))
    length = min(pushes * seconds_a_push, longest)
    entries = sum(load.rows(join.inputs) for join in change.computed)
    return Estimate(name, "over pushes", length=length, pushes=pushes, entries=entries)


def _estimate_two_plans(name: str, change: _Change) -> Estimate:
    """The old plan goes on, and the new one starts with empty states."""
    length = change.length()
    if change.measured is None or length is None or math.isinf(length):
        return Estimate(name, "two plans", length=length)
    load = change.measured.load
    ramp = sum(load.rows_from_empty(join.inputs, length) for join in change.new.joins())
    return _estimate_both(name, change, length, ramp)


def _estimate_split_time(name: str, change: _Change) -> Estimate:
    """The new plan gets only rows that are still valid at the split time: what it holds then is all that it makes."""
    length = change.length()
    if change.measured is None or length is None or math.isinf(length):
        return Estimate(name, "two plans", length=length)
    load = change.measured.load
    return _estimate_both(name, change, length, sum(load.rows(join.inputs) for join in change.new.joins()))


def _estimate_both(name: str, change: _Change, length: float, ramp: float) -> Estimate:
    assert change.measured is not None
    rate = change.measured.load.rate
    before, after = (length * sum(rate(join.inputs) for join in plan.joins()) for plan in (change.old, change.new))
    return Estimate(name, "two plans", length=length, entries=before + ramp, entries_alone=after)


_MODELS: Mapping[CostModel, Callable[[str, _Change], Estimate]] = {
    CostModel.AT_ONCE: _estimate_at_once,
    CostModel.OVER_PUSHES: _estimate_over_pushes,
    CostModel.BOTH_PLANS: _estimate_two_plans,
    CostModel.SPLIT_TIME: _estimate_split_time,
}
