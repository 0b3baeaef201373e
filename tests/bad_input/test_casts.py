"""Values pushed in another type than the schema's: every one comes back as it was, or the push is refused."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql.plain import plain_type
from midstream.engine.input.casting import cast_without_loss

from .arrow_values import draw_array, draw_pair, fits, is_number, is_same


def push_values(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> list[Any]:
    """What comes out of a query that says that a column has a type, and gets values of another."""
    schema = pa.schema({"x": wanted, "ts": pa.int64()})
    engine = ms.Engine(ms.query("SELECT a.x FROM a [UNBOUNDED]", schemas={"a": schema}, event_time="ts"))
    out = engine.push({"a": pa.table({"x": values, "ts": pa.array([1] * len(values), pa.int64())})})
    out.validate(full=True)
    assert out.schema.field("x").type == plain_type(wanted)
    result: list[Any] = out.column("x").to_pylist()
    return result


KEPT = [
    ([0.5, -1.25, None], pa.float64(), pa.decimal128(5, 2)),
    ([1e22], pa.float64(), pa.decimal128(38, 2)),
    ([2.0**60, -(2.0**63)], pa.float64(), pa.int64()),
    ([2**60, -(2**63), 2**53 + 2], pa.int64(), pa.float64()),
    ([2**63, 2**24 + 2], pa.uint64(), pa.float32()),
    ([1, -5], pa.int64(), pa.decimal128(3, 2)),
    ([5000, -99_999_000], pa.int64(), pa.decimal128(5, -3)),
    ([Decimal("5E+3"), None], pa.decimal128(5, -3), pa.decimal128(10, -3)),
    ([Decimal("5E+3"), None], pa.decimal32(5, -3), pa.decimal256(10, -1)),
    ([Decimal("5E+3"), None], pa.decimal64(5, -3), pa.float64()),
    ([Decimal("5E+3"), None], pa.decimal256(5, -3), pa.int16()),
    ([Decimal("0.50")], pa.decimal128(20, 2), pa.float32()),
    ([Decimal("12.00")], pa.decimal256(60, 2), pa.int8()),
    ([Decimal("999.99")], pa.decimal256(60, 5), pa.decimal32(5, 2)),
    ([[1, None], None, []], pa.list_(pa.int64()), pa.large_list(pa.decimal64(2, 1))),
    ([[1, 2], None, [3, 4]], pa.list_view(pa.int64()), pa.list_(pa.int8(), 2)),
    ([{"x": "a"}, None], pa.struct({"x": pa.string_view()}), pa.struct({"x": pa.string()})),
    ([{"x": 1, "y": 2}], pa.struct({"x": pa.int64(), "y": pa.int8()}), pa.struct({"y": pa.int64(), "x": pa.int8()})),
    ([[("a", 1.0)], None, []], pa.map_(pa.string(), pa.float64()), pa.map_(pa.large_string(), pa.int16())),
    ([b"abc", None], pa.binary_view(), pa.binary(3)),
]  # fmt: skip
REFUSED = [
    ([0.5, 0.1], pa.float64(), pa.decimal128(5, 2), "0.1 in row 1"),
    ([0.5, 1e300], pa.float64(), pa.decimal128(38, 2), "in row 1"),
    ([float("nan")], pa.float32(), pa.decimal128(5, 2), "nan"),
    ([Decimal("0.5"), Decimal("0.1")], pa.decimal128(5, 1), pa.float64(), "0.1 in row 1"),
    ([Decimal(1), Decimal(2**64 + 5)], pa.decimal128(30, 0), pa.decimal32(9, 0), "18446744073709551621 in row 1"),
    ([Decimal(2) ** 200], pa.decimal256(70, 0), pa.decimal32(9, 0), "row 0"),
    ([Decimal("12.5")], pa.decimal128(5, 1), pa.decimal128(5, 0), "12.5"),
    ([2048, 2049], pa.int64(), pa.float16(), "2049"),
    ([1, 100_000], pa.int64(), pa.float16(), "100000"),
    ([-(2**63)], pa.int64(), pa.float16(), "-9223372036854775808"),
    ([2**63 - 1], pa.int64(), pa.float16(), "9223372036854775807"),
    ([1, 2**53 + 1], pa.int64(), pa.float64(), "9007199254740993 in row 1"),
    ([2**63 - 1], pa.int64(), pa.float64(), "9223372036854775807"),
    ([2**64 - 1], pa.uint64(), pa.float32(), "18446744073709551615"),
    ([[0.5], [0.25, 0.1]], pa.list_(pa.float64()), pa.list_(pa.decimal128(5, 2)), "0.1"),
    ([["1"]], pa.list_(pa.string()), pa.list_(pa.int64()), "another kind"),
    ([[1, 2], [3]], pa.list_(pa.int64()), pa.list_(pa.int64(), 2), "not 2 elements"),
    ([{"x": Decimal(2**40)}], pa.struct({"x": pa.decimal128(20, 0)}), pa.struct({"x": pa.decimal32(9, 0)}), "1099511"),
    ([{"x": 1, "y": 2}], pa.struct({"x": pa.int64(), "y": pa.int64()}), pa.struct({"x": pa.int64()}), "other fields"),
    ([{"x": 1}], pa.struct({"x": pa.int64()}), pa.struct({"x": pa.int64(), "y": pa.int64()}), "other fields"),
    ([[("a", "1")]], pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.int64()), "another kind"),
    ([[("a", 300)]], pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8()), "300"),
    ([b"abc", b"ab"], pa.binary(), pa.binary(3), "row 1"),
    ([[1, None]], pa.list_(pa.int64()), pa.list_(pa.field("item", pa.int64(), nullable=False)), "null"),
    ([1_000_000, 1], pa.timestamp("us"), pa.timestamp("s"), "row 1"),
    ([1_000, 1], pa.duration("ns"), pa.duration("us"), "row 1"),
    ([2**62], pa.timestamp("s"), pa.timestamp("ns"), "4611686018427387904"),
]  # fmt: skip


def test_a_null_struct_is_no_null_field() -> None:
    wanted = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    given = pa.array([{"x": 1}, None, {"x": 3}], pa.struct({"x": pa.int32()}))
    for rows in (given, given.slice(1)):
        assert cast_without_loss(rows, wanted).to_pylist() == rows.to_pylist()
    with pytest.raises(pa.ArrowInvalid, match="'x' may not be null"):
        cast_without_loss(pa.array([None, {"x": None}], given.type), wanted)


@pytest.mark.parametrize(("values", "given", "wanted"), KEPT, ids=[f"{case[1]} to {case[2]}" for case in KEPT])
def test_values_that_fit_come_back_as_they_were(values: list[Any], given: pa.DataType, wanted: pa.DataType) -> None:
    assert is_same(values, push_values(pa.array(values, given), wanted))
    padded = pa.array([values[0], *values, values[0]], given)
    assert is_same(values, push_values(padded.slice(1, len(values)), wanted))


@pytest.mark.parametrize(
    ("values", "given", "wanted", "told"), REFUSED, ids=[f"{case[1]} to {case[2]}" for case in REFUSED]
)
def test_a_cast_with_loss_is_refused(values: list[Any], given: pa.DataType, wanted: pa.DataType, told: str) -> None:
    with pytest.raises(ms.InputError, match="column 'x' of 'a'") as refusal:
        push_values(pa.array(values, given), wanted)
    assert told in str(refusal.value)


def test_what_stands_under_a_null_does_not_count() -> None:
    lists = pa.ListArray.from_arrays([0, 2, 3], pa.array([0.1, 0.2, 0.5]), mask=pa.array([True, False]))
    assert push_values(lists, pa.list_(pa.decimal128(5, 1))) == [None, [Decimal("0.5")]]
    structs = pa.StructArray.from_arrays([pa.array([0.1, 0.5])], names=["x"], mask=pa.array([True, False]))
    assert push_values(structs, pa.struct({"x": pa.decimal128(5, 1)})) == [None, {"x": Decimal("0.5")}]
    texts = pa.DictionaryArray.from_arrays(pa.array([1, 1]), pa.array([0.1, 0.5]))
    assert push_values(texts, pa.decimal128(5, 1)) == [Decimal("0.5")] * 2


def check(seed: int) -> bool:
    """Push random values of one random type for another; whether the push was taken."""
    rng = random.Random(f"casts {seed}")
    given, wanted = draw_pair(rng)
    values, expected = draw_array(rng, given, rng.choice([0, 1, 1, 2, 4]))
    try:
        found = push_values(values, wanted)
    except ms.InputError as refusal:
        assert "column 'x' of 'a'" in str(refusal), (seed, str(refusal))
        assert not (is_number(given) and is_number(wanted)) or not all(fits(v, wanted) for v in expected), (seed, given)
        return False
    assert is_same(expected, found), (seed, given, wanted, expected, found)
    return True


def test_random_types_and_values() -> None:
    taken = sum(check(seed) for seed in range(400))
    assert 80 < taken < 320, taken


@pytest.mark.slow
def test_more_random_types_and_values() -> None:
    for seed in range(400, 15_000):
        check(seed)
