"""Parcels: every table comes back as it was, is small, is split when large, and damage is told."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.spark.parcels import packing
from midstream.spark.parcels.encoding import (
    FORMAT,
    LARGEST_PARCEL,
    concatenate,
    from_stored,
    from_wire,
    to_stored,
    to_wire,
)

INT64 = 2**63
EDGE = [0, 1, -1, INT64 - 1, -INT64, INT64 - 2, -INT64 + 1]
ZONED = pa.timestamp("us", "UTC")

COLUMNS: dict[str, pa.Array] = {
    "no rows": pa.array([], pa.int64()),
    "one": pa.array([7]),
    "one at the edge": pa.array([-INT64]),
    "all alike": pa.array([5] * 9),
    "edges": pa.array(EDGE),
    "edges apart": pa.array([-INT64, INT64 - 1] * 4),
    "steps at the edge": pa.array([INT64 - 3, INT64 - 2, INT64 - 1]),
    "wide but even": pa.array([1 << 40, 2 << 40, 3 << 40, 4 << 40]),
    "down": pa.array([300, 200, 100, 0, -100]),
    "width 1": pa.array([0, 255]),
    "width 2": pa.array([-5, 65_530, 251]),
    "width 4": pa.array([0, (1 << 32) - 1, 17]),
    "width 8": pa.array([0, 1 << 32, 3, 1 << 33]),
    "nulls": pa.array([1, None, 3]),
    "int32": pa.array([1, -2, None], pa.int32()),
    "int16": pa.array([-(2**15), 2**15 - 1], pa.int16()),
    "float": pa.array([0.0, -0.0, float("nan"), float("inf"), None]),
    "text": pa.array(["", "é", None, "\U0001f600" * 50]),
    "bytes": pa.array([b"", b"\x00\x00", None]),
    "bool": pa.array([True, None, False]),
    "decimal": pa.array([decimal.Decimal("-1.25"), None], pa.decimal128(14, 4)),
    "date": pa.array([datetime.date(1969, 12, 31), None]),
    "list": pa.array([[1, 2], [], None]),
    "struct": pa.array([{"x": 1}, None]),
    "time at 0": pa.array([0, 1, 2], ZONED),
    "time before 1970": pa.array([-1, -86_400_000_001, -3], ZONED),
    "time without zone": pa.array([-1, 5, 1_700_000_000_000_000], pa.timestamp("us")),
    "time in a zone": pa.array([1_700_000_000_000_000, 1_700_000_000_000_001], pa.timestamp("us", "America/New_York")),
    "time with null": pa.array([0, None], ZONED),
    "time at the edge": pa.array([-INT64, INT64 - 1], ZONED),
}


def equal(left: pa.Table, right: pa.Table) -> bool:
    """Equal in type and values; NaN is NaN, and -0.0 is not 0.0."""
    return left.schema.equals(right.schema) and show(left) == show(right)


def show(table: pa.Table) -> str:
    """The values as text; timestamps as numbers, since Python's do not go that far."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    return repr([column.to_pylist() for column in columns])


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_comes_back(name: str) -> None:
    table = pa.table({"x": COLUMNS[name], "y": pa.array(range(len(COLUMNS[name])), pa.int64())})
    for largest in (LARGEST_PARCEL, 1):
        parts = list(to_stored(table, largest))
        assert [part.num_rows for part, _ in parts] == (
            [1] * len(table) if largest == 1 and len(table) else [len(table)]
        )
        back = [from_stored(content, "here") for _, content in parts]
        assert all(equal(part, read) for (part, _), read in zip(parts, back, strict=True))
        assert equal(table, pa.concat_tables(back))
    assert equal(from_wire(to_wire(table)), table)


@pytest.mark.parametrize("seed", range(20))
def test_random_integers_come_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = int(rng.integers(1, 64))
    numbers = rng.integers(-(2**bits), 2**bits, size=int(rng.integers(1, 300)), dtype=np.int64, endpoint=False)
    if seed % 2:
        numbers.sort()
    if seed % 5 == 0:
        numbers = np.cumsum(numbers)
    table = pa.table({"x": numbers, "t": pa.array(numbers).cast(ZONED), "s": [str(number) for number in numbers]})
    ((_, content),) = to_stored(table)
    assert equal(from_stored(content, "here"), table)


def test_slices_and_chunks_are_stored_as_their_rows() -> None:
    whole = pa.table({"x": list(range(100)), "s": [str(number) for number in range(100)]})
    chunked = pa.concat_tables([whole.slice(10, 5), whole.slice(90), whole.slice(0, 1)])
    ((_, content),) = to_stored(chunked)
    assert from_stored(content, "here").to_pylist() == chunked.to_pylist()
    assert len(content) < 2_000


