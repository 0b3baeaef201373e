"""More than 2 GiB of text: in the results of a push, in a window, in a snapshot, in a push.

Types with offsets of 32 bits hold less than that in one array. The quick tests lower the limit to a few bytes; the slow
ones go beyond the real one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import midstream as ms
from midstream.state import sizes

TEXTS = pa.list_(pa.string())
LONG = 100


def engine_of(type: pa.DataType, where: str = "a.k = b.k", select: str = "a.id AS i, a.x AS x, b.id AS j") -> ms.Engine:
    schema = pa.schema({"k": pa.int64(), "id": pa.int64(), "x": type, "ts": pa.int64()})
    text = f"SELECT {select} FROM a [UNBOUNDED], b [RANGE 1 SECOND] WHERE {where}"
    return ms.Engine(ms.query(text, schemas={"a": schema, "b": schema}, event_time="ts"))


def value(at: int, type: pa.DataType) -> Any:
    text = f"{at:04d}" * (LONG // 4)
    return [text[:50], text[50:]] if pa.types.is_list(type) else {"s": text} if pa.types.is_struct(type) else text


def rows(count: int, type: pa.DataType, first: int = 0) -> pa.Table:
    ids = range(first, first + count)
    columns = [pa.array([0] * count), pa.array(ids), pa.array([value(at, type) for at in ids], type)]
    return pa.table([*columns, pa.array([1] * count)], names=["k", "id", "x", "ts"])


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """A limit of 1,000 bytes, as if that were what an array holds."""
    monkeypatch.setattr(sizes, "PIECE_BYTES", 1_000)
    return 1_000


@pytest.mark.parametrize("type", [pa.string(), TEXTS, pa.struct({"s": pa.string()})], ids=str)
def test_results_are_cut_by_bytes(limit: int, type: pa.DataType) -> None:
    engine = engine_of(type)
    engine.push({"a": rows(30, type)})
    pieces = list(engine.push_batches({"b": rows(4, type)}))
    assert len(pieces) >= 30 * 4 * LONG / limit
    assert all(piece.column("x").nbytes <= 2 * limit for piece in pieces)
    found = pa.concat_tables(pieces)
    assert sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True)) == [
        (i, j) for i in range(30) for j in range(4)
    ]
    assert found["x"].to_pylist() == [value(at, type) for at in found["i"].to_pylist()]


@pytest.mark.parametrize("select", ["a.id AS i, b.id AS j", "concat(a.x, b.x) AS x, a.id AS i, b.id AS j"])
def test_predicates_and_expressions_over_large_values(limit: int, select: str) -> None:
    engine = engine_of(pa.string(), "a.x < b.x", select)
    engine.push({"a": rows(20, pa.string())})
    found = engine.push({"b": rows(20, pa.string(), first=3)})
    pairs = sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True))
    assert pairs == [(i, j) for i in range(20) for j in range(3, 23) if i < j]


@pytest.mark.parametrize("type", [pa.string(), pa.large_string(), TEXTS], ids=str)
def test_a_window_is_stored_and_restored_in_several_arrays(limit: int, type: pa.DataType) -> None:
    engine = engine_of(type)
    for first in range(0, 40, 8):
        engine.push({"a": rows(8, type, first)})
    snapshot = engine.snapshot()
    (stored,) = [
        column for table in snapshot.windows.values() for column in table.columns if column.type == type and len(column)
    ]
    assert stored.num_chunks >= 4 and all(chunk.nbytes <= 2 * limit for chunk in stored.chunks)
    again = ms.Engine.restore(engine.query, ms.Snapshot.from_bytes(snapshot.to_bytes()))
    found = again.push({"b": rows(1, type)})
    assert sorted(found["i"].to_pylist()) == list(range(40))
    assert found["x"].to_pylist() == [value(at, type) for at in found["i"].to_pylist()]


@pytest.mark.parametrize(
    "given", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("windows", ["a [UNBOUNDED]", "a [ROWS 25]"])
def test_a_push_in_many_chunks(limit: int, given: pa.DataType, windows: str) -> None:
    schema = pa.schema({"k": pa.int64(), "id": pa.int64(), "x": pa.string(), "ts": pa.int64()})
    text = f"SELECT a.x AS x, b.id AS j FROM {windows}, b [RANGE 1 SECOND] WHERE a.k = b.k"
    engine = ms.Engine(ms.query(text, schemas={"a": schema, "b": schema}, event_time="ts"))
    parts = [rows(10, pa.string(), first) for first in range(0, 40, 10)]
    parts = [
        part.set_column(2, "x", part["x"].cast(given) if "dict" not in str(given) else pc.dictionary_encode(part["x"]))
        for part in parts
    ]
    found = engine.push({"a": pa.concat_tables(parts), "b": rows(2, pa.string())})
    kept = range(40) if "UNBOUNDED" in windows else range(15, 40)
    assert sorted(found["x"].to_pylist()) == sorted([value(at, pa.string()) for at in kept] * 2)


def test_static_tables_and_rows_to_resume_from_may_be_large(limit: int) -> None:
    schema = pa.schema({"k": pa.int64(), "id": pa.int64(), "x": pa.string(), "ts": pa.int64()})
    text = "SELECT a.x AS x, t.x AS y FROM a [UNBOUNDED], b [RANGE 1 SECOND], t WHERE a.k = b.k AND t.id = b.id"
    query = ms.query(text, schemas={"a": schema, "b": schema, "t": schema}, event_time="ts")
    whole = pa.concat_tables([rows(20, pa.string()), rows(20, pa.string(), 20)])
    engine = ms.Engine.resume(query, {"a": whole}, 1, tables={"t": whole})
    found = engine.push({"b": rows(1, pa.string(), 33)})
    assert sorted(found["x"].to_pylist()) == [value(at, pa.string()) for at in range(40)]
    assert set(found["y"].to_pylist()) == {value(33, pa.string())}


# Beyond the real limit -----------------------------------------------------------------------------------------------

MEGABYTES = 2_200


def large_rows(count: int, first: int = 0) -> pa.Table:
    """Rows with a text of a megabyte each."""
    texts = pa.array([f"{at:010d}" * 100_000 for at in range(first, first + count)])
    ids = np.arange(first, first + count)
    return pa.table([np.zeros(count, np.int64), ids, texts, np.ones(count, np.int64)], names=["k", "id", "x", "ts"])


@pytest.mark.slow
def test_more_than_two_gibibytes_in_the_results_of_a_push() -> None:
    engine = engine_of(pa.string())
    engine.push({"a": large_rows(22)})
    total = 0
    for piece in engine.push_batches({"b": rows(MEGABYTES // 22 + 1, pa.string())}):
        total += pc.sum(pc.binary_length(piece["x"])).as_py()
        assert set(piece["i"].to_pylist()) == {
            int(text) for text in pc.utf8_slice_codeunits(piece["x"], 0, 10).to_pylist()
        }
    assert total > 2**31


@pytest.mark.slow
def test_more_than_two_gibibytes_in_a_push_a_window_and_a_snapshot() -> None:
    engine = engine_of(pa.string())
    engine.push({"a": pa.concat_tables([large_rows(100, first) for first in range(0, MEGABYTES, 100)])})
    stored = engine.snapshot().to_bytes()
    query = engine.query
    del engine
    engine = ms.Engine.restore(query, stored)
    del stored
    seen = []
    for piece in engine.push_batches({"b": rows(1, pa.string())}):
        seen += pc.utf8_slice_codeunits(piece["x"], 0, 10).cast(pa.int64()).to_pylist()
        assert piece["i"].to_pylist() == seen[-piece.num_rows :]
    assert sorted(seen) == list(range(MEGABYTES))
