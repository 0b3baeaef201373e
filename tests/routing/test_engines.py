"""Routing as users say and see it: policies, pins, what a snapshot keeps, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.routing import sampling

ROUTED = ("stems", "eddy", "stairs")
PLANS = ("((r s) t)", "((s t) r)")
SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "ts": pa.int64()})
#: r and s have many pairs in the first half, s and t in the second.
PUSHES, ROWS = 40, 200


def make_query() -> ms.Query:
    inputs = ", ".join(f"{name} [RANGE 1 SECOND]" for name in "rst")
    text = f"SELECT r.ts AS x, s.ts AS y, t.ts AS z FROM {inputs} WHERE r.a = s.a AND s.b = t.b"
    return ms.query(text, schemas=dict.fromkeys("rst", SCHEMA), event_time="ts")


def make_push(number: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(number)
    many, few = rng.integers(0, 40, (2, ROWS)), rng.integers(0, 40_000, (2, ROWS))
    first, second = (many, few) if number < PUSHES // 2 else (few, many)
    times = number * 20_000 + np.arange(ROWS)
    columns = {"r": (first[0], few[0]), "s": (first[1], second[1]), "t": (few[1], second[0])}
    return {name: pa.table({"a": a, "b": b, "ts": times}) for name, (a, b) in columns.items()}


def make_engine(executor: str, **options: Any) -> ms.Engine:
    return ms.Engine(make_query(), executor=executor, plan=options.pop("plan", PLANS[0]), **options)


def run(engine: ms.Engine, first: int = 0, end: int = PUSHES) -> list[list[tuple[int, ...]]]:
    return [
        sorted(map(tuple, zip(*engine.push(make_push(at)).to_pydict().values(), strict=True)))
        for at in range(first, end)
    ]


@pytest.fixture(scope="module")
def wanted() -> list[list[tuple[int, ...]]]:
    found = run(make_engine("tree"))
    assert sum(map(len, found)) > 100
    return found


@pytest.mark.parametrize("routing", ["rank", "cost", "cumulative", "lottery", "content", "fixed"])
@pytest.mark.parametrize("executor", ROUTED)
def test_every_policy_gives_the_trees_results_push_by_push(executor: str, routing: str, wanted: Any) -> None:
    engine = make_engine(executor, routing=routing)
    assert run(engine) == wanted
    assert engine.routing is not None and engine.routing.policy == routing
    assert (engine.routing.changes == 0) == (routing == "fixed")


@pytest.mark.parametrize("strategy", ["staged", "jisc", "moving-state"])
def test_stairs_follow_the_router_by_the_engines_strategy(
    strategy: str, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Larger samples have it turn so late that to move a slice pays.
    monkeypatch.setattr(sampling, "_ENOUGH", 256)
    engine = make_engine("stairs", strategy=strategy)
    assert run(engine) == wanted and engine.routing.changes > 0
    assert engine.migration is None  # what a router does has no record
    assert engine.stats().work.rows_moved > 0


@pytest.mark.parametrize("executor", ROUTED)
def test_the_router_follows_the_rows(executor: str) -> None:
    engine = make_engine(executor)
    run(engine, 0, PUSHES // 2)
    first = {way.alias: way.order for way in engine.routing.streams}
    run(engine, PUSHES // 2, PUSHES)
    second = {way.alias: way.order for way in engine.routing.streams}
    assert first["s"].strip("(").startswith("s t") and second["s"].strip("(").startswith("s r")


def test_a_router_does_less_than_the_plan_it_began_with() -> None:
    engines = [make_engine(executor, routing=routing) for executor in ROUTED for routing in (None, "fixed")]
    for engine in engines:
        run(engine)
    work = [engine._pipeline.meter.lookups for engine in engines]  # without chance: what shares a bucket differs
    assert all(routed < 0.85 * fixed for routed, fixed in zip(work[::2], work[1::2], strict=True))


@pytest.mark.parametrize("executor", ROUTED)
def test_the_default_policy(executor: str) -> None:
    engine = make_engine(executor)
    assert engine.routing.policy == ("rank" if executor == "stems" else "cost")
    assert make_engine("tree").routing is None


@pytest.mark.parametrize("executor", ROUTED)
def test_a_plan_pins_and_a_routing_lets_go(executor: str, wanted: Any) -> None:
    engine = make_engine(executor)
    found = run(engine, 0, 10)
    engine.migrate(PLANS[0])
    assert (engine.routing.policy, str(engine.plan)) == ("fixed", PLANS[0])
    found += run(engine, 10, 15)
    assert (engine.routing.policy, str(engine.plan)) == ("fixed", PLANS[0])
    engine.migrate(routing="cumulative")
    assert engine.routing.policy == "cumulative"
    found += run(engine, 15, PUSHES)
    assert found == wanted and engine.routing.changes > 0


def test_a_plan_with_a_routing_is_where_the_router_begins() -> None:
    engine = make_engine("stairs")
    engine.migrate(PLANS[1], routing="rank")
    assert (str(engine.plan), engine.routing.policy) == (PLANS[1], "rank")


@pytest.mark.parametrize("executor", ROUTED)
def test_another_executor_gets_its_own_default(executor: str, wanted: Any) -> None:
    engine = make_engine("tree")
    found = run(engine, 0, 10)
    engine.migrate(executor=executor)
    assert engine.routing.policy == ("rank" if executor == "stems" else "cost")
    found += run(engine, 10, 30)
    engine.migrate(executor="tree")
    assert engine.routing is None
    assert found + run(engine, 30, PUSHES) == wanted


@pytest.mark.parametrize("routing", ["rank", "cost", "cumulative", "lottery", "content"])
@pytest.mark.parametrize("executor", ROUTED)
def test_a_restored_engine_routes_as_the_other_would_have(executor: str, routing: str, wanted: Any) -> None:
    engine = make_engine(executor, routing=routing, seed=5)
    found = run(engine, 0, 25)
    stored = engine.snapshot()
    assert len(json.dumps(stored.meta["routing"])) < 1 << 16
    restored = ms.Engine.restore(make_query(), stored.to_bytes())
    assert restored.routing.policy == routing
    for at in range(25, PUSHES):
        assert run(restored, at, at + 1) == run(engine, at, at + 1) == [wanted[at]]
        ways = [[(way.alias, way.order) for way in each.routing.streams] for each in (engine, restored)]
        assert ways[0] == ways[1]
    assert found == wanted[:25]


def test_a_restored_engine_keeps_a_pin_and_may_be_given_another_routing() -> None:
    engine = make_engine("stairs")
    run(engine, 0, 5)
    engine.migrate(PLANS[1])
    stored = engine.snapshot().to_bytes()
    assert ms.Engine.restore(make_query(), stored).routing.policy == "fixed"
    assert ms.Engine.restore(make_query(), stored, routing="rank").routing.policy == "rank"
    assert ms.Engine.restore(make_query(), stored, executor="stems").routing.policy == "rank"


def test_resuming_does_not_pin() -> None:
    engine = ms.Engine.resume(make_query(), make_push(0), watermark=0, executor="stairs", plan=PLANS[0])
    assert engine.routing.policy == "cost"


def test_a_report_says_why() -> None:
    engine = make_engine("stairs")
    assert "until every edge was seen" in str(engine.routing)
    run(engine, 0, 10)
    assert engine.routing.tree == (("r", "s"), ("s", "t"))
    assert str(engine.routing).startswith("cost, r-s, s-t\n  r: ")
    assert all("seen" not in way.reason for way in engine.routing.streams)


@pytest.mark.parametrize("routing", ["ranks", "", 3, object()])
def test_an_unknown_routing_is_refused(routing: object) -> None:
    hint = "did you mean 'rank'. " if routing == "ranks" else ""
    with pytest.raises(ms.EngineError, match=f"engine: unknown routing .*; {hint}routings: rank, cost, cumulative"):
        make_engine("stairs", routing=routing)
    engine = make_engine("stairs")
    with pytest.raises(ms.EngineError, match=f"migrate: unknown routing .*; {hint}routings: rank, cost, cumulative"):
        engine.migrate(routing=routing)  # type: ignore[arg-type]
    assert (engine.routing.policy, engine.migration) == ("cost", None)


def test_the_tree_refuses_a_routing() -> None:
    with pytest.raises(ms.EngineError, match=r"engine: routing='rank' on tree, .* give executor='stems', 'eddy' or"):
        make_engine("tree", routing="rank")
    engine = make_engine("tree")
    with pytest.raises(ms.EngineError, match="migrate: routing='rank' on tree"):
        engine.migrate(routing="rank")
    with pytest.raises(ms.EngineError, match="migrate: routing='rank' on tree"):
        make_engine("stems").migrate(PLANS[1], executor="tree", routing="rank")
    stored = engine.snapshot()
    with pytest.raises(ms.EngineError, match="restore: routing='rank' on tree"):
        ms.Engine.restore(make_query(), stored, routing="rank")


@pytest.mark.parametrize("seed", [1.5, "1", True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(ms.EngineError, match=r"engine: seed=.*; give a whole number"):
        make_engine("stairs", seed=seed)


def test_staged_is_for_stairs() -> None:
    engine = make_engine("tree")
    with pytest.raises(ms.EngineError, match=r"migrate: staged moves entries of STAIRs, and tree has none. Use jisc, "):
        engine.migrate(PLANS[1], "staged")
    assert make_engine("stairs").migrate(PLANS[1]).strategy == "staged"


def test_an_eddy_takes_another_routing_but_no_strategy() -> None:
    engine = make_engine("eddy")
    with pytest.raises(ms.EngineError, match="executor='stairs'"):
        engine.migrate(strategy="jisc", routing="rank")
    engine.migrate(routing="rank")
    assert engine.routing.policy == "rank"


def test_what_waits_for_a_stalled_input_is_joined_ahead() -> None:
    """While t has no rows, s goes to r first, and so does what is stored for t: its next rows find all of it.

    It has to come back once before anything is done for it: it may as well have ended, and as long as none of its rows
    come, to go there first saves everything.
    """

    def run_stalled(**options: Any) -> tuple[ms.Engine, int, int]:
        engine = make_engine("stairs", plan=PLANS[1], **options)
        for at in range(35):
            push = make_push(at)
            has_all = at in (0, 1, 11)
            engine.push(push if has_all else {"r": push["r"], "s": push["s"]})
            if not options and at in (10, 34):
                orders = {way.order for way in engine.routing.streams if way.alias == "s"}
                assert orders == {"((s t) r)" if at == 10 else "((s r) t)"}
                waiting = [state.rows for state in engine.stats().states if state.name == "s to t: s"]
                assert (waiting > [0]) == (at == 10)
        before = engine.stats().work.slots_visited
        found = engine.push({"t": make_push(40)["t"]}).num_rows
        return engine, found, engine.stats().work.slots_visited - before

    routed, found, work = run_stalled()
    _, fixed_found, fixed_work = run_stalled(routing="fixed")
    assert found == fixed_found
    stored = [set(state.aliases) for state in routed.stats().states if state.name.startswith("s to t") and state.rows]
    assert stored == [{"r", "s"}]
    assert work < 0.5 * fixed_work


def test_stairs_go_over_to_a_better_tree() -> None:
    """All have one key; hardly a row of c has a partner. By way of c there is hardly anything to do."""
    inputs = ", ".join(f"{name} [RANGE 100 MILLISECONDS]" for name in "abcd")
    text = (
        f"SELECT a.ts AS w, b.ts AS x, c.ts AS y, d.ts AS z FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    )
    schema = pa.schema({"k": pa.int64(), "ts": pa.int64()})
    query = ms.query(text, schemas=dict.fromkeys("abcd", schema), event_time="ts")
    engines = [
        ms.Engine(query, plan="(((a b) d) c)", executor=executor, **options)
        for executor, options in (("tree", {}), ("stairs", {}), ("stairs", {"routing": "fixed"}))
    ]
    for number in range(40):
        rng = np.random.default_rng(number)
        keys = {name: rng.integers(0, 40 if name != "c" else 40_000, 100) for name in "abcd"}
        push = {name: pa.table({"k": keys[name], "ts": number * 5_000 + np.arange(100)}) for name in "abcd"}
        results = [engine.push(push) for engine in engines]
        rows = [sorted(map(tuple, zip(*found.to_pydict().values(), strict=True))) for found in results]
        assert rows[0] == rows[1] == rows[2]
    assert all("c" in pair for pair in engines[1].routing.tree)
    work = [engine.stats().work.slots_visited for engine in engines]
    assert work[1] < 0.5 * work[2]
    restored = ms.Engine.restore(query, engines[1].snapshot())
    assert restored.routing.tree == engines[1].routing.tree


def push_of_two_kinds(number: int, as_text: bool = False) -> dict[str, pa.Table]:
    """Half of the rows of s have partners in r and none in t, the others the other way round; a tells which."""
    rng = np.random.default_rng(number)
    size = 400
    times = number * 10_000 + np.arange(size)
    is_first, is_rare = rng.random(size) < 0.5, rng.random((2, size)) < 0.5
    some, none = rng.integers(0, 1_000, (4, size)), rng.integers(10**6, 10**9, (4, size))
    if as_text:
        some[1], none[1] = 1, 2  # two heavy keys instead of two ranges
    columns = {
        "r": (np.where(is_rare[0], some[0], none[0]), some[2]),
        "s": (np.where(is_first, some[1], none[1]), np.where(is_first, none[2], some[2])),
        "t": (some[0], np.where(is_rare[1], some[3], none[3])),
    }
    key = pa.string() if as_text else pa.int64()
    return {name: pa.table({"a": pa.array(a).cast(key), "b": b, "ts": times}) for name, (a, b) in columns.items()}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("executor", ROUTED)
def test_rows_of_different_keys_take_different_ways(executor: str, as_text: bool) -> None:
    schema = pa.schema({"a": pa.string() if as_text else pa.int64(), "b": pa.int64(), "ts": pa.int64()})
    inputs = ", ".join(f"{name} [RANGE 100 MILLISECONDS]" for name in "rst")
    text = f"SELECT r.ts AS x, s.ts AS y, t.ts AS z FROM {inputs} WHERE r.a = s.a AND s.b = t.b"
    query = ms.query(text, schemas=dict.fromkeys("rst", schema), event_time="ts")
    tree, together, apart = (
        ms.Engine(query, executor=kind, **options)
        for kind, options in (
            ("tree", {}),
            (executor, {"routing": "cumulative"}),
            (executor, {"routing": "content"}),
        )
    )
    for number in range(30):
        push = push_of_two_kinds(number, as_text)
        found = [engine.push(push) for engine in (tree, together, apart)]
        rows = [sorted(map(tuple, zip(*table.to_pydict().values(), strict=True))) for table in found]
        assert rows[0] == rows[1] == rows[2]
    if as_text:  # what heavy keys save is little here
        assert apart._pipeline.rates.by_class.classes[0].heavy
        return
    orders = {way.order for way in apart.routing.streams if way.alias == "s"}
    assert len(orders) == 2 and "class 1" in str(apart.routing)
    shares = [way.share for way in apart.routing.streams if way.alias == "s"]
    assert sum(shares) == pytest.approx(1.0)
    assert apart.stats().work.slots_visited < together.stats().work.slots_visited


def test_rows_that_are_alike_are_not_told_apart() -> None:
    engine = make_engine("stairs", routing="content")
    for number in range(PUSHES // 2):
        engine.push(make_push(number))
    assert {way.number for way in engine.routing.streams} == {0}


@pytest.mark.parametrize("executor", ROUTED)
def test_content_needs_a_key(executor: str) -> None:
    text = "SELECT r.ts AS x FROM r [RANGE 1 SECOND], s [RANGE 1 SECOND] WHERE r.a < s.a"
    query = ms.query(text, schemas=dict.fromkeys("rs", SCHEMA), event_time="ts")
    refusal = r"routing='content' tells rows apart by a key .* use routing='cost'"
    with pytest.raises(ms.EngineError, match=f"engine: {refusal}"):
        ms.Engine(query, executor=executor, routing="content")
    engine = ms.Engine(query, executor=executor)
    with pytest.raises(ms.EngineError, match=f"migrate: {refusal}"):
        engine.migrate(routing="content")
    with pytest.raises(ms.EngineError, match=f"restore: {refusal}"):
        ms.Engine.restore(query, engine.snapshot(), routing="content")


@pytest.mark.parametrize("executor", ROUTED)
def test_every_branch_of_a_set_operation_has_its_own_way(executor: str) -> None:
    inputs = ", ".join(f"{name} [RANGE 1 SECOND]" for name in "rst")
    branch = f"SELECT r.ts AS x, t.ts AS z FROM {inputs} WHERE r.a = s.a AND s.b = t.b"
    query = ms.query(f"{branch} UNION ALL {branch}", schemas=dict.fromkeys("rst", SCHEMA), event_time="ts")
    engine, tree = ms.Engine(query, executor=executor), ms.Engine(query)
    for number in range(PUSHES):
        found, wanted = (each.push(make_push(number)) for each in (engine, tree))
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, wanted.to_pylist()))
    assert engine.routing.changes > 0 and len(engine.routing.streams) == 6
    assert engine.stats().rows_out == tree.stats().rows_out > 0
