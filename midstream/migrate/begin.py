"""The beginning of a migration, from what a caller asks for to what runs from now on or a refusal; and what is left
of the migrations before it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from midstream.engine.executors.protocol import Executor
from midstream.engine.lane import Lane
from midstream.errors import EngineError, find_named, shown
from midstream.migrate.options import OPTIONS, Option, Options
from midstream.migrate.record import Recorder
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategy import Strategy, Transition
from midstream.plan.tree import Plan

_logger = logging.getLogger("midstream")

#: Plans that run at once, at most. Every row goes through all of them, and a push costs about 0.3 times more with each:
#: with four it takes about twice as long, with sixteen three to ten times. The old plans of four migrations that
#: overlap are enough to compare strategies with.
MOST_PLANS = 4


def find_strategy(strategy: str | Strategy, strategies: Sequence[Strategy], call: str = "migrate") -> Strategy:
    """The strategy that users call so; one that is given itself need not be among those that have a name."""
    if isinstance(strategy, Strategy):
        return strategy
    return find_named(strategy, strategies, "strategy", "strategies", call)


def read_options(given: Mapping[str, object], strategy: Strategy, strategies: Sequence[Strategy]) -> Options:
    """What the caller has given, by keyword; an error if a value is wrong.

    An option that the strategy does not declare is refused by name, because it would have no effect.
    """
    options = Options()
    for option in OPTIONS:
        value = given.get(option.name, option.default)
        if value is option.default:
            continue
        changes = option.read(value)
        if option not in strategy.options:
            raise EngineError(f"migrate: {_describe_misplaced(option, value, strategy, strategies)}")
        options = replace(options, **changes)
    return options


def _describe_misplaced(option: Option, value: object, strategy: Strategy, strategies: Sequence[Strategy]) -> str:
    has = " and ".join(declared.name for declared in strategy.options) or "no options"
    right = " or ".join(f"strategy={other.name!r}" for other in strategies if option in other.options)
    return (
        f"{option.name}={shown(value)} is no option of {strategy.name}, which has {has}; "
        f"leave {option.name} out, or give {right}"
    )


def check_own_kind(executor: Executor, plan: Plan, strategy: str | None) -> None:
    """An error if what runs cannot go on by another plan on its own kind of executor, by a named strategy if any."""
    refusal = executor.refusal(plan, strategy)
    if refusal is not None:
        raise EngineError(f"migrate: {refusal}")


def choose_strategy(strategy: Strategy, transition: Transition, strategies: Sequence[Strategy]) -> Strategy:
    """The strategy that makes a transition; an error that says which ones work instead if this one cannot do it.

    A strategy that would have more than `MOST_PLANS` plans run at once gives way to jisc, and the record says so.
    """
    situation, proposal = transition.situation, transition.proposal
    refusal = strategy.reason_against(proposal)
    if refusal is not None:
        *most, last = [other.name for other in strategies if other.reason_against(proposal) is None]
        raise EngineError(f"migrate: {refusal}. Use {', '.join(most)} or {last}")
    misplaced = strategy.refusal_of_options(transition.options, proposal)
    if misplaced is not None:
        raise EngineError(f"migrate: {misplaced}")
    if strategy.runs_beside and situation.lane.plans_at_once >= MOST_PLANS:
        note = f"{strategy.name} was asked for, but {MOST_PLANS} plans run at once already, the most there may be"
        strategy = JustInTime()
        transition.recorder.go_by(strategy.name, strategy.unit, note)
        _logger.warning("midstream: the migration to %s goes by %s: %s", transition.plan, strategy.name, note)
    return strategy


def begin_migration(strategy: Strategy, transition: Transition) -> Lane:
    """What runs from now on. States are handed over, so that nothing can go on if it breaks off."""
    transition.situation.held.release()
    began = time.perf_counter()
    lane = strategy.make(transition)
    transition.recorder.spend(began)
    return lane


def give_way(recorders: Sequence[Recorder], migrations: Iterable[object]) -> None:
    """Migrations that are no part of what runs, and have not ended, were replaced by a later one."""
    under_way = list(migrations)
    for recorder in recorders:
        if not any(recorder is token for token in under_way):
            recorder.give_way()
