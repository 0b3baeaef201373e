"""Content: rows of different keys may take different ways.

As `cumulative`, but for each class of one key class. Which key class that is, and whether it pays at all to tell rows
apart, is reckoned with the same rates: what the classes would do by one common order, and what each by its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.policies.cumulative import accumulate
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
    #: By another key class than the first that is worth it, if that leaves at most this share: not to and fro.
    clearly_better = 0.75

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        known = field.rates(rates)
        if known is None:
            return Decision((field.by_plan,))
        common = field.weigh(known | accumulate(field.tree, known), known)
        best, least = Decision((common,)), self.worth
        for key_class, classes in sorted(rates.by_class.classes.items()):
            of_classes = [_rates_of(rates, key_class, number, known) for number in range(len(classes))]
            weights = tuple(_weigh(field.tree, found) for found in of_classes)
            together = apart = 0.0
            for share, found, own in zip(rates.by_class.settled_shares(key_class), of_classes, weights, strict=True):
                together += share * _expect(field.tree, found, tuple(common.items()))
                apart += share * _expect(field.tree, found, tuple(own.items()))
            if together and apart / together < least:
                best, least = Decision(weights, classes), self.clearly_better * apart / together
        return best


#: Rates, or weights, of all directions.
_Known = tuple[tuple[Direction, float], ...]


def _rates_of(rates: MatchRates, key_class: int, number: int, known: Mapping[Direction, float]) -> _Known:
    """The rates of one class; where its rows were not seen, those of all."""
    found = []
    for direction, rate in known.items():
        own = rates.by_class.rate(key_class, direction, number)
        found.append((direction, rate if own is None else own))
    return tuple(found)


# Rates of few classes move at a time: what follows from those of the others is remembered.
@lru_cache(maxsize=1 << 10)
def _weigh(tree: tuple[Edge, ...], rates: _Known) -> Weights:
    return dict(rates) | accumulate(tree, dict(rates))


@lru_cache(maxsize=1 << 10)
def _expect(tree: tuple[Edge, ...], rates: _Known, weights: _Known) -> float:
    """The combinations that one row of each input makes."""
    return expect_work(tree, dict(rates), dict.fromkeys((start for (start, _), _ in rates), 1.0), dict(weights))
