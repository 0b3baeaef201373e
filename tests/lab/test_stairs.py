"""The experiments on STAIRs at a small scale: their rows, and what is counted, which no load of the machine changes.

That each of them runs and is checked is tested with all others.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import midstream as ms
from midstream.engine.executors.eddy.executor import EddyExecutor
from midstream.lab import tpch
from midstream.lab.answers import Digest
from midstream.lab.bench import eddies, scenarios
from midstream.lab.definition import LabError, WrongAnswer
from midstream.lab.experiments import stairs_setups, stairs_tpch
from midstream.lab.experiments.stairs_lanes import (
    ADAPTIVE,
    BY_CONTENT,
    EDDY,
    STAGED,
    Relations,
    costs_of,
    race,
    tree,
)
from midstream.lab.experiments.stairs_reversed import make_relations
from midstream.lab.workload import batches


def whole(relations: Relations, name: str) -> pa.Table:
    return pa.concat_tables([batch[name] for batch in relations.pushes])


def partners(one: pa.Table, other: pa.Table, key: str) -> np.ndarray:
    """How many rows of another table each row finds."""
    keys, counts = np.unique(other[key].to_numpy(), return_counts=True)
    found = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    return np.array([found.get(value, 0) for value in one[key].to_pylist()])


def test_selectivities_change_places_half_way() -> None:
    relations = make_relations(1_000, 150, 3)
    r, s, t = (whole(relations, name) for name in "RST")
    for rows, many, few in ((slice(0, 500), (r, "a"), (t, "b")), (slice(500, 1_000), (t, "b"), (r, "a"))):
        assert set(partners(s, *many)[rows]) == {5}
        assert partners(s, *few)[rows].sum() == 500 / 50
    assert relations.answer.rows == 2 * 5 * 500 / 50
    assert all(sum(table.num_rows for table in batch.values()) == 150 for batch in relations.pushes)


def test_shuffled_rows_are_the_same_rows_and_both_halves_come_together() -> None:
    halves, shuffled = (make_relations(1_000, 150, 3, is_shuffled) for is_shuffled in (False, True))
    assert halves.answer.rows == shuffled.answer.rows and halves.answer != shuffled.answer
    for name in "RST":
        before, after = whole(halves, name), whole(shuffled, name)
        assert before["ts"] == after["ts"] and before.sort_by("v").drop("ts") == after.sort_by("v").drop("ts")
        assert 0.3 < np.mean(after["v"].to_numpy()[:500] < 500) < 0.7


def test_routing_by_content_looks_at_fewer_entries_on_shuffled_rows() -> None:
    plans = ("((R S) T)", "(R (S T))")
    starts = [*((tree(plan), plan) for plan in plans), (BY_CONTENT, plans[0])]
    points = race(make_relations(20_000, 2_000, 1, is_shuffled=True), starts, 1, "test")
    assert set(points[-1].ways["S"].split(" or ")) == {"((S T) R)", "((S R) T)"}
    costs = costs_of(points)
    assert min(costs[tree(plan).name].visited for plan in plans) > 1.5 * costs[BY_CONTENT.name].visited


def test_eddies_look_at_fewer_entries_than_any_plan() -> None:
    plans = ("((R S) T)", "(R (S T))")
    starts = [*((tree(plan), plan) for plan in plans), *((contender, plans[0]) for contender in ADAPTIVE)]
    costs = costs_of(race(make_relations(50_000, 6_000, 1), starts, 1, "test"))
    best = min(costs[tree(plan).name].visited for plan in plans)
    assert best > 1.2 * costs[STAGED.name].visited
    assert best > 1.2 * costs[EDDY.name].visited


def test_a_wrong_answer_ends_a_race() -> None:
    relations = make_relations(200, 100, 1)
    wrong = Relations(relations.query, relations.pushes, relations.answer + Digest(1, 1))
    with pytest.raises(WrongAnswer, match="STAIRs in lane 1 gives"):
        race(wrong, [(STAGED, "((R S) T)")], 1, "test")


def test_set_ups_are_joined_along_their_pairs_and_stay_small() -> None:
    for seed in range(30):
        setup = stairs_setups.draw_setup(seed)
        assert setup == stairs_setups.draw_setup(seed)
        assert len(setup.fan_outs) == len(setup.sizes) - 1 and all(0 < found < 10 for found in setup.fan_outs.values())
        assert sorted(name for name in setup.plan if name.isalpha()) == list(setup.names)


def test_a_set_up_has_the_fan_outs_that_were_drawn() -> None:
    setup = stairs_setups.draw_setup(3, 0.05)
    relations = stairs_setups.make_relations(setup, 500)
    assert [sum(table.num_rows for table in batch.values()) for batch in relations.pushes[:-1]] == [500] * (
        len(relations.pushes) - 1
    )
    for at, (pair, fan_out) in enumerate(setup.fan_outs.items()):
        small, large = sorted(pair, key=lambda number: setup.sizes[number])
        found = partners(whole(relations, setup.names[small]), whole(relations, setup.names[large]), f"j{at}")
        assert found.mean() == pytest.approx(fan_out, rel=0.3, abs=0.3)


def make_tables() -> dict[str, pa.Table]:
    """Ten customers, every second of whom is asked for, 200 orders, four lineitems each, shipped over years."""
    rng = np.random.default_rng(1)
    days = [datetime.date(1993, 1, 1) + datetime.timedelta(int(day)) for day in rng.integers(0, 1_800, 800)]
    balances = [Decimal("9500.00") if number % 2 else Decimal("10.00") for number in range(10)]
    tables = {
        "customer": {"custkey": range(10), "nationkey": [1] * 10, "acctbal": balances},
        "orders": {"orderkey": range(200), "custkey": rng.integers(0, 10, 200)},
        "lineitem": {"orderkey": np.repeat(np.arange(200), 4), "linenumber": [1, 2, 3, 4] * 200, "shipdate": days},
    }
    return tpch.arrange({name: pa.table({key: pa.array(found) for key, found in columns.items()})
                         for name, columns in tables.items()})  # fmt: skip


def test_lineitems_arrive_by_shipdate_and_tables_side_by_side() -> None:
    tables = make_tables()
    dates = tables["lineitem"]["shipdate"].to_pylist()
    assert dates == sorted(dates)
    times = np.concatenate([table["ts"].to_numpy() for table in tables.values()])
    assert sorted(times) == list(range(1_010))
    assert all(abs(np.median(table["ts"].to_numpy()) - 505) < 60 for table in tables.values())


def test_everyone_finds_the_lineitems_of_the_customers_asked_for() -> None:
    relations = stairs_tpch.make_relations(make_tables(), 100)
    assert relations.answer.rows > 50
    plans = ("((c o) l)", "(c (o l))")
    starts = [*((tree(plan), plan) for plan in plans), *((contender, plans[1]) for contender in ADAPTIVE)]
    race(relations, starts, 0, "test")
    assert len(stairs_tpch._run_held(relations, 0.5)) == len(stairs_tpch._HELD)


def test_the_program_that_makes_rows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch, "find_generator", lambda: None)
    with pytest.raises(LabError, match=r"tpchgen-cli .* is not installed; run: pip install 'midstream\[tpch\]'"):
        tpch.generate_tables(0.01)


def test_the_bench_of_eddies_compares_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eddies, "use_one_core", lambda: None)
    monkeypatch.setattr(eddies, "_ROUNDS", 1)
    screen = io.StringIO()
    eddies.run(1_000, Console(file=screen, width=200))
    shown = screen.getvalue()
    assert "4-way, clique" in shown and "4-way, star, 250 rows a batch: STAIRs, fixed order take" in shown
    assert "4-way, chain, 250 rows a batch: STAIRs, eight classes, two ways take" in shown
    assert "4-way, one key, 250 rows a batch: SteMs reach" in shown


@pytest.mark.parametrize("make", [scenarios.one_key, scenarios.chain, scenarios.star])
def test_the_bare_limits_find_what_the_engine_finds(make: Callable[..., scenarios.Scenario]) -> None:
    scenario = replace(make(4, 3_000, 1_000, 50_000.0, 0.02), entries=1 << 14)
    wanted = sum(ms.Engine(scenario.query).push(batch).num_rows for batch in batches(scenario.workload, 3_000))
    assert scenario.answer().results == wanted > 100
    for loop in (scenario.start_bare_tree(500), scenario.start_bare_stems(500)):
        assert sum(loop.take(begin, begin + 500) for begin in range(0, 3_000, 500)) == wanted


def test_rows_of_eight_classes_go_two_ways() -> None:
    scenario = scenarios.one_key(4, 2_000, 1_000, 50_000.0, 0.02)
    engine = ms.Engine(scenario.query, plan=scenario.plan, executor="stairs", routing=eddies.TwoWays(1_000))
    for batch in batches(scenario.workload, 500):
        engine.push(batch)
    (executor,) = engine._pipeline.lane.executors()
    assert isinstance(executor, EddyExecutor)
    orders = executor.guide.router.orders
    assert len(orders) == 8 and len(set(orders)) == 2 and orders[0] != orders[1]
    assert any(len(stair.states) > 1 for stair in executor.store.stairs.values()), "both ways leave something"
