"""Short stories of rows in STAIRs: the burden of history, how it is lifted, and where the published theorem is wrong.

R, S and T are joined in a row: R and S over the edge a, S and T over the edge b.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import midstream as ms
from midstream.engine.executors.eddy.operations import demote
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore

from . import mutants
from .audit import audit, eddies_of

R, S, T = 0, 1, 2
ROW = {"a": int, "b": int, "v": int, "ts": int}
FIRST_R, FIRST_T = "((R S) T)", "((S T) R)"


def make_engine(executor: str, plan: str = FIRST_R) -> ms.Engine:
    text = """SELECT R.v AS r, S.v AS s, T.v AS t FROM R [RANGE 1 HOUR], S [RANGE 1 HOUR], T [RANGE 1 HOUR]
              WHERE R.a = S.a AND S.b = T.b"""
    return ms.Engine(
        ms.query(text, schemas=dict.fromkeys("RST", ROW), event_time="ts"),
        plan=plan,
        executor=executor,
        strategy="jisc",
    )


def push(engine: ms.Engine, *names: str) -> list[str]:
    """Rows such as r1 or t2, one after the other, all with the same keys; the results, as the names of their rows."""
    found = []
    for name in names:
        row = {"a": 0, "b": 0, "v": int(name[1:]), "ts": 0}
        found += [f"r{x['r']} s{x['s']} t{x['t']}" for x in engine.push({name[0].upper(): [row]}).to_pylist()]
    return sorted(found)


def store_of(engine: ms.Engine) -> StairStore:
    (eddy,) = eddies_of(engine._pipeline.executor)
    return eddy.store


def stair_of(engine: ms.Engine, stream: int, beyond: int) -> Stair:
    """The STAIR of a stream on the edge to another."""
    stairs = store_of(engine).stairs.items()
    return next(stair for (own, edge), stair in stairs if own == stream and edge.other(own) == beyond)


def contents(stair: Stair) -> dict[str, int]:
    """How many entries a STAIR has of each set of inputs."""
    return {
        "".join("RST"[number] for number in sorted(inputs)): len(stair.rows)
        if inputs == stair.alone
        else len(stair.states[inputs])
        for inputs in stair.contents()
    }


@pytest.mark.parametrize("has_rule", [True, False])
def test_theorem_a_2_is_wrong(has_rule: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariant holds after the demotion, and yet (r2 s1 t1) would come twice: r2 brings (r2 s1) to S.b."""
    if not has_rule:
        mutants.without_rule(monkeypatch)
    engine = make_engine("eddy")
    push(engine, "s1", "r1")
    stair = stair_of(engine, S, T)
    assert contents(stair) == {"RS": 1}
    demote(store_of(engine), stair, frozenset((R, S)), np.array([1]), frozenset((S,)))
    assert contents(stair) == {"S": 1}
    audit(engine)
    push(engine, "r2")
    assert contents(stair) == ({"S": 1} if has_rule else {"S": 1, "RS": 1})
    twice = [] if has_rule else ["r2 s1 t1"]
    assert push(engine, "t1") == sorted(["r1 s1 t1", "r2 s1 t1", *twice])


def test_the_burden_of_history_and_how_stairs_lift_it() -> None:
    """S rows went to R first. Now R rows come in numbers, and each would be joined with S for nothing: no T matches."""
    for executor in ("eddy", "stairs"):
        engine = make_engine(executor, FIRST_R)
        engine.push({"S": [{"a": 0, "b": number, "v": number, "ts": 0} for number in range(50)]})
        engine.migrate(FIRST_T)
        before = engine.stats().work.slots_visited
        for number in range(20):
            assert engine.push({"R": [{"a": 0, "b": 0, "v": number, "ts": 0}]}).num_rows == 0
        visited = engine.stats().work.slots_visited - before
        if executor == "eddy":
            assert contents(stair_of(engine, S, R)) == {"S": 50}
            assert visited >= 20 * 50
        else:
            assert contents(stair_of(engine, S, R)) == {}
            assert contents(stair_of(engine, S, T)) == {"S": 50}
            assert visited <= 2 * 50
        assert engine.push({"T": [{"a": 0, "b": 7, "v": 1, "ts": 0}]}).num_rows == 20


def test_a_fixed_order_has_the_states_of_the_tree() -> None:
    engine, tree = make_engine("stairs"), make_engine("tree")
    for target in (engine, tree):
        push(target, "s1", "r1", "r2", "t1", "s2")
    states = {state.aliases: state.rows for state in engine.stats().states if len(state.aliases) > 1}
    assert states == {state.aliases: state.rows for state in tree.stats().states if state.kind == "join"}
    assert contents(stair_of(engine, S, R)) == {"S": 2}
    assert contents(stair_of(engine, R, S)) == {"R": 2}
    assert contents(stair_of(engine, S, T)) == {"RS": 4}


