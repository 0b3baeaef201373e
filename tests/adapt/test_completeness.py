"""Complete states after an exchange: the closed forms against real plans, by enumeration and by Monte Carlo."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from midstream.adapt.completeness import (
    expected_complete_states,
    probability_of_distance,
    sum_harmonic,
    variance_of_complete_states,
)
from midstream.errors import EngineError
from midstream.plan import Join, Leaf, Node, Plan


def left_deep(order: list[int]) -> Plan:
    root: Node = Leaf(order[0])
    for number in order[1:]:
        root = Join(root, Leaf(number))
    return Plan(tuple(f"S{number}" for number in range(len(order))), root)


def complete_after_exchange(joins: int, low: int, high: int) -> int:
    """The states of a left-deep plan that it still has after the streams at two positions have changed places."""
    order = list(range(joins + 1))  # the stream at position k is number k; 0 is the other one at position 1
    old = {join.inputs for join in left_deep(order).joins()}
    order[low], order[high] = order[high], order[low]
    return sum(join.inputs in old for join in left_deep(order).joins())


@pytest.mark.parametrize("joins", range(2, 9))
def test_exact_moments_by_enumeration_of_all_exchanges(joins: int) -> None:
    pairs = list(combinations(range(1, joins + 1), 2))
    whole = sum(Fraction(1, high - low) for low, high in pairs)
    mean = second = Fraction(0)
    for low, high in pairs:
        share = Fraction(1, high - low) / whole
        complete = complete_after_exchange(joins, low, high)
        mean += share * complete
        second += share * complete**2
    assert whole == joins * (sum_harmonic(joins) - 1)
    assert expected_complete_states(joins) == mean
    assert variance_of_complete_states(joins) == second - mean**2


@pytest.mark.parametrize("joins", [2, 3, 7, 40, 200])
def test_the_forms_printed_in_the_paper_are_the_same(joins: int) -> None:
    h = sum_harmonic(joins)
    assert expected_complete_states(joins) == (2 * joins * h - 3 * joins + 1) / (2 * h - 2)
    printed = (2 * joins**2 * h - 5 * joins**2 + 6 * joins - 2 * h - 1) / (12 * (h - 1) ** 2)
    assert variance_of_complete_states(joins) == printed


@pytest.mark.parametrize("joins", [2, 5, 30])
def test_the_distances_have_the_moments_of_the_closed_forms(joins: int) -> None:
    shares = {distance: probability_of_distance(joins, distance) for distance in range(joins + 2)}
    assert sum(shares.values()) == 1
    assert shares[0] == shares[joins] == 0
    mean = sum(distance * share for distance, share in shares.items())
    assert expected_complete_states(joins) == joins - mean


@pytest.mark.parametrize("joins", [5, 50, 200])
def test_monte_carlo_agrees(joins: int) -> None:
    draws = 40_000
    rng = np.random.default_rng(joins)
    pairs = np.array(list(combinations(range(1, joins + 1), 2)))
    weights = 1.0 / (pairs[:, 1] - pairs[:, 0])
    drawn = pairs[rng.choice(len(pairs), draws, p=weights / weights.sum())]
    complete = joins - (drawn[:, 1] - drawn[:, 0])
    for low, high in drawn[:20]:
        assert complete_after_exchange(joins, int(low), int(high)) == joins - (high - low)
    mean, variance = float(expected_complete_states(joins)), float(variance_of_complete_states(joins))
    assert abs(complete.mean() - mean) < 5 * np.sqrt(variance / draws)
    assert complete.var() == pytest.approx(variance, rel=0.05)


def test_the_share_of_complete_states_goes_to_one_and_its_spread_to_zero() -> None:
    sizes = (10, 100, 1_000, 10_000)
    shares = [float(expected_complete_states(joins)) / joins for joins in sizes]
    spreads = [float(variance_of_complete_states(joins)) / joins**2 for joins in sizes]
    assert shares == sorted(shares) and shares[-1] > 0.94
    assert spreads == sorted(spreads, reverse=True) and spreads[-1] < 0.02
    # The distance to 1 is 1 / (2 ln n) in the limit.
    assert (1 - shares[-1]) * 2 * (float(sum_harmonic(10_000)) - 1) == pytest.approx(1.0, rel=1e-3)


def test_one_join_has_no_exchange() -> None:
    with pytest.raises(EngineError, match="at least 2"):
        expected_complete_states(1)
