"""Rank: next comes the input in which a combination finds the fewest partners.

For SteMs this makes the fewest combinations that any order of visits makes, if the edges are independent.
"""

from __future__ import annotations

from midstream.engine.routing.policy import Decision, Field
from midstream.engine.routing.rates import MatchRates


class Rank:
    """The lowest rate first."""

    name = "rank"
    looks_at_rates = True
    looks_at_content = False
    draws = False

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        known = field.rates(rates)
        return Decision((field.by_plan if known is None else field.weigh(known, known),))
