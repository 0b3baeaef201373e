"""The published cost model: its equations to the letter, and where it is corrected."""

from __future__ import annotations

import pytest

from midstream.adapt.load import InputLoad, Load
from midstream.adapt.strategy_costs import (
    Costs,
    height,
    moving_state_length,
    new_join_rate,
    new_join_seconds,
    old_join_seconds,
    output_rate,
    parallel_track_length,
    state_rows,
)
from midstream.errors import EngineError
from midstream.plan import Join, Leaf, parse_plan

A, B, C, D = range(4)
OLD, NEW = parse_plan("((A B) C) D", "ABCD"), parse_plan("A ((B C) D)", "ABCD")
RATES = (7.0, 11.0, 13.0, 17.0)
W = 3.0
BC, BCD = 0.05, 0.02
COSTS = Costs(compare=2e-6, store=5e-6)


def load(window: float = W) -> Load:
    inputs = tuple(InputLoad(rate, window) for rate in RATES)
    return Load(inputs, {frozenset({B, C}): BC, frozenset({B, C, D}): BC * BCD, frozenset({A, B}): 0.1})


def equation_8(twice: int) -> float:
    _, b, c, d = RATES
    tj, ts = COSTS.compare, COSTS.store
    return b * c * W**2 * (tj + ts * BC) + twice * b * c * d * W**3 * (tj * BC + ts * BC * BCD)


def test_equation_8_as_printed_and_without_its_factor_of_two() -> None:
    printed = moving_state_length(OLD, NEW, load(), COSTS, as_printed=True)
    assert printed.seconds == pytest.approx(equation_8(twice=2))
    ours = moving_state_length(OLD, NEW, load(), COSTS)
    assert ours.seconds == pytest.approx(equation_8(twice=1))
    assert ours.entries == pytest.approx(11 * 13 * W**2 * BC + 11 * 13 * 17 * W**3 * BC * BCD)


def test_matching_and_moving_depend_on_the_number_of_joins_alone() -> None:
    costs = Costs(compare=0.0, store=0.0, compare_names=1.0, share=1.0)
    found = moving_state_length(OLD, NEW, load(), costs)
    assert (found.matching, found.moving, found.computing) == (4 * 3 * 3, 2 * 3, 0.0)


def test_an_equal_plan_computes_nothing() -> None:
    found = moving_state_length(OLD, parse_plan("D (C (B A))", "ABCD"), load(), COSTS)
    assert (found.seconds, found.entries) == (0.0, 0.0)


def test_the_pause_grows_as_a_polynomial_of_the_window() -> None:
    two, four = (moving_state_length(OLD, NEW, load(window), COSTS).computing for window in (2e3, 4e3))
    assert four / two == pytest.approx(8, rel=0.05)


def test_equation_2_is_exact_for_two_windows_and_the_rates_above_follow_little_s_law() -> None:
    below, above = Join(Leaf(B), Leaf(C)), Join(Join(Leaf(B), Leaf(C)), Leaf(D))
    assert output_rate(load(), below) == pytest.approx(2 * 11 * 13 * W * BC)
    assert output_rate(load(), below, as_printed=True) == output_rate(load(), below)
    for join, inputs in ((below, 2), (above, 3)):
        assert output_rate(load(), join) * W / inputs == pytest.approx(state_rows(load(), join))
        assert output_rate(load(), join) == pytest.approx(load().rate(join.inputs))
    assert output_rate(load(), above, as_printed=True) == pytest.approx(output_rate(load(), above) * 4 / 3)


def test_as_printed_needs_one_window() -> None:
    two_windows = Load((InputLoad(1.0, 1.0), InputLoad(1.0, 2.0)), {frozenset({0, 1}): 0.5})
    join = Join(Leaf(0), Leaf(1))
    assert state_rows(two_windows, join) == 1.0
    with pytest.raises(EngineError, match="one window"):
        state_rows(two_windows, join, as_printed=True)


def test_equation_4() -> None:
    single, high = parse_plan("A B", "AB"), OLD
    assert (height(single.root), height(high.root)) == (1, 3)
    assert parallel_track_length(W, single, "combined") == W
    assert parallel_track_length(W, high, "combined") == 2 * W
    assert parallel_track_length(W, high) == W


def test_equations_5_and_6_for_a_join_of_two_windows() -> None:
    join = Join(Leaf(B), Leaf(C))
    tj, ts = COSTS.compare, COSTS.store
    b, c = 11.0, 13.0
    steady = W * (2 * tj * b * c * W + 2 * ts * (b + c))
    assert old_join_seconds(load(), join, COSTS, 2 * W) == pytest.approx(2 * steady)
    filling = ts * W * (b + c) + tj * b * c * W**2
    assert new_join_seconds(load(), join, COSTS, W) == pytest.approx(filling)
    assert new_join_seconds(load(), join, COSTS, 2 * W) == pytest.approx(filling + steady)


def test_equation_7_is_continuous_and_sums_up_to_what_is_stored() -> None:
    join = Join(Leaf(B), Leaf(C))
    full = output_rate(load(), join)
    assert new_join_rate(load(), join, W) == pytest.approx(full)
    assert new_join_rate(load(), join, W / 2) == pytest.approx(full / 2)
    steps = 1_000
    stored = sum(new_join_rate(load(), join, W * (step + 0.5) / steps) * W / steps for step in range(steps))
    assert stored == pytest.approx(state_rows(load(), join))
    with pytest.raises(EngineError, match="Equation 7"):
        new_join_rate(load(), Join(join, Leaf(D)), W)


def test_an_index_saves_comparisons_but_no_entries() -> None:
    loops = load()
    indexed = Load(loops.inputs, loops.matching, {frozenset({B, C}): BC, frozenset({B, C, D}): BCD})
    slow, fast = (moving_state_length(OLD, NEW, access, COSTS) for access in (loops, indexed))
    assert fast.comparisons == pytest.approx(fast.entries) and fast.entries == slow.entries
    assert fast.seconds < slow.seconds
