"""Workloads: the same for the same seed, shaped as promised, cut without loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from midstream.lab import generate
from midstream.lab.generate import Workload, batches
from midstream.lab.shop import shop
from midstream.lab.workload import batches_by_time

SHAPES = (generate.common_key, generate.chain, generate.star, generate.clique, generate.band)
Shape = Callable[..., Workload]

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)


def times(table: pa.Table) -> np.ndarray:
    return np.asarray(table["ts"].cast(pa.int64()))


@each_shape
def test_the_same_arguments_give_the_same_rows(shape: Shape) -> None:
    assert shape(3, 500, 20, 100.0, seed=7).tables == shape(3, 500, 20, 100.0, seed=7).tables
    assert shape(3, 500, 20, 100.0, seed=7).tables != shape(3, 500, 20, 100.0, seed=8).tables


@each_shape
def test_rows_are_evenly_spaced_and_streams_alternate(shape: Shape) -> None:
    workload = shape(4, 100, 20, 1_000.0, seed=0)
    first = times(workload.tables["A"])
    assert first.tolist() == list(range(0, 100_000, 1_000))
    for number, stream in enumerate(workload.streams):
        assert (times(workload.tables[stream]) - first == 250 * number).all()


@each_shape
def test_values_are_uniform_over_the_keys(shape: Shape) -> None:
    workload = shape(3, 20_000, 10, 1_000.0, seed=0)
    for table in workload.tables.values():
        for column in set(table.column_names) - {"ts", "v"}:
            values, counts = np.unique(np.asarray(table[column]), return_counts=True)
            assert values.tolist() == list(range(10))
            assert counts.min() > 1_800
            assert counts.max() < 2_200


@each_shape
def test_schemas_and_payload(shape: Shape) -> None:
    workload = shape(3, 50, 10, 1_000.0, seed=0)
    assert workload.event_time == "ts"
    for stream, table in workload.tables.items():
        assert table.schema == workload.schemas[stream]
        assert table.schema.field("ts").type == pa.int64()
        assert table["v"].to_pylist() == list(range(50))


def test_the_shapes_have_their_columns() -> None:
    columns = {
        shape.__name__: {stream: schema.names[1:-1] for stream, schema in shape(3, 5).schemas.items()}
        for shape in SHAPES
    }
    assert columns == {
        "common_key": {"A": ["k"], "B": ["k"], "C": ["k"]},
        "chain": {"A": ["to_B"], "B": ["to_A", "to_C"], "C": ["to_B"]},
        "star": {"A": ["to_B", "to_C"], "B": ["to_A"], "C": ["to_A"]},
        "clique": {"A": ["to_B", "to_C"], "B": ["to_A", "to_C"], "C": ["to_A", "to_B"]},
        "band": {"A": ["x"], "B": ["x"], "C": ["x"]},
    }


def test_a_stream_does_not_depend_on_how_many_follow() -> None:
    few, many = generate.common_key(2, 100, rate=1.0), generate.common_key(30, 100, rate=1.0)
    assert few.tables["B"]["k"] == many.tables["B"]["k"]
    assert many.streams[25:28] == ("Z", "S26", "S27")


def test_string_keys_are_the_integer_keys_as_text() -> None:
    numbers = generate.common_key(2, 1_000, 50, seed=3).tables["A"]["k"].to_pylist()
    texts = generate.common_key(2, 1_000, 50, seed=3, string_keys=True).tables["A"]["k"]
    assert texts.type == pa.string()
    assert texts.to_pylist() == [f"key-{number:010d}" for number in numbers]


@pytest.mark.parametrize(
    ("window", "text"), [(1.0, "[RANGE 1 SECOND]"), (90, "[RANGE 90 SECONDS]"), (0.25, "[RANGE 250000 MICROSECONDS]")]
)
def test_windows(window: float, text: str) -> None:
    assert text in generate.common_key(2, 5, window=window).text


def test_jitter_keeps_the_order_and_disorder_is_bounded() -> None:
    shaken = times(generate.common_key(2, 5_000, rate=1_000.0, jitter=0.05).tables["A"])
    assert (np.diff(shaken) >= 0).all()
    assert len(np.unique(np.diff(shaken))) > 100

    mixed = times(generate.common_key(2, 5_000, rate=1_000.0, disorder=0.05).tables["A"])
    behind = np.maximum.accumulate(mixed) - mixed
    assert 0 < behind.max() <= 50_000
    assert sorted(mixed.tolist()) == times(generate.common_key(2, 5_000, rate=1_000.0).tables["A"]).tolist()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("streams", 0, "streams must be at least 1, not 0"),
        ("rows", -1, "rows must be at least 0, not -1"),
        ("keys", 0, "keys must be at least 1, not 0"),
        ("rate", 0.0, "rate must be above 0, not 0.0"),
        ("window", -1, "window must be at least 0, not -1"),
    ],
)
def test_impossible_settings_are_refused(name: str, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        generate.common_key(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("rows_per_stream", [1, 7, 100, 1_000])
def test_batches_lose_nothing(rows_per_stream: int) -> None:
    workload = generate.chain(3, 100)
    pieces = list(batches(workload, rows_per_stream))
    assert len(pieces) == -(-100 // rows_per_stream)
    for stream, table in workload.tables.items():
        assert pa.concat_tables([piece[stream] for piece in pieces]) == table


@pytest.mark.parametrize("seconds", [0.5, 3.0, 1_000.0])
def test_batches_by_time_lose_nothing_and_share_their_cuts(seconds: float) -> None:
    workload = shop(orders=2_000, rate=100.0)
    pieces = list(batches_by_time(workload, round(seconds * 1e6)))
    for stream, table in workload.tables.items():
        assert pa.concat_tables([piece[stream] for piece in pieces]).equals(table)
    ends = [max((times(table)[-1] for table in piece.values() if table.num_rows), default=None) for piece in pieces]
    starts = [min((times(table)[0] for table in piece.values() if table.num_rows), default=None) for piece in pieces]
    for end, start in zip(ends, starts[1:], strict=False):
        if end is not None and start is not None:
            assert end < start


def test_no_rows_give_no_batches() -> None:
    empty = generate.common_key(2, 0)
    assert list(batches(empty, 10)) == []
    assert list(batches_by_time(empty, 10)) == []


def test_the_shop_is_in_order_and_follows_its_orders() -> None:
    workload = shop(orders=5_000, seed=1)
    placed = dict(zip(*(workload.tables["orders"][name].to_pylist() for name in ("id", "ts")), strict=True))
    for stream in workload.streams:
        table = workload.tables[stream]
        assert (np.diff(times(table)) >= 0).all()
        if stream != "orders":
            pairs = zip(table["order_id"].to_pylist(), table["ts"].to_pylist(), strict=True)
            assert all(at >= placed[order] for order, at in pairs)
