"""Tables whose schema is not quite the declared one: what casts without loss is taken, what does not is refused."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

import midstream as ms

from .pairs import SCHEMA, matches, pair, rows, schema

TEXT_SCHEMA = schema(key=pa.string())
DECIMAL_SCHEMA = schema(key=pa.decimal128(10, 2))
TIME_SCHEMA = schema(time=pa.timestamp("us"))
ZONED_SCHEMA = schema(time=pa.timestamp("us", "UTC"))

ACCEPTED = {
    "int8 for int64": (SCHEMA, "k", pa.array([1], pa.int8())),
    "uint32 for int64": (SCHEMA, "k", pa.array([1], pa.uint32())),
    "whole float for int64": (SCHEMA, "k", pa.array([1.0])),
    "dictionary for int64": (SCHEMA, "k", pa.array([1], pa.int64()).dictionary_encode()),
    "large string for string": (TEXT_SCHEMA, "k", pa.array(["1"], pa.large_string())),
    "dictionary for string": (TEXT_SCHEMA, "k", pa.array(["1"]).dictionary_encode()),
    "string view for string": (TEXT_SCHEMA, "k", pa.array(["1"], pa.string_view())),
    "smaller decimal": (DECIMAL_SCHEMA, "k", pa.array([decimal.Decimal("1.0")], pa.decimal128(4, 1))),
    "integer for decimal": (DECIMAL_SCHEMA, "k", pa.array([1], pa.int8())),
    "milliseconds for microseconds": (TIME_SCHEMA, "ts", pa.array([0], pa.timestamp("ms"))),
    "whole nanoseconds for microseconds": (TIME_SCHEMA, "ts", pa.array([5000], pa.timestamp("ns"))),
    "int32 event time": (SCHEMA, "ts", pa.array([5], pa.int32())),
}
REFUSED = {
    "fraction for int64": (SCHEMA, "k", pa.array([1.5])),
    "text for int64": (SCHEMA, "k", pa.array(["one"])),
    "more digits than the decimal has": (DECIMAL_SCHEMA, "k", pa.array([decimal.Decimal("1.005")])),
    "too large for the decimal": (DECIMAL_SCHEMA, "k", pa.array([10**9], pa.int64())),
    "list for text": (TEXT_SCHEMA, "k", pa.array([[True]])),
    "bytes that are no text": (TEXT_SCHEMA, "k", pa.array([b"\xff"])),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_castable_without_loss(name: str) -> None:
    declared, column, drifted = ACCEPTED[name]
    key = {"string": "1"}.get(str(declared.field("k").type), 1)
    time: object = 5 if declared.field("ts").type == pa.int64() else datetime.datetime(1970, 1, 1)
    engine = pair(left=declared)
    good = rows([key], [time], declared)
    table = good.set_column(good.column_names.index(column), column, drifted)
    assert matches(engine.push({"a": table, "b": good})) == [(0, 0)]
    assert engine.push({}).schema == engine.push({"a": good, "b": good}).schema


@pytest.mark.parametrize("name", REFUSED)
def test_lossy_is_refused(name: str) -> None:
    declared, column, drifted = REFUSED[name]
    engine = pair(left=declared)
    good = rows([None], [5], declared)
    table = good.set_column(good.column_names.index(column), column, drifted)
    before = engine.stats()
    with pytest.raises(ms.InputError, match=rf"a.*{column}|{column}.*a"):
        engine.push({"b": good, "a": table})
    assert engine.stats() == before


def test_added_columns_are_ignored_and_order_does_not_matter() -> None:
    engine = pair()
    table = rows([1], [5]).append_column("note", pa.array(["new"])).select(["note", "ts", "v", "k"])
    assert matches(engine.push({"a": table, "b": rows([1], [5])})) == [(0, 0)]


def test_a_null_column_is_a_column_of_nulls() -> None:
    engine = pair()
    table = rows([1], [5]).set_column(0, "k", pa.nulls(1))
    assert matches(engine.push({"a": table, "b": rows([1], [5])})) == []
    assert engine.stats().rows_in == {"a": 1, "b": 1}


def test_a_column_that_the_query_does_not_read_may_be_missing() -> None:
    wide = pa.schema([*SCHEMA, pa.field("unused", pa.string())])
    engine = pair(left=wide, right=SCHEMA)
    assert matches(engine.push({"a": rows([1, 1], [5, None]), "b": rows([1], [5])})) == [(0, 0)]
    assert engine.take_late()["a"].to_pylist() == [
        {"k": 1, "v": 1, "ts": None, "unused": None, "reason": "null event time"}
    ]


@pytest.mark.parametrize("empty", [SCHEMA.empty_table(), pa.RecordBatch.from_pylist([], schema=SCHEMA)])
def test_an_empty_batch_is_fine(empty: pa.Table | pa.RecordBatch) -> None:
    engine = pair()
    before = engine.stats()
    assert engine.push({}).num_rows == 0
    assert engine.push({"a": empty}).num_rows == 0
    assert engine.push({"a": empty, "b": empty}).schema == engine.push({}).schema
    assert engine.stats() == before
    assert [piece.num_rows for piece in engine.push_batches({"a": empty})] in ([], [0])


def test_an_empty_batch_of_a_wrong_schema_is_refused() -> None:
    with pytest.raises(ms.InputError, match="k"):
        pair().push({"a": SCHEMA.empty_table().drop_columns("k")})


def test_names_of_streams_and_columns_match_without_regard_to_case() -> None:
    engine = pair()
    table = rows([1], [5]).rename_columns(["K", "V", "Ts"])
    assert matches(engine.push({"A": table, "b": rows([1], [5])})) == [(0, 0)]


def test_caller_may_change_the_buffers_afterwards() -> None:
    import numpy as np

    keys, numbers, times = np.array([1]), np.array([7]), np.array([5])
    engine = pair()
    engine.push({"a": pa.table({"k": keys, "v": numbers, "ts": times})})
    keys[0] = numbers[0] = times[0] = 99
    assert matches(engine.push({"b": rows([1, 99], [6, 6])})) == [(7, 0)]
