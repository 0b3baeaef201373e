"""Idle joins: nothing is joined below a join whose other side is empty, and results come as if it had been."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import midstream as ms
from midstream.engine.joins.idling import IdleJoins
from midstream.migrate import STRATEGIES

from .audit import executor_of

Row = dict[str, int]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins are idle as soon as a side is empty, also if something waits below, which is let go."""
    monkeypatch.setattr(IdleJoins, "first_patience", 0)


def make_chain(plan: str, **options: Any) -> ms.Engine:
    """Streams a to e, each of which has one key in common with the next."""
    names = "abcde" if "e" in plan else "abcd"
    query = ms.query(
        f"SELECT {', '.join(f'{name}.n AS {name}' for name in names)} "
        f"FROM {', '.join(f'{name} [RANGE 100 MICROSECONDS]' for name in names)} "
        f"WHERE {' AND '.join(f'{left}.y = {right}.x' for left, right in pairwise(names))}",
        schemas={name: {"x": int, "y": int, "n": int, "ts": int} for name in names},
        event_time="ts",
    )
    return ms.Engine(query, plan=plan, **{"demand": "on", **options})


def rows(*numbers: int, ts: int = 0) -> list[Row]:
    """Rows that match the rows of the same number in all streams."""
    return [{"x": number, "y": number, "n": number, "ts": ts} for number in numbers]


def push(engine: ms.Engine, ts: int = 0, **numbers: list[int]) -> list[int]:
    """The numbers of the results."""
    table = engine.push({stream: rows(*chosen, ts=ts) for stream, chosen in numbers.items()})
    return sorted(table.column(0).to_pylist())


def stored(engine: ms.Engine) -> dict[str, int]:
    return {state.name: state.rows for state in engine.stats().states if state.kind == "join"}


def idle(engine: ms.Engine) -> int:
    demand = engine.stats().demand
    assert demand is not None
    return demand.idle


def fill_but_the_last(engine: ms.Engine) -> None:
    """Rows of a, b and c that match, in two pushes. Those of c are hidden, as long as there is no row of d."""
    assert push(engine, a=[1, 2, 3], b=[1, 2], c=[1, 2, 3]) == []
    assert push(engine, 1, b=[3, 3]) == []
    assert stored(engine) == {"a b": 0, "a b c": 0}
    assert idle(engine) == 7


def test_nothing_is_joined_while_the_other_side_is_empty() -> None:
    """In a chain, d has no key in common with a and b, so that these need not wait for its rows."""
    engine = make_chain("((a b) c) d")
    fill_but_the_last(engine)
    assert push(engine, 2, d=[2]) == [2]
    assert stored(engine) == {"a b": 1, "a b c": 1}, "what the row of d does not need is still a hole"
    assert push(engine, 3, d=[3], a=[2]) == [2, 3, 3]
    assert idle(engine) == 7, "d has rows now"


def test_a_join_of_two_may_be_the_empty_side() -> None:
    """In (a b) (c d), which is idle until c and d have a row that match: it sees rows of the same push, too."""
    engine = make_chain("(a b) (c d)")
    assert push(engine, a=[1, 2], b=[1, 2]) == []
    assert push(engine, 1, c=[1], d=[7]) == []
    assert stored(engine)["a b"] == 0
    assert push(engine, 2, a=[1], b=[1], c=[2], d=[1]) == [1, 1, 1, 1]
    assert push(engine, 3, d=[2]) == [2]


def test_a_join_below_an_idle_one_is_not_idle_for_itself() -> None:
    engine = make_chain("(((a b) c) d) e")
    assert push(engine, a=[1, 2], b=[1, 2]) == []
    assert push(engine, 1, c=[1, 2], d=[2]) == []
    assert push(engine, 2, e=[1, 2]) == [2]
    assert push(engine, 3, d=[1]) == [1]


