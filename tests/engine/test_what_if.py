"""Asking what a change of plan would do, and making executors for it, leaves everything as it is."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import midstream as ms
from midstream.adapt import estimate
from midstream.engine.executors.registry import EXECUTORS
from midstream.engine.lane import Lane
from midstream.engine.transition import Situation
from midstream.migrate import STRATEGIES
from midstream.plan import Plan, parse_plan
from midstream.state.join_state import JoinState
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow

from .audit import windows_of

STREAMS = ("a", "b", "c")
ROW = {"k": int, "l": int, "ts": int}
#: The first one finds rows of c by both keys, and those of b by one; the others would index b by both.
RUNNING, *OTHERS = ("(a b) c", "(b c) a", "a (c b)", "(a c) b")
B = 1


def make_query() -> ms.Query:
    inputs = ", ".join(f"{name} [RANGE 1 MINUTE]" for name in STREAMS)
    text = f"SELECT a.k FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND b.l = c.l"
    return ms.query(text, schemas=dict.fromkeys(STREAMS, ROW), event_time="ts")


def make_engine() -> ms.Engine:
    engine = ms.Engine(make_query(), plan=RUNNING)
    values = list(range(50))
    engine.push(dict.fromkeys(STREAMS, pa.table({"k": values, "l": values, "ts": values})))
    assert (0, 1) not in windows_of(engine)[B].hash_indexes
    return engine


def look(engine: ms.Engine) -> object:
    """Everything that a question could leave a trace in."""
    windows = windows_of(engine)
    indexes = [{classes: id(index) for classes, index in window.hash_indexes.items()} for window in windows]
    return engine.stats(), indexes, [window.nbytes for window in windows], engine.plan, engine.migration


def plans(query: ms.Query) -> list[Plan]:
    return [parse_plan(text, query.aliases) for text in (RUNNING, *OTHERS)]


def test_making_executors_touches_nothing() -> None:
    engine = make_engine()
    before = look(engine)
    would_use = set()
    for kind, plan in itertools.product(EXECUTORS, plans(engine.query)):
        for since in (None, {number: window.tail for number, window in enumerate(windows_of(engine))}):
            executor = kind.make(engine.query, plan, windows_of(engine), since)
            would_use.update(executor.indexes_used())
            assert not list(executor.migrations()) and executor.plans_at_once == 1
            assert executor.state_stats() is not None and executor.nbytes >= 0
        assert look(engine) == before
    assert (B, (0, 1)) in would_use, "some of them would index b by both keys"


@pytest.mark.parametrize("name", [kind.name for kind in EXECUTORS])
def test_an_executor_that_starts_has_the_indexes_that_it_uses(name: str) -> None:
    engine = make_engine()
    kind = next(kind for kind in EXECUTORS if kind.name == name)
    executor = kind.make(engine.query, parse_plan("(b c) a", engine.query.aliases), windows_of(engine))
    executor.start(Cause("migration"))
    assert (B, (0, 1)) in set(executor.indexes_used())
    assert all(classes in windows_of(engine)[number].hash_indexes for number, classes in executor.indexes_used())


def test_a_large_window_gets_no_new_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """One class of the composite key finds its rows then; the others are checked."""
    engine, steady = make_engine(), make_engine()
    monkeypatch.setattr(BaseWindow, "may_be_indexed", lambda window, classes, at_once: classes in window.hash_indexes)
    engine.migrate("(b c) a", "moving-state")
    assert (0, 1) not in windows_of(engine)[B].hash_indexes
    push = dict.fromkeys(STREAMS, pa.table({"k": [3, 4], "l": [3, 5], "ts": [60, 60]}))
    assert engine.push(push).sort_by("k").equals(steady.push(push).sort_by("k"))


def test_asking_strategies_touches_nothing() -> None:
    engine = make_engine()
    before = look(engine)
    answers = []

    def ask(situation: Situation) -> Lane:
        for kind, plan in itertools.product(EXECUTORS, plans(engine.query)):
            proposal = situation.propose(plan, kind)
            answers.extend(strategy.refusal(proposal) for strategy in STRATEGIES)
            answers.append(str([change.fate for change in proposal.state_changes()]))
        return situation.lane

    engine._pipeline.begin(ask)
    assert look(engine) == before
    assert any(answer is not None and "pause-drain-resume" in answer for answer in answers)


def test_estimating_makes_no_window_and_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    query = make_query()
    before, after = plans(query)[:2]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an estimate needs none")

    monkeypatch.setattr(BaseWindow, "__init__", refuse)
    monkeypatch.setattr(JoinState, "__init__", refuse)
    found = estimate(query, before, after)
    assert [(state.name, state.fate) for state in found.states] == [("(b c)", "computed"), ("(a b)", "given up")]
    found = estimate(query, before, after, executors=("tree", "stems"))
    assert [(state.name, state.fate) for state in found.states] == [("(a b)", "given up")]
    assert {strategy.strategy for strategy in found.strategies if strategy.refusal} == set()
    found = estimate(query, before, after, executors=("stems", "tree"))
    assert [(state.name, state.fate) for state in found.states] == [("(b c)", "computed")]
    assert [strategy.strategy for strategy in found.strategies if strategy.refusal] == ["pause-drain-resume"]
