"""What a policy is: from what was seen of the edges to weights of their directions. The lowest weight goes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from midstream.engine.routing.classes import KeyClasses
from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.trees import expect_work

Weights = Mapping[Direction, float]


@dataclass(frozen=True)
class Decision:
    """The weights of directions, for each class of rows if there are several; without the key, rows are of class 0.

    `reason` is for users, if the weights alone tell them little.
    """

    weights: tuple[Weights, ...]
    classes: KeyClasses | None = None
    reason: str = ""


@dataclass(frozen=True)
class Field:
    """The edges that combinations may take, a spanning tree of them, and the weights that the plan gives them.

    `keeps` says whether what is made on the way is stored, so that rows of all inputs have to go by one tree of joins.
    """

    edges: tuple[Edge, ...]
    tree: tuple[Edge, ...]
    by_plan: Weights
    keeps: bool = True
    #: Another order than the plan's is taken if it leaves less than this share of the work to rows of some input.
    worth: ClassVar[float] = 0.8

    def rates(self, rates: MatchRates) -> dict[Direction, float] | None:
        """The rates of all directions; None as long as one is not known."""
        found: dict[Direction, float] = {}
        for edge in self.edges:
            for direction in edge.directions:
                rate = rates.rate(direction)
                if rate is None:
                    return None
                found[direction] = rate
        return found

    def weigh(self, weights: Weights, rates: Mapping[Direction, float]) -> Weights:
        """These weights, or the plan's if they save little: to go to and fro between equals would only cost."""
        for start in {start for start, _ in rates}:
            by_plan, by_weights = (expect_work(self.edges, rates, {start: 1.0}, by) for by in (self.by_plan, weights))
            if by_weights < self.worth * by_plan:
                return weights
        return self.by_plan


@runtime_checkable
class Policy(Protocol):
    """A way to choose directions."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def looks_at_rates(self) -> bool:
        """Whether it needs samples; one that does not holds to the plan."""

    @property
    def looks_at_content(self) -> bool:
        """Whether it needs samples by class."""

    @property
    def draws(self) -> bool:
        """Whether it decides anew in every chunk, and not only when rates have moved."""

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        """The weight of each direction."""
