"""What a migration tells about itself, the same for every strategy; and when it comes to an end."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa
import pytest

import midstream as ms
from midstream.migrate import Migration

from . import stories
from .changes import NAMES, fit_budget
from .follow import Follower
from .workload import NEW, OLD, SCHEMA, WINDOW, join_states, make_engine, push

TURNED = "(u (t (s r)))"
ROWS = 1_000


def target(strategy: str) -> str:
    return TURNED if strategy == "pause-drain-resume" else NEW


#: What is counted until a migration ends, where that is not rows in holes.
UNITS = {"parallel-track": "old rows", "genmig": "microseconds", "genmig-reference-point": "microseconds"}


@pytest.mark.parametrize("strategy", NAMES)
def test_the_record_of_a_migration(strategy: str) -> None:
    engine = make_engine(OLD)
    assert engine.migration is None
    for number in range(WINDOW):
        push(engine, number)
    events: list[Migration] = []
    record = engine.migrate(target(strategy), strategy, on_event=events.append)
    follower = Follower(events=events)
    follower.check_begun(record)
    assert (record.from_plan, record.to_plan, record.strategy) == (OLD, target(strategy), strategy)
    assert record.unit == UNITS.get(strategy, "unfilled rows")
    assert repr(record).endswith(f" of {record.holes_at_start:,} {record.unit} left>") or record.is_done
    for number in range(WINDOW, 3 * WINDOW):
        push(engine, number)
        follower.check_push(engine)
    done = engine.migration
    assert done is not None and done.is_done
    assert replace(done, seconds=0.0) == replace(events[-1], seconds=0.0)
    assert (done.holes_left, done.percent, done.bytes) == (0, 100.0, 0)
    assert done.batches <= WINDOW + 1
    assert done.seconds > 0
    ends_at_once = strategy in ("moving-state", "pause-drain-resume")
    assert [event.phase for event in events] == (["begun", "done"] if ends_at_once else ["begun", "running", "done"])
    assert (done.batches == 0) == ends_at_once
    assert (done.holes_at_start == 0) == (strategy == "pause-drain-resume")


@pytest.mark.parametrize("strategy", NAMES)
def test_a_migration_with_nothing_to_do_is_done_at_once_and_told_once(strategy: str) -> None:
    """To a plan with the same states, or before the first row."""
    engine = make_engine(OLD)
    events: list[str] = []
    for plan in (TURNED, OLD):  # the second finds nothing under way
        record = engine.migrate(plan, strategy, on_event=lambda event: events.append(event.phase))
        assert record.is_done, plan
    assert events == ["begun", "done"] * 2
    push(engine, 0)
    assert engine.migration == record
    assert events == ["begun", "done"] * 2


def test_each_migration_has_its_own_record() -> None:
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
    first: list[str] = []
    engine.migrate(NEW, "parallel-track", on_event=lambda event: first.append(event.to_plan))
    second = engine.migrate("((r s) (t u))", "parallel-track")
    assert engine.migration == second
    assert (second.from_plan, second.to_plan) == (NEW, "((r s) (t u))")
    for number in range(WINDOW, 3 * WINDOW):
        push(engine, number)
    assert set(first) == {NEW}
    assert len(first) == 3


@pytest.mark.parametrize("later", ["jisc", "moving-state"])
@pytest.mark.parametrize("earlier", ["jisc", "parallel-track", "genmig", "genmig-reference-point"])
def test_a_migration_that_another_one_replaces_has_an_end(earlier: str, later: str) -> None:
    """It is not done, and holds nothing any more; the end is told before the other one's beginning."""
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
    told: list[Migration] = []
    engine.migrate(NEW, earlier, on_event=told.append, **fit_budget(earlier, 0))
    push(engine, WINDOW)
    running = engine.migration
    assert running is not None and running.phase == "running"
    engine.migrate("((r s) (t u))", later, on_event=told.append)
    assert [(event.strategy, event.phase) for event in told[:4]] == [
        (earlier, "begun"),
        (earlier, "running"),
        (earlier, "replaced"),
        (later, "begun"),
    ]
    assert told[2] == replace(running, phase="replaced", bytes=0)
    assert (told[2].is_done, told[2].has_ended) == (False, True)
    for number in range(WINDOW + 1, 3 * WINDOW):
        push(engine, number)
    engine.finish()
    assert [event.phase for event in told if event.has_ended] == ["replaced", "done"]


