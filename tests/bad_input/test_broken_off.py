"""A push that breaks off for a reason of its own closes the engine; a snapshot from before goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.executors.tree import TreeExecutor

from .pairs import SCHEMA, TEXT, matches, pair, rows


def _make_failing(error: type[BaseException]) -> Callable[..., object]:
    def process(*arguments: object, **options: object) -> object:
        raise error("cut off")

    return process


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, RuntimeError])
def test_a_push_that_breaks_off_closes_the_engine(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    query = ms.query(TEXT, schemas={"a": SCHEMA, "b": SCHEMA}, event_time="ts")
    engine = ms.Engine(query)
    engine.push({"a": rows([1, 2], [5, 6])})
    snapshot = engine.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr(TreeExecutor, "process", _make_failing(error))
        with pytest.raises(error, match="cut off"):
            engine.push({"b": rows([1], [7])})
    calls: list[Callable[[], object]] = [
        lambda: engine.push({"b": rows([1], [7])}),
        lambda: list(engine.push_batches({})),
        lambda: engine.snapshot(),
        lambda: engine.finish(),
    ]
    for call in calls:
        with pytest.raises(ms.EngineError, match="restore"):
            call()
    restored = ms.Engine.restore(query, snapshot)
    assert matches(restored.push({"b": rows([1, 2], [7, 7])})) == [(0, 0), (1, 1)]


def test_a_refused_push_does_not_close_the_engine() -> None:
    query = ms.query(TEXT, schemas={"a": SCHEMA, "b": SCHEMA}, event_time="ts")
    engine = ms.Engine(query)
    for _ in range(3):
        with pytest.raises(ms.InputError):
            engine.push({"nobody": rows([1], [5])})
    assert matches(engine.push({"a": rows([1], [5]), "b": rows([1], [6])})) == [(0, 0)]


def test_pieces_left_behind_close_the_engine() -> None:
    engine = pair()
    many = rows([1] * 600, [5] * 600)
    pieces: Any = engine.push_batches({"a": many, "b": many})
    first = next(pieces)
    assert 0 < first.num_rows < 600 * 600
    with pytest.raises(ms.EngineError, match="push_batches"):
        engine.push({})
    pieces.close()
    with pytest.raises(ms.EngineError, match="restore"):
        engine.push({})


def test_pieces_that_nobody_takes_change_nothing() -> None:
    engine = pair()
    for _ in range(3):
        engine.push_batches({"a": rows([1], [5])})
    waiting = engine.push_batches({"a": rows([1], [5])})
    assert engine.stats().rows_in == {"a": 0, "b": 0}
    assert sum(piece.num_rows for piece in engine.push_batches({"a": rows([1], [5]), "b": rows([1], [6])})) == 1
    assert engine.snapshot().windows["a"].num_rows == 1
    del waiting


def test_a_push_is_checked_when_it_is_made_and_not_when_its_pieces_are_taken() -> None:
    engine = pair()
    with pytest.raises(ms.InputError, match="nobody"):
        engine.push_batches({"nobody": rows([1], [5])})


@pytest.mark.parametrize("call", ["push", "push_batches", "migrate", "finish"])
def test_pieces_of_an_engine_that_has_moved_on(call: str) -> None:
    """What was checked is not true of the engine any more."""
    engine = pair()
    pieces = engine.push_batches({"a": rows([1], [5])})
    calls: dict[str, Callable[[], object]] = {
        "push": lambda: engine.push({"b": rows([1], [6])}),
        "push_batches": lambda: list(engine.push_batches({})),
        "migrate": lambda: engine.migrate("(b a)"),
        "finish": lambda: engine.finish(),
    }
    calls[call]()
    before = engine.stats()
    with pytest.raises(ms.EngineError, match="push_batches: the engine has moved on since"):
        next(pieces)
    assert list(pieces) == [] and engine.stats() == before
    if call != "finish":
        assert engine.push({"b": rows([1], [7])}).num_rows == 0


def test_looking_at_an_engine_does_not_move_it() -> None:
    engine = pair()
    engine.push({"a": rows([1], [5])})
    pieces = engine.push_batches({"b": rows([1], [6])})
    engine.stats(), engine.snapshot(), engine.take_late()
    assert sum(piece.num_rows for piece in pieces) == 1


def test_pieces_are_together_what_a_push_returns() -> None:
    many = rows([1] * 600, [5] * 600)
    pieces = list(pair().push_batches({"a": many, "b": many}))
    assert len(pieces) > 1
    whole = pair().push({"a": many, "b": many})
    assert sum(piece.num_rows for piece in pieces) == whole.num_rows == 600 * 600
    order = [("av", "ascending"), ("bv", "ascending")]
    assert pa.concat_tables(pieces).sort_by(order).equals(whole.sort_by(order))
