"""Lottery: every chunk draws its order, and directions with few partners have more tickets.

So every way is tried now and then, also one that looked bad: the first eddies routed like that.
"""

from __future__ import annotations

import math
import random

from midstream.engine.routing.policy import Decision, Field
from midstream.engine.routing.rates import MatchRates

#: What the rate of a direction without any partners counts as, so that others have a chance.
_LEAST = 0.05


class Lottery:
    """A race of directions: the expected time of each is its rate."""

    name = "lottery"
    looks_at_rates = True
    looks_at_content = False
    draws = True

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        known = field.rates(rates)
        if known is None:
            return Decision((field.by_plan,))
        drawing = random.Random(f"{rates.seed} {rates.cell} {rates.chunk}")
        tickets = sorted(known.items())
        return Decision(({way: -math.log(1 - drawing.random()) * max(rate, _LEAST) for way, rate in tickets},))
