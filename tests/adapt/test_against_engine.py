"""The models against what a running engine does."""

from __future__ import annotations

import numpy as np
import pytest

import midstream as ms
from midstream.adapt import estimate, measure
from midstream.adapt.strategy_costs import moving_state_length
from midstream.migrate import STRATEGIES
from midstream.plan import Plan, parse_plan
from tests.adapt.streams import Streams, between, run_to

EQUAL = Streams(rates=(300.0,) * 4, windows=(4.0,) * 4, keys=500, seconds=16.0)
MIXED = Streams(rates=(400.0, 150.0, 250.0, 100.0), windows=(2.0, 6.0, 4.0, 5.0), keys=300, seconds=20.0, seed=3)
SMALL = Streams(rates=(80.0, 120.0, 100.0), windows=(5.0, 3.0, 4.0), keys=20, seconds=15.0, seed=5)
CASES = [(EQUAL, "A ((B C) D)"), (EQUAL, "(A B) (C D)"), (MIXED, "A ((B C) D)"), (MIXED, "((D C) B) A")]


def plans(streams: Streams, new: str) -> tuple[Plan, Plan]:
    left_deep = "(((A B) C) D)" if len(streams.names) == 4 else "((A B) C)"
    return parse_plan(left_deep, streams.names), parse_plan(new, streams.names)


def count_computed(streams: Streams, new: str) -> int:
    """The entries that Moving State computes, on average over three moments."""
    tables, old = streams.tables(), plans(streams, new)[0]
    entries = []
    for moment in (0.6, 0.8, 1.0):
        engine = ms.Engine(streams.query(), plan=str(old))
        run_to(engine, tables, moment * streams.seconds)
        entries.append(engine.migrate(new, "moving-state").entries)
    return round(float(np.mean(entries)))


@pytest.mark.parametrize(("streams", "new"), CASES)
def test_moving_state_computes_what_the_model_says_from_parameters(streams: Streams, new: str) -> None:
    found = estimate(streams.query(), *plans(streams, new))
    computed = [state for state in found.states if state.fate == "computed"]
    expected = sum(streams.load().rows(state.inputs) for state in computed)
    assert count_computed(streams, new) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("streams", "new"), CASES)
def test_moving_state_computes_what_was_estimated_from_earlier_rows(streams: Streams, new: str) -> None:
    old, target = plans(streams, new)
    sample = between(streams.tables(), 0.0, 0.5 * streams.seconds)
    measured = measure(streams.query(), old, target, sample)
    found = estimate(streams.query(), old, target, measured)
    by_name = {estimated.strategy: estimated for estimated in found.strategies}
    actual = count_computed(streams, new)
    assert by_name["moving-state"].entries == pytest.approx(actual, rel=0.15)
    assert by_name["jisc"].entries == by_name["moving-state"].entries
    assert by_name["moving-state"].pause is not None and 0 < by_name["moving-state"].pause < 60


def test_a_sample_shorter_than_the_window_is_extrapolated() -> None:
    streams = Streams(rates=(50.0,) * 3, windows=(30.0,) * 3, keys=40, seconds=60.0, seed=1)
    old, new = plans(streams, "A (B C)")
    measured = measure(streams.query(), old, new, between(streams.tables(), 0.0, 12.0))
    bc = frozenset({1, 2})
    assert measured.load.rows(bc) == pytest.approx(streams.load().rows(bc), rel=0.15)


def test_the_sample_ends_before_states_explode() -> None:
    streams = Streams(rates=(300.0,) * 3, windows=(60.0,) * 3, keys=2, seconds=10.0, seed=2)
    old, new = plans(streams, "A (B C)")
    measured = measure(streams.query(), old, new, streams.tables(), entries=50_000)
    assert measured.is_cut and measured.rows < measured.rows_given
    assert measured.load.match_rate({1, 2}) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("streams", [SMALL, Streams((60.0,) * 4, (3.0,) * 4, 10, 9.0, seed=7)])
def test_results_from_empty_windows_and_at_full_ones(streams: Streams) -> None:
    engine, tables, load = ms.Engine(streams.query()), streams.tables(), streams.load()
    everything = set(range(len(streams.rates)))
    longest = load.longest()
    for moment in (0.5 * longest, longest, streams.seconds):
        begin = (engine.stats().watermark or 0) / 1e6
        engine.push(between(tables, begin, moment), watermark=round(moment * 1e6))
        assert engine.stats().rows_out == pytest.approx(load.rows_from_empty(everything, moment), rel=0.15)
    steady = load.rows_from_empty(everything, 3 * longest) - load.rows_from_empty(everything, 2 * longest)
    assert steady == pytest.approx(load.rate(everything) * longest)


@pytest.mark.parametrize("strategy", ["parallel-track", "genmig", "genmig-reference-point"])
@pytest.mark.parametrize("streams", [EQUAL, MIXED], ids=["equal windows", "mixed windows"])
def test_two_plans_run_for_the_longest_window_and_at_most_one_push_more(streams: Streams, strategy: str) -> None:
    engine, tables = ms.Engine(streams.query(), plan="((A B) C) D"), streams.tables()
    begin, step = 8.0, 0.25
    run_to(engine, tables, begin)
    engine.migrate("A ((B C) D)", strategy)
    now = begin
    while engine.migration is not None and not engine.migration.is_done:
        engine.push(between(tables, now, now + step), watermark=round((now + step) * 1e6))
        now += step
    found = estimate(streams.query(), *plans(streams, "A ((B C) D)"))
    length = next(estimated.length for estimated in found.strategies if estimated.strategy == strategy)
    assert length == max(streams.windows) == streams.load().longest()
    # The last old row is a little older than the transition.
    assert length - 0.1 <= now - begin <= length + step


