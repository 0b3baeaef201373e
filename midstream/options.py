"""What an engine is told beside its query, checked once, for `Engine`, `restore` and `resume` alike.

A wrong value is refused here, when it is given, by an error that names the argument and what it may be. What passes
cannot fail later because of its type.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypedDict

from midstream.cql.durations import Duration, duration
from midstream.cql.model import Query
from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.registry import check_can_evict, check_routing, find_executor, go_by_routing
from midstream.engine.memory.limit import read_limit
from midstream.engine.routing.choice import RoutingRecord
from midstream.engine.routing.policy import Policy
from midstream.engine.routing.rates import MatchRates
from midstream.errors import EngineError, PlanError, QueryError, did_you_mean, shown
from midstream.migrate import STRATEGIES, Strategy, default_strategy, find_strategy
from midstream.plan import Plan, default_plan, fit_plan, read_plan
from midstream.tables import type_name

DEFAULT_LATE_LIMIT = 100_000

_CHOICES: dict[str, tuple[object, ...]] = {
    "strategy": tuple(strategy.name for strategy in STRATEGIES),
    "demand": ("off", "on", "auto"),
    "adaptive": (False,),
    "overload": ("refuse", "shed"),
    "late": ("count", "keep"),
}


class EngineKeywords(TypedDict, total=False):
    """The same as keywords of a call, for those who check types."""

    strategy: str | Strategy | None
    executor: str | ExecutorKind | None
    routing: str | Policy | RoutingRecord | None
    seed: int | None
    demand: str
    memory_limit: int | str | None
    overload: str
    adaptive: bool
    late: str
    late_limit: int
    max_jump: Duration | None


@dataclass(frozen=True)
class EngineOptions:
    """The keywords of an engine, as `Engine` describes them.

    The executor is None where a snapshot tells it; so are routing and seed, and where the executor's default holds. A
    record as routing has an engine go on with the routing of another.

    >>> EngineOptions(late="kept")
    Traceback (most recent call last):
    midstream.errors.EngineError: engine: late='kept' is not available; did you mean 'keep'? use 'count' or 'keep'
    >>> EngineOptions(max_jump="1 hour").longest_jump
    3600000000
    """

    strategy: str | Strategy | None = None
    executor: str | ExecutorKind | None = "tree"
    routing: str | Policy | RoutingRecord | None = None
    seed: int | None = None
    demand: str = "auto"
    memory_limit: int | str | None = None
    overload: str = "refuse"
    adaptive: bool = False
    late: str = "count"
    late_limit: int = DEFAULT_LATE_LIMIT
    max_jump: Duration | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, Strategy) and (name != "strategy" or value is not None):
                _check_choice(name, value, choices)
        if self.executor is not None:
            check_routing(find_executor(self.executor, "engine"), self.routing, "engine")
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise EngineError(f"engine: seed={shown(self.seed)}; give a whole number")
        limit = self.late_limit
        if isinstance(limit, bool) or not isinstance(limit, numbers.Integral) or limit < 0:
            raise EngineError(
                f"engine: late_limit={shown(limit)}; give how many rows to keep, a whole number from 0 on"
            )
        assert self.longest_jump is None or self.longest_jump >= 0
        assert self.most_bytes is None or self.most_bytes > 0
        if self.executor is not None and self.most_bytes is not None:
            check_can_evict(find_executor(self.executor, "engine"), "engine")

    @classmethod
    def of(cls, keywords: EngineKeywords) -> EngineOptions:
        """The options that a call was given."""
        known = [field.name for field in fields(cls)]
        for name in keywords:
            if name not in known:
                hint = did_you_mean(name, known)
                raise TypeError(f"engine: unknown keyword {name!r}; {hint}keywords: plan, tables, {', '.join(known)}")
        return cls(**keywords)

    def keywords(self) -> EngineKeywords:
        """The options as a call takes them.

        >>> EngineOptions.of(EngineOptions(late="keep").keywords()).late
        'keep'
        """
        given: Any = {field.name: getattr(self, field.name) for field in fields(self)}
        found: EngineKeywords = given
        return found

    def record(self, stored: RoutingRecord | None = None) -> RoutingRecord:
        """What there is to go on with of a routing: what was given, else what was stored, else nothing."""
        return self.routing if isinstance(self.routing, RoutingRecord) else stored or RoutingRecord()

    def kind(self, rates: MatchRates, stored: RoutingRecord | None = None) -> ExecutorKind:
        """The kind of executor with its routing: what was given, else what a snapshot was taken on, else defaults."""
        if self.executor is not None:
            kind = find_executor(self.executor, "engine")
        else:
            kind = find_executor("tree" if stored is None else stored.executor, "restore: the snapshot")
            check_routing(kind, self.routing, "restore")
        record, routing = self.record(stored), None if isinstance(self.routing, RoutingRecord) else self.routing
        tree = frozenset[tuple[int, int]]()
        if record.executor == kind.name:
            routing, tree = routing or record.policy, record.tree
        return go_by_routing(kind, routing, rates, self.strategy_on(kind).moves, tree)

    def strategy_on(self, kind: ExecutorKind) -> Strategy:
        """The strategy of migrations on a kind of executor, and of what its router changes."""
        return find_strategy(default_strategy(kind) if self.strategy is None else self.strategy, STRATEGIES, "engine")

    @property
    def rows_kept(self) -> int:
        """How many late and rejected rows of a stream are kept."""
        return self.late_limit if self.late == "keep" else 0

    @cached_property
    def most_bytes(self) -> int | None:
        """`memory_limit` in bytes."""
        return None if self.memory_limit is None else read_limit(self.memory_limit)

    @cached_property
    def longest_jump(self) -> int | None:
        """`max_jump` in microseconds."""
        try:
            return None if self.max_jump is None else duration(self.max_jump)
        except QueryError as problem:
            raise EngineError(f"engine: max_jump: {problem}") from None


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if any(isinstance(value, type(choice)) and value == choice for choice in choices):
        return
    hint = did_you_mean(value, [choice for choice in choices if isinstance(choice, str)])
    right = " or ".join(repr(choice) for choice in choices)
    raise EngineError(f"engine: {name}={shown(value)} is not available; {hint}use {right}")


def spell_out_keywords(function: Callable[..., object], **defaults: object) -> None:
    """Have `help` show a function's `**options` one by one, with these defaults, or those of `EngineOptions`."""
    plain = getattr(function, "__func__", function)  # of a class method, what it is made of
    given = inspect.signature(plain)
    others = [parameter for parameter in given.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    options = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, default=defaults.get(parameter.name, parameter.default))
        for parameter in inspect.signature(EngineOptions).parameters.values()
    ]
    plain.__dict__["__signature__"] = given.replace(parameters=[*others, *options])


def require_query(query: Query, call: str) -> Query:
    """The query that a call got, or an error that says what to give instead."""
    if not isinstance(query, Query):
        raise EngineError(f"{call}: got {type_name(query)}, not a query; make one with ms.query(text, schemas=...)")
    return query


def choose_plan(query: Query, plan: Plan | str | None) -> Plan:
    """The plan that was given, as text or as a tree, or the default one."""
    if plan is None:
        return default_plan(query)
    if isinstance(plan, Plan):
        return fit_plan(plan, query)
    if isinstance(plan, str):
        return read_plan(plan, query)
    raise PlanError(f"plan: got {shown(plan)}; write text such as '{default_plan(query)}', or give a Plan")
