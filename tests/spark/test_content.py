"""Hashes of rows: equal for equal content, whatever lies in memory, and different for different content."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.spark.parcels.encoding import to_wire
from midstream.spark.routing import content
from midstream.spark.routing.content import order_rows, row_codes

TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, 2]),
    (pa.uint16(), [1, 2]),
    (pa.int32(), [1, 2]),
    (pa.uint64(), [1, 2**64 - 1]),
    (pa.float16(), [np.float16(1.5), np.float16(2)]),
    (pa.float32(), [1.5, 2.0]),
    (pa.float64(), [1.5, float("nan")]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["a", "b"]),
    (pa.large_binary(), [b"a", b"b"]),
    (pa.decimal128(9, 2), [Decimal(1), Decimal(2)]),
    (pa.date32(), [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]),
    (pa.date64(), [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]),
    (pa.time32("s"), [datetime.time(1), datetime.time(2)]),
    (pa.timestamp("ns", "UTC"), [1, 2]),
    (pa.duration("s"), [1, 2]),
    (pa.decimal256(60, 2), [Decimal(1), Decimal(10**50)]),
    (pa.binary(3), [b"abc", b"abd"]),
    (pa.month_day_nano_interval(), [(1, 2, 3), (1, 2, 4)]),
    (pa.list_(pa.int64()), [[1, 2], [2, 1]]),
    (pa.large_list(pa.string()), [["a", None], ["a"]]),
    (pa.list_(pa.int16(), 2), [[1, 2], [1, None]]),
    (pa.struct({"x": pa.int64(), "y": pa.list_(pa.float64())}), [{"x": 1, "y": [0.5]}, {"x": 1, "y": [None]}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 1), ("b", None)]]),
    (pa.list_(pa.struct({"m": pa.map_(pa.int8(), pa.bool_())})), [[{"m": [(1, True)]}], [{"m": [(1, False)]}]]),
]


@pytest.mark.parametrize(("type", "values"), TYPES, ids=[str(type) for type, _ in TYPES])
def test_values_of_every_type_count_and_their_place_does_not(type: pa.DataType, values: list[Any]) -> None:
    first, second = values
    array = pa.array([first, second, None, first, None], type)
    codes = row_codes([array], 5).tolist()
    assert codes[0] == codes[3] and codes[2] == codes[4] and codes[0] != codes[1]
    assert row_codes([array.slice(1)], 4).tolist() == codes[1:]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.int64(), [0, None]),
        (pa.float64(), [0.0, -0.0, None]),
        (pa.string(), ["", None]),
        (pa.list_(pa.int64()), [[], None, [None], [0], [None, None]]),
        (pa.list_(pa.list_(pa.int64())), [[], [[]], [[], []], [None], [[1], []], [[], [1]]]),
        (pa.struct({"x": pa.int64()}), [{"x": None}, None, {"x": 0}]),
    ],
    ids=str,
)
def test_empty_zero_and_null_are_different(type: pa.DataType, values: list[Any]) -> None:
    assert len(set(row_codes([pa.array(values, type)], len(values)).tolist())) == len(values)


# The order of rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event_time", ["ts", None])
@pytest.mark.parametrize("seed", range(5))
def test_rows_have_one_order(event_time: str | None, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a table is ordered and cut, the same bytes come out: every row once, by event time."""
    monkeypatch.setattr(content, "_BYTES_AT_ONCE", 400)
    rng = random.Random(seed)
    chosen = {str(type): (type, [*values, None]) for type, values in rng.sample(TYPES, 4)}
    count = rng.randrange(1, 60)
    columns = {
        name: pa.array([rng.choice(values) for _ in range(count)], type) for name, (type, values) in chosen.items()
    }
    table = pa.table(columns | {"ts": pa.array([rng.randrange(8) for _ in range(count)], pa.int64())})
    written = set()
    for _ in range(4):
        other = table.take(pa.array(rng.sample(range(count), count)))
        cut = rng.randrange(count + 1)
        pieces = list(order_rows(pa.concat_tables([other.slice(cut), other.slice(0, cut)]), event_time))
        written.add(tuple(to_wire(piece) for piece in pieces))
    assert len(written) == 1
    rows = [row for piece in pieces for row in piece.to_pylist()]
    assert Counter(map(repr, rows)) == Counter(map(repr, table.to_pylist()))
    if event_time is not None:
        assert [row["ts"] for row in rows] == sorted(table["ts"].to_pylist())
        assert len(pieces) > 1 or count < 20


def test_no_rows_have_no_pieces() -> None:
    assert list(order_rows(pa.table({"ts": pa.array([], pa.int64())}), "ts")) == []


def test_texts_of_more_than_two_gibibytes_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one array cannot hold them, here from 100 bytes on, rows come in pieces that can."""
    monkeypatch.setattr(content, "_LARGEST_OFFSET", 100)
    monkeypatch.setattr(content, "_BYTES_AT_ONCE", 50)
    table = pa.table({"t": ["x" * 30] * 5, "ts": [5, 4, 3, 2, 1]})
    pieces = list(order_rows(table, "ts"))
    assert [piece["ts"].to_pylist() for piece in pieces] == [[1], [2], [3], [4], [5]]
    assert all(piece.schema.equals(table.schema) for piece in pieces)


def test_what_lies_under_a_null_does_not_count() -> None:
    validity = pa.py_buffer(b"\x02")  # only the second value is there
    arrays = [
        pa.Array.from_buffers(pa.int64(), 2, [validity, pa.py_buffer(np.array([under, 7]))]) for under in (1, 2, 3)
    ]
    assert len({tuple(row_codes([array], 2).tolist()) for array in arrays}) == 1