def test_stats_name_every_stair_and_set() -> None:
    engine = make_engine("stairs")
    push(engine, "s1", "r1", "r2")
    stairs = {state.name: (state.rows, state.holes) for state in engine.stats().states if state.kind == "stair"}
    assert stairs == {"R to S: R": (2, 0), "S to R: S": (1, 0), "S to T: R S": (2, 0), "T to S: T": (0, 0)}
    engine.migrate(FIRST_T, budget=0)
    stairs = {state.name: (state.rows, state.holes) for state in engine.stats().states if state.kind == "stair"}
    assert stairs["S to T: S R"] == (2, 2) and stairs["S to R: S"] == (1, 1)
    assert (stairs["S to R: S T"], stairs["S to T: S"]) == ((0, 0), (0, 0))


def test_a_restart_puts_every_row_into_every_stair() -> None:
    engine = make_engine("stairs")
    push(engine, "s1", "r1", "t1")
    engine = ms.Engine.restore(engine.query, engine.snapshot(), strategy="jisc")
    assert contents(stair_of(engine, S, R)) == contents(stair_of(engine, S, T)) == {"S": 1}
    assert push(engine, "t2") == ["r1 s1 t2"]
    assert contents(stair_of(engine, S, T)) == {"RS": 1}  # which the probe has had moved


@pytest.mark.parametrize(
    ("plan", "strategy", "message"),
    [
        (FIRST_T, "jisc", "on eddy only the routing of new rows changes.*leave the strategy out.*executor='stairs'"),
        ("((R T) S)", None, r"the eddy sends rows over R-S, S-T, and \(\(R T\) S\) joins.*executor='stairs'"),
    ],
)
def test_an_eddy_refuses_what_it_cannot_do(plan: str, strategy: str | None, message: str) -> None:
    engine = make_engine("eddy")
    push(engine, "s1", "r1")
    with pytest.raises(ms.EngineError, match=f"migrate: {message}"):
        engine.migrate(plan, strategy)
    assert (str(engine.plan), engine.migration) == (FIRST_R, None)
    engine.migrate(plan, strategy, executor="stairs")
    assert push(engine, "t1") == ["r1 s1 t1"]


@pytest.mark.parametrize("strategy", ["jisc", "moving-state", "genmig", None])
def test_where_operators_move_an_eddy_starts_anew_by_any_strategy(strategy: str | None) -> None:
    query = ms.query(
        "SELECT DISTINCT R.v FROM R [RANGE 8 MICROSECONDS], S [RANGE 8 MICROSECONDS] WHERE R.a = S.a",
        schemas=dict.fromkeys("RS", ROW),
        event_time="ts",
        step="1 millisecond",
    )
    engine, alone = (ms.Engine(query, plan="(R S)", executor="eddy") for _ in range(2))
    for ts in range(0, 5_000, 500):
        if ts == 2_000:
            engine.migrate("(distinct(R) S)", strategy)
        batch = {name: [{"a": 1, "b": 0, "v": ts % 3, "ts": ts}] * 2 for name in "RS"}
        assert engine.push(batch).sort_by("valid_from") == alone.push(batch).sort_by("valid_from")
    assert engine.finish().sort_by("valid_from") == alone.finish().sort_by("valid_from")


def test_an_eddy_changes_its_order_whatever_its_engine_goes_by_elsewhere() -> None:
    """The strategy of the engine is a default, and nobody could leave it out."""
    query = make_engine("eddy").query
    engine = ms.Engine(query, plan=FIRST_R, executor="eddy", strategy="parallel-track")
    push(engine, "s1", "r1")
    assert engine.migrate(FIRST_T).strategy == "jisc"
    assert str(engine.plan) == FIRST_T
    assert push(engine, "t1") == ["r1 s1 t1"]
    assert engine.migrate(FIRST_R, executor="stairs").strategy == "parallel-track"


def test_a_new_routing_of_an_eddy_is_done_at_once() -> None:
    engine = make_engine("eddy")
    push(engine, "s1", "r1")
    record = engine.migrate(FIRST_T)
    assert (record.phase, record.holes_at_start, str(engine.plan)) == ("done", 0, FIRST_T)
    push(engine, "s2")
    assert contents(stair_of(engine, S, R)) == {"S": 1}  # s1, which has been there before
    assert contents(stair_of(engine, S, T)) == {"RS": 1, "S": 1}
    assert push(engine, "t1") == ["r1 s1 t1", "r1 s2 t1"]


