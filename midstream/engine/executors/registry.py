"""All kinds of executors. A new one is a file beside this one and an entry here. And how one is given its routing."""

from __future__ import annotations

from collections.abc import Iterable

from midstream.cql.model import Query
from midstream.engine.executors.eddy.executor import Eddy, Stairs
from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.stems import Stems
from midstream.engine.executors.tree import Tree
from midstream.engine.routing.choice import Moves, RoutingChoice, RoutingRecord
from midstream.engine.routing.policies.cost import Cost
from midstream.engine.routing.policy import Policy
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.registry import find_policy
from midstream.errors import EngineError, find_named

EXECUTORS: tuple[ExecutorKind, ...] = (Tree(), Stems(), Eddy(), Stairs())


def executor_names() -> tuple[str, ...]:
    """What users call them; the first one is the default."""
    return tuple(kind.name for kind in EXECUTORS)


def find_executor(executor: str | ExecutorKind, call: str) -> ExecutorKind:
    """The kind that users call so; one that is given itself need not be among those that have a name.

    >>> find_executor("stems", "engine").name
    'stems'
    >>> find_executor("stem", "engine")
    Traceback (most recent call last):
    midstream.errors.EngineError: engine: unknown executor 'stem'; did you mean 'stems'? executors: tree, stems, eddy,
    stairs
    """
    if isinstance(executor, ExecutorKind):
        return executor
    return find_named(executor, EXECUTORS, "executor", "executors", call)


def check_routing(kind: ExecutorKind, routing: str | Policy | RoutingRecord | None, call: str) -> None:
    """An error if there is no such routing, or none on a kind of executor.

    >>> check_routing(find_executor("tree", "engine"), "rank", "engine")
    Traceback (most recent call last):
    midstream.errors.EngineError: engine: routing='rank' on tree, which follows its plan alone; leave the routing out,
    or give executor='stems', 'eddy' or 'stairs'
    """
    policy = _policy_of(routing, call)
    if policy is not None and kind.default_routing is None:
        others = _name_those(other for other in EXECUTORS if other.default_routing is not None)
        raise EngineError(
            f"{call}: routing={policy.name!r} on {kind.name}, which follows its plan alone; leave the routing out, or "
            f"give executor={others}"
        )


def check_can_evict(kind: ExecutorKind, call: str) -> None:
    """An error if executors of a kind cannot keep to a memory limit.

    >>> check_can_evict(find_executor("eddy", "engine"), "engine")
    Traceback (most recent call last):
    midstream.errors.EngineError: engine: executor 'eddy' cannot give up what it keeps, so that there can be no
    memory_limit; use executor='tree', 'stems' or 'stairs', or leave memory_limit out
    """
    if not kind.can_evict:
        others = _name_those(other for other in EXECUTORS if other.can_evict)
        raise EngineError(
            f"{call}: executor {kind.name!r} cannot give up what it keeps, so that there can be no memory_limit; "
            f"use executor={others}, or leave memory_limit out"
        )


def _name_those(kinds: Iterable[ExecutorKind]) -> str:
    *most, last = [repr(kind.name) for kind in kinds]
    return f"{', '.join(most)} or {last}"


def check_keys(query: Query, routing: str | Policy | RoutingRecord | None, call: str) -> None:
    """An error if a routing tells rows apart by their keys, and the query has none."""
    policy = _policy_of(routing, call)
    if policy is not None and not query.key_classes and policy.looks_at_content:
        raise EngineError(
            f"{call}: routing={policy.name!r} tells rows apart by a key that inputs share, and the query has no "
            f"equality that gives one; use routing={Cost.name!r}"
        )


def _policy_of(routing: str | Policy | RoutingRecord | None, call: str) -> Policy | None:
    given = routing.policy if isinstance(routing, RoutingRecord) else routing
    return None if given is None else find_policy(given, call)


def go_by_routing(
    kind: ExecutorKind,
    routing: str | Policy | None,
    rates: MatchRates,
    moves: Moves,
    tree: frozenset[tuple[int, int]] = frozenset(),
) -> ExecutorKind:
    """A kind of executor with its routing, or the default one; `moves` says how entries follow a router."""
    if kind.default_routing is None:
        return kind
    policy = find_policy(kind.default_routing if routing is None else routing, "routing")
    return kind.routed(RoutingChoice(policy, rates, moves, tree))
