"""The options of `migrate`: what may be given, how it is read, and the refusal of what a strategy does not have.

A strategy declares the options that it has. One that is given to another strategy is refused by name, because it would
have no effect.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from midstream.cql.durations import duration
from midstream.errors import EngineError, QueryError, shown

if TYPE_CHECKING:
    from midstream.migrate.strategy import Strategy


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


def read_options(given: Mapping[str, object], strategy: Strategy, strategies: Sequence[Strategy]) -> Options:
    """What the caller has given, by keyword; an error if a value is wrong, or its option not one of the strategy's."""
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
