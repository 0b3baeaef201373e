"""The beginning of a migration: from what a caller asks for to what runs from now on, or a refusal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from midstream.engine.course import Course, Situation
from midstream.errors import EngineError
from midstream.migrate.record import Recorder
from midstream.migrate.strategy import Options, Strategy, Transition
from midstream.plan.tree import Plan
from midstream.query.durations import duration


def named(name: str, strategies: Sequence[Strategy]) -> Strategy:
    """The strategy that users call so."""
    for one in strategies:
        if one.name == name:
            return one
    raise EngineError(f"migrate: unknown strategy {name!r}; strategies: {', '.join(one.name for one in strategies)}")


def options(budget: int | str | None, hold: bool, strategy: Strategy) -> Options:
    """What the caller has set: a budget as a number of holes or as a time, and whether results are held back."""
    if hold and strategy.name != "parallel-track":
        raise EngineError(f"migrate: hold=True goes with strategy='parallel-track' only, not with {strategy.name!r}")
    if budget is None:
        return Options(hold=hold)
    if isinstance(budget, str):
        return Options(budget_seconds=duration(budget) / 1e6, hold=hold)
    if isinstance(budget, bool) or budget < 0:
        raise EngineError(f"migrate: budget={budget!r}; give a number of holes from 0 on, or a time as text")
    return Options(budget_holes=budget, hold=hold)


def begun(strategy: Strategy, situation: Situation, plan: Plan, chosen: Options, recorder: Recorder) -> Course:
    """What runs from now on; an error that says what works instead if the strategy cannot do it."""
    refusal = strategy.refusal(situation, plan)
    if refusal is not None:
        raise EngineError(f"migrate: {refusal}")
    situation.held.release()
    began = time.perf_counter()
    course = strategy.begin(Transition(situation, plan, chosen, recorder))
    recorder.spend(began)
    return course
