"""Fixed: combinations go as the plan says, whatever the rates are."""

from __future__ import annotations

from midstream.engine.routing.policy import Decision, Field
from midstream.engine.routing.rates import MatchRates


class Fixed:
    """The order of the plan."""

    name = "fixed"
    looks_at_rates = False
    looks_at_content = False
    draws = False

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        return Decision((field.by_plan,))