def test_what_was_passed_over_expires() -> None:
    engine = make_chain("((a b) c) d")
    fill_but_the_last(engine)
    assert push(engine, 101, a=[5], b=[5], c=[5]) == []
    engine.push({}, watermark=101)
    assert push(engine, 101, d=[1, 5]) == [5]
    assert push(engine, 102, c=[3], d=[3]) == []
    assert stored(engine) == {"a b": 1, "a b c": 1}


def test_a_join_becomes_idle_again() -> None:
    """Each time, what was joined before is kept."""
    engine = make_chain("((a b) c) d")
    fill_but_the_last(engine)
    for turn in range(4):
        begin = 60 * turn
        assert push(engine, begin + 2, a=[1], b=[1], c=[1], d=[1]) != []
        engine.push({}, watermark=begin + 2)
        before = idle(engine)
        assert push(engine, begin + 59, a=[4], b=[4]) == []
        assert idle(engine) == before, "d has its row"
        for stream in "abc":
            push(engine, begin + 59, **{stream: [6]})
        assert 6 in push(engine, begin + 59, d=[6])


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES if strategy.name != "staged"])
def test_what_was_passed_over_outlasts_a_migration(strategy: str) -> None:
    engine = make_chain("((a b) c) d")
    fill_but_the_last(engine)
    engine.migrate("d (c (b a))" if strategy == "pause-drain-resume" else "a ((b c) d)", strategy)
    assert push(engine, 2, a=[1]) == []
    assert push(engine, 3, d=[1, 3]) == [1, 1, 3, 3]


def test_what_was_passed_over_outlasts_a_restart() -> None:
    engine = make_chain("((a b) c) d")
    fill_but_the_last(engine)
    engine = ms.Engine.restore(engine.query, engine.snapshot(), demand="on")
    assert push(engine, 2, d=[3]) == [3, 3]


def make_linked(where: str, plan: str, windows: dict[str, int]) -> ms.Engine:
    """Streams a to e with some columns, which are -1 unless a row gives them."""
    inputs = ", ".join(f"{name} [RANGE {size} MICROSECONDS]" for name, size in windows.items())
    query = ms.query(
        f"SELECT {', '.join(f'{name}.n AS {name}' for name in windows)} FROM {inputs} WHERE {where}",
        schemas={name: {**dict.fromkeys("kpqrs", int), "n": int, "ts": int} for name in windows},
        event_time="ts",
    )
    return ms.Engine(query, plan=plan, demand="on")


def row(n: int, ts: int = 0, **values: int) -> list[Row]:
    return [{**dict.fromkeys("kpqrs", -1), **values, "n": n, "ts": ts}]


@pytest.mark.usefixtures("at_once")
def test_a_partner_may_come_while_nobody_looks_for_it() -> None:
    """(a b) waits for a row of e that matches both. It comes while there is no row of d, and d comes only then."""
    engine = make_linked(
        "a.k = b.k AND b.s = c.s AND a.p = e.p AND b.q = e.q AND c.r = d.r",
        "((((a b) c) e) d)",
        {"a": 100, "b": 100, "c": 100, "d": 10, "e": 100},
    )
    assert push_all(engine, dict.fromkeys("abcde", row(9, k=9, p=9, q=9, r=9, s=9))) == 1
    push_all(
        engine,
        {
            "a": row(1, 1, k=1, p=1),
            "b": row(1, 1, k=1, q=1, s=1),
            "c": row(1, 1, s=1, r=9),
            "e": row(1, 1, p=1, q=2) + row(2, 1, p=2, q=1),
        },
    )
    demand = engine.stats().demand
    assert demand is not None and demand.suspended == 1
    assert push_all(engine, {}, watermark=12) == 0
    assert push_all(engine, {"e": row(3, 12, p=1, q=1)}) == 0
    assert push_all(engine, {"d": row(1, 13, r=9)}) == 1 + 1, "and the one of before"


