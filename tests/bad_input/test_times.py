"""Event times: null, late, out of range, far ahead, at the ends of int64, and finer than a microsecond."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms

from .pairs import SCHEMA, TEXT, matches, pair, rows, schema

MAX = 2**63 - 1
MIN = -(2**63)
NULL_TIME = "null event time"
OUT_OF_RANGE = "event time out of range"
TOO_FAR = "too far ahead"


def late_rows(engine: ms.Engine, stream: str) -> list[tuple[int, str]]:
    table = engine.take_late().get(stream)
    return [] if table is None else [(row["v"], row["reason"]) for row in table.to_pylist()]


def test_null_event_time_is_dropped_and_counted() -> None:
    engine = pair()
    out = engine.push({"a": rows([1, 1], [None, 5]), "b": rows([1], [5])})
    assert matches(out) == [(1, 0)]
    stats = engine.stats()
    assert stats.rejected["a"] == {NULL_TIME: 1}
    assert stats.rows_in == {"a": 1, "b": 1}
    assert late_rows(engine, "a") == [(0, NULL_TIME)]
    assert late_rows(engine, "a") == [], "taken once"


def test_rejected_rows_move_no_watermark_but_filtered_ones_do() -> None:
    engine = pair(TEXT + " AND a.v >= 0 AND b.v > 100")
    engine.push({"a": rows([1], [7]), "b": rows([1, 1], [None, 9])})
    assert engine.stats().watermark == 7
    engine.push({"a": rows([None], [50]), "b": rows([1], [40])})
    assert engine.stats().watermark == 40


def test_late_rows_are_judged_by_the_watermark_before_the_push() -> None:
    engine = pair()
    engine.push({"a": rows([1], [100]), "b": rows([2], [100])})
    assert engine.stats().watermark == 100
    out = engine.push({"a": rows([1, 1, 1], [200, 99, 100], first=10), "b": rows([1, 1], [100, 98], first=20)})
    assert matches(out) == [(0, 20), (12, 20)]
    assert engine.stats().late == {"a": 1, "b": 1}
    late = engine.take_late()
    assert late["a"].column_names == ["k", "v", "ts", "reason"]
    assert late["a"].to_pylist() == [{"k": 1, "v": 11, "ts": 99, "reason": "late"}]
    assert late["b"].num_rows == 1


def test_late_rows_are_counted_even_if_not_kept() -> None:
    query = ms.query(TEXT, schemas={"a": SCHEMA, "b": SCHEMA}, event_time="ts")
    engine = ms.Engine(query)
    engine.push({}, watermark=100)
    engine.push({"a": rows([1, 2], [5, None])})
    assert engine.stats().late["a"] == 1
    assert engine.stats().rejected["a"] == {NULL_TIME: 1}
    assert sum(table.num_rows for table in engine.take_late().values()) == 0


def test_delay_per_stream_and_the_stream_that_holds_back() -> None:
    engine = pair(delay={"a": "5 microseconds", "b": "20 us"})
    engine.push({"a": rows([1], [100])})
    stats = engine.stats()
    assert (stats.watermark, stats.held_back_by) == (None, "b")
    engine.push({"b": rows([2], [110])})
    stats = engine.stats()
    assert (stats.watermark, stats.held_back_by) == (90, "b")
    engine.push({"b": rows([2], [200])})
    stats = engine.stats()
    assert (stats.watermark, stats.held_back_by) == (95, "a")


def test_watermark_per_stream() -> None:
    engine = pair()
    engine.push({}, watermark={"a": 10, "b": 20})
    assert engine.stats().watermark == 10
    engine.push({}, watermark={"a": 30})
    assert engine.stats().watermark == 20
    assert engine.stats().held_back_by == "b"
    with pytest.raises(ms.InputError, match="watermark"):
        engine.push({}, watermark={"a": 29, "b": 40})
    assert engine.stats().watermark == 20


def test_far_future_without_max_jump_is_accepted_and_moves_the_watermark() -> None:
    engine = pair()
    engine.push({"a": rows([1], [10]), "b": rows([1], [10])})
    engine.push({"a": rows([1], [10**15]), "b": rows([2], [10**15])})
    assert engine.stats().watermark == 10**15
    engine.push({"a": rows([1], [20])})
    assert engine.stats().late["a"] == 1


def test_far_future_with_max_jump_is_dropped_and_counted() -> None:
    engine = pair(max_jump="1 second")
    engine.push({"a": rows([1], [10]), "b": rows([1], [10])})
    assert engine.stats().watermark == 10
    out = engine.push({"a": rows([1, 1], [10**15, 12], first=5), "b": rows([1], [11], first=5)})
    assert matches(out) == [(0, 5), (6, 0), (6, 5)]
    assert engine.stats().rejected["a"] == {TOO_FAR: 1}
    assert engine.stats().watermark == 11
    assert late_rows(engine, "a") == [(5, TOO_FAR)]


def test_max_jump_is_inclusive() -> None:
    engine = pair(max_jump=datetime.timedelta(microseconds=100))
    engine.push({"a": rows([1], [1000])})
    engine.push({"a": rows([1, 1], [1100, 1101])})
    assert engine.stats().rows_in["a"] == 2
    assert engine.stats().rejected["a"] == {TOO_FAR: 1}


def test_ends_saturate_at_the_largest_int64() -> None:
    engine = pair()
    out = engine.push({"a": rows([1, 1, 1], [MAX, MAX - 1, MAX - 20]), "b": rows([1], [MAX - 5])}, watermark=MAX - 30)
    assert matches(out) == [(0, 0), (1, 0)]
    found = {row["av"]: (row["valid_from"], row["valid_to"]) for row in out.to_pylist()}
    assert found == {0: (MAX, MAX), 1: (MAX - 1, MAX)}
    assert engine.stats().rejected.get("a", {}) == {}


def test_a_saturated_end_of_a_timestamp() -> None:
    declared = schema(time=pa.timestamp("us"))
    text = TEXT.replace("10 MICROSECONDS", "100000 WEEKS")
    engine = pair(text, left=declared)
    table = pa.table([pa.array([1]), pa.array([0]), pa.array([MAX - 5], pa.timestamp("us"))], schema=declared)
    out = engine.push({"a": table, "b": table})
    assert out.column("valid_to").cast(pa.int64()).to_pylist() == [MAX]
    assert out.column("valid_from").cast(pa.int64()).to_pylist() == [MAX - 5]


def test_the_smallest_event_times() -> None:
    engine = pair(delay="1000 us")
    out = engine.push({"a": rows([1, 1], [MIN + 1, MIN + 12]), "b": rows([1], [MIN + 11])})
    assert sorted((row["av"], row["valid_from"], row["valid_to"]) for row in out.to_pylist()) == [
        (0, MIN + 11, MIN + 11),
        (1, MIN + 12, MIN + 21),
    ]
    out = engine.push({"b": rows([1], [MIN + 5], first=9)})
    assert matches(out) == [(0, 9), (1, 9)]


def test_a_window_is_a_closed_interval() -> None:
    engine = pair(TEXT.replace("b [RANGE 10", "b [RANGE 3"))
    out = engine.push({"a": rows([1, 1, 1, 1], [3, 4, 14, 17]), "b": rows([1], [14])})
    assert matches(out) == [(1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("time", [pa.int64(), pa.timestamp("us")])
def test_the_smallest_int64_is_no_event_time(time: pa.DataType) -> None:
    """It is the end of entries that were evicted; a null may well stand on it."""
    declared = schema(time=time)
    engine = pair(left=declared)
    table = pa.table([pa.array([1, 1]), pa.array([0, 1]), pa.array([MIN, MIN + 1], time)], schema=declared)
    out = engine.push({"a": table, "b": table})
    assert out.select(["av", "bv"]).to_pylist() == [{"av": 1, "bv": 1}]
    assert engine.stats().rejected["a"] == {OUT_OF_RANGE: 1}
    values = pa.py_buffer(np.array([MIN], np.int64))
    no_time = pa.Array.from_buffers(time, 1, [pa.py_buffer(bytes(1)), values])
    engine.push({"a": pa.table([pa.array([1]), pa.array([0]), no_time], schema=declared)})
    assert engine.stats().rejected["a"] == {OUT_OF_RANGE: 1, NULL_TIME: 1}


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("value", [2**62, -(2**62), MAX, MIN])
def test_event_time_out_of_range(unit: str, value: int) -> None:
    declared = schema(time=pa.timestamp(unit))
    engine = pair(left=declared)
    times = pa.array([value, 1], pa.timestamp(unit))
    table = pa.table([pa.array([1, 1]), pa.array([0, 1]), times], schema=declared)
    assert matches(engine.push({"a": table, "b": table.slice(1)})) == [(1, 1)]
    assert engine.stats().rejected["a"] == {OUT_OF_RANGE: 1}
    late = engine.take_late()["a"]
    assert late.column("ts").cast(pa.int64()).to_pylist() == [value]
    assert late.column("reason").to_pylist() == [OUT_OF_RANGE]


def test_nanoseconds_are_cut_to_microseconds() -> None:
    declared = schema(time=pa.timestamp("ns"))
    engine = pair(left=declared)
    left = pa.table([pa.array([1]), pa.array([0]), pa.array([10_999], pa.timestamp("ns"))], schema=declared)
    right = pa.table(
        [pa.array([1, 1]), pa.array([0, 1]), pa.array([20_001, 21_000], pa.timestamp("ns"))], schema=declared
    )
    out = engine.push({"a": left, "b": right})
    assert matches(out) == [(0, 0)]
    assert out.schema.field("valid_from").type == pa.timestamp("us")
    assert out.column("valid_from").cast(pa.int64()).to_pylist() == [20]
    assert out.column("valid_to").cast(pa.int64()).to_pylist() == [20]


def test_a_watermark_that_goes_back_is_told_as_a_moment() -> None:
    """As a time in the zone of the query's times; numbers stay numbers."""
    zone = pa.timestamp("us", "Europe/Berlin")
    engine = pair(left=schema(time=zone))
    noon = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.timezone.utc)
    engine.push({}, watermark=noon)
    with pytest.raises(
        ms.InputError, match=r"from 2026-07-01 14:00:00\+02:00 to 2026-07-01 13:59:59\.500000\+02:00; give"
    ):
        engine.push({}, watermark=noon - datetime.timedelta(milliseconds=500))
    engine.push({}, watermark={"a": 2**63 - 1})
    with pytest.raises(
        ms.InputError, match=r"of stream 'a' would go back from 294247-01-10T04:00:54\.775807Z to 2026-07-01"
    ):
        engine.push({}, watermark={"a": noon})
    numbers = pair()
    numbers.push({}, watermark=7)
    with pytest.raises(ms.InputError, match="would go back from 7 to 6; give the same or a later one"):
        numbers.push({}, watermark=6)


