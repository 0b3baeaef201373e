"""State stays bounded: during a migration at most what both plans hold, afterwards what the new plan alone holds."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest

import midstream as ms

from .changes import NAMES, fit_budget
from .follow import check_states
from .workload import NEW, OLD, WINDOW, batch, join_states, make_engine, push

TURNED = "(u (t (s r)))"
#: Rings double when they grow, and shrink late.
ROUNDING = 2
#: Dead entries that wait to be collected.
SLACK = 64


def target(strategy: str) -> str:
    return TURNED if strategy == "pause-drain-resume" else NEW


@pytest.mark.parametrize("strategy", NAMES)
def test_state_is_bounded_and_old_states_are_freed(strategy: str) -> None:
    engine, old, new = make_engine(OLD), make_engine(OLD), make_engine(target(strategy))
    begin = WINDOW + WINDOW // 2
    for number in range(begin + 4 * WINDOW):
        if number == begin:
            engine.migrate(target(strategy), strategy)
        assert push(engine, number) == push(old, number) == push(new, number)
        if number >= begin:
            assert total(engine) <= 1.25 * (total(old) + total(new)) + SLACK, f"push {number}"
    check_states(engine)
    found, wanted = join_states(engine), join_states(new)
    assert found.keys() == wanted.keys()
    for name, (_, size) in found.items():
        assert size <= ROUNDING * wanted[name][1] and wanted[name][1] <= ROUNDING * size, name
    assert engine.stats().state_bytes <= ROUNDING * new.stats().state_bytes


@pytest.mark.parametrize("strategy", NAMES)
def test_what_ran_before_is_gone_when_the_migration_is_done(strategy: str) -> None:
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
    before = weakref.ref(engine._pipeline.executor)
    engine.migrate(target(strategy), strategy)
    for number in range(WINDOW, 3 * WINDOW):
        push(engine, number)
    gc.collect()
    assert engine.migration is not None and engine.migration.is_done
    assert before() is None


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "pause-drain-resume"])
def test_many_overlapping_migrations_do_not_pile_up(strategy: str) -> None:
    engine, alone = make_engine(OLD), make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
        push(alone, number)
    for number in range(WINDOW, 2 * WINDOW):
        engine.migrate((NEW, OLD)[number % 2], strategy, **fit_budget(strategy, 0))
        assert push(engine, number) == push(alone, number)
    engine.migrate(OLD, strategy)
    for number in range(2 * WINDOW, 6 * WINDOW):
        assert push(engine, number) == push(alone, number)
    check_states(engine)
    assert engine.stats().state_bytes <= ROUNDING * alone.stats().state_bytes


@pytest.mark.parametrize("strategy", NAMES)
def test_finish_frees_what_a_migration_holds(strategy: str) -> None:
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
    engine.migrate(target(strategy), strategy)
    engine.push(batch(WINDOW))
    assert engine.finish().num_rows == 0
    assert sum(state.rows for state in engine.stats().states) == 0


def total(engine: ms.Engine) -> int:
    return sum(rows for rows, _ in join_states(engine).values())


TRIANGLE = """
    SELECT a.x FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS], c [RANGE 20 SECONDS]
    WHERE a.x = c.x AND b.y = c.y AND a.z = b.z
"""


CORNERS = {"a": ("x", "z"), "b": ("y", "z"), "c": ("x", "y")}


def triangle(plan: str) -> ms.Engine:
    schemas = {name: pa.schema(dict.fromkeys(("ts", *columns), pa.int64())) for name, columns in CORNERS.items()}
    return ms.Engine(ms.query(TRIANGLE, schemas=schemas, event_time="ts"), plan=plan)


def push_corners(engine: ms.Engine, number: int) -> int:
    """A row for each stream; all rows meet."""
    moment = number * 1_000_000
    rows = {name: pa.table({"ts": [moment], first: [1], second: [1]}) for name, (first, second) in CORNERS.items()}
    return engine.push(rows, watermark=moment).num_rows


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "pause-drain-resume"])
def test_indexes_that_only_the_old_plan_needed_are_gone(strategy: str) -> None:
    """(a b) finds rows of c by two attributes at once, (a c) those of b."""
    engine, alone = triangle("(a b) c"), triangle("(a c) b")
    composites = [window.hash_indexes.keys() for window in engine._pipeline._windows]
    assert any(len(key) > 1 for key in composites[2])
    for number in range(60):
        if number == 30:
            engine.migrate("(a c) b", strategy)
        assert push_corners(engine, number) == push_corners(alone, number)
    assert engine.migration is not None and engine.migration.is_done
    for window, wanted in zip(engine._pipeline._windows, alone._pipeline._windows, strict=True):
        assert window.hash_indexes.keys() == wanted.hash_indexes.keys()
    assert engine.stats().state_bytes <= ROUNDING * alone.stats().state_bytes
