"""What an executor is told about routing: by which policy, on what rates, and how entries follow it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from midstream.engine.routing.policies.fixed import Fixed
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
class RoutingRecord:
    """What has to be stored of an engine's routing for another to route as it would have done.

    `plan` is where the router began, `tree` has the pairs of inputs that rows go between, and `rates` is what was
    counted. `cell` tells engines apart that share the rows of one query. On another executor only the rates go on.
    """

    executor: str = "tree"
    policy: str | None = None
    plan: str | None = None
    tree: frozenset[tuple[int, int]] = frozenset()
    cell: int = 0
    rates: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"tree": sorted(self.tree)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RoutingRecord:
        """What `to_json` gave."""
        return cls(**{**stored, "tree": frozenset((left, right) for left, right in stored["tree"])})

    def recall_rates(self, rates: MatchRates, seed: int | None) -> None:
        """Have rates go on from what was counted. A seed that is given counts, else the one that was stored."""
        rates.cell = self.cell
        if self.rates is not None:
            rates.from_json(self.rates)
        if seed is not None:
            rates.seed = seed
