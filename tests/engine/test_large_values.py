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
from midstream.engine.expressions import limits, vectors
from midstream.engine.operators import lifetimes
from midstream.engine.operators.aggregates import pairs
from midstream.engine.operators.interner import Interner
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
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 2_000)
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


LONGER = {
    "concat": "concat(a.x, a.x, a.x, a.x, a.x, a.x, a.x, a.x, a.x, a.x)",
    "replace": f"replace(a.x, '0', '{'z' * 20}')",
    "replace a few": f"replace(a.x, '7', '{'z' * 900}')",
    "constant": f"concat('{'y' * 900}', '{'z' * 600}')",
    "case": f"CASE WHEN a.id > 5 THEN '{'y' * 700}' ELSE a.x END",
    "number": "CAST(a.id AS STRING)",
}


def longer(name: str, at: int) -> str:
    """What such an expression gives for a row."""
    text = value(at, pa.string())
    given = {
        "concat": text * 10,
        "replace": text.replace("0", "z" * 20),
        "replace a few": text.replace("7", "z" * 900),
        "constant": "y" * 900 + "z" * 600,
        "case": "y" * 700 if at > 5 else text,
        "number": str(at),
    }[name]
    assert isinstance(given, str)
    return given


@pytest.mark.parametrize("name", LONGER)
@pytest.mark.parametrize("large", [True, False], ids=["large columns", "only large expressions"])
def test_outputs_much_longer_than_their_columns(
    name: str, large: bool, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not large:
        monkeypatch.undo()
        monkeypatch.setattr(sizes, "ARRAY_BYTES", 2_000)
    engine = engine_of(pa.string(), select=f"a.id AS i, {LONGER[name]} AS x, b.id AS j")
    engine.push({"a": rows(30, pa.string())})
    pieces = list(engine.push_batches({"b": rows(4, pa.string())}))
    assert all(piece.num_rows == 1 or piece["x"].nbytes <= 2_000 + 8 * 120 for piece in pieces)
    assert len(pieces) > 1
    found = pa.concat_tables(pieces)
    assert sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True)) == [
        (i, j) for i in range(30) for j in range(4)
    ]
    fits = {at: longer(name, at) if len(longer(name, at)) <= 2_000 else None for at in range(30)}
    assert found["x"].to_pylist() == [fits[at] for at in found["i"].to_pylist()]
    assert engine.push({"b": rows(1, pa.string(), 9)}).num_rows == 30, "the engine goes on"


GROWN_A, GROWN_B = (f"replace({alias}.x, '0', 'zzzzzzzzzz')" for alias in "ab")
CONDITIONS = {
    "filter": f"a.id = b.id AND length({GROWN_A}) > 700",
    "theta": f"a.k = b.k AND {GROWN_A} < {GROWN_B}",
    "theta of both": "a.k = b.k AND concat(a.x, b.x, a.x, b.x, a.x, b.x) LIKE '%9%8%'",
    "key": f"{GROWN_A} = {GROWN_B}",
    "key and null": f"nullif({GROWN_A}, {GROWN_B.replace('b.x', 'a.y')}) = {GROWN_B}",
    "band": f"length({GROWN_A}) BETWEEN length({GROWN_B}) - 5 AND length({GROWN_B}) + 5",
    "searched in a constant": f"a.k = b.k AND contains('{'0001' * 200}', a.x) AND a.id = b.id",
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_on_text_much_longer_than_its_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema({"k": pa.int64(), "id": pa.int64(), "x": pa.string(), "ts": pa.int64(), "y": pa.string()})
    text = f"SELECT a.id AS i, b.id AS j FROM a [UNBOUNDED], b [RANGE 1 SECOND] WHERE {CONDITIONS[name]}"
    query = ms.query(text, schemas={"a": schema, "b": schema}, event_time="ts")
    too_large = []

    class Counted(sizes.ArrayTooLargeError):
        def __init__(self, needed: int):
            super().__init__(needed)
            too_large.append(needed)

    monkeypatch.setattr(limits, "ArrayTooLargeError", Counted)
    monkeypatch.setattr(vectors, "ArrayTooLargeError", Counted)

    def found() -> list[tuple[int, int]]:
        engine = ms.Engine(query)
        left, right = rows(40, pa.string()), rows(30, pa.string(), 5)
        left = left.append_column(
            "y", pa.array([text if at % 3 else "" for at, text in enumerate(left["x"].to_pylist())])
        )
        engine.push({"a": left})
        table = engine.push({"b": right.append_column("y", right["x"])})
        return sorted(zip(table["i"].to_pylist(), table["j"].to_pylist(), strict=True))

    expected = found()
    assert expected and not too_large
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 2_000)
    assert found() == expected
    assert too_large


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


