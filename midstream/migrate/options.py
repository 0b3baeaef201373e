"""The options of `migrate`: what may be given, and how it is read. A strategy declares those that it has."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from midstream.cql.durations import duration
from midstream.errors import EngineError, QueryError, shown


@dataclass(frozen=True)
class Options:
    """What a strategy is told: how many holes to fill after each push, or for how long; None is the default.

    `hold` keeps the new plan's results back until the old plan is dropped.
    """

    budget_holes: int | None = None
    budget_seconds: float | None = None
    hold: bool = False


@dataclass(frozen=True)
class Option:
    """A keyword of `migrate`, the value that is as good as none, and what a value changes in `Options`."""

    name: str
    default: object
    read: Callable[[Any], Mapping[str, Any]]


def _read_budget(budget: Any) -> Mapping[str, Any]:
    """A number of holes, or a time."""
    if isinstance(budget, str | datetime.timedelta):
        try:
            return {"budget_seconds": duration(budget) / 1e6}
        except QueryError as problem:
            raise EngineError(f"migrate: budget: {problem}") from None
    if isinstance(budget, bool) or not isinstance(budget, numbers.Integral) or budget < 0:
        raise EngineError(
            f"migrate: budget={shown(budget)}; give a whole number of holes from 0 on, or a time such as '5 ms'"
        )
    return {"budget_holes": int(budget)}


def _read_hold(hold: Any) -> Mapping[str, Any]:
    if not isinstance(hold, bool):
        raise EngineError(f"migrate: hold={shown(hold)}; give True or False")
    return {"hold": hold}


#: What is filled in the background after each push.
BUDGET = Option("budget", None, _read_budget)
#: Whether results of the new plan are held back.
HOLD = Option("hold", False, _read_hold)
OPTIONS = (BUDGET, HOLD)
