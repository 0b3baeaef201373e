"""A snapshot under another schema: refused with the column and both types, or right."""

from __future__ import annotations

import datetime
import decimal
import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.errors import InputError, SnapshotError

NUMBER = pa.int64()
DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 59)
WHOLE = (0, 1, -1, 7, 127, -128, 255, 32_767, 2**31 - 1, -(2**31), 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1)
FLOATS = (0.0, -0.0, 1.5, -2.25, 0.1, float("inf"), 1e300, 65_504.0)
DECIMALS = tuple(decimal.Decimal(text) for text in ("0", "1.5", "-12.34", "99.99", "12345678.1234"))
TEXTS = ("", "a", "é", "12", "a rather long text that does not fit inline", "\U0001f600")
BYTES = tuple(text.encode() for text in TEXTS)
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
TIMESTAMPS = tuple(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC"))
DECIMAL_TYPES = tuple(pa.decimal128(*size) for size in ((4, 2), (10, 2), (12, 4), (38, 0)))
VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    **dict.fromkeys(INTEGERS, WHOLE),
    **dict.fromkeys((pa.float32(), pa.float64()), FLOATS),
    **dict.fromkeys(DECIMAL_TYPES, DECIMALS),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())), TEXTS),
    **dict.fromkeys((pa.binary(), pa.large_binary()), BYTES),
    pa.bool_(): (True, False),
    pa.date32(): (DAY, datetime.date(1969, 12, 31)),
    **dict.fromkeys(TIMESTAMPS, (MOMENT,)),
    **dict.fromkeys((pa.list_(pa.int64()), pa.list_(pa.int32())), ([1, 2], [], [None])),
    pa.struct({"a": pa.int64()}): ({"a": 1}, {"a": None}),
    pa.struct({"b": pa.int64()}): ({"b": 1}, {"b": None}),
}
TYPES = tuple(VALUES)
KEYS = tuple(type for type in TYPES if not pa.types.is_nested(type))
EVENT_TIMES = (NUMBER, *TIMESTAMPS)
#: Some with the same values in other types, and any two of all.
PAIRS = [pair for pair in itertools.permutations(TYPES, 2) if VALUES[pair[0]] is VALUES[pair[1]]]
PAIRS += random.Random(1).sample(list(itertools.permutations(TYPES, 2)), 120)


def values_of(type: pa.DataType, values: tuple[Any, ...]) -> pa.Array:
    """Those of the values that the type has, and a null."""
    found = [None]
    for value in values:
        try:
            found.append(pa.array([value], type)[0].as_py())
        except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError):
            continue
    return pa.array(found, type)


def query_with(type: pa.DataType, where: str, time: pa.DataType = NUMBER) -> Any:
    schema = pa.schema({"k": pa.int64(), "x": type, "ts": time})
    text = f"SELECT a.x AS x, b.k AS bk FROM a [UNBOUNDED], b [UNBOUNDED] WHERE {where}"
    return ms.query(text, schemas={"a": schema, "b": schema}, event_time="ts")


def rows_of(values: pa.Array, time: pa.DataType = NUMBER) -> pa.Table:
    count = len(values)
    return pa.table({"k": [1] * count, "x": values, "ts": pa.array([5] * count, pa.int64()).cast(time)})


def restore_or_refuse(before: Any, after: Any, rows: pa.Table, column: str, types: tuple[Any, Any]) -> Any:
    """The engine under the other query, or None if it is refused, as it should be."""
    engine = ms.Engine(before)
    engine.push({"a": rows})
    try:
        return ms.Engine.restore(after, engine.snapshot().to_bytes())
    except SnapshotError as refusal:
        told = str(refusal)
        assert f"column {column!r} of 'a'" in told and all(_shown(type) in told for type in types), told
        return None


def _shown(type: pa.DataType) -> str:
    """The type as an error has it: dictionary encoding does not count."""
    return str(type.value_type if pa.types.is_dictionary(type) else type)


def as_set(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("where", ["a.k = b.k", "a.x = b.x", "a.k = b.k AND a.x IS NOT NULL", "a.k < b.k OR a.x = b.x"])
def test_another_type_is_refused_or_right(where: str) -> None:
    kept = 0
    for old, new in PAIRS:
        if where != "a.k = b.k" and not {old, new} <= set(KEYS):
            continue
        rows = rows_of(values_of(old, VALUES[old]))
        before, after = query_with(old, where), query_with(new, where)
        engine = restore_or_refuse(before, after, rows, "x", (old, new))
        if engine is None:
            continue
        kept += 1
        fresh = ms.Engine(after)
        fresh.push({"a": rows})
        others = {"b": rows_of(values_of(new, VALUES[new]))}
        found, expected = engine.push(others), fresh.push(others)
        assert found.schema == after.output_schema
        assert as_set(found) == as_set(expected), (old, new)
    assert kept > (20 if where == "a.k = b.k" else 1)


def test_another_kind_of_event_time_is_refused_or_right() -> None:
    for old, new in itertools.permutations(EVENT_TIMES, 2):
        rows = rows_of(values_of(pa.int32(), WHOLE), old)
        before, after = (query_with(pa.int32(), "a.k = b.k", time) for time in (old, new))
        engine = restore_or_refuse(before, after, rows, "ts", (old, new))
        if engine is not None:
            fresh = ms.Engine(after)
            fresh.push({"a": rows})
            others = {"b": rows_of(values_of(pa.int32(), WHOLE), new)}
            assert as_set(engine.push(others)) == as_set(fresh.push(others)), (old, new)


def test_widening_is_no_change() -> None:
    """What is widely done: a wider integer, a wider text."""
    widenings = [(pa.int32(), pa.int64()), (pa.string(), pa.large_string()), (pa.float32(), pa.float64())]
    for old, new in [*widenings, (pa.decimal128(4, 2), pa.decimal128(12, 4))]:
        rows = rows_of(values_of(old, VALUES[old]))
        engine = ms.Engine(query_with(old, "a.k = b.k"))
        engine.push({"a": rows})
        after = ms.Engine.restore(query_with(new, "a.k = b.k"), engine.snapshot())
        found = after.push({"b": rows.slice(0, 1).set_column(1, "x", pa.nulls(1, new))}).column("x")
        assert found.type == new
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, rows.column("x").cast(new).to_pylist()))


def test_rows_that_are_kept_elsewhere_are_bound_like_a_push() -> None:
    """`resume` takes rows: those of another type cast without loss, or are refused by name."""
    kept = 0
    for old, new in PAIRS:
        rows = rows_of(values_of(old, VALUES[old]))
        after = query_with(new, "a.k = b.k")
        fresh = ms.Engine(after)
        try:
            fresh.push({"a": rows})
        except InputError:
            with pytest.raises(InputError, match="column 'x' of 'a'"):
                ms.Engine.resume(after, {"a": rows}, 0)
            continue
        kept += 1
        others = {"b": rows_of(values_of(new, VALUES[new]))}
        engine = ms.Engine.resume(after, {"a": rows}, 0)
        assert as_set(engine.push(others)) == as_set(fresh.push(others)), (old, new)
    assert kept > 20