A = "FROM a [RANGE 3 SECONDS]"
GROUPED = {
    "keys": f"SELECT x, count(*) AS n, sum(id) AS s {A} GROUP BY x",
    "keys that HAVING tests": f"SELECT x, k, count(*) AS n {A} GROUP BY x, k HAVING x > '0005'",
    "no key that HAVING keeps": f"SELECT x, count(*) AS n {A} GROUP BY x HAVING x > 'z'",
    "values": f"SELECT k, min(x) AS lo, max(x) AS hi, count(DISTINCT x) AS d {A} GROUP BY k",
    "values that are null": f"SELECT k, max(nullif(x, y)) AS hi {A} GROUP BY k",
    "values of bytes": f"SELECT k, max(CAST(x AS BINARY)) AS hi {A} GROUP BY k",
    "one group": f"SELECT max(x) AS hi, count(*) AS n {A}",
    "rows of several groups": f"SELECT max(x) AS hi {A} GROUP BY id % 7",
    "distinct rows of several groups": f"SELECT DISTINCT min(x) AS lo {A} GROUP BY id % 7",
    "numbers made of keys": f"SELECT x, length(concat(x, x, x, x, x)) AS l, max(id) > 9 AS m {A} GROUP BY x",
    "keys made longer": f"SELECT x, concat(x, x, x, max(x), x) AS y {A} GROUP BY x",
    "numbers made longer": f"SELECT k, concat(CAST(count(*) AS STRING), '{'z' * 300}') AS y {A} GROUP BY k",
    "rows": f"SELECT DISTINCT x, k {A}",
    "rows of two": f"SELECT x {A} EXCEPT SELECT max(x) AS x FROM a [RANGE 2 SECONDS] GROUP BY k",
}


