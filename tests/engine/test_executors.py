"""The executors of the product: what users say and see. The oracle's and the migration suite run over all of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.executors.registry import EXECUTORS
from midstream.lab.experiments.jisc_streams import Streams
from midstream.migrate import STRATEGIES

NAMES = [kind.name for kind in EXECUTORS]
ROW = {"k": int, "v": int, "ts": int}
OLD, NEW = "((a b) c)", "((c b) a)"
#: Executors that can go on with what the other has.
EDDIES = ("eddy", "stairs")


def make_query(window: str = "RANGE 1 MINUTE") -> ms.Query:
    inputs = ", ".join(f"{name} [{window}]" for name in "abc")
    text = f"SELECT a.v AS x, b.v AS y, c.v AS z FROM {inputs} WHERE a.k = b.k AND b.k = c.k"
    return ms.query(text, schemas=dict.fromkeys("abc", ROW), event_time="ts")


def rows(at: int, *keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [at] * len(keys), "ts": [at] * len(keys)})


def join_states(engine: ms.Engine) -> list[str]:
    return [state.name for state in engine.stats().states if state.kind == "join"]


def test_stems_keep_no_join_state() -> None:
    streams = Streams(joins=3, window=50, rows=200, batch=10, seed=1)
    engine = ms.Engine(streams.query, plan=streams.plan, executor="stems")
    for batch in streams.batches():
        engine.push(batch)
    assert {state.kind for state in engine.stats().states} == {"window"}
    assert engine.stats().rows_out > 0
    assert engine.stats().work.slots_visited > 0


@pytest.mark.parametrize("executor", ["stem", "magic", "", 3, object()])
def test_an_unknown_executor_is_refused(executor: object) -> None:
    hint = "did you mean 'stems'. " if executor == "stem" else ""
    with pytest.raises(ms.EngineError, match=f"engine: unknown executor .*; {hint}executors: tree, stems"):
        ms.Engine(make_query(), executor=executor)  # type: ignore[arg-type]
    engine = ms.Engine(make_query())
    with pytest.raises(ms.EngineError, match=f"migrate: unknown executor .*; {hint}executors: tree, stems"):
        engine.migrate(NEW, executor=executor)  # type: ignore[arg-type]
    assert (engine.executor, engine.migration) == ("tree", None)


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES])
@pytest.mark.parametrize("plan", [OLD, NEW])
@pytest.mark.parametrize("new", NAMES)
@pytest.mark.parametrize("old", NAMES)
def test_every_strategy_goes_from_any_executor_to_any_other(old: str, new: str, plan: str, strategy: str) -> None:
    """Between rows of one result, with old rows of other results that complete later; then until it has ended."""
    engine, steady = (ms.Engine(make_query(), plan=OLD, executor=old) for _ in range(2))
    pushes = [{"a": rows(1, 7, 8), "b": rows(2, 7)}, {"c": rows(3, 7)}, {"b": rows(4, 8)}, {"c": rows(5, 7, 8)}]
    pushes += [{name: rows(at, 7, 8) for name in "abc"} for at in range(60_000_000, 200_000_000, 20_000_000)]
    found, wanted = [], []
    refused = False
    for number, push in enumerate(pushes):
        if number == 1:
            try:
                record = engine.migrate(plan, strategy, executor=new)
            except ms.EngineError as refusal:
                refused = True
                if old == new == "eddy":
                    assert "executor='stairs'" in str(refusal)
                else:
                    assert strategy in ("pause-drain-resume", "staged") and "jisc" in str(refusal)
                break
            assert (record.from_executor, record.to_executor, engine.executor) == (old, new, new)
            assert (f"{OLD} on {old} to {plan} on {new}" in repr(record)) == (old != new)
        found.append(engine.push(push).sort_by([(name, "ascending") for name in "xyz"]).to_pylist())
        wanted.append(steady.push(push).sort_by([(name, "ascending") for name in "xyz"]).to_pylist())
    # Without states nothing has to be drained; a state that nobody has cannot be.
    is_kept = plan == OLD and (old == new or {old, new} <= set(EDDIES))
    cannot_drain = strategy == "pause-drain-resume" and new != "stems" and not is_kept
    has_no_stairs = strategy == "staged" and new != "stairs"
    assert refused == (cannot_drain or has_no_stairs or old == new == "eddy")
    if not refused:
        assert found == wanted and sum(map(len, found)) > 20
        assert engine.migration is not None and engine.migration.is_done
        assert len(join_states(engine)) == (1 if new == "tree" else 0)


@pytest.mark.parametrize("stored", NAMES)
@pytest.mark.parametrize("asked", [None, *NAMES])
def test_a_snapshot_knows_its_executor(stored: str, asked: str | None) -> None:
    engine = ms.Engine(make_query(), plan=OLD, executor=stored)
    engine.push({"a": rows(1, 7), "b": rows(2, 7)})
    snapshot = engine.snapshot().to_bytes()
    restored = ms.Engine.restore(engine.query, snapshot, executor=asked)
    assert restored.executor == (asked or stored)
    assert restored.push({"c": rows(3, 7)}).num_rows == 1
    assert bool(join_states(restored)) == (restored.executor == "tree")


def test_a_snapshot_without_an_executor_was_taken_on_the_tree() -> None:
    engine = ms.Engine(make_query(), executor="stems")
    snapshot = engine.snapshot()
    del snapshot.meta["executor"], snapshot.meta["routing"]
    assert ms.Engine.restore(engine.query, snapshot).executor == "tree"


def test_a_snapshot_of_an_executor_that_is_not_there_asks_for_another() -> None:
    engine = ms.Engine(make_query())
    snapshot = engine.snapshot()
    snapshot.meta["executor"] = "magic"
    with pytest.raises(ms.EngineError, match="restore: the snapshot: unknown executor 'magic'; executors: tree, stems"):
        ms.Engine.restore(engine.query, snapshot)
    assert ms.Engine.restore(engine.query, snapshot, executor="stems").executor == "stems"


@pytest.mark.parametrize("executor", NAMES)
def test_an_engine_resumes_on_any_executor(executor: str) -> None:
    known = {"a": rows(1, 7), "b": rows(2, 7)}
    engine = ms.Engine.resume(make_query(), known, watermark=2, executor=executor)
    assert engine.executor == executor
    assert engine.push({"c": rows(3, 7)}).num_rows == 1


def test_reprs_and_drawings_name_the_executor() -> None:
    engine = ms.Engine(make_query(), plan=OLD, executor="stems")
    engine.push({"a": rows(1, 7), "b": rows(2, 7)})
    assert "((a b) c) on stems: 2 rows in" in repr(engine)
    drawn = engine._repr_html_()
    assert "</code> on stems</div>" in drawn and "no state" in drawn and "still runs" not in drawn
    engine.migrate(OLD, "parallel-track", executor="tree")
    drawn = engine._repr_html_()
    assert "on stems</div>" not in drawn and "from ((a b) c) on stems to ((a b) c) on tree" in drawn
    engine = ms.Engine(make_query(), plan=OLD)
    engine.push({"a": rows(1, 7), "b": rows(2, 7)})
    engine.migrate(OLD, "parallel-track", executor="stems")
    drawn = engine._repr_html_()
    assert "no state" in drawn and "The plan before it still runs: 1 state," in drawn
    assert "tree" not in repr(ms.Engine(make_query()))


@pytest.mark.parametrize("executor", EDDIES)
def test_drawings_show_what_stairs_hold(executor: str) -> None:
    engine = ms.Engine(make_query(), plan=OLD, executor=executor)
    engine.push({"a": rows(1, 7), "b": rows(2, 7)})
    assert "1 combination" in engine._repr_html_()
    engine.push({"c": rows(3, 7)})
    engine.migrate("((b a) c)" if executor == "eddy" else "((c a) b)")
    drawn = engine._repr_html_()
    assert f"on {executor}</div>" in drawn and "still runs" not in drawn
    engine.migrate(OLD, "parallel-track", executor="tree")
    assert "The plan before it still runs" in engine._repr_html_()


def test_finishing_keeps_the_executor() -> None:
    engine = ms.Engine(make_query(), executor="stems")
    engine.push({"a": rows(1, 7)})
    engine.finish()
    assert engine.executor == "stems"