@pytest.mark.usefixtures("at_once")
def test_a_join_is_idle_no_more_when_something_climbs_to_its_other_side() -> None:
    """(d e) waits for c, so that ((a b) (d e)) is idle; when it goes on, it meets what was passed over."""
    engine = make_linked(
        "a.k = b.k AND b.s = d.s AND d.r = e.r AND d.p = c.p AND e.q = c.q",
        "(((a b) (d e)) c)",
        dict.fromkeys("abcde", 100),
    )
    push_all(
        engine,
        {
            "a": row(1, k=1),
            "b": row(1, k=1, s=1),
            "c": row(1, p=1, q=2) + row(2, p=2, q=1),
            "d": row(1, p=1, r=1, s=1) + row(2, p=2, r=5),
            "e": row(1, q=1, r=1) + row(2, q=2, r=6),
        },
    )
    demand = engine.stats().demand
    assert demand is not None and demand.suspended == 2, "(d e), and b1 for that"
    assert push_all(engine, {"a": row(2, 1, k=2), "b": row(2, 1, k=2, s=1)}) == 0
    assert idle(engine) >= 2
    assert push_all(engine, {"c": row(3, 2, p=1, q=1)}) == 2


def push_all(engine: ms.Engine, data: dict[str, list[Row]], watermark: int | None = None) -> int:
    """How many results come of it."""
    return engine.push(data, watermark).num_rows


@pytest.mark.usefixtures("at_once")
def test_what_climbs_finds_rows_of_its_own_push() -> None:
    """(c d) waits for e, and (a b), which no key leads to, is passed over, also in the push in which e comes."""
    engine = make_linked(
        "a.k = b.k AND a.k = e.k AND c.q = d.q AND c.r = e.r AND d.p = e.p",
        "((a b) (c d)) e",
        dict.fromkeys("abcde", 100),
    )
    push_all(
        engine,
        {
            "a": row(9, k=9),
            "b": row(9, k=9),
            "c": row(1, q=1, r=1) + row(2, q=2, r=2),
            "d": row(1, q=1, p=1) + row(2, q=2, p=2),
            "e": row(1, k=9, r=1, p=2) + row(2, k=9, r=2, p=1),
        },
    )
    assert push_all(engine, {"a": row(1, 1, k=1), "b": row(1, 1, k=1), "e": row(3, 1, k=1, r=1, p=1)}) == 1
    assert push_all(engine, {"e": row(4, 2, k=1, r=1, p=1)}) == 1


@pytest.mark.usefixtures("at_once")
def test_an_idle_join_may_come_to_lie_below_another() -> None:
    """(c d) waits for h, so that a and b are passed over; then (g i) is empty, and what waits is let go."""
    engine = make_linked(
        "a.k = b.k AND a.k = c.k AND c.q = d.q AND c.s = g.s AND g.k = i.k AND c.r = h.r AND d.p = h.p",
        "(((a b) (c d)) (g i)) h",
        {**dict.fromkeys("abcd", 100), "g": 10, "i": 10, "h": 100},
    )
    push_all(
        engine,
        {
            "a": row(1, k=1),
            "b": row(1, k=1),
            "c": row(1, k=1, q=1, r=1, s=1) + row(2, k=1, q=2, r=2, s=1),
            "d": row(1, q=1, p=1) + row(2, q=2, p=2),
            "g": row(1, k=101, s=1) + row(2, k=102, s=1),
            "i": row(1, k=101) + row(2, k=102),
            "h": row(1, r=1, p=2) + row(2, r=2, p=1),
        },
    )
    push_all(engine, {"a": row(2, 1, k=1), "b": row(2, 1, k=1)})
    assert idle(engine) >= 2
    push_all(engine, {"g": row(3, 5, k=101, s=1), "i": row(3, 5, k=102)})
    push_all(engine, {}, watermark=12)
    assert push_all(engine, {"h": row(3, 12, r=1, p=1)}) == 0
    assert push_all(engine, {"g": row(4, 13, k=103, s=1), "i": row(4, 13, k=103)}) == 4