@pytest.mark.parametrize("name", GROUPED)
def test_more_text_in_groups_than_an_array_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In keys, in values that are compared, in rows, and in those that are kept when others are forgotten."""
    schema = {"k": pa.int64(), "id": pa.int64(), "x": pa.string(), "y": pa.string(), "ts": pa.int64()}
    query = ms.query(GROUPED[name], {"a": pa.schema(schema)}, "ts", step="1 second")

    def found() -> list[tuple[Any, ...]]:
        engine = ms.Engine(query)
        results = []
        for second in range(12):
            ids = [7 * second + at for at in range(20)]
            times = [second * 1_000_000 + 50_000 * at for at in range(20)]
            texts = [value(number % 40, pa.string()) for number in ids]
            others = [text if number % 3 else "" for number, text in zip(ids, texts, strict=True)]
            table = pa.table([[number % 2 for number in ids], ids, texts, others, times], names=list(schema))
            results += engine.push({"a": table}, watermark=times[-1]).to_pylist()
        results += engine.finish().to_pylist()
        return sorted((tuple(row.values()) for row in results), key=repr)

    monkeypatch.setattr(lifetimes, "_FEW", 0)
    monkeypatch.setattr(pairs, "FEWEST_FORGOTTEN", 0)
    expected = found()
    assert bool(expected) == (name != "no key that HAVING keeps")
    monkeypatch.setattr(sizes, "PIECE_BYTES", 400)
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 700)
    assert found() == expected


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


@pytest.mark.slow
@pytest.mark.parametrize("grown", ["replace(a.x, '0', '{z}')", "concat({many})"], ids=["replace", "concat"])
def test_outputs_of_more_than_two_gibibytes_made_of_less(grown: str) -> None:
    """Twenty megabytes of text in a push, five gigabytes in its results, each piece of which is right."""
    engine = engine_of(
        pa.string(), select=f"{grown.format(z='z' * 250, many=', '.join(['a.x'] * 250))} AS x, a.id AS i"
    )
    texts = pa.array([f"{at % 10}" + "0" * 999 for at in range(1, 20_001)])
    ids = np.arange(1, 20_001)
    left = pa.table([np.zeros(20_000, np.int64), ids, texts, np.ones(20_000, np.int64)], names=["k", "id", "x", "ts"])
    engine.push({"b": rows(1, pa.string())})
    total, seen = 0, []
    for piece in engine.push_batches({"a": left}):
        piece.validate()
        assert piece["x"].nbytes < 2**31
        total += pc.sum(pc.binary_length(piece["x"])).as_py()
        digits = pc.utf8_slice_codeunits(piece["x"], 0, 1)
        seen += [
            number
            for number, digit in zip(piece["i"].to_pylist(), digits.to_pylist(), strict=True)
            if digit == (str(number % 10) if number % 10 or "concat" in grown else "z")
        ]
    assert total > 2 * 2**31
    assert sorted(seen) == ids.tolist()


def grouping_engine(text: str) -> ms.Engine:
    schema = {"k": pa.int64(), "id": pa.int64(), "x": pa.string(), "ts": pa.int64()}
    return ms.Engine(ms.query(text, {"a": pa.schema(schema)}, "ts", step="1 minute"))


def at_times(table: pa.Table, times: np.ndarray) -> pa.Table:
    return table.set_column(3, "ts", pa.array(times))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "SELECT x, max(x) AS m, count(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY x HAVING x >= ''",
        "SELECT max(x) AS x, count(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY id % 11, id",
    ],
    ids=["rows that tell their group", "rows that do not"],
)
def test_more_than_two_gibibytes_in_the_states_of_a_close(text: str) -> None:
    """Eleven megabytes in the groups, which change so often that each is given out two hundred times."""
    engine = grouping_engine(text)
    for round in range(100):
        engine.push({"a": at_times(large_rows(11), np.arange(11) + 1_000 * round)})
    total, rows_out = 0, 0
    for piece in engine.push_batches({}, watermark=60_000_000):
        total += pc.sum(pc.binary_length(piece["x"])).as_py()
        rows_out += piece.num_rows
        numbers = pc.utf8_slice_codeunits(piece["x"], 0, 10).cast(pa.int64()).to_numpy()
        moments = piece["valid_from"].to_numpy() - numbers
        counted = np.where(moments < 10_000_000, moments // 1_000 + 1, 100 - (moments - 10_000_001) // 1_000 - 1)
        assert (counted == piece["n"].to_numpy()).all()
        if "m" in piece.column_names:
            assert piece["m"].equals(piece["x"])
    assert rows_out == 11 * 199 and total > 2**31


@pytest.mark.slow
def test_more_than_two_gibibytes_of_values_that_are_compared() -> None:
    engine = grouping_engine("SELECT k, min(x) AS lo, max(x) AS hi, count(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k")
    for first in range(0, MEGABYTES, 100):
        engine.push({"a": at_times(large_rows(100, first), np.full(100, 1))})
    (found,) = engine.push({}, watermark=60_000_000).to_pylist()
    assert (found["lo"][:10], found["hi"][:10]) == (f"{0:010d}", f"{MEGABYTES - 1:010d}")
    assert (found["n"], found["valid_from"], found["valid_to"]) == (MEGABYTES, 1, 10_000_001)


@pytest.mark.slow
def test_more_than_two_gibibytes_that_are_kept_when_others_are_forgotten() -> None:
    interner = Interner([pa.string()])
    for first in range(0, MEGABYTES + 100, 100):
        texts = make_texts(first)
        assert interner.intern([texts], 100).tolist() == list(range(first, first + 100))
    interner.keep(np.arange(100, MEGABYTES + 100))
    assert len(interner) == MEGABYTES
    for first in range(100, MEGABYTES + 100, 100):
        assert interner.intern([make_texts(first)], 100).tolist() == list(range(first - 100, first))


def make_texts(first: int) -> pa.Array:
    return pa.array([f"{at:010d}" * 100_000 for at in range(first, first + 100)])
