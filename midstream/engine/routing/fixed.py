"""Fixed: combinations go as the plan says, whatever the rates are."""

from __future__ import annotations

from midstream.engine.routing.policy import Field, Weights
from midstream.engine.routing.rates import MatchRates


class Fixed:
    """The order of the plan."""

    name = "fixed"
    looks_at_rates = False
    draws = False

    def weigh(self, field: Field, rates: MatchRates) -> Weights:
        return field.by_plan