def test_zones_are_shown_as_the_first_streams() -> None:
    left, right = schema(time=pa.timestamp("ms", "Europe/Berlin")), schema(time=pa.timestamp("us", "UTC"))
    engine = pair(TEXT.replace("10 MICROSECONDS", "1 HOUR"), left=left, right=right)
    moment = datetime.datetime(2024, 3, 31, 1, 30, tzinfo=datetime.timezone.utc)
    out = engine.push(
        {"a": rows([1], [moment], left), "b": rows([1], [moment + datetime.timedelta(minutes=30)], right)},
        watermark=moment,
    )
    assert out.schema.field("valid_to").type == pa.timestamp("us", "Europe/Berlin")
    (row,) = out.to_pylist()
    assert row["valid_from"] == moment + datetime.timedelta(minutes=30)
    assert row["valid_to"] == moment + datetime.timedelta(minutes=60)


def test_int_and_timestamp_times_do_not_mix() -> None:
    with pytest.raises(ms.QueryError, match="one kind"):
        pair(left=SCHEMA, right=schema(time=pa.timestamp("us")))


def test_unbounded_results_have_no_end() -> None:
    engine = pair(TEXT.replace("[RANGE 10 MICROSECONDS]", "[UNBOUNDED]"))
    engine.push({"a": rows([1], [5])})
    out = engine.push({"b": rows([1], [10**12])})
    assert out.column("valid_from").to_pylist() == [10**12]
    assert out.column("valid_to").to_pylist() == [None]


def test_expired_rows_leave_the_state() -> None:
    engine = pair()
    for start in range(0, 20_000, 100):
        times = list(range(start, start + 100))
        engine.push({"a": rows([0] * 10, times[::10]), "b": rows([1] * 10, times[::10])})
    assert sum(state.rows for state in engine.stats().states) < 500