def test_dead_entries_are_no_work() -> None:
    """(r2 s1) is dead, with s1, and stands behind (r1 s2), which is not: it is given up, and nothing waits for it.

    Another row has the place of s1 in the window, so that nobody can tell its key any more.
    """
    text = """SELECT R.v AS r, S.v AS s, T.v AS t FROM R [RANGE 1 HOUR], S [RANGE 10 MICROSECONDS], T [RANGE 1 HOUR]
              WHERE R.a = S.a AND S.b = T.b"""
    query = ms.query(text, schemas=dict.fromkeys("RST", ROW), event_time="ts")
    engine = ms.Engine(query, plan=FIRST_R, executor="stairs", strategy="jisc")
    engine.push({"S": [{"a": 2, "b": 5, "v": 1, "ts": 0}, {"a": 1, "b": 6, "v": 2, "ts": 100}]}, watermark=0)
    for key in (1, 2):
        engine.push({"R": [{"a": key, "b": 0, "v": key, "ts": 0}]}, watermark=0)
    engine.push({}, watermark=50)
    engine.push({"S": [{"a": 9, "b": 9, "v": 3, "ts": 100}] * 63})
    stair = stair_of(engine, S, T)
    assert contents(stair) == {"RS": 2} and (stair.window.head, stair.window.capacity) == (2, 64)
    engine.migrate(FIRST_T, budget=0)
    (eddy,) = eddies_of(engine._pipeline.executor)
    assert eddy.mover is not None
    for _ in range(5):
        eddy.mover.move_some(100)
    assert eddy.mover.is_done
    assert engine.push({"T": [{"a": 0, "b": 6, "v": 1, "ts": 100}]}).num_rows == 1


def test_a_dead_entry_does_not_stand_for_a_live_one_with_its_row_ids() -> None:
    """When a window is packed, rows that have expired get the id of the next that has not, and entries with them too.

    Here 63 entries (r s1) are dead and not collected, and their rows get the id of a row of R that comes only then.
    """

    def rows(count: int, a: int, b: int, ts: int) -> list[dict[str, int]]:
        return [{"a": a, "b": b, "v": ts, "ts": ts}] * count

    def run(executor: str, *plans: str) -> int:
        text = """SELECT R.v AS r, S.v AS s, T.v AS t FROM R [RANGE 1 MICROSECOND], S [RANGE 1 HOUR], T [RANGE 1 HOUR]
                  WHERE R.a = S.a AND S.b = T.b"""
        query = ms.query(text, schemas=dict.fromkeys("RST", ROW), event_time="ts")
        engine = ms.Engine(query, plan=FIRST_R, executor=executor, strategy="jisc")
        engine.push({"S": rows(1, 1, 1, 0) + rows(500, 7, 7, 0)}, watermark=0)
        for plan in plans:
            engine.migrate(plan, "moving-state")  # so that s1 has a mark
        engine.push({"R": rows(1, 7, 0, 100)}, watermark=0)  # far ahead: keeps 500 entries of S alive
        engine.push({"R": rows(63, 1, 0, 1)}, watermark=0)
        engine.push({}, watermark=99)
        engine.push({"R": rows(1, 1, 0, 100)}, watermark=99)  # R is packed
        return engine.push({"T": rows(1, 1, 1, 100)}, watermark=99).num_rows

    assert run("tree") == run("stairs") == run("stairs", FIRST_T, FIRST_R) == 1


@pytest.mark.parametrize("options", [{"strategy": "moving-state"}, {"strategy": "jisc", "budget": 0}])
def test_a_dead_entry_is_not_promoted_in_the_place_of_a_live_one(options: dict[str, Any]) -> None:
    """As above, but both are found at once by what is promoted over the edge."""

    def rows(count: int, a: int, b: int, c: int, ts: int) -> list[dict[str, int]]:
        return [{"a": a, "b": b, "c": c, "ts": ts}] * count

    def run(executor: str, **migration: Any) -> int:
        text = """SELECT r.ts AS x, u.ts AS y FROM r [RANGE 1 MICROSECOND], s [RANGE 1 HOUR], t [RANGE 1 HOUR],
                  u [RANGE 1 HOUR] WHERE r.a = s.a AND s.b = t.b AND t.c = u.c"""
        row = {"a": int, "b": int, "c": int, "ts": int}
        engine = ms.Engine(ms.query(text, dict.fromkeys("rstu", row), "ts"), plan="((r s) (t u))", executor=executor)
        engine.push({"r": rows(1, 7, 0, 0, 100), "t": rows(1, 1, 1, 5, 0)}, watermark=0)
        engine.push({"r": rows(62, 1, 0, 0, 1)}, watermark=0)
        engine.push({"r": rows(1, 1, 0, 0, 100)}, watermark=0)
        engine.push({"s": rows(500, 7, 7, 0, 0) + rows(1, 1, 1, 0, 0)}, watermark=0)
        engine.push({}, watermark=99)
        engine.push({"r": rows(1, 9, 0, 0, 100)}, watermark=99)  # r is packed: dead (r s1) get the ids of the live one
        if migration:
            engine.migrate("(((r s) t) u)", **migration)
        return engine.push({"u": rows(1, 1, 1, 5, 100)}, watermark=99).num_rows

    assert run("tree") == run("stairs") == run("stairs", **options) == 1
