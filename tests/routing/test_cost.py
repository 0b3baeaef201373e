"""Which tree of joins costs the least, and when it is worth going over to it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import pytest

from midstream.engine.routing.arrivals import Arrivals
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.policies.cost import Cost, Trees
from midstream.engine.routing.policy import Field
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.router import Router

Rates = Mapping[tuple[int, int], float]
Shares = Mapping[int, float]

# r - s - t
EDGES = (Edge(0, 1), Edge(1, 2))


def made_by_join(edges: Sequence[Edge], rates: Rates, shares: Shares, inputs: frozenset[int]) -> float:
    """What rows of these inputs make on a walk over all of them, edge by edge."""
    total = 0.0
    for start in inputs:
        made, reached = shares[start], {start}
        while reached != inputs:
            begin, end = next(
                (begin, end)
                for edge in edges
                for begin, end in edge.directions
                if begin in reached and end in inputs and end not in reached
            )
            made *= rates[begin, end]
            reached.add(end)
        total += made
    return total


def all_costs(edges: Sequence[Edge], rates: Rates, shares: Shares) -> Iterator[float]:
    """The cost of each order in which the edges may be joined."""
    for order in permutations(edges):
        part = {number: frozenset((number,)) for edge in edges for number in (edge.left, edge.right)}
        cost = 0.0
        for edge in order:
            joined = part[edge.left] | part[edge.right]
            part |= dict.fromkeys(joined, joined)
            cost += made_by_join(edges, rates, shares, joined)
        yield cost


@pytest.mark.parametrize("seed", range(40))
def test_no_tree_costs_less_than_the_best(seed: int) -> None:
    rng = random.Random(seed)
    inputs = rng.randint(2, 6)
    edges = [Edge(rng.randrange(number), number) for number in range(1, inputs)]
    rates = {way: rng.choice([0.0, rng.random(), 10 * rng.random()]) for edge in edges for way in edge.directions}
    shares = {number: rng.random() for number in range(inputs)}
    trees = Trees(edges, rates, shares)
    best = trees.find_best()
    assert best.cost == pytest.approx(min(all_costs(edges, rates, shares)))
    by_place = {way: place for place, edge in enumerate(best.edges) for way in edge.directions}
    assert trees.cost_of(by_place) == pytest.approx(best.cost)


def make_router(rates: MatchRates) -> Router:
    by_plan = {way: place for place, edge in enumerate(EDGES) for way in edge.directions}
    return Router(Cost(), Field(EDGES, EDGES, by_plan), rates)


def make_rates(found: Mapping[tuple[int, int], float], rows: Mapping[int, int]) -> MatchRates:
    rates = MatchRates()
    sample(rates, found, rows)
    return rates


def sample(rates: MatchRates, found: Mapping[tuple[int, int], float], rows: Mapping[int, int]) -> None:
    rates.next_chunk(rows)
    for way, rate in found.items():
        rates.add(way, 1_000, 1_000 * rate, 100)
    rates.settle(EDGES, dict.fromkeys(range(3), 100))


def first_edge(router: Router) -> Edge:
    weights = router.decision.weights[0]
    return min(EDGES, key=lambda edge: weights[edge.left, edge.right])


def test_rows_that_come_often_count_more() -> None:
    """A row of s finds more in t than in r, but rows of r come most, and find much in s."""
    found = {(0, 1): 4.0, (1, 0): 1.0, (1, 2): 2.0, (2, 1): 2.0}
    often, seldom = ({0: 1_000, 1: 100, 2: 100}, {0: 10, 1: 100, 2: 1_000})
    router = make_router(make_rates(found, often))
    assert router.decide() and first_edge(router) == EDGES[1]
    router = make_router(make_rates(found, seldom))
    assert not router.decide() and first_edge(router) == EDGES[0]


def test_where_next_to_nothing_is_found_the_tree_stays() -> None:
    """A hundredth of the combinations of hardly any is no reason to carry entries about."""
    router = make_router(make_rates({(0, 1): 0.02, (1, 0): 0.02, (1, 2): 0.0, (2, 1): 0.0}, {0: 50, 1: 50, 2: 50}))
    assert not router.decide()
    assert router.decision.weights == (router.field.by_plan,)


def test_of_two_trees_that_cost_about_the_same_the_plan_is_taken() -> None:
    found = {(0, 1): 4.0, (1, 0): 4.0, (1, 2): 1.0, (2, 1): 1.0}
    rows = dict.fromkeys(range(3), 100)
    rates = make_rates(found, rows)
    router = make_router(rates)
    assert router.decide() and first_edge(router) == EDGES[1]
    assert router.decision.reason == "4.67 combinations a row, 6.67 by the plan"
    for _ in range(8):
        sample(rates, found | {(0, 1): 1.1, (1, 0): 1.1}, rows)
    assert router.decide() and router.decision.weights == (router.field.by_plan,)


def test_inputs_that_are_pushed_in_turns_do_not_seem_to_come_and_go() -> None:
    arrivals = Arrivals()
    for number in range(40):
        arrivals.add({number % 4: 50_000})
    assert arrivals.settle()
    assert all(0.15 < share < 0.4 for share in arrivals.shares.values())
    for number in range(40, 48):
        arrivals.add({number % 4: 50_000})
        assert not arrivals.settle()
    for _ in range(8):
        arrivals.add({0: 50_000})
    assert arrivals.settle() and arrivals.shares[0] > 0.8