def test_integers_are_stored_in_few_bytes() -> None:
    """Event times in order and dense keys, as streams have them: far fewer than 16 bytes a row."""
    rng = np.random.default_rng(1)
    rows = 50_000
    times = 1_700_000_000_000_000 + np.arange(rows) * 1_000 + rng.integers(0, 50, rows)
    table = pa.table({"ts": pa.array(times).cast(ZONED), "k": rng.integers(0, 5_000, rows)})
    ((_, content),) = to_stored(table)
    assert len(content) < rows * 4


def test_a_large_parcel_is_split() -> None:
    rng = np.random.default_rng(2)
    table = pa.table({"x": rng.integers(-INT64, INT64, 50_000), "y": [bytes(rng.bytes(20)) for _ in range(50_000)]})
    largest = 100_000
    parts = list(to_stored(table, largest))
    assert len(parts) > 10
    assert all(len(content) <= largest for _, content in parts)
    assert equal(table, pa.concat_tables([from_stored(content, "here") for _, content in parts]))


def test_stored_parcels_have_at_most_16_megabytes() -> None:
    rng = np.random.default_rng(3)
    table = pa.table({"x": rng.integers(-INT64, INT64, 5_000_000)})
    sizes = [(part.num_rows, len(content)) for part, content in to_stored(table)]
    assert LARGEST_PARCEL == 16 << 20
    assert sum(rows for rows, _ in sizes) == table.num_rows
    assert all(size <= LARGEST_PARCEL for _, size in sizes) and len(sizes) == 4


def test_a_single_row_cannot_be_split() -> None:
    table = pa.table({"x": [np.random.default_rng(4).bytes(1_000)]})
    ((_, content),) = to_stored(table, 100)
    assert equal(from_stored(content, "here"), table)


@pytest.fixture(scope="module")
def parcel() -> bytes:
    ((_, content),) = to_stored(pa.table({"x": list(range(1_000)), "s": ["text"] * 1_000}))
    return content


def test_every_damaged_byte_is_noticed(parcel: bytes) -> None:
    for place in range(0, len(parcel), max(1, len(parcel) // 200)):
        broken = bytearray(parcel)
        broken[place] ^= 0x10
        with pytest.raises(ms.SparkError, match=r"cell 1, lane 'a': .*(damaged|format|not a parcel).*(copy|new one)"):
            from_stored(bytes(broken), "cell 1, lane 'a'")


@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 20])
def test_a_parcel_that_is_cut_off(parcel: bytes, length: int) -> None:
    with pytest.raises(ms.SparkError, match=r"here: .*restore the checkpoint from a copy"):
        from_stored(parcel[:length], "here")


def test_a_parcel_of_another_format(parcel: bytes) -> None:
    other = parcel[:3] + bytes([FORMAT + 1]) + parcel[4:]
    with pytest.raises(
        ms.SparkError, match=f"here: parcel of format {FORMAT + 1}, .* reads format {FORMAT}; go on with"
    ):
        from_stored(other, "here")


def test_tables_are_brought_to_one_schema() -> None:
    schema = pa.schema({"x": pa.int64(), "t": ZONED})
    tables: list[Any] = [
        pa.table({"x": pa.array([1], pa.int64()), "t": pa.array([0], ZONED)}),
        pa.table({"more": ["a"], "t": pa.array([5], pa.timestamp("us", "Asia/Tokyo")), "x": pa.array([2], pa.int32())}),
    ]
    found = concatenate(tables, schema)
    assert found.schema.equals(schema) and found["x"].to_pylist() == [1, 2]
    assert found["t"].cast(pa.int64()).to_pylist() == [0, 5]
    assert concatenate([], schema).equals(schema.empty_table())


def test_copies_of_large_parcels_travel_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together may not fit into one array."""
    monkeypatch.setattr(packing, "BYTES_AT_ONCE", 1000)
    sizes = [10, 990, 1, 2000, 3, *[1] * 100]
    rows = [(cell, 0, 0, 0, 0, bytes(size)) for cell, size in enumerate(sizes)]
    batches = list(packing.pack_in_batches(iter(rows)))
    found = [[len(parcel.as_py()) for parcel in batch.column("parcel")] for batch in batches]
    assert [size for batch in found for size in batch] == sizes
    assert [len(batch) for batch in found] == [2, 1, 1, 64, 37]
