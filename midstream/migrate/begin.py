"""The beginning of a migration, from what a caller asks for to what runs from now on or a refusal; and what is left
of the migrations before it.
"""

from __future__ import annotations

import datetime
import logging
import numbers
import time
from collections.abc import Sequence

from midstream.cql.durations import Duration, duration
from midstream.engine.executors.protocol import Executor
from midstream.errors import EngineError, QueryError, did_you_mean, shown
from midstream.migrate.jisc import JustInTime
from midstream.migrate.record import Recorder
from midstream.migrate.strategy import Options, Strategy, Transition

_logger = logging.getLogger("midstream")

#: Plans that run at once, at most. Every row goes through all of them, and a push costs about 0.3 times more with each:
#: with four it takes about twice as long, with sixteen three to ten times. The old plans of four migrations that
#: overlap are enough to compare strategies with.
MOST_PLANS = 4


def named(name: str, strategies: Sequence[Strategy]) -> Strategy:
    """The strategy that users call so."""
    names = [one.name for one in strategies]
    if isinstance(name, str) and name in names:
        return strategies[names.index(name)]
    hint = did_you_mean(name, names)
    raise EngineError(f"migrate: unknown strategy {shown(name)}; {hint}strategies: {', '.join(names)}")


def options(budget: int | Duration | None, hold: bool, strategy: Strategy) -> Options:
    """What the caller has set: a budget as a number of holes or as a time, and whether results are held back."""
    if not isinstance(hold, bool):
        raise EngineError(f"migrate: hold={shown(hold)}; give True or False")
    if hold and strategy.name != "parallel-track":
        raise EngineError(f"migrate: hold=True goes with strategy='parallel-track' only, not with {strategy.name!r}")
    if budget is None:
        return Options(hold=hold)
    if isinstance(budget, str | datetime.timedelta):
        try:
            return Options(budget_seconds=duration(budget) / 1e6, hold=hold)
        except QueryError as problem:
            raise EngineError(f"migrate: budget: {problem}") from None
    if isinstance(budget, bool) or not isinstance(budget, numbers.Integral) or budget < 0:
        raise EngineError(
            f"migrate: budget={shown(budget)}; give a whole number of holes from 0 on, or a time such as '5 ms'"
        )
    return Options(budget_holes=int(budget), hold=hold)


def begun(strategy: Strategy, transition: Transition, strategies: Sequence[Strategy]) -> Executor:
    """What runs from now on; an error that says which of the strategies work instead if this one cannot do it.

    A strategy that would have more than `MOST_PLANS` plans run at once gives way to jisc, and the record says so.
    """
    situation, proposal = transition.situation, transition.proposal
    refusal = strategy.refusal(proposal)
    if refusal is not None:
        *most, last = [one.name for one in strategies if one.refusal(proposal) is None]
        raise EngineError(f"migrate: {refusal}. Use {', '.join(most)} or {last}")
    if strategy.runs_beside and situation.executor.plans_at_once >= MOST_PLANS:
        note = f"{strategy.name} was asked for, but {MOST_PLANS} plans run at once already, the most there may be"
        strategy = JustInTime()
        transition.recorder.go_by(strategy.name, note)
        _logger.warning("midstream: the migration to %s goes by %s: %s", transition.plan, strategy.name, note)
    situation.held.release()
    began = time.perf_counter()
    executor = strategy.begin(transition)
    transition.recorder.spend(began)
    return executor


def give_way(recorders: Sequence[Recorder], executor: Executor) -> None:
    """Migrations that are no part of what runs, and have not ended, were replaced by a later one."""
    under_way = list(executor.migrations())
    for recorder in recorders:
        if not any(recorder is token for token in under_way):
            recorder.give_way()
