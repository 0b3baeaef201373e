"""What is counted of edges, and what policies make of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from midstream.engine.routing.classes import KeyClasses
from midstream.engine.routing.counts import HALF_LIFE
from midstream.engine.routing.edges import Edge
from midstream.engine.routing.policies.content import Content
from midstream.engine.routing.policies.cost import Cost
from midstream.engine.routing.policies.cumulative import Cumulative
from midstream.engine.routing.policies.fixed import Fixed
from midstream.engine.routing.policies.lottery import Lottery
from midstream.engine.routing.policies.rank import Rank
from midstream.engine.routing.policy import Decision, Field, Policy
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.router import Router
from midstream.plan.notation import parse_plan

# r - s - t - u
EDGES = (Edge(0, 1), Edge(1, 2), Edge(2, 3))
SIZES = dict.fromkeys(range(4), 100)


def make_field() -> Field:
    by_plan = {direction: place for place, edge in enumerate(EDGES) for direction in edge.directions}
    return Field(EDGES, EDGES, by_plan)


def make_rates(**found: float) -> MatchRates:
    """Rates by direction, written as in rs=0.5; what is not given finds one partner a row."""
    rates = MatchRates()
    for edge in EDGES:
        for start, end in edge.directions:
            rates.add((start, end), 1_000, 1_000 * found.get("rstu"[start] + "rstu"[end], 1.0), 100)
    rates.settle(EDGES, SIZES)
    return rates


def test_a_rate_is_partners_a_row() -> None:
    rates = make_rates(rs=0.5, tu=3.0)
    assert (rates.rate((0, 1)), rates.rate((2, 3)), rates.rate((1, 0))) == (0.5, 3.0, 1.0)
    assert rates.rate((0, 3)) is None


def test_what_is_old_is_forgotten() -> None:
    rates = make_rates(rs=8.0)
    rates.add((0, 1), HALF_LIFE, 6 * HALF_LIFE, 100)
    assert rates.weight((0, 1)) == 2 * HALF_LIFE
    rates.add((0, 1), HALF_LIFE, 5 * HALF_LIFE, 100)
    rates.settle(EDGES, SIZES)
    assert rates.rate((0, 1)) == pytest.approx(6.0)


def test_what_a_sample_contradicts_is_forgotten_at_once() -> None:
    rates = make_rates(rs=8.0)
    rates.add((0, 1), 64, 0, 100)
    rates.settle(EDGES, SIZES)
    assert rates.rate((0, 1)) == 0 and rates.weight((0, 1)) == 64


def test_few_partners_more_or_less_are_chance() -> None:
    rates = make_rates(rs=0.02)
    before = rates.version
    for found in (5, 0, 6, 1):
        rates.add((0, 1), 128, found, 100)
        rates.settle(EDGES, SIZES)
    assert rates.version == before and rates.weight((0, 1)) > HALF_LIFE


def test_rates_settle_together() -> None:
    """While windows fill, all rates grow, and what is compared must not be of different times."""
    rates = make_rates()
    for direction, found in (((0, 1), 1_200), ((1, 0), 1_400)):
        rates.add(direction, 1_000, found, 100)
    rates.settle(EDGES, SIZES)
    assert rates.rate((0, 1)) == pytest.approx(1.2, rel=0.02) and rates.rate((1, 0)) == pytest.approx(1.4, rel=0.02)


def test_the_plan_holds_if_others_save_little() -> None:
    for few, is_taken in ((0.9, False), (0.5, True)):
        rates = make_rates(st=few)
        for policy in (Rank(), Cumulative()):
            assert Router(policy, make_field(), rates).decide() is is_taken


def test_few_rows_tell_nothing_yet() -> None:
    rates = MatchRates()
    rates.add((0, 1), MatchRates.least_sampled - 1, 5, 100)
    rates.settle(EDGES, SIZES)
    assert rates.rate((0, 1)) is None
    rates.add((1, 0), 1, 0, 100)
    rates.settle(EDGES, SIZES)
    assert rates.rate((0, 1)) is not None


def test_an_end_without_rows_is_told_by_the_other() -> None:
    rates = MatchRates()
    rates.add((0, 1), 100, 50, 1_000)  # half a partner each for the 10 rows of r: five pairs
    rates.settle(EDGES, {0: 10, 1: 1_000})
    assert rates.rate((0, 1)) == 0.5
    assert rates.rate((1, 0)) == pytest.approx(0.005)


def test_a_window_that_has_grown_since_has_more_partners() -> None:
    """The rows of r have all come while s was small."""
    rates = MatchRates()
    rates.add((0, 1), 1_000, 500, 10)
    rates.settle(EDGES, {0: 100, 1: 10})
    assert rates.rate((0, 1)) == 0.5
    rates.settle(EDGES, {0: 100, 1: 1_000})
    assert rates.rate((0, 1)) == pytest.approx(50.0)


def test_what_was_found_in_a_smaller_window_counts_as_in_this_one() -> None:
    """A window four times as large holds four times the partners, which is no surprise and contradicts nothing."""
    rates = MatchRates()
    rates.add((0, 1), 100, 100, 100)
    rates.add((0, 1), 100, 400, 400)
    assert rates.weight((0, 1)) > 100
    rates.settle(EDGES, {0: 100, 1: 400})
    assert rates.rate((0, 1)) == pytest.approx(4.0)


def test_few_rows_that_found_many_tell_enough() -> None:
    rates = MatchRates()
    rates.add((0, 1), 2, 300, 1_000)
    assert rates.weight((0, 1)) >= MatchRates.least_sampled
    rates.settle(EDGES, {0: 100, 1: 1_000})
    assert rates.rate((0, 1)) == 150.0


def test_who_was_sampled_first_is_sampled_again_soon() -> None:
    rates = MatchRates()
    rates.add((0, 1), 128, 128, 100)
    rates.settle(EDGES, SIZES, [0])
    assert rates.patience(0) == 1


def test_what_was_sampled_while_nobody_was_there_tells_nothing() -> None:
    rates = MatchRates()
    rates.add((0, 1), 1_000, 0, 0)
    rates.settle(EDGES, {0: 100})
    assert rates.rate((0, 1)) == 0
    rates.add((1, 0), 100, 300, 100)
    rates.settle(EDGES, {0: 100, 1: 40})
    assert (rates.rate((1, 0)), rates.rate((0, 1))) == (3.0, pytest.approx(1.2))


def test_a_settled_rate_stays_while_it_moves_little() -> None:
    rates = make_rates(rs=1.0)
    before = rates.version
    rates.add((0, 1), 1_000, 1_200, 100)
    rates.settle(EDGES, SIZES)
    assert (rates.rate((0, 1)), rates.version) == (1.0, before)
    rates.add((0, 1), 1_000, 1_300, 100)
    rates.settle(EDGES, SIZES)
    assert rates.rate((0, 1)) == pytest.approx(1.3, rel=0.01) and rates.version > before


def test_rates_survive_a_snapshot() -> None:
    rates, restored = make_rates(rs=0.25, ut=7.0), MatchRates()
    rates.chunk = 12
    restored.from_json(json.loads(json.dumps(rates.to_json())))
    assert restored.to_json() == rates.to_json() and restored.rate((3, 2)) == 7.0


def test_an_input_is_sampled_less_often_while_nothing_surprises() -> None:
    rates = make_rates()
    waits = []
    for _ in range(6):
        rates.add((0, 1), 128, 128, 100)
        rates.settle(EDGES, SIZES, [0])
        waits.append(rates.patience(0))
    assert waits == [2, 4, 8, 16, 16, 16] and rates.patience(1) == 1
    restored = MatchRates()
    restored.from_json(json.loads(json.dumps(rates.to_json())))
    assert restored.patience(0) == 16
    rates.add((2, 3), 128, 0, 100)
    assert rates.patience(0) == 1, "what has changed for one may have changed for others"


def test_rank_goes_where_the_fewest_partners_are() -> None:
    router = Router(Rank(), make_field(), make_rates(sr=0.5, st=0.25, tu=4.0))
    assert router.decide()
    assert router.orders[0].index((1, 2)) < router.orders[0].index((1, 0))


def test_cumulative_looks_at_all_that_lies_beyond() -> None:
    """From t, s alone has few partners, but r beyond it has many: u first."""
    router = Router(Cumulative(), make_field(), make_rates(ts=0.25, sr=4.0, tu=0.5))
    assert router.decide()
    assert router.decision.weights[0][2, 1] == pytest.approx(1.0)
    assert router.orders[0].index((2, 3)) < router.orders[0].index((2, 1))


def test_fixed_never_changes() -> None:
    rates = make_rates(sr=0.0)
    router = Router(Fixed(), make_field(), rates)
    assert not router.decide()
    assert [direction for direction in router.orders[0] if direction[0] < direction[1]] == [(0, 1), (1, 2), (2, 3)]


def test_the_lottery_is_drawn_in_every_chunk_by_seed_and_number() -> None:
    def draw(seed: int, cell: int = 0) -> list[object]:
        rates = make_rates(sr=0.1, st=3.0)
        rates.seed, rates.cell = seed, cell
        router, orders = Router(Lottery(), make_field(), rates), []
        for rates.chunk in range(200):
            router.decide()
            orders.append(router.orders[0])
        return orders

    orders = draw(1)
    assert orders == draw(1) != draw(2) and orders != draw(1, cell=1)
    firsts = [order.index((1, 0)) < order.index((1, 2)) for order in orders]  # type: ignore[attr-defined]
    assert 0.85 < sum(firsts) / len(firsts) < 1.0


@pytest.mark.parametrize("policy", [Rank(), Cost(), Cumulative(), Lottery()])
def test_the_plan_holds_until_every_edge_was_seen(policy: Policy) -> None:
    rates = MatchRates()
    router = Router(policy, make_field(), rates)
    rates.add((0, 1), 1_000, 0, 100)
    rates.settle(EDGES, SIZES)
    router.decide()
    assert router.decision.weights == (router.field.by_plan,)


def test_shares_are_those_of_the_classes_that_were_decided_on() -> None:
    """Classes may be made anew while nobody decides: a plan that gets no rows keeps to those that it has."""
    rates = make_rates()
    router = Router(Content(), make_field(), rates)
    two = KeyClasses(0, bounds=(10,))
    router.decision, router.orders = Decision((router.field.by_plan,) * 2, two), router.orders * 2
    rates.by_class.see(0, np.arange(500, dtype=np.int64), are_numbers=True)
    assert len(rates.by_class.classes[0]) > 2
    assert router.shares == pytest.approx([0.02, 0.98]) and router.largest_class == 1
    plan = parse_plan("(((r s) t) u)", "rstu")
    report = router.report(plan, EDGES, lambda start, number: str(router.orders[number]))
    assert len(report.streams) == 8
