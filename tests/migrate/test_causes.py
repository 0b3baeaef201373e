"""A migration ends when the boxes of its own cause are gone, whatever else a state lacks."""

from __future__ import annotations

import numpy as np
import pytest

import midstream as ms
from midstream.engine.executors.tree import TreeExecutor
from midstream.migrate.strategies.jisc import Filling
from midstream.state.join_state import JoinState
from midstream.state.missing import Box, Cause, Missing

from .workload import NEW, OLD, WINDOW, make_engine, push

EVICTION = Cause("eviction")


def states_of(engine: ms.Engine) -> list[JoinState]:
    executor = engine._pipeline.executor
    executor = executor.executor if isinstance(executor, Filling) else executor
    assert isinstance(executor, TreeExecutor)
    return [node.state for node in executor.joins() if node.state is not None]


def declare_evicted(engine: ms.Engine, state: JoinState, number: int, rows: int) -> None:
    """Make the newest rows of an input, in a state that is one box so far, the rows of a box of their own."""
    box = state.missing.only_box
    assert box is not None
    windows = engine._pipeline._windows
    heads = {other: window.head for other, window in enumerate(windows)}
    ids = np.arange(windows[number].head, windows[number].tail)
    state.missing = Missing()
    state.missing.add(Box(state.inputs, box.marks, EVICTION, rows={number: ids[-rows:]}), heads)
    state.missing.add(Box(state.inputs, box.marks, box.cause, rows={number: ids[:-rows]}), heads)


@pytest.mark.parametrize("driver", [True, False], ids=["of the driver", "of another input"])
def test_a_migration_does_not_wait_for_what_was_evicted(driver: bool) -> None:
    """Nor does its background filling bring evicted rows of the driver back; the results are those of a steady plan.

    Rows of another input come back with the driver's rows, all of which are filled.
    """
    steady, engine = make_engine(OLD), make_engine(OLD)
    for number in range(WINDOW):
        assert push(engine, number) == push(steady, number)
    engine.migrate(NEW, "jisc", budget=10**6)
    top = states_of(engine)[-1]  # (u t s), probed through u; filling it takes what it needs of (u t)
    declare_evicted(engine, top, top.inputs[0 if driver else 1], 5)
    record = engine.migration
    assert record is not None and not record.is_done
    engine.push({})
    record = engine.migration
    assert record is not None and record.is_done
    assert [box.cause for box in top.missing] == ([EVICTION] if driver else [])
    assert sum(state.holes for state in engine.stats().states) == (5 if driver else 0)
    engine.migrate("(r (s (u t)))", "jisc", budget=10**6)
    engine.push({})
    assert engine.migration is not None and engine.migration.is_done
    assert [box.cause for box in states_of(engine)[-1].missing] == ([EVICTION] if driver else [])
    for number in range(WINDOW, 3 * WINDOW):
        assert push(engine, number) == push(steady, number)
    assert not any(state.missing for state in states_of(engine))


def test_a_later_migration_takes_over_what_an_earlier_one_and_a_restore_left() -> None:
    engine = make_engine(OLD)
    for number in range(WINDOW):
        push(engine, number)
    engine = ms.Engine.restore(engine.query, engine.snapshot())
    assert {box.cause.kind for state in states_of(engine) for box in state.missing} == {"restore"}
    causes = []
    for plan in ("((r s) (t u))", OLD):
        record = engine.migrate(plan, "jisc", budget=0)
        found = {box.cause for state in states_of(engine) for box in state.missing}
        assert len(found) == 1
        causes += found
        assert record.holes_left == sum(state.holes for state in engine.stats().states)
    assert [cause.kind for cause in causes] == ["migration", "migration"]
    assert causes[0] is not causes[1]
