"""What breaks off half-way closes the engine: whatever goes on from there could be wrong, or wait for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import midstream as ms
from midstream.cql import given_function
from midstream.engine.joins import evicting
from midstream.errors import EngineError

ROW = {"k": int, "x": int, "ts": int}


class Switched:
    """A computation over Arrow arrays that fails as long as it is down."""

    def __init__(self, compute: Callable[..., Any]):
        self._compute = compute
        self.is_down = False

    def __call__(self, *values: Any) -> Any:
        if self.is_down:
            raise RuntimeError("down")
        return self._compute(*values)


def test_a_migration_that_breaks_off() -> None:
    """The old plan's states were handed over, and the new ones have begun to write into their memory."""
    near = Switched(pc.less_equal)
    query = ms.query(
        """SELECT a.x FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR], d [RANGE 1 HOUR]
           WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND near(a.x, c.x)""",
        dict.fromkeys("abcd", ROW),
        "ts",
        functions=[given_function("near", [pa.int64(), pa.int64()], pa.bool_(), near)],
    )
    engine = ms.Engine(query, plan="((c d) b) a", demand="off")
    rows = [{"k": 7, "x": 1, "ts": 0}] * 2
    engine.push(dict.fromkeys("abcd", rows))
    near.is_down = True
    with pytest.raises(RuntimeError):
        engine.migrate("((a c) b) d", "moving-state")
    near.is_down = False
    with pytest.raises(EngineError, match=r"closed, because a call broke off \(RuntimeError: down\); .*restore"):
        engine.push({})
    with pytest.raises(EngineError, match="a call broke off"):
        engine.snapshot()


def test_a_limit_that_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries may be gone by then that no box has as missing."""
    text = "SELECT a.k FROM a [UNBOUNDED], b [UNBOUNDED], c [UNBOUNDED] WHERE a.k = b.k AND b.k = c.k"
    engine = ms.Engine(ms.query(text, dict.fromkeys("abc", ROW), "ts"), plan="(a b) c")
    numbers = pa.array(np.arange(40_000))
    rows = pa.table({"k": numbers, "x": numbers, "ts": numbers})
    engine.push({"a": rows, "b": rows})
    windows = sum(state.bytes for state in engine.stats().states if state.kind == "window")
    states = engine.stats().state_bytes - windows

    def fail(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(evicting, "_replace_boxes", fail)
    with pytest.raises(EngineError, match="the base windows alone take"):
        engine.memory_limit = 1_000_000
    with pytest.raises(KeyboardInterrupt):
        engine.memory_limit = windows + states // 20
    with pytest.raises(EngineError, match=r"a call broke off \(KeyboardInterrupt\)"):
        engine.push({"c": rows})


def test_a_refused_migration_changes_nothing() -> None:
    query = ms.query("SELECT a.k FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k", dict.fromkeys("ab", ROW), "ts")
    engine = ms.Engine(query, plan="a b")
    for strategy in ("genmig", "parallel-track", "staged"):
        with pytest.raises(EngineError, match=r"^migrate: "):
            engine.migrate("b a", strategy)
    rows = [{"k": 1, "x": 1, "ts": 0}]
    assert engine.push({"a": rows, "b": rows}).num_rows == 1


def test_a_finish_that_breaks_off() -> None:
    """The records of open groups are gone by then: a second call would find none, and say that all is well."""
    seen = Switched(lambda values: values)
    query = ms.query(
        "SELECT a.k, seen(count(*)) AS n FROM a [TUMBLE 1 SECOND] GROUP BY a.k",
        {"a": ROW},
        "ts",
        functions=[given_function("seen", [pa.int64()], pa.int64(), seen)],
    )
    rows = {"a": [{"k": 1, "x": 1, "ts": 0}]}
    engine = ms.Engine(query)
    engine.push(rows)
    seen.is_down = True
    with pytest.raises(RuntimeError):
        engine.finish()
    seen.is_down = False
    with pytest.raises(EngineError, match="a call broke off"):
        engine.finish()

    engine = ms.Engine(query)
    engine.push(rows)
    seen.is_down = True
    with pytest.raises(RuntimeError):
        engine.__exit__(None)
    with pytest.raises(EngineError, match="with block has ended"):
        engine.push(rows)
    assert not any(state.rows for state in engine.stats().states)


def test_pieces_that_go_on_after_the_with_block() -> None:
    """Later rows of the push would meet no earlier ones, whose memory is freed."""
    row = {"k": int, "ts": int}
    text = "SELECT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"
    numbers = np.arange(200_000)
    given = {"a": {"k": numbers, "ts": numbers}, "b": {"k": numbers[::-1].copy(), "ts": numbers}}
    query = ms.query(text, dict.fromkeys("ab", row), "ts")
    assert len(list(ms.Engine(query).push_batches(given))) > 1
    with ms.Engine(query) as engine:
        pieces = engine.push_batches(given)
        first = next(pieces)
    assert first.num_rows
    with pytest.raises(EngineError, match="with block has ended in the middle of a push, whose other results are lost"):
        list(pieces)


def test_late_rows_of_many_small_pushes_are_few_tables() -> None:
    text = "SELECT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"
    query = ms.query(text, dict.fromkeys("ab", ROW), "ts")
    engine = ms.Engine(query, late="keep", late_limit=250)
    engine.push({}, watermark=100)
    for number in range(300):
        engine.push({"a": [{"k": number, "x": 1, "ts": 0}]})
    (kept,) = engine._loop._late_rows.values()
    assert len(kept._tables) < 12
    assert kept.nbytes == sum(table.get_total_buffer_size() for table in kept._tables)
    assert engine.take_late()["a"]["k"].to_pylist() == list(range(250))
    assert engine.take_late() == {}