def test_a_migration_inside_another_one_ends_with_it() -> None:
    """The holes of a static table do not expire; the plan that has them goes when parallel-track ends."""
    engine = with_static_tables("(((x r) y) s)")
    engine.push({name: pa.table([[1], [1], [0]], schema=SCHEMA) for name in "rs"})
    phases: list[str] = []
    engine.migrate("((r s) (x y))", "jisc", budget=0, on_event=lambda event: phases.append(event.phase))
    record = engine.migrate("((s r) (y x))", "parallel-track")
    assert phases == ["begun"] and not record.has_ended
    engine.push({}, watermark=1)
    assert phases == ["begun", "running"]
    engine.push({}, watermark=10_000_001)
    assert engine.migration is not None and engine.migration.is_done
    assert phases == ["begun", "running", "replaced"]


def test_a_failing_listener_of_a_replaced_migration_does_no_harm() -> None:
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)

    def listener(event: Migration) -> None:
        if event.phase == "replaced":
            raise RuntimeError(event.phase)

    engine.migrate(NEW, "parallel-track", on_event=listener)
    assert engine.migrate("((r s) (t u))", "moving-state").is_done


@pytest.mark.parametrize("strategy", ["genmig", "genmig-reference-point"])
def test_what_is_left_without_a_watermark_is_counted_from_the_oldest_row(strategy: str) -> None:
    engine = make_engine(OLD)
    for moment in (7_000_000, 5_000_000):  # s, t and u hold the watermark back
        engine.push({"r": pa.table([[1], [1], [moment]], schema=SCHEMA)})
    record = engine.migrate(NEW, strategy)
    assert (record.holes_left, record.percent) == (12_000_001, 0.0)
    for watermark, left in ((None, 12_000_001), (1, 12_000_001), (6_000_000, 11_000_001), (17_000_000, 1)):
        engine.push({}, watermark=watermark)
        assert engine.migration is not None
        assert engine.migration.holes_left == left, watermark
    engine.push({}, watermark=17_000_001)
    assert engine.migration.is_done


def with_static_tables(plan: str) -> ms.Engine:
    """Two streams r and s with windows of ten seconds, and two static tables x and y, all with one key."""
    rows = pa.table([list(range(ROWS)), list(range(ROWS)), [0] * ROWS], schema=SCHEMA)
    query = ms.query(
        "SELECT r.v AS a, s.v AS b FROM r [RANGE 10 SECONDS], s [RANGE 10 SECONDS], x, y "
        "WHERE r.k = s.k AND s.k = x.k AND x.k = y.k",
        schemas=dict.fromkeys("rsxy", SCHEMA),
        event_time="ts",
    )
    return ms.Engine(query, plan=plan, tables={"x": rows, "y": rows})


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "pause-drain-resume"])
def test_when_it_is_done_nothing_is_missing_of_static_tables_either(strategy: str) -> None:
    """Their rows never expire, so what nobody asks for would be missing for ever."""
    engine = with_static_tables("(((x r) y) s)")
    engine.push({name: pa.table([[1], [1], [0]], schema=SCHEMA) for name in "rs"}, watermark=0)
    engine.migrate("((r s) (x y))", strategy, **fit_budget(strategy, ROWS))
    for number in range(3):
        engine.push({}, watermark=10_000_001 + number)
    assert engine.migration is not None and engine.migration.is_done
    assert [state.holes for state in engine.stats().states if state.kind == "join"] == [0, 0]
    later = engine.migrate("((s r) (x y))", "jisc", budget=0)
    assert (later.holes_at_start, later.is_done) == (0, True)