def test_a_delay_makes_the_old_rows_stay_longer() -> None:
    streams = Streams((100.0,) * 3, (4.0,) * 3, 20, 30.0, delay=2.0)
    engine, tables = ms.Engine(streams.query(), plan="(A B) C"), streams.tables()
    engine.push(between(tables, 0.0, 10.0))
    engine.migrate("A (B C)", "parallel-track")
    now = 10.0
    while engine.migration is not None and not engine.migration.is_done:
        engine.push(between(tables, now, now + 0.25))
        now += 0.25
    old, new = plans(streams, "A (B C)")
    (length,) = {
        estimated.length
        for estimated in estimate(streams.query(), old, new).strategies
        if estimated.manner == "two plans"
    }
    assert length == 6.0
    assert length - 0.1 <= now - 10.0 <= length + 0.35


@pytest.mark.parametrize("push_seconds", [0.1, 0.5])
def test_jisc_ends_within_the_estimated_pushes(push_seconds: float) -> None:
    old, new = plans(MIXED, "A ((B C) D)")
    tables = MIXED.tables()
    engine = ms.Engine(MIXED.query(), plan=str(old))
    run_to(engine, tables, 10.0)
    measured = measure(MIXED.query(), old, new, between(tables, 0.0, 10.0))
    push_rows = round(sum(MIXED.rates) * push_seconds)
    found = estimate(MIXED.query(), old, new, measured, push_rows=push_rows)
    pushes = next(estimated.pushes for estimated in found.strategies if estimated.strategy == "jisc")
    engine.migrate(str(new), "jisc")
    now = 10.0
    while engine.migration is not None and not engine.migration.is_done:
        engine.push(between(tables, now, now + push_seconds), watermark=round((now + push_seconds) * 1e6))
        now += push_seconds
    assert engine.migration is not None and pushes is not None
    assert 0 < engine.migration.batches <= pushes


def test_two_plans_make_more_entries_than_the_new_one_alone() -> None:
    old, new = plans(EQUAL, "A ((B C) D)")
    measured = measure(EQUAL.query(), old, new, EQUAL.tables())
    by_name = {estimated.strategy: estimated for estimated in estimate(EQUAL.query(), old, new, measured).strategies}
    load, full = EQUAL.load(), EQUAL.windows[0]
    steady = sum(load.rate(join.inputs) * full for join in new.joins())
    first_window = sum(load.rows(join.inputs) for join in new.joins())
    for name in ("parallel-track", "genmig", "genmig-reference-point"):
        assert by_name[name].entries_alone == pytest.approx(steady, rel=0.2)
        assert by_name[name].entries == pytest.approx(steady + first_window, rel=0.2)


def test_states_in_both_plans_are_kept_and_an_equal_plan_costs_nothing() -> None:
    old, new = parse_plan("((A B) C) D", "ABCD"), parse_plan("((A B) D) C", "ABCD")
    found = estimate(EQUAL.query(), old, new)
    assert [(state.name, state.fate) for state in found.states] == [
        ("(A B)", "kept"),
        ("((A B) D)", "computed"),
        ("((A B) C)", "given up"),
    ]
    same = estimate(EQUAL.query(), old, old)
    assert {state.fate for state in same.states} == {"kept"}
    by_name = {estimated.strategy: estimated for estimated in same.strategies}
    assert by_name["moving-state"].entries == by_name["jisc"].entries == by_name["pause-drain-resume"].entries == 0


def test_a_large_state_that_is_found_in_another_way_is_computed() -> None:
    streams = Streams(rates=(200.0,) * 4, windows=(4.0,) * 4, keys=80, seconds=6.0)
    old, new = parse_plan("((A B) C) D", "ABCD"), parse_plan("(C (B A)) D", "ABCD")
    measured = measure(streams.query(), old, new, streams.tables())
    states = estimate(streams.query(), old, new, measured).states
    assert [(state.name, state.fate) for state in states] == [("(B A)", "indexed anew"), ("(C (B A))", "computed")]


def test_every_strategy_has_a_model_or_a_reason() -> None:
    found = estimate(EQUAL.query(), *plans(EQUAL, "A ((B C) D)"))
    assert [estimated.strategy for estimated in found.strategies] == [
        strategy.name for strategy in STRATEGIES if strategy.name != "staged"
    ]
    (refused,) = [estimated for estimated in found.strategies if estimated.manner == "refused"]
    assert refused.strategy == "pause-drain-resume" and refused.refusal is not None


def test_costs_are_measured_and_the_pause_follows_from_them() -> None:
    old, new = plans(EQUAL, "A ((B C) D)")
    measured = measure(EQUAL.query(), old, new, EQUAL.tables())
    by_name = {estimated.strategy: estimated for estimated in estimate(EQUAL.query(), old, new, measured).strategies}
    assert measured.costs.start > 0 and measured.costs.store >= 0
    assert by_name["moving-state"].pause == moving_state_length(old, new, measured.load, measured.costs).seconds
