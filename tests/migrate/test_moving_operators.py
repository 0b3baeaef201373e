"""Migrations in which DISTINCT moves below a join or out of there: how they go on, what they tell, who refuses."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.adapt import estimate, measure
from midstream.app.explain_migration import explain_migration
from midstream.migrate import STRATEGIES

from ..engine.test_lower_operators import CONDITIONS, SECOND, draw_rows, make_query

OLD, NEW, OTHER = "((a b) c)", "(distinct(a b) c)", "(distinct(a) (b c))"
NAMES = [strategy.name for strategy in STRATEGIES if strategy.name != "staged"]
MOVING = ["jisc", "moving-state", "genmig"]
PUSHES = 30


def run(changes: dict[int, tuple[str, str]], plan: str = OLD, **options: Any) -> tuple[list[list[str]], ms.Engine]:
    """The results of every push, with changes of plan before some of them, and the engine."""
    rng = random.Random(3)
    engine = ms.Engine(make_query(CONDITIONS[0]), plan=plan)
    found = []
    for number in range(PUSHES):
        if number in changes:
            to, strategy = changes[number]
            engine.migrate(to, strategy, **options)
        table = engine.push(draw_rows(rng, number / 2), watermark=int(max(0, number / 2 - 1) * SECOND))
        found.append(sorted(map(str, table.to_pylist())))
    return found, engine


@pytest.mark.parametrize("strategy", MOVING)
def test_no_result_changes_when_operators_move(strategy: str) -> None:
    expected, _ = run({})
    assert sum(map(len, expected)) > 100
    for changes in (
        {8: (NEW, strategy)},
        {6: (NEW, strategy), 12: (OLD, strategy)},
        {8: (NEW, strategy), 9: (OTHER, strategy), 11: ("((a c) b)", strategy)},
        {0: (NEW, strategy), 10: ("(c distinct(b a))", strategy), 12: (OTHER, "jisc")},
    ):
        found, engine = run(changes)
        assert found == expected, changes
        assert engine.migration is not None and engine.migration.is_done
        assert str(engine.plan) == list(changes.values())[-1][0]


@pytest.mark.parametrize("strategy", NAMES)
def test_joins_inside_of_fragments_change_by_every_strategy(strategy: str) -> None:
    """The operator stays where it is, and gets each combination once."""
    expected, _ = run({})
    found, engine = run({12: ("(c distinct(b a))", strategy)}, plan=NEW)
    assert found == expected
    assert str(engine.plan) == "(c distinct(b a))"
    assert engine.migration is not None and engine.migration.is_done


@pytest.mark.parametrize("strategy", [name for name in NAMES if name not in MOVING])
def test_who_cannot_move_operators_says_why_and_who_can(strategy: str) -> None:
    engine = ms.Engine(make_query(CONDITIONS[0]), plan=OLD)
    engine.push(draw_rows(random.Random(1), 0.0))
    with pytest.raises(ms.EngineError, match=rf"migrate: {strategy} .*Use jisc, moving-state or genmig$"):
        engine.migrate(NEW, strategy)
    assert str(engine.plan) == OLD and engine.migration is None


def test_a_strategy_of_ones_own_refuses_unless_it_says_how() -> None:
    class Own(type(STRATEGIES[0])):  # type: ignore[misc]
        name = "own"
        refusal_to_move = ms.migrate.Strategy.refusal_to_move

    engine = ms.Engine(make_query(CONDITIONS[0]), plan=OLD)
    with pytest.raises(ms.EngineError, match="own changes the order of joins alone, and here operators below joins"):
        engine.migrate(NEW, Own())


def test_jisc_tells_what_is_left_and_ends_at_the_latest_when_a_step_closes() -> None:
    engine = ms.Engine(make_query(CONDITIONS[0]), plan=OLD)
    rng = random.Random(2)
    for number in range(6):
        engine.push(draw_rows(rng, number / 10), watermark=0)
    record = engine.migrate(NEW, "jisc", budget=3)
    assert record.holes_left == record.holes_at_start == 24, "the rows of the input through which results are found"
    engine.push({}, watermark=0)
    assert engine.migration is not None and (engine.migration.holes_left, engine.migration.rows) == (21, 3)
    (output,) = (state for state in engine.stats().states if state.kind == "output")
    assert output.holes == 21
    engine.push({}, watermark=2 * SECOND)
    engine.push({})
    assert engine.migration.is_done and engine.migration.rows == 24


def test_genmig_ends_with_the_first_step_after_every_old_row() -> None:
    """The last old row ends at 6.5 seconds, and steps are of 2 seconds."""
    engine = ms.Engine(make_query(CONDITIONS[0]), plan=OLD)
    rows = [{"k": 1, "x": 1, "ts": int(1.5 * SECOND)}]
    engine.push({"a": rows, "b": rows, "c": rows}, watermark=1 * SECOND)
    record = engine.migrate(NEW, "genmig")
    assert (record.unit, record.holes_left) == ("microseconds", 8 * SECOND), "from the start of the oldest open step"
    ended = []
    for second in (3, 7, 8, 9):
        late = [{"k": 1, "x": 1, "ts": second * SECOND}]
        engine.push({"a": late, "b": late, "c": late}, watermark=second * SECOND)
        assert engine.migration is not None
        ended.append(engine.migration.is_done)
    assert ended == [False, False, True, True]
    assert sum(state.kind == "output" for state in engine.stats().states) == 1


def test_the_picture_of_an_engine_tells_that_the_old_plan_still_runs() -> None:
    rng, engine = random.Random(3), ms.Engine(make_query(CONDITIONS[0]), plan=OLD)
    engine.push(draw_rows(rng, 0))
    engine.migrate(NEW, "genmig")
    engine.push(draw_rows(rng, 1))
    drawn = engine._repr_html_()
    assert "The plan before it still runs: 1 state," in drawn and "no state" not in drawn


def test_a_snapshot_while_operators_move_goes_on_with_the_new_plan() -> None:
    expected, _ = run({})
    rng = random.Random(3)
    engine = ms.Engine(make_query(CONDITIONS[0]), plan=OLD)
    found = []
    for number in range(PUSHES):
        if number == 9:
            engine.migrate(OTHER, "genmig")
        if number == 12:
            engine = ms.Engine.restore(engine.query, engine.snapshot().to_bytes())
            assert str(engine.plan) == OTHER
        if number == 20:
            engine = ms.Engine.restore(engine.query, engine.snapshot().to_bytes(), plan=NEW)
        table = engine.push(draw_rows(rng, number / 2), watermark=int(max(0, number / 2 - 1) * SECOND))
        found.append(sorted(map(str, table.to_pylist())))
    assert found == expected


@pytest.mark.parametrize("is_measured", [False, True])
def test_what_a_move_would_cost_can_be_asked(is_measured: bool) -> None:
    query = make_query(CONDITIONS[0])
    plans = [ms.Engine(query, plan=plan).plan for plan in (OLD, NEW)]
    rng = random.Random(1)
    data: dict[str, Any] = {stream: [] for stream in "abc"}
    for number in range(20):
        for stream, rows in draw_rows(rng, number / 2).items():
            data[stream] += rows
    tables = {stream: pa.Table.from_pylist(rows) for stream, rows in data.items()}
    measured = measure(query, plans[0], plans[1], tables) if is_measured else None
    found = estimate(query, *plans, measured)
    refused = {strategy.strategy for strategy in found.strategies if strategy.refusal}
    assert refused == set(NAMES) - set(MOVING)
    fates = [(state.name, state.fate) for state in found.states]
    assert fates == [("(a b)", "given up"), ("distinct(a b)", "computed")]
    assert all((state.entries or 0) > 0 for state in found.states) is is_measured
    assert "parallel-track tells the results of both plans apart by their rows" in explain_migration(found)
