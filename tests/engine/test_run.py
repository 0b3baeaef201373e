"""`run` over iterables and async ones, and engines in a with block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.errors import EngineError, InputError

ROW = {"id": int, "ts": int}
TEXT = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] WHERE a.id = b.id AND a.id = c.id"
BATCHES: list[dict[str, Any]] = [
    {"a": [{"id": number, "ts": number}], "b": [{"id": number, "ts": number}], "c": [{"id": number - 1, "ts": number}]}
    for number in range(6)
]
SIZES = [0, 1, 1, 1, 1, 1]


def make_engine(**options: Any) -> ms.Engine:
    return ms.Engine(ms.query(TEXT, schemas=dict.fromkeys("abc", ROW), event_time="ts"), plan="(a b) c", **options)


async def arriving() -> AsyncIterator[dict[str, Any]]:
    for batch in BATCHES:
        await asyncio.sleep(0)
        yield batch


@pytest.mark.parametrize("batches", [list, tuple, iter, lambda given: (batch for batch in given)])
def test_a_table_for_each_batch(batches: Any) -> None:
    assert [table.num_rows for table in make_engine().run(batches(BATCHES))] == SIZES


@pytest.mark.parametrize("source", [arriving, lambda: BATCHES])
def test_async_for(source: Any) -> None:
    async def sizes() -> list[int]:
        return [table.num_rows async for table in make_engine().run(source())]

    assert asyncio.run(sizes()) == SIZES


def test_batches_are_pushed_when_their_results_are_asked_for() -> None:
    taken = []

    def batches() -> Iterator[dict[str, Any]]:
        for number, batch in enumerate(BATCHES):
            taken.append(number)
            yield batch

    engine = make_engine()
    results = engine.run(batches())
    assert taken == [] and next(results).num_rows == 0 and taken == [0]
    for number, _ in enumerate(results):
        if number == 1:
            engine.migrate("(b c) a")
            engine.snapshot()
    assert str(engine.plan) == "((b c) a)" and taken == list(range(6))
    assert list(results) == []


def test_the_engine_stays_open_after_a_run_and_after_a_break() -> None:
    engine = make_engine()
    for _ in engine.run(BATCHES[:3]):
        break
    assert [table.num_rows for table in engine.run(BATCHES[1:])] == SIZES[1:]
    assert engine.finish().num_rows == 0


def test_a_refused_batch_raises_and_changes_nothing() -> None:
    engine = make_engine()
    results = engine.run([BATCHES[0], {"a": [1]}, BATCHES[1]])
    next(results)
    with pytest.raises(InputError, match="push: 'a' is a list whose item 0 is int"):
        next(results)
    assert next(results).num_rows == 1


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (BATCHES[0], "run: got dict, which is not a sequence of batches; .* or push a single batch"),
        (pa.table({"id": [1]}), "run: got pyarrow.Table, which is not a sequence of batches"),
        (5, "run: got int; give an iterable, or async iterable, of {stream: rows}"),
        ("batches", "run: got str; give an iterable"),
        (None, "run: got None; give an iterable"),
    ],
)
def test_what_is_no_sequence_of_batches_is_refused_at_once(batches: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_engine().run(batches)


def test_an_async_source_needs_async_for() -> None:
    with pytest.raises(InputError, match="take the results with 'async for'"):
        list(make_engine().run(arriving()))


def test_a_with_block_frees_the_state() -> None:
    with make_engine() as engine:
        assert sum(table.num_rows for table in engine.run(BATCHES)) == 5
        assert sum(state.rows for state in engine.stats().states) > 0
    assert sum(state.rows for state in engine.stats().states) == 0
    assert engine.stats().rows_out == 5
    with pytest.raises(EngineError, match="closed, because its with block has ended"):
        engine.push(BATCHES[0])
    with pytest.raises(EngineError, match="with block has ended"), engine:
        pass


def test_an_error_in_a_with_block_comes_through() -> None:
    with pytest.raises(ZeroDivisionError), holding() as engine:
        raise ZeroDivisionError
    with pytest.raises(EngineError, match="with block has ended"):
        engine.snapshot()


def test_finish_in_a_with_block() -> None:
    with holding() as engine:
        assert engine.finish().num_rows == 5
    assert engine.finish().num_rows == 0
    with pytest.raises(EngineError, match="finished"):
        engine.push(BATCHES[0])


def test_results_are_not_lost_at_the_end_of_a_with_block() -> None:
    message = r"results still waited when the with block ended: 5; call finish\(\) in it"
    with pytest.raises(EngineError, match=message), holding():
        pass


def test_pieces_taken_after_a_with_block_do_not_open_it_again() -> None:
    with make_engine() as engine:
        engine.push(BATCHES[0])
        pieces = engine.push_batches(BATCHES[1])
        assert next(pieces).num_rows == 1
    assert list(pieces) == []
    with pytest.raises(EngineError, match="with block has ended"):
        engine.push(BATCHES[2])


def test_late_rows_can_be_taken_after_a_with_block() -> None:
    with make_engine(late="keep") as engine:
        engine.push(BATCHES[0], watermark=100)
        engine.push(BATCHES[0])
    assert engine.take_late()["a"].num_rows == 1


def holding() -> ms.Engine:
    """An engine that holds five results back."""
    engine = make_engine()
    engine.push({"a": [{"id": 99, "ts": 0}]})
    engine.migrate("(b c) a", "parallel-track", hold=True)
    assert sum(table.num_rows for table in engine.run(BATCHES)) == 0
    return engine


def test_results_of_an_open_step_are_not_lost_in_silence() -> None:
    query = ms.query("SELECT DISTINCT a.k FROM a [TUMBLE 1 SECOND]", {"a": {"k": int, "ts": int}}, "ts")
    with (
        pytest.raises(EngineError, match="results still waited when the with block ended: 2"),
        ms.Engine(query) as engine,
    ):
        engine.push({"a": [{"k": 1, "ts": 0}, {"k": 2, "ts": 5}, {"k": 1, "ts": 9}]})
    with ms.Engine(query) as engine:
        engine.push({"a": [{"k": 1, "ts": 0}]})
        assert engine.finish().num_rows == 1


def test_an_error_in_a_with_block_is_the_one_that_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broken engine has collected is not looked at again."""
    query = ms.query("SELECT DISTINCT a.k FROM a [TUMBLE 1 SECOND]", {"a": {"k": int, "ts": int}}, "ts")
    engine = ms.Engine(query)
    monkeypatch.setattr(engine._pipeline, "release", lambda: pytest.fail("released"))
    engine.push({"a": [{"k": 1, "ts": 0}]})
    with pytest.raises(ZeroDivisionError), engine:
        raise ZeroDivisionError
