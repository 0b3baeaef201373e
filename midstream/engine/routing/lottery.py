"""Lottery: every chunk draws its order, and directions with few partners have more tickets.

So every way is tried now and then, also one that looked bad: the first eddies routed like that.
"""

from __future__ import annotations

import math
import random

from midstream.engine.routing.policy import Field, Weights
from midstream.engine.routing.rates import MatchRates

#: What the rate of a direction without any partners counts as, so that others have a chance.
_LEAST = 0.05


class Lottery:
    """A race of directions: the expected time of each is its rate."""

    name = "lottery"
    looks_at_rates = True
    draws = True

    def weigh(self, field: Field, rates: MatchRates) -> Weights:
        known = field.rates(rates)
        if known is None:
            return field.by_plan
        drawing = random.Random(f"{rates.seed} {rates.cell} {rates.chunk}")
        return {
            direction: -math.log(1 - drawing.random()) * max(known[direction], _LEAST) for direction in sorted(known)
        }
