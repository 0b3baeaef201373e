"""Content: rows of different keys may take different ways.

As `cumulative`, but for each class of one key class. Which key class that is, and whether it pays at all to tell rows
apart, is reckoned with the same rates: what the classes would do by one common order, and what each by its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from midstream.engine.routing.counts import Direction
from midstream.engine.routing.cumulative import accumulate
from midstream.engine.routing.policy import Decision, Field, Weights
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.trees import expect_work


class Content:
    """The lowest product of rates for each class."""

    name = "content"
    looks_at_rates = True
    looks_at_content = True
    draws = False
    #: Rows are told apart if that leaves at most this share of the work.
    worth = 0.9

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        known = field.rates(rates)
        if known is None:
            return Decision((field.by_plan,))
        common = field.weigh(known | accumulate(field.tree, known), known)
        best, least = Decision((common,)), self.worth
        for key_class, classes in sorted(rates.by_class.classes.items()):
            of_classes = [_rates_of(rates, key_class, number, known) for number in range(len(classes))]
            weights = tuple(found | accumulate(field.tree, found) for found in of_classes)
            together = apart = 0.0
            for share, found, own in zip(rates.by_class.shares(key_class), of_classes, weights, strict=True):
                together += _work(field, found, common, share)
                apart += _work(field, found, own, share)
            if together and apart / together < least:
                best, least = Decision(weights, classes), apart / together
        return best


def _rates_of(
    rates: MatchRates, key_class: int, number: int, known: Mapping[Direction, float]
) -> dict[Direction, float]:
    """The rates of one class; where its rows were not seen, those of all."""
    found = {}
    for direction, rate in known.items():
        own = rates.by_class.rate(key_class, direction, number)
        found[direction] = rate if own is None else own
    return found


def _work(field: Field, rates: Mapping[Direction, float], weights: Weights, share: float) -> float:
    starts = {start for direction in rates for start in direction}
    return expect_work(field.tree, rates, dict.fromkeys(starts, share), weights)