@pytest.mark.usefixtures("at_once")
def test_what_waits_may_be_given_up_meanwhile() -> None:
    engine = make_linked(
        "a.k = b.k AND a.k = c.k AND c.q = d.q AND c.r = e.r AND d.p = e.p",
        "((a b) (c d)) e",
        dict.fromkeys("abcde", 100),
    )
    push_all(
        engine,
        {
            "a": row(1, k=1),
            "b": row(1, k=1),
            "c": row(1, k=1, q=1, r=1) + row(2, k=1, q=2, r=2),
            "d": row(1, q=1, p=1) + row(2, q=2, p=2),
            "e": row(1, r=1, p=2) + row(2, r=2, p=1),
        },
    )
    push_all(engine, {"a": row(2, 1, k=1), "b": row(2, 1, k=1)})
    assert idle(engine) >= 2
    assert executor_of(engine).give_up_rest() > 0
    assert push_all(engine, {"e": row(3, 2, r=1, p=1)}) == 4
    assert push_all(engine, {"e": row(4, 3, r=1, p=1)}) == 4


def test_states_may_be_given_up_meanwhile() -> None:
    engine = make_chain("((a b) c) d")
    fill_but_the_last(engine)
    executor = executor_of(engine)
    for node in executor.joins()[:2]:
        executor.evict_all(node)
    assert push(engine, 2, a=[1], b=[1]) == []
    assert push(engine, 3, d=[1]) == [1, 1, 1, 1]
    executor.switch_off(executor.joins()[0])
    assert push(engine, 4, a=[3], d=[3]) == [3, 3, 3, 3]


def test_a_join_is_not_idle_at_once_if_something_waits_below() -> None:
    """(d e) waits for c, and b1 for (d e): it would become a hole, and be filled in."""
    engine = make_linked(
        "a.k = b.k AND b.s = d.s AND d.r = e.r AND d.p = c.p AND e.q = c.q AND c.r = f.r",
        "((((a b) (d e)) c) f)",
        {**dict.fromkeys("abcde", 100), "f": 10},
    )
    assert push_all(engine, dict.fromkeys("abcdef", row(9, k=9, p=9, q=9, r=9, s=9))) == 1
    matching = {"a": row(1, 1, k=1), "b": row(1, 1, k=1, s=1), "d": row(1, 1, p=1, r=1, s=1), "e": row(1, 1, q=1, r=1)}
    push_all(engine, {**matching, "c": row(1, 1, p=1, q=2, r=9) + row(2, 1, p=2, q=1, r=9)})
    demand = engine.stats().demand
    assert demand is not None and demand.suspended
    push_all(engine, {}, watermark=12)
    for moment in range(IdleJoins.first_patience):
        before = idle(engine)
        push_all(engine, {"a": row(2, 20 + moment, k=9)})
        assert before == 0, "f is empty, but not for long"
    push_all(engine, {"a": row(2, 40, k=9)})
    assert idle(engine) > 0
    found = push_all(engine, {"f": row(1, 41, r=9), "c": row(3, 41, p=1, q=1, r=9)})
    assert found == 1 + 1 + IdleJoins.first_patience + 1, "(a1 b1 c3), and a9 with those that came"


def test_auto_waits_for_a_while() -> None:
    """A side that is empty for a moment changes nothing: what is passed over has to be filled in later."""
    engine = make_chain("((a b) c) d", demand="auto")
    for moment in range(IdleJoins.first_patience):
        assert push(engine, moment, a=[moment], b=[moment]) == []
        assert idle(engine) == 0
    before = stored(engine)["a b"]
    assert push(engine, 20, a=[50], b=[50], c=[50]) == []
    assert (idle(engine), stored(engine)["a b"]) == (3, before)
    assert push(engine, 21, d=[50]) == [50]


def test_without_demand_no_join_is_idle() -> None:
    engine = make_chain("((a b) c) d", demand="off")
    push(engine, a=[1], b=[1], c=[1])
    assert stored(engine) == {"a b": 1, "a b c": 1}