@pytest.mark.parametrize("strategy", NAMES)
def test_time_is_counted_once(strategy: str) -> None:
    """However it is spread over calls, it cannot be more than what has passed."""
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
    began = time.perf_counter()
    engine.migrate(target(strategy), strategy)
    for number in range(WINDOW, 2 * WINDOW if strategy != "moving-state" else WINDOW):
        push(engine, number)
    assert engine.migration is not None
    assert 0 < engine.migration.seconds <= time.perf_counter() - began


def test_entries_are_counted() -> None:
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
    record = engine.migrate(NEW, "moving-state")
    assert record.entries == sum(rows for rows, _ in join_states(engine).values())
    assert record.rows == record.holes_at_start


@pytest.mark.parametrize("failing", ["begun", "running", "done"])
@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "pause-drain-resume"])
def test_a_listener_that_fails_does_no_harm(strategy: str, failing: str, caplog: pytest.LogCaptureFixture) -> None:
    """The migration is made and returned, the error is logged, later phases are told, and all results come."""
    told: list[str] = []

    def listener(event: Migration) -> None:
        told.append(event.phase)
        if event.phase == failing:
            raise RuntimeError(f"failed when it was {failing}")

    engine = stories.make_engine("((R U) (S T))", dict.fromkeys("RSTU", 100))
    stories.run(engine, "s1:a s2:b s3:c s4:d r1:d -> ((R S) (T U)) -> ")
    record = engine.migrate("((S R) (T U))", strategy, on_event=listener, **fit_budget(strategy, 0))
    assert record == engine.migration and str(engine.plan) == "((S R) (T U))"
    assert stories.run(engine, "t1:d@20 u1:d@21 r2:e@500") == [[], ["r1 s4 t1 u1"], []]
    assert told[0] == "begun" and told[-1] == "done"
    assert ("failed when it was " + failing in caplog.text) == (failing in told)


# How a budget decides when jisc ends ----------------------------------------------------------------------------------


def make_unprobed_engine() -> ms.Engine:
    """A thousand keys in r and s that no other stream will ever ask for, and no watermark to make them expire."""
    engine = make_engine("((r t) (s u))")
    rows = pa.table([list(range(ROWS)), list(range(ROWS)), list(range(ROWS))], schema=SCHEMA)
    engine.push({"r": rows, "s": rows}, watermark=0)
    return engine


def pushes_until_done(engine: ms.Engine, budget: int | str | None, most: int = 200) -> int | None:
    record = engine.migrate("((r s) (t u))", "jisc", budget=budget)
    assert record.holes_left == ROWS
    for number in range(1, most + 1):
        engine.push({})
        assert engine.migration is not None
        if engine.migration.is_done:
            return number
    return None


@pytest.mark.parametrize(("budget", "pushes"), [(ROWS, 1), (100, 10), (10, 100), ("1 hour", 1)])
def test_a_budget_is_kept(budget: int | str, pushes: int) -> None:
    assert pushes_until_done(make_unprobed_engine(), budget) == pushes


def test_by_default_it_ends_within_few_pushes_although_nothing_is_probed() -> None:
    pushes = pushes_until_done(make_unprobed_engine(), None)
    assert pushes is not None and pushes <= ROWS // 50


def test_without_a_budget_what_is_not_probed_stays_missing() -> None:
    engine = make_unprobed_engine()
    assert pushes_until_done(engine, 0) is None
    assert engine.migration is not None
    assert (engine.migration.holes_left, engine.migration.percent) == (ROWS, 0.0)


def test_without_a_budget_it_ends_when_the_rows_expire() -> None:
    engine = make_unprobed_engine()
    assert pushes_until_done(engine, 0, most=1) is None
    engine.push({}, watermark=10_000_000 + ROWS // 2)
    assert engine.migration is not None
    assert engine.migration.holes_left == ROWS // 2
    engine.push({}, watermark=10_000_000 + ROWS)
    assert engine.migration.is_done
    assert engine.migration.entries == 0
