"""Delayed entry: a row that no neighbour has a partner for is hidden, and results come as if it never was."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import pytest

import midstream as ms
from midstream.engine.demand.chunk import IndexedChunk
from midstream.engine.demand.edges import BandEdge, KeyEdge
from midstream.engine.demand.entrance import Entrance
from midstream.engine.executors.registry import executor_names
from midstream.engine.joins.idling import IdleJoins
from midstream.migrate import STRATEGIES
from midstream.state.expiry import CountExpiry

from ..oracle.cases import make_case
from ..oracle.check import everything
from ..oracle.run import Way, expect, make_query, run

SCHEMA = {"k": int, "v": int, "ts": int}
Rows = list[dict[str, int]]


def make_engine(
    where: str,
    windows: tuple[str, ...] = ("[RANGE 10 MICROSECONDS]",) * 3,
    tables: dict[str, Rows] | None = None,
    **options: Any,
) -> ms.Engine:
    names = "abcd"[: len(windows)]
    inputs = ", ".join(f"{name} {window}" for name, window in zip(names, windows, strict=True))
    query = ms.query(
        f"SELECT {', '.join(f'{name}.v AS {name}' for name in names)} FROM {inputs} WHERE {where}",
        schemas=dict.fromkeys(names, SCHEMA),
        event_time="ts",
    )
    return ms.Engine(query, tables=tables, **{"demand": "on", **options})


def row(k: int, v: int = 0, ts: int = 0) -> Rows:
    return [{"k": k, "v": v, "ts": ts}]


def values(table: Any) -> list[tuple[int, ...]]:
    return sorted(tuple(found.values())[:-2] for found in table.to_pylist())


def window_rows(engine: ms.Engine) -> dict[str, int]:
    return {state.name: state.rows for state in engine.stats().states if state.kind == "window"}


CHAIN = "a.k = b.k AND b.v = c.v"


@pytest.mark.parametrize("executor", executor_names())
def test_a_row_enters_when_its_partner_has_come(executor: str) -> None:
    engine = make_engine(CHAIN, executor=executor)
    assert engine.push({"a": row(1), "b": row(1, 5)}).num_rows == 0
    stats = engine.stats()
    assert window_rows(engine) == {"a": 1, "b": 0, "c": 0}, "a has b as a partner, and b none in c"
    assert stats.demand is not None
    assert (stats.demand.hidden, stats.demand.waiting, stats.demand.woken) == (1, 1, 0)
    assert [(state.name, state.rows) for state in stats.states if state.kind == "hidden"] == [("b", 1)]
    assert values(engine.push({"c": row(0, 5, 1)})) == [(0, 5, 5)]
    demand = engine.stats().demand
    assert demand is not None and (demand.waiting, demand.woken) == (0, 1)
    assert window_rows(engine) == {"a": 1, "b": 1, "c": 1}


def test_rows_that_wait_for_each_other_are_partners() -> None:
    """Of a and b each has only the other, which is hidden because c has no partner for it."""
    engine = make_engine("a.k = b.k AND b.k = c.k")
    assert engine.push({"a": row(1, 1)}).num_rows == engine.push({"b": row(1, 2)}).num_rows == 0
    demand = engine.stats().demand
    assert demand is not None and demand.waiting == 2
    assert values(engine.push({"c": row(1, 3)})) == [(1, 2, 3)]


def test_rows_of_one_push_are_partners_of_each_other() -> None:
    engine = make_engine("a.k = b.k AND b.k = c.k")
    pushed = {"a": row(1, 1), "b": row(1, 2), "c": row(1, 3) + row(2, 4)}
    assert values(engine.push(pushed)) == [(1, 2, 3)]
    demand = engine.stats().demand
    assert demand is not None and (demand.hidden, demand.woken) == (1, 0), "only the last row of c has no partner"


def test_a_row_that_woke_may_have_to_wait_for_another() -> None:
    engine = make_engine("a.k = b.k AND b.k = c.k AND c.k = d.k", ("[RANGE 10 MICROSECONDS]",) * 4)
    for stream in "abc":
        assert engine.push({stream: row(1)}).num_rows == 0
    demand = engine.stats().demand
    assert demand is not None and (demand.waiting, demand.woken) == (3, 0)
    assert engine.push({"d": row(1)}).num_rows == 1
    assert engine.stats().demand.woken == 3  # type: ignore[union-attr]


def test_a_hidden_row_expires_as_if_it_had_entered() -> None:
    engine = make_engine(CHAIN)
    engine.push({"a": row(1), "b": row(1, 5)})
    engine.push({"a": row(9, 0, 11), "b": row(9, 9, 11), "c": row(0, 7, 11)}, watermark=11)
    demand = engine.stats().demand
    assert demand is not None and demand.waiting == 2, "b and c of now; b of 0 has gone"
    assert engine.push({"c": row(0, 5, 11)}).num_rows == 0


@mock.patch.object(
    IdleJoins, "begin", mock.Mock(return_value=[])
)  # else nothing would be joined before there is a row of d
def test_a_row_that_enters_late_does_not_meet_what_is_dead() -> None:
    """An entry that has ended stands behind a live one, and names rows whose places others may have taken."""
    short, long = "[RANGE 10 MICROSECONDS]", "[RANGE 100 MICROSECONDS]"
    engine = make_engine("a.k = b.k AND b.k = c.k AND c.v = d.v", (short, short, long, long), plan="((a b) c) d")
    engine.push({"a": row(2, 0, 45), "b": row(2, 0, 45), "c": row(2, 9, 45)}, watermark=0)
    engine.push({"a": row(1), "b": row(1), "c": row(1, 5)}, watermark=50)
    states = {state.name: state.rows for state in engine.stats().states if state.kind == "join"}
    assert states["a b"] == 2, "the dead one has not been collected"
    assert engine.push({"d": row(0, 5, 50)}).num_rows == 0
    demand = engine.stats().demand
    assert demand is not None and demand.woken == 1
    joins = next(iter(engine._pipeline.executor.evicting())).joins()
    stored = [node.state.stored_in_all for node in joins if node.state is not None]
    assert stored == [2, 0], "nothing has been stored in (a b c), not even for a moment"


def test_bands_hide_rows_too() -> None:
    engine = make_engine("abs(a.v - b.v) <= 2", ("[RANGE 10 MICROSECONDS]",) * 2)
    engine.push({"a": row(0, 10) + row(0, 20)})
    assert window_rows(engine) == {"a": 0, "b": 0}
    assert values(engine.push({"b": row(0, 12) + row(0, 15)})) == [(10, 12)]
    assert window_rows(engine) == {"a": 1, "b": 1}


def test_without_an_index_nothing_is_hidden() -> None:
    engine = make_engine("a.v + b.v <> 3", ("[RANGE 10 MICROSECONDS]",) * 2)
    engine.push({"a": row(0, 1)})
    assert window_rows(engine) == {"a": 1, "b": 0}


@pytest.mark.parametrize(("demand", "waiting"), [("on", 1), ("auto", 0)])
def test_a_row_without_partner_in_a_static_table_is_dropped_and_counted(demand: str, waiting: int) -> None:
    windows = ("[ROWS 2]", "[RANGE 10 MICROSECONDS]", "")
    engine = make_engine("a.k = b.k AND a.v = c.v", windows, {"c": row(0, 1)}, demand=demand)
    engine.push({"a": row(1, 1)})
    engine.push({"a": row(1, 7, 1)})
    stats = engine.stats().demand
    assert stats is not None and (stats.dropped, stats.waiting) == (1, waiting)
    assert values(engine.push({"b": row(1, 3, 2)})) == [(1, 3, 1)]
    engine.push({"a": row(1, 7, 3)})
    assert engine.push({"b": row(1, 3, 4)}).num_rows == 0, "dropped rows count for ROWS"


@pytest.mark.parametrize("demand", ["on", "auto"])
def test_rows_that_no_result_can_have_are_dropped_by_a_restart_too(demand: str) -> None:
    """Which of them were dropped before does not show in what a router samples."""
    windows, tables = ("", "[UNBOUNDED]", "[UNBOUNDED]"), {"a": row(0, 1)}
    engine = make_engine("a.v = b.v AND b.k = c.k", windows, tables, demand="off")
    rows = {"b": row(1, 1) + row(1, 7) + row(1, 1, 1), "c": row(1)}
    engine.push(rows)
    assert window_rows(engine)["b"] == 3
    restored = ms.Engine.restore(engine.query, engine.snapshot(), demand=demand)
    resumed = ms.Engine.resume(engine.query, rows, 0, tables=tables, demand=demand)
    for other in (restored, resumed):
        assert window_rows(other) == {"a": 1, "b": 2, "c": 1}
        assert values(other.push({"c": row(1, 5, 2)})) == [(1, 1, 5), (1, 1, 5)]


def test_rows_wait_again_after_a_plan_under_which_none_could() -> None:
    query = ms.query(
        "SELECT DISTINCT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c WHERE a.k = b.k AND b.k = c.k",
        schemas=dict.fromkeys("abc", SCHEMA),
        event_time=dict.fromkeys("ab", "ts"),
        step="1 SECOND",
    )
    engine = ms.Engine(query, plan="(a b) c", tables={"c": row(1)}, demand="on")
    hidden = []
    for at, plan in enumerate(["(a b) c", "distinct(a) distinct(b c)", "(a b) c"]):
        if at:
            engine.migrate(plan, strategy="moving-state")
        for number in range(2):
            engine.push({"a": row(1, 0, (10 * at + number) * 10_000_000)})
        demand = engine.stats().demand
        assert demand is not None
        hidden.append(demand.hidden)
    assert hidden == [2, 2, 4]


@pytest.mark.parametrize("restored", [False, True])
def test_hidden_rows_keep_their_place_in_windows_that_count_rows(restored: bool) -> None:
    """The third row is there first, the second enters late, and both leave in their turn."""
    engine = make_engine("a.k = b.k", ("[ROWS 3]", "[UNBOUNDED]"))
    engine.push({"b": row(3)})
    for at in (1, 2, 3):
        engine.push({"a": row(at, at, at)})
    assert window_rows(engine)["a"] == 1
    if restored:
        engine = ms.Engine.restore(engine.query, engine.snapshot(), demand="on")
        assert window_rows(engine)["a"] == 3, "a restart lets all rows enter"
    assert values(engine.push({"b": row(2, 9, 4)})) == [(2, 9)]
    assert engine.push({"a": row(5, 5, 5)}).num_rows == 0
    assert engine.push({"b": row(1, 9, 6)}).num_rows == 0, "the first row has left, hidden"
    assert values(engine.push({"b": row(2, 8, 7)})) == [(2, 8)]
    engine.push({"a": row(6, 6, 8)})
    assert engine.push({"b": row(2, 7, 9)}).num_rows == 0
    assert values(engine.push({"b": row(3, 7, 10)})) == [(3, 7)]


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES])
def test_hidden_rows_outlast_a_migration(strategy: str) -> None:
    options = {"executor": "stairs", "routing": "fixed"} if strategy == "staged" else {}
    engine = make_engine("a.k = b.k AND b.v = c.v", plan="(a b) c", **options)
    engine.push({"a": row(1), "b": row(1, 5) + row(1, 6)})
    engine.push({"a": row(2), "b": row(2, 7), "c": row(0, 7)})
    # Pausing takes only the joins turned round.
    engine.migrate("c (b a)" if strategy == "pause-drain-resume" else "a (b c)", strategy)
    assert values(engine.push({"c": row(0, 5, 1)})) == [(0, 5, 5)]
    assert values(engine.push({"c": row(0, 6, 2)})) == [(0, 6, 6)]


def test_hidden_rows_count_as_memory() -> None:
    engine = make_engine(CHAIN, memory_limit="2MB")
    before = engine.stats().state_bytes
    engine.push({"b": [{"k": k, "v": k, "ts": 0} for k in range(5000)]})
    after = engine.stats()
    assert after.memory is not None and after.state_bytes > before + 5000 * 40
    assert after.state_bytes == after.memory.windows + after.memory.states
    many = [{"k": k, "v": k, "ts": 1} for k in range(50_000)]
    with pytest.raises(ms.InputError, match="the base windows would take about"):
        engine.push({"b": many})
    assert engine.stats() == after


def test_unknown_values_are_refused() -> None:
    for value in ("of", True, None):
        with pytest.raises(ms.EngineError, match="demand"):
            make_engine(CHAIN, demand=value)


def test_work_is_saved_where_the_last_stream_has_few_keys() -> None:
    def fill(engine: ms.Engine) -> int:
        rng = random.Random(3)
        for at in range(40):
            pushed = {name: [{"k": rng.randrange(1000), "v": 0, "ts": at} for _ in range(50)] for name in "abc"}
            pushed["d"] = [{"k": rng.randrange(100), "v": 0, "ts": at} for _ in range(5)]
            found.append(sorted(engine.push(pushed, watermark=at).to_pylist(), key=str))
        return sum(state.rows for state in engine.stats().states if state.kind == "join")

    found: list[Any] = []
    where, windows = "a.k = b.k AND b.k = c.k AND c.k = d.k", ("[RANGE 100 MICROSECONDS]",) * 4
    plain = fill(make_engine(where, windows, plan="((a b) c) d", demand="off"))
    saved = fill(make_engine(where, windows, plan="((a b) c) d"))
    assert found[:40] == found[40:] and any(found)
    assert saved * 5 < plain


# Mistakes ------------------------------------------------------------------------------------------------------------


def ignore_hidden_partners(patch: pytest.MonkeyPatch) -> None:
    """Rows that have only hidden rows as partners wait for ever."""
    _look(patch, lambda stores, chunk: (stores._replace(hidden=None), chunk))


def ignore_rows_of_the_chunk(patch: pytest.MonkeyPatch) -> None:
    """Rows that come together do not see each other."""
    _look(patch, lambda stores, chunk: (stores, IndexedChunk({})))


def _look(patch: pytest.MonkeyPatch, change: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    """Have partners looked for in other places."""
    for kind in (KeyEdge, BandEdge):
        find = kind.find_lacking

        def find_lacking(edge: Any, rows: Any, stores: Any, chunk: Any, reasons: Any, find: Any = find) -> Any:
            return find(edge, rows, *change(stores, chunk), reasons)

        patch.setattr(kind, "find_lacking", find_lacking)


def wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entrance, "_find_waking", lambda entrance, chunk: {})


def forget_hidden_rows_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entrance, "rows_to_store", lambda entrance, number, entered, horizon: [entered])


def enter_as_if_just_arrived(patch: pytest.MonkeyPatch) -> None:
    """Rows of ROWS windows that enter late never leave."""
    patch.setattr(CountExpiry, "_close_late", lambda *_: None)


MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], Mapping[str, Any]] = {
    ignore_hidden_partners: {},
    ignore_rows_of_the_chunk: {},
    wake_nobody: {},
    forget_hidden_rows_in_snapshots: {},
    enter_as_if_just_arrived: {"windows": "rows"},
}


def ways(seed: int, shape: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Way, Any]]:
    case = make_case(seed, **shape)
    expected, query = expect(case), make_query(case)
    for cut, way in everything(case, random.Random(seed)):
        yield cut, expected, Way(way.plan, False, way.restore_before, way.plans_after, demand="on"), query


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mistakes_can_be_made(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they change has not been renamed."""
    mutant(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mistakes_are_caught(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, IndexError, KeyError)):
        check_many(MUTANTS[mutant])


def check_many(shape: Mapping[str, Any]) -> None:
    for seed in range(400, 440):
        for cut, expected, way, query in ways(seed, shape):
            run(cut, expected, [way], query)
