"""The beginning of a migration, from what a caller asks for to what runs from now on or a refusal; and what is left
of the migrations before it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from midstream.engine.executors.protocol import Executor
from midstream.errors import EngineError, did_you_mean, shown
from midstream.migrate.jisc import JustInTime
from midstream.migrate.record import Recorder
from midstream.migrate.strategy import Strategy, Transition

_logger = logging.getLogger("midstream")

#: Plans that run at once, at most. Every row goes through all of them, and a push costs about 0.3 times more with each:
#: with four it takes about twice as long, with sixteen three to ten times. The old plans of four migrations that
#: overlap are enough to compare strategies with.
MOST_PLANS = 4


def find_strategy(strategy: str | Strategy, strategies: Sequence[Strategy]) -> Strategy:
    """The strategy that users call so; one that is given itself need not be among those that have a name."""
    if isinstance(strategy, Strategy):
        return strategy
    names = [known.name for known in strategies]
    if isinstance(strategy, str) and strategy in names:
        return strategies[names.index(strategy)]
    hint = did_you_mean(strategy, names)
    raise EngineError(f"migrate: unknown strategy {shown(strategy)}; {hint}strategies: {', '.join(names)}")


def begin_migration(strategy: Strategy, transition: Transition, strategies: Sequence[Strategy]) -> Executor:
    """What runs from now on; an error that says which of the strategies work instead if this one cannot do it.

    A strategy that would have more than `MOST_PLANS` plans run at once gives way to jisc, and the record says so.
    """
    situation, proposal = transition.situation, transition.proposal
    refusal = strategy.refusal(proposal)
    if refusal is not None:
        *most, last = [other.name for other in strategies if other.refusal(proposal) is None]
        raise EngineError(f"migrate: {refusal}. Use {', '.join(most)} or {last}")
    if strategy.runs_beside and situation.executor.plans_at_once >= MOST_PLANS:
        note = f"{strategy.name} was asked for, but {MOST_PLANS} plans run at once already, the most there may be"
        strategy = JustInTime()
        transition.recorder.go_by(strategy.name, strategy.unit, note)
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
