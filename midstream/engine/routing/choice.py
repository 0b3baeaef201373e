"""What an executor is told about routing: by which policy, on what rates, and how entries follow it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from midstream.engine.routing.fixed import Fixed
from midstream.engine.routing.policy import Policy
from midstream.engine.routing.rates import MatchRates


class Moves(enum.Enum):
    """How entries of STAIRs get to where a new routing wants them."""

    IN_STAGES = "in slices, once they have paid for themselves"
    ON_DEMAND = "when a probe is about to read them"
    AT_ONCE = "before the next chunk"


@dataclass(frozen=True)
class RoutingChoice:
    """`tree` has the pairs of inputs of a spanning tree to go on with, where one was stored."""

    policy: Policy = field(default_factory=Fixed)
    rates: MatchRates = field(default_factory=MatchRates)
    moves: Moves = Moves.ON_DEMAND
    tree: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class StoredRouting:
    """What a snapshot tells about the executor that ran, and about its routing if it had one."""

    executor: str
    policy: str | None = None
    tree: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> StoredRouting:
        """From the record of a snapshot."""
        routing = meta.get("routing") or {}
        tree = frozenset((left, right) for left, right in routing.get("tree", ()))
        return cls(meta.get("executor") or "tree", routing.get("policy"), tree)
