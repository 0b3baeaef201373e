"""Suspension: combinations without a partner further up wait, and results come as if they never did."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

import midstream as ms
from midstream.engine.executors import tree
from midstream.engine.joins import idling, suspending
from midstream.engine.joins.filling import Filler, store
from midstream.engine.joins.nodes import LeafNode
from midstream.engine.joins.probing import Prober
from midstream.engine.joins.suspending import Suspender
from midstream.engine.joins.waiting import NotWaiting, Waiting
from midstream.kernels.types import SMALLEST
from midstream.migrate import STRATEGIES
from midstream.state.row_set import RowSet

from ..eager import eager
from ..evictions import evict_some, trees_of
from ..limits import Limits, tight
from ..restless import restless
from .audit import OFTEN, Count, audit, audit_waiting, executor_of
from .small import CASES, RANGES, Small, draw_plan, draw_pushes, same, sorted_rows

CLIQUE = Small(
    "clique of four",
    RANGES,
    "a.k = b.k AND a.x = c.x AND a.y = d.y AND b.x = c.k AND b.y = d.x AND c.y = d.k",
    (
        same(0, 1, "k", "k"),
        same(0, 2, "x", "x"),
        same(0, 3, "y", "y"),
        same(1, 2, "x", "k"),
        same(1, 3, "y", "x"),
        same(2, 3, "y", "k"),
    ),
)
#: Of so many inputs, what climbs meets states of joins on its way, which may have holes.
CIRCLE = Small(
    "circle of five",
    (*RANGES, RANGES[0]),
    "a.y = b.x AND b.y = c.x AND c.y = d.x AND d.y = e.x AND e.y = a.x AND a.k = c.k",
    (*(same(at, (at + 1) % 5, "y", "x") for at in range(5)), same(0, 2, "k", "k")),
)
#: Of d nothing is there most of the time, while (a b) waits for e.
GAPS = Small(
    "gaps",
    ("RANGE 60 MICROSECONDS",) * 3 + ("RANGE 4 MICROSECONDS", "RANGE 60 MICROSECONDS"),
    "a.k = b.k AND b.x = c.k AND a.x = e.x AND b.y = e.y AND c.y = d.k",
    (same(0, 1, "k", "k"), same(1, 2, "x", "k"), same(0, 4, "x", "x"), same(1, 4, "y", "y"), same(2, 3, "y", "k")),
)
#: (d e) waits for c, so that (a b) has nothing to be joined with.
PAIRS = Small(
    "pairs",
    ("RANGE 60 MICROSECONDS",) * 2 + ("RANGE 6 MICROSECONDS",) + ("RANGE 60 MICROSECONDS",) * 2,
    "a.k = b.k AND b.x = d.x AND d.k = e.k AND d.v = e.x AND d.y = c.y AND e.y = c.k",
    (
        *(same(0, 1, "k", "k"), same(1, 3, "x", "x"), same(3, 4, "k", "k"), same(3, 4, "v", "x")),
        *(same(2, 3, "y", "y"), same(2, 4, "k", "y")),
    ),
)
#: Plans that are taken more often than others.
PLANS = {"gaps": "((((a b) c) e) d)", "pairs": "(((a b) (d e)) c)"}
KEYED = (
    *(case for case in CASES if case.name in ("common", "chain", "star", "composite", "rows")),
    CLIQUE,
    CIRCLE,
    GAPS,
    PAIRS,
)
Row = dict[str, int]


def make_clique(plan: str, **options: Any) -> ms.Engine:
    """Four streams, each with an attribute for each of the others, called like the stream."""
    pairs = [(left, right) for at, left in enumerate("abcd") for right in "abcd"[at + 1 :]]
    where = " AND ".join(f"{left}.{right} = {right}.{left}" for left, right in pairs)
    query = ms.query(
        f"SELECT a.n AS a, b.n AS b, c.n AS c, d.n AS d "
        f"FROM {', '.join(f'{name} [RANGE 100 MICROSECONDS]' for name in 'abcd')} WHERE {where}",
        schemas={name: {**dict.fromkeys("abcd", int), "n": int, "ts": int} for name in "abcd"},
        event_time="ts",
    )
    return ms.Engine(query, plan=plan, **{"demand": "on", **options})


def row(n: int, ts: int = 0, **values: int) -> list[Row]:
    return [{**dict.fromkeys("abcd", -1), **values, "n": n, "ts": ts}]


def results(table: Any) -> list[tuple[int, ...]]:
    return sorted(tuple(found.values())[:4] for found in table.to_pylist())


def counts(engine: ms.Engine) -> tuple[int, int]:
    demand = engine.stats().demand
    assert demand is not None
    return demand.suspended, demand.resumed


def make_no_join_idle(engine: ms.Engine) -> None:
    """One row of each input that all match, so that no window and no state is empty."""
    assert engine.push(dict.fromkeys("abcd", row(9, a=9, b=9, c=9, d=9))).num_rows == 1


def fill_up(engine: ms.Engine) -> None:
    """Rows that are partners pair by pair, so that all of them enter, but (a1 b1) has no partner in d."""
    make_no_join_idle(engine)
    engine.push(
        {
            "a": row(1, b=1, c=1, d=1),
            "b": row(1, a=1, c=1, d=1),
            "c": row(1, a=1, b=1, d=1),
            "d": row(1, a=1, b=2, c=1) + row(2, a=2, b=1, c=1),
        }
    )


def test_a_combination_waits_until_its_partner_comes() -> None:
    engine = make_clique("((a b) c) d")
    fill_up(engine)
    assert counts(engine) == (1, 0), "(a b) has no row of d that matches both"
    assert [state.rows for state in engine.stats().states if state.kind == "join"] == [1, 1]
    assert results(engine.push({"d": row(3, 1, a=1, b=1, c=1)})) == [(1, 1, 1, 3)]
    assert counts(engine) == (1, 1)
    assert [state.rows for state in engine.stats().states if state.kind == "join"] == [2, 2]


def test_rows_wait_for_states() -> None:
    """In (a b) (c d), a row of a waits for a combination of c and d that matches it in both."""
    engine = make_clique("(a b) (c d)")
    make_no_join_idle(engine)
    engine.push({"a": row(1, b=1, c=1, d=1), "b": row(1, a=1, c=1, d=1), "c": row(1, a=1, b=1, d=5)})
    assert engine.push({"d": row(1, a=1, b=1, c=6)}).num_rows == 0
    suspended, resumed = counts(engine)
    assert suspended >= 2 and resumed == 0
    assert results(engine.push({"d": row(2, 1, a=1, b=1, c=5)})) == [(1, 1, 1, 2)]


def test_nothing_is_lost_where_both_sides_could_wait_for_each_other() -> None:
    """The smallest input on which JIT, as published, loses results: c1 waits for a and b, and these for c1."""
    engine = make_clique("(a b) (c d)")
    make_no_join_idle(engine)
    found = []
    for at, (stream, values) in enumerate(
        [
            ("c", {"a": 1, "b": 1, "d": 1}),
            ("a", {"b": 0, "c": 1, "d": 0}),
            ("b", {"a": 0, "c": 0, "d": 1}),
            ("d", {"a": 1, "b": 0, "c": 1}),
            ("d", {"a": 0, "b": 0, "c": 1}),
            ("a", {"b": 0, "c": 1, "d": 0}),
            ("b", {"a": 0, "c": 1, "d": 0}),
        ]
    ):
        found += results(engine.push({stream: row(at, at, **values)}))
    assert found == [(1, 6, 0, 4), (5, 6, 0, 4)]


def test_everything_waits_for_a_side_that_is_empty() -> None:
    """Rows of d come late; only what matches climbs then."""
    engine = make_clique("((a b) c) d", demand="on")
    many = [{**values, **dict.fromkeys("abcd", n)} for n in range(9) for values in row(n)]
    engine.push(dict.fromkeys("abc", many))
    stats = engine.stats()
    assert sum(state.rows for state in stats.states if state.kind == "join") == 0
    assert results(engine.push({"d": row(1, 1, a=4, b=4, c=4)})) == [(4, 4, 4, 1)]
    assert sum(state.rows for state in engine.stats().states if state.kind == "join") == 2


def test_what_waits_expires() -> None:
    engine = make_clique("((a b) c) d")
    fill_up(engine)
    assert engine.push({"d": row(3, 101, a=1, b=1, c=1)}, watermark=101).num_rows == 0
    tree_executor = engine._pipeline.executor
    assert isinstance(tree_executor, tree.TreeExecutor) and tree_executor._suspender is not None
    for _ in range(3):
        engine.push({})
    assert tree_executor._suspender.waiting == 0


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES if strategy.name != "staged"])
def test_what_waits_outlasts_a_migration(strategy: str) -> None:
    engine = make_clique("((a b) c) d")
    fill_up(engine)
    engine.migrate("d (c (b a))" if strategy == "pause-drain-resume" else "((b a) d) c", strategy)
    assert results(engine.push({"d": row(3, 1, a=1, b=1, c=1)})) == [(1, 1, 1, 3)]
    assert results(engine.push({"d": row(4, 2, a=1, b=1, c=1)})) == [(1, 1, 1, 4)]


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES if strategy.runs_beside])
def test_what_waits_in_the_old_plan_is_not_filled_in(strategy: str) -> None:
    """Beside the new plan it may end earlier than the same combination of the windows does."""
    engine = make_clique("((a b) c) d")
    make_no_join_idle(engine)
    engine.migrate("((d c) b) a", strategy)
    rows = {"a": row(1, 10, b=1, c=1, d=1), "b": row(1, 10, a=1, c=1, d=1), "c": row(1, 10, a=1, b=1, d=1)}
    engine.push({**rows, "d": row(1, 10, a=1, b=2, c=1) + row(2, 10, a=2, b=1, c=1)})
    assert counts(engine)[0] > 0
    for executor in trees_of(engine._pipeline.executor):
        for node in executor.joins():
            if node.state is not None:
                executor.evict_all(node)
    assert results(engine.push({"d": row(3, 11, a=1, b=1, c=1)})) == [(1, 1, 1, 3)]


def test_what_waits_outlasts_a_restart() -> None:
    engine = make_clique("((a b) c) d")
    fill_up(engine)
    engine = ms.Engine.restore(engine.query, engine.snapshot(), demand="on")
    assert results(engine.push({"d": row(3, 1, a=1, b=1, c=1)})) == [(1, 1, 1, 3)]


def test_what_waits_outlasts_a_memory_limit() -> None:
    engine = make_clique("((a b) c) d")
    fill_up(engine)
    engine.memory_limit = "100MB"
    assert results(engine.push({"d": row(3, 1, a=1, b=1, c=1)})) == [(1, 1, 1, 3)]
    assert counts(engine) == (1, 1)
    engine.push({"a": row(2, 2, b=1, c=2, d=1), "b": row(2, 2, a=1, c=2, d=3), "c": row(2, 2, a=2, b=2, d=1)})
    engine.push({"d": row(5, 3, a=1, b=9, c=9) + row(6, 3, a=9, b=3, c=9)})
    assert counts(engine)[0] > 1, "under a limit, too, combinations wait"


def test_what_does_not_fit_does_not_wait() -> None:
    """With no room beside the windows, what waits is given up, and found again when its partner comes."""
    with tight():
        engine = make_clique("((a b) c) d")
        fill_up(engine)
        memory = engine._pipeline.memory
        for _ in range(3):  # the windows give back what they can first
            memory.set_limit(memory.count().windows, "test")
        assert executor_of(engine)._suspender.waiting == 0  # type: ignore[union-attr]
        memory.set_limit(1 << 20, "test")
        assert results(engine.push({"d": row(3, 1, a=1, b=1, c=1)})) == [(1, 1, 1, 3)]


def test_a_state_with_holes_is_not_asked_but_its_windows_are() -> None:
    """In ((a b) e) (c d), with (c d) off, (a b) waits if no row of c, or none of d, matches both a and b."""
    pairs = ("a.x = b.x", "a.y = c.x", "b.y = c.y", "c.z = d.z", "a.z = e.x")
    names = "abcde"
    query = ms.query(
        f"SELECT a.n AS a, b.n AS b, c.n AS c, d.n AS d, e.n AS e "
        f"FROM {', '.join(f'{name} [RANGE 100 MICROSECONDS]' for name in names)} WHERE {' AND '.join(pairs)}",
        schemas={name: {"x": int, "y": int, "z": int, "n": int, "ts": int} for name in names},
        event_time="ts",
    )
    engine = ms.Engine(query, plan="((a b) e) (c d)", demand="on")
    executor = executor_of(engine)
    executor.switch_off(next(node for node in executor.joins() if node.inputs == (2, 3)))

    def of(n: int, ts: int, x: int, y: int, z: int) -> list[Row]:
        return [{"x": x, "y": y, "z": z, "n": n, "ts": ts}]

    engine.push({"c": of(1, 0, 1, 7, 1) + of(2, 0, 7, 2, 1), "d": of(1, 0, 0, 0, 1), "e": of(1, 0, 1, 0, 0)})
    assert engine.push({"a": of(1, 1, 1, 1, 1), "b": of(1, 1, 1, 2, 0)}).num_rows == 0
    assert counts(engine) == (1, 0), "c has partners of a and of b, but none of both"
    found = engine.push({"c": of(3, 2, 1, 2, 1)}).to_pylist()
    assert [tuple(result.values())[:5] for result in found] == [(1, 1, 3, 1, 1)]
    assert counts(engine) == (1, 1)


# Any order of events -------------------------------------------------------------------------------------------------


@eager()
@tight()
def check_case(small: Small, seed: int, steps: int = 40, audited: float = 1.0) -> Count:
    """An engine with demand against one without, and an audit after every push and every event, or a share of them.

    Entries are evicted, states switched off and on, plans changed, engines restored, and limits of memory drawn. What
    waits is given up. In some cases windows are packed as soon as a row is dead.
    Streams run dry for a while, some of them so long that their windows get empty.
    """
    rng = random.Random(f"suspended {small.name} {seed}")
    audits = random.Random(f"audits {small.name} {seed}")
    others = random.Random(f"others {small.name} {seed}")
    packing = restless if others.random() < 0.4 else contextlib.nullcontext
    query = small.query()
    steady = ms.Engine(query, plan=draw_plan(rng, small.size), demand="off")
    demand = rng.choice(["on", "on", "auto"])
    plan = PLANS[small.name] if small.name in PLANS and rng.random() < 0.7 else draw_plan(rng, small.size)
    engine = ms.Engine(query, plan=plan, demand=demand)
    count = Count()
    events = rng.choice([0.0, 0.05, 0.2])
    limits = Limits(f"suspended {small.name} {seed}") if rng.random() < 0.4 else None
    droughts = rng.choice([0.0, 0.05, 0.15])
    is_timed, newest = bool(droughts) and rng.random() < 0.7, 0

    def look() -> None:
        if audits.random() < audited:
            audit(engine, small, count)
            count.waited += audit_waiting(engine, small)

    for push in draw_pushes(rng, small, steps, most=rng.choice([1, 3, 5]), droughts=droughts):
        newest = max([newest, *(moment for rows in push.values() for moment in rows.column("ts").to_pylist())])
        watermark = newest - 10 if is_timed else None  # else a dry stream would hold it back
        before = counts(engine)[0] if is_partial(engine) else None
        wanted = sorted_rows(steady.push(push, watermark))
        take = partial(engine.push, push, watermark)
        with packing():
            found = take() if limits is None else limits.push(engine, take)
        assert sorted_rows(found) == wanted
        look()
        count.waited_beside_holes += 0 if before is None else counts(engine)[0] - before
        if limits is not None:
            limits.change(engine, 0.2)
            look()
        for event in (evict_some, switch_some, change_plan):
            if rng.random() < events:
                event(engine, rng)
                look()
        if others.random() < events / 2:
            executor_of(engine).give_up_rest()
            look()
        if rng.random() < events / 2:
            engine = ms.Engine.restore(query, engine.snapshot(), plan=draw_plan(rng, small.size), demand=demand)
            look()
    return count


def is_partial(engine: ms.Engine) -> bool:
    """Whether something is missing from a state, or one is off."""
    return any(node.is_off or node.lacks_entries for node in executor_of(engine).joins())


def switch_some(engine: ms.Engine, rng: random.Random) -> None:
    """Switch the state of a join off, or on again if it is off."""
    executor = executor_of(engine)
    states = [node for node in executor.joins() if node.state is not None]
    if states:
        node = rng.choice(states)
        (executor.switch_on if node.is_off else executor.switch_off)(node)


def change_plan(engine: ms.Engine, rng: random.Random) -> None:
    engine.migrate(draw_plan(rng, len(engine.query.inputs)), rng.choice(["jisc", "jisc", "moving-state"]))


@pytest.mark.parametrize("small", KEYED, ids=lambda case: case.name)
def test_what_is_stored_missing_or_open_is_the_join(small: Small) -> None:
    counts = [check_case(small, seed) for seed in range(4)]
    assert sum(count.states for count in counts) > 50
    if small.name in ("clique of four", "circle of five", "chain"):
        assert sum(count.waited for count in counts) > 10 and sum(count.open for count in counts)
        assert sum(count.withheld for count in counts)
        assert sum(count.waited_beside_holes for count in counts)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
@pytest.mark.parametrize("small", KEYED, ids=lambda case: case.name)
def test_many_cases(small: Small, block: int) -> None:
    for seed in range(100 + 25 * block, 125 + 25 * block):
        check_case(small, seed, audited=OFTEN)


# Mistakes ------------------------------------------------------------------------------------------------------------


def climb_without_a_cascade(patch: pytest.MonkeyPatch) -> None:
    wake = Suspender.wake
    depth = [0]

    def once(suspender: Suspender, *given: Any) -> None:
        depth[0] += 1
        try:
            if depth[0] == 1:
                wake(suspender, *given)
        finally:
            depth[0] -= 1

    patch.setattr(Suspender, "wake", once)


def see_new_rows_too_early(patch: pytest.MonkeyPatch) -> None:
    """A climb joins with rows of this chunk, which will come to it themselves."""
    patch.setattr(tree, "Sight", lambda before, since, horizon: suspending.Sight(None, since, horizon))


def lose_nothing(patch: pytest.MonkeyPatch) -> None:
    """What waited is taken for stored when states change hands."""
    patch.setattr(suspending, "lose", lambda *_: None)


def ask_states_with_holes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Waiting,
        "_is_eager_whole",
        property(lambda kind: isinstance(kind.eager, LeafNode) or not kind.eager.is_off),
    )


def ask_states_that_are_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Waiting,
        "_is_eager_whole",
        property(lambda kind: isinstance(kind.eager, LeafNode) or not kind.eager.lacks_entries),
    )


def join_rows_that_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NotWaiting, "__call__", lambda *_: None)


def wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Suspender, "wake", lambda *_: None)


def forget_that_rows_have_gone_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowSet, "discard", lambda *_: None)


def wake_all_before_any_climbs(patch: pytest.MonkeyPatch) -> None:
    """Two that wake at two nodes meet on the way, and each brings what they have in common."""

    def wake(suspender: Suspender, join: Any, arrived: Any, sight: Any) -> None:
        taken = [
            (waiting, waiting.take(arrived))
            for waiting in suspender._by_join.get(id(join), ())
            if len(waiting.state) and len(arrived)
        ]
        for waiting, combos in taken:
            if isinstance(waiting.node, LeafNode):
                suspender._waiting_rows[waiting.node.number].discard(combos.rows[:, 0])
        for waiting, combos in taken:
            suspender._resume(waiting, combos, sight)

    patch.setattr(Suspender, "wake", wake)


def let_both_sides_wait(patch: pytest.MonkeyPatch) -> None:
    """Combinations of both children of a join wait for each other, as JIT was published."""
    add_waiting, matches = Suspender._add_waiting, Prober.matches
    suspenders: list[Suspender] = []

    def add_both(suspender: Suspender, query: Any, join: Any) -> None:
        suspenders.append(suspender)
        for side in (join.left, join.right):
            with mock.patch.object(suspending, "lazy_side", lambda node, side=side: side):
                add_waiting(suspender, query, join)

    def wake_and_match(prober: Prober, join: Any, delta: Any, child: Any, *given: Any) -> Any:
        for suspender in suspenders:
            for waiting in suspender._by_join.get(id(join), ()):
                if waiting.top is child and len(waiting.state) and len(delta):
                    suspender._resume(waiting, waiting.take(delta), suspending.Sight(*given[1:3], SMALLEST))
        return matches(prober, join, delta, child, *given)

    patch.setattr(Suspender, "_add_waiting", add_both)
    patch.setattr(Suspender, "wake", lambda *_: None)
    patch.setattr(Prober, "matches", wake_and_match)


def find_what_is_open_in_windows(patch: pytest.MonkeyPatch) -> None:
    """What waits is open in a state that is off, too, but whoever probes the windows instead does not know."""
    patch.setattr(Prober, "_leave_out_open", lambda *_: None)


def fill_what_is_open(patch: pytest.MonkeyPatch) -> None:
    def cover(filler: Filler, found: Any, number: int, bounds: Any, pending: Any = ()) -> Any:
        passed = bounds.missing.covered(found.combos, number, bounds.horizon, pending)
        return found if passed is None else found.at(np.flatnonzero(passed))

    patch.setattr(Filler, "_covered", cover)


def climb_without_filling(patch: pytest.MonkeyPatch) -> None:
    class Idle:
        def fill_for(self, *_: Any) -> None: ...

    make = Suspender.__init__

    def make_idle(suspender: Suspender, *given: Any) -> None:
        make(suspender, *given)
        suspender._filler = Idle()  # type: ignore[assignment]

    patch.setattr(Suspender, "__init__", make_idle)


def store_what_is_missing(patch: pytest.MonkeyPatch) -> None:
    """What climbs is stored, although it is in a box and will be filled in once more."""
    patch.setattr(suspending, "_store_present", store)


def drop_without_a_hole(patch: pytest.MonkeyPatch) -> None:
    """What waits is given up for memory, and nobody knows that it is missing."""
    patch.setattr(suspending, "evict_all", lambda *_: 0)


def forget_what_was_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(idling, "withhold", lambda *_: None)


def be_idle_while_something_is_missing(patch: pytest.MonkeyPatch) -> None:
    """A side whose entries have been given up is not empty."""

    def is_empty(place: Any) -> bool:
        eager = place.eager
        return len(eager.window if isinstance(eager, LeafNode) else eager.state) == 0

    patch.setattr(idling._Place, "is_eager_empty", property(is_empty))


def let_it_wait_below_idle_joins(patch: pytest.MonkeyPatch) -> None:
    """Partners come, and nobody looks whether something waits for them."""

    def find_idle(suspender: Suspender, since: Any) -> None:
        suspender.idle.begin(since)

    patch.setattr(Suspender, "_find_idle", find_idle)


def climb_past_idle_joins(patch: pytest.MonkeyPatch) -> None:
    """A join stays idle although something has climbed to its other side."""
    climb = Suspender._climb

    def asleep(suspender: Suspender, *given: Any) -> None:
        with mock.patch.object(idling.IdleJoins, "wake"):
            climb(suspender, *given)

    patch.setattr(Suspender, "_climb", asleep)


def change_states_of_idle_joins(patch: pytest.MonkeyPatch) -> None:
    """What is given up, or taken over, does not know what was passed over."""
    patch.setattr(idling.IdleJoins, "stop", lambda *_: None)


def find_rows_before_the_chunk_alone(patch: pytest.MonkeyPatch) -> None:
    """What comes to a join in the middle of a chunk misses rows of the same chunk that were passed over."""
    begin, wake = idling.IdleJoins.begin_chunk, idling.IdleJoins._wake
    firsts: dict[int, int] = {}

    def begin_chunk(joins: Any, deltas: Any, since: Any) -> Any:
        firsts.clear()
        firsts.update({number: int(delta.combos.rows[0, 0]) for number, delta in deltas.items()})
        return begin(joins, deltas, since)

    patch.setattr(idling.IdleJoins, "begin_chunk", begin_chunk)
    patch.setattr(
        idling.IdleJoins, "_wake", lambda joins, place, lasts, since: wake(joins, place, {**lasts, **firsts}, since)
    )


MUTANTS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    climb_without_a_cascade,
    see_new_rows_too_early,
    lose_nothing,
    ask_states_with_holes,
    join_rows_that_wait,
    wake_nobody,
    forget_that_rows_have_gone_on,
    wake_all_before_any_climbs,
    let_both_sides_wait,
    ask_states_that_are_off,
    find_what_is_open_in_windows,
    fill_what_is_open,
    climb_without_filling,
    store_what_is_missing,
    drop_without_a_hole,
    forget_what_was_passed_over,
    be_idle_while_something_is_missing,
    let_it_wait_below_idle_joins,
    climb_past_idle_joins,
    change_states_of_idle_joins,
    find_rows_before_the_chunk_alone,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mistakes_can_be_made(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What they change has not been renamed."""
    mutant(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mistakes_are_caught(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, IndexError, KeyError)):
        check_many()


def check_many() -> None:
    """Cases that few mistakes survive, then all: which case catches a mistake is luck, and may take minutes."""
    for small, seed in ((PAIRS, 15), (GAPS, 39)):
        check_case(small, seed)
    for seed in range(100):
        for small in KEYED:
            check_case(small, seed)
