"""Every type of Arrow in every role: a query that takes it works to the end, or names it in its refusal."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql.plain import plain_type

from ..bad_input.arrow_values import is_same

DATE, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 15)
UTC = datetime.timezone.utc
NANO = pa.MonthDayNano([1, 2, 3])
LONG = "a text that does not fit inline"
NUMBER, ROUND = decimal.Decimal("1.25"), decimal.Decimal("5E+3")

# A type and two different values of it.
PLAIN: list[tuple[pa.DataType, Any, Any]] = [
    *((make(), 1, 100) for make in (pa.int8, pa.int16, pa.int32, pa.int64)),
    *((make(), 1, 100) for make in (pa.uint8, pa.uint16, pa.uint32, pa.uint64)),
    *((make(), 0.5, 2.0) for make in (pa.float16, pa.float32, pa.float64)),
    *((make(9, 2), NUMBER, -NUMBER) for make in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)),
    *((make(9, -3), ROUND, -ROUND) for make in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)),
    (pa.bool_(), True, False),
    *((make(), "a", LONG) for make in (pa.string, pa.large_string, pa.string_view)),
    *((make(), b"a", LONG.encode()) for make in (pa.binary, pa.large_binary, pa.binary_view)),
    (pa.binary(3), b"abc", b"\0\0\0"),
    *((make(), DATE, datetime.date(1970, 1, 1)) for make in (pa.date32, pa.date64)),
    *((pa.timestamp(unit), MOMENT, datetime.datetime(1970, 1, 1)) for unit in ("s", "ms", "us")),
    (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC), datetime.datetime(1970, 1, 1, tzinfo=UTC)),
    *((make, datetime.time(1, 2, 3), datetime.time(0)) for make in (pa.time32("s"), pa.time32("ms"), pa.time64("us"))),
    *((pa.duration(unit), datetime.timedelta(seconds=5), datetime.timedelta(0)) for unit in ("s", "ms", "us")),
]  # fmt: skip
ENCODED = [
    (make(type), value, other)
    for make in (lambda type: pa.dictionary(pa.int8(), type), lambda type: pa.run_end_encoded(pa.int32(), type))
    for type, value, other in PLAIN
    if type in (pa.int64(), pa.string(), pa.decimal128(9, 2), pa.binary(3), pa.timestamp("us"))
]
EXTENDED = [(pa.uuid(), b"1" * 16, b"2" * 16), (pa.json_(), "{}", "[1, 2]"), (pa.bool8(), 1, 0)]
CARRIED: list[tuple[pa.DataType, Any, Any]] = [
    (pa.decimal256(60, 2), NUMBER, decimal.Decimal(10**50)),
    (pa.month_day_nano_interval(), NANO, pa.MonthDayNano([0, 0, 1])),
    *((make(pa.int64()), [1, 2], [None]) for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
    (pa.list_(pa.int64(), 2), [1, 2], [None, 3]),
    (pa.list_view(pa.string_view()), ["a", LONG], []),
    (pa.struct({"x": pa.int8(), "y": pa.string()}), {"x": 1, "y": "a"}, {"x": None, "y": LONG}),
    (pa.struct({"x": pa.list_view(pa.dictionary(pa.int8(), pa.string()))}), {"x": ["a", "b", "a"]}, {"x": [None]}),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("b", None), (LONG, 2)]),
    (pa.map_(pa.string_view(), pa.binary_view()), [("a", b"1")], []),
    (pa.list_(pa.decimal256(60, 2)), [NUMBER], [None, -NUMBER]),
    (pa.dictionary(pa.int8(), pa.list_(pa.string())), ["a"], ["b", "c"]),
    (pa.struct({"u": pa.uuid()}), {"u": b"1" * 16}, {"u": None}),
]
VALUES = [*PLAIN, *ENCODED, *EXTENDED, *CARRIED, (pa.null(), None, None)]
UNIONS = [make([pa.field("x", pa.int64()), pa.field("y", pa.string())]) for make in (pa.dense_union, pa.sparse_union)]
IDS = [str(case[0]) for case in VALUES]


def table(type: pa.DataType, values: list[Any], times: list[int]) -> pa.Table:
    """Rows with these values in `x` and times; `k` says which of them join."""
    return pa.table({"x": array_of(values, type), "k": [1] * len(values), "ts": pa.array(times, pa.int64())})


def array_of(values: list[Any], type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type):
        return pa.DictionaryArray.from_arrays(
            pa.array(range(len(values)), type.index_type), array_of(values, type.value_type)
        )
    if pa.types.is_run_end_encoded(type):
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(range(1, len(values) + 1), type.run_end_type), array_of(values, type.value_type)
        )
    if pa.types.is_struct(type):
        parts = [array_of([None if row is None else row[field.name] for row in values], field.type) for field in type]
        mask = pa.array([row is None for row in values], pa.bool_())
        return pa.StructArray.from_arrays(parts, fields=list(type), mask=mask)
    if isinstance(type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type, array_of(values, type.storage_type))
    if pa.types.is_list_view(type) and pa.types.is_dictionary(type.value_type):
        sizes = [0 if row is None else len(row) for row in values]
        offsets = pa.array([sum(sizes[:at]) for at in range(len(sizes))], pa.int32())
        elements = array_of([value for row in values for value in row or []], type.value_type)
        mask = pa.array([row is None for row in values], pa.bool_())
        return pa.ListViewArray.from_arrays(offsets, pa.array(sizes, pa.int32()), elements, type=type, mask=mask)
    return pa.array(values, type)


def schema(type: pa.DataType) -> pa.Schema:
    return pa.schema({"x": type, "k": pa.int64(), "ts": pa.int64()})


def query(text: str, type: pa.DataType, **options: Any) -> Any:
    return ms.query(text, schemas={name: schema(type) for name in "abct"}, event_time="ts", **options)


def lives(engine: ms.Engine, asked: Any) -> Iterator[ms.Engine]:
    """The engine itself, and what goes on from its snapshot."""
    snapshot = engine.snapshot()
    yield ms.Engine.restore(asked, snapshot.to_bytes(), plan=engine.plan)
    yield engine


@pytest.mark.parametrize(("type", "value", "other"), VALUES, ids=IDS)
def test_payload_of_every_type(type: pa.DataType, value: Any, other: Any) -> None:
    """Carried through joins, a static table, a change of plan, a snapshot, and out again."""
    asked = query(
        """SELECT a.x AS ax, b.x AS bx, t.x AS tx, COALESCE(a.k, 0) AS k FROM a [RANGE 1 SECOND], b [UNBOUNDED], t
           WHERE a.k = b.k AND b.k = t.k AND a.x IS NOT NULL IS NOT NULL""",
        type,
    )
    static = {"t": table(type, [other, value], [0, 0]).slice(1)}
    engine = ms.Engine(asked, tables=static, plan="((a b) t)")
    for at in range(6):
        engine.push({"b": table(type, [other, None, value], [at] * 3).slice(1)})
        if at == 2:
            engine.migrate("((b t) a)", strategy="moving-state")
    for living in lives(engine, asked):
        out = living.push({"a": pa.concat_tables([table(type, [value], [5]), table(type, [None, other], [6, 6])])})
        out.validate(full=True)
        assert out.schema.field("ax").type == plain_type(type)
        rows = [(row["ax"], row["bx"], row["tx"]) for row in out.to_pylist()]
        expected = [(left, right, value) for left in (value, None, other) for right in [None, value] * 6]
        assert len(rows) == len(expected)
        for row in expected:
            rows.remove(next(found for found in rows if is_same(row, found)))


@pytest.mark.parametrize(("type", "value", "other"), VALUES, ids=IDS)
def test_late_rows_of_every_type(type: pa.DataType, value: Any, other: Any) -> None:
    asked = query("SELECT a.x FROM a [RANGE 1 SECOND]", type)
    engine = ms.Engine(asked, late="keep")
    engine.push({}, watermark=10)
    engine.push({"a": table(type, [other, value, None], [11, 5, 6])})
    late = engine.take_late()["a"]
    assert is_same([value, None], late.column("x").to_pylist())
    assert late.schema.field("x").type == plain_type(type)


@pytest.mark.parametrize(("type", "value", "other"), VALUES, ids=IDS)
@pytest.mark.parametrize(
    "condition",
    [
        "a.x = b.x AND a.k = b.k",
        "a.x = b.x OR a.k <> b.k",
        "COALESCE(a.x, b.x) = b.x",
        "a.x <=> b.x",
        "a.x <= b.x AND a.x >= b.x",
        "NULLIF(a.x, b.x) IS NULL AND a.x = b.x",
        "GREATEST(a.x, b.x) = LEAST(b.x, a.x) AND a.x = b.x",
    ],
)
def test_keys_and_predicates_of_every_type(condition: str, type: pa.DataType, value: Any, other: Any) -> None:
    try:
        asked = query(f"SELECT a.x AS ax, b.x AS bx FROM a [RANGE 1 SECOND], b [UNBOUNDED] WHERE {condition}", type)
    except ms.QueryError as refusal:
        assert str(plain_type(type)) in str(refusal) and "column" in str(refusal)
        assert (type, value, other) in CARRIED, f"{type} compares"
        return
    engine = ms.Engine(asked)
    engine.push({"b": table(type, [None, value, other, value], [1] * 4).slice(1)})
    for living in lives(engine, asked):
        found = living.push({"a": table(type, [value, other, None], [2] * 3).slice(0, 2)}).to_pylist()
        # A value of type null equals nothing, nor does it differ.
        twins = 3 if value is not None else 6 if "<=>" in condition else 0
        assert len(found) == twins and all(is_same(row["ax"], row["bx"]) for row in found)


@pytest.mark.parametrize(("type", "value", "other"), VALUES, ids=IDS)
@pytest.mark.parametrize("condition", ["a.x IS NOT NULL", "a.x = a.x", "CASE WHEN a.k = 1 THEN a.x END IS NOT NULL"])
def test_filters_over_every_type(condition: str, type: pa.DataType, value: Any, other: Any) -> None:
    try:
        asked = query(f"SELECT a.x FROM a [RANGE 1 SECOND] WHERE {condition}", type)
    except ms.QueryError as refusal:
        assert str(plain_type(type)) in str(refusal) or "literal" in str(refusal)
        return
    found = ms.Engine(asked).push({"a": table(type, [other, value, None, other], [1] * 4).slice(1)})
    assert is_same([] if value is None else [value, other], found.column("x").to_pylist())


@pytest.mark.parametrize("type", [case[0] for case in VALUES], ids=IDS)
def test_event_time_of_every_type(type: pa.DataType) -> None:
    schemas = {"a": pa.schema({"x": type, "ts": type})}
    if type == pa.int64() or pa.types.is_timestamp(type):
        assert ms.query("SELECT a.x FROM a [ROWS 1]", schemas=schemas, event_time="ts")
        return
    with pytest.raises(ms.QueryError) as refusal:
        ms.query("SELECT a.x FROM a [ROWS 1]", schemas=schemas, event_time="ts")
    assert "'ts' of stream 'a'" in str(refusal.value) and str(type) in str(refusal.value)


@pytest.mark.parametrize("union", UNIONS, ids=str)
@pytest.mark.parametrize("wrapped", [lambda type: type, pa.list_, lambda type: pa.struct({"u": type})])
def test_unions_are_refused_by_name(union: pa.DataType, wrapped: Any) -> None:
    with pytest.raises(ms.QueryError, match=r"column 'x' of a is .*union"):
        query("SELECT a.x FROM a [ROWS 1]", wrapped(union))
    with pytest.raises(ms.QueryError, match=r"column 'x' of a is .*union"):
        query("SELECT * FROM a [ROWS 1]", wrapped(union))
    asked = query("SELECT a.k FROM a [RANGE 1 SECOND]", wrapped(union))
    engine = ms.Engine(asked, late="keep")
    engine.push({}, watermark=10)
    rows = pa.table({"x": pa.nulls(2, wrapped(union)), "k": [1, 2], "ts": pa.array([20, 1], pa.int64())})
    assert engine.push({"a": rows}).column("k").to_pylist() == [1], "a column that nobody asks for may be anything"
    assert engine.take_late()["a"].column("k").to_pylist() == [2]
