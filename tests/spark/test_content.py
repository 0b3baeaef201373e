"""Hashes of rows: equal for equal content, whatever lies in memory, and different for different content."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.spark.content import row_codes

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
]


@pytest.mark.parametrize(("type", "values"), TYPES, ids=[str(type) for type, _ in TYPES])
def test_values_of_every_type_count_and_their_place_does_not(type: pa.DataType, values: list[Any]) -> None:
    one, other = values
    array = pa.array([one, other, None, one, None], type)
    codes = row_codes([array], 5).tolist()
    assert codes[0] == codes[3] and codes[2] == codes[4] and codes[0] != codes[1]
    assert row_codes([array.slice(1)], 4).tolist() == codes[1:]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval()),
        pa.array([Decimal(1), Decimal(2)], pa.decimal256(60, 2)),
        pa.nulls(2),
    ],
    ids=lambda values: str(values.type),
)
def test_values_without_codes_are_left_out(values: pa.Array) -> None:
    numbers = pa.array([1, 2])
    assert row_codes([numbers, values], 2).tolist() == row_codes([numbers], 2).tolist()


def test_what_lies_under_a_null_does_not_count() -> None:
    validity = pa.py_buffer(b"\x02")  # only the second value is there
    arrays = [
        pa.Array.from_buffers(pa.int64(), 2, [validity, pa.py_buffer(np.array([under, 7]))]) for under in (1, 2, 3)
    ]
    assert len({tuple(row_codes([array], 2).tolist()) for array in arrays}) == 1
