"""Rows that are selected keep what they have, whatever the type of their payload."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.state.arrow import take_values
from midstream.state.row_parts import select_rows
from midstream.state.window import WindowRows

COLUMNS = [
    pa.array([1, 2, 3, 4], pa.int64()),
    pa.array([1, -2, 3, 4], pa.int8()),
    pa.array([1, None, 3, 4], pa.int32()),
    pa.array([1.5, float("nan"), -0.0, 4.0], pa.float32()),
    pa.array([True, False, None, True]),
    pa.array([True, False, False, True]),
    pa.array(["a", "", None, "d"]),
    pa.array([Decimal(at) for at in range(4)], pa.decimal128(9, 2)),
    pa.array([date(2020, 1, at + 1) for at in range(4)]),
    pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")),
    pa.array([[1], [], None, [4, 5]]),
    pa.array([None] * 4),
]


@pytest.mark.parametrize("places", [[], [0], [1, 2], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("values", COLUMNS, ids=lambda values: f"{values.type} {values.null_count}")
def test_values_are_taken_as_arrow_takes_them(values: Any, places: list[int]) -> None:
    chosen = np.array(places, np.int64)
    wanted = values.take(pa.array(chosen))
    longer = pa.concat_arrays([values, values])
    for given in (values, longer.slice(4), pa.chunked_array([values]), pa.chunked_array([values[:1], values[1:]])):
        taken = take_values(given, chosen)
        assert taken.type == wanted.type and str(taken.to_pylist()) == str(wanted.to_pylist())


def test_what_is_known_of_the_whole_stream_stays() -> None:
    numbers = np.arange(4)
    rows = WindowRows(
        numbers, numbers + 9, {0: numbers}, {1: -numbers}, {"v": COLUMNS[0]}, numbers, numbers, numbers, 7, numbers
    )
    chosen = select_rows(rows, np.array([1, 3]))
    assert chosen.starts.tolist() == [1, 3] and chosen.ends.tolist() == [10, 12]
    assert chosen.codes[0].tolist() == [1, 3] and chosen.band_codes[1].tolist() == [-1, -3]
    assert chosen.payload["v"].to_pylist() == [2, 4]
    assert chosen.arrivals is not None and chosen.ordinals is not None and chosen.arrival_ends is not None
    assert chosen.arrivals.tolist() == chosen.ordinals.tolist() == chosen.arrival_ends.tolist() == [1, 3]
    assert chosen.stream_arrivals is numbers and chosen.first_ordinal == 7
    assert select_rows(rows, numbers) is rows
