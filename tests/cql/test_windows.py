"""What windows of each kind answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import midstream as ms
from midstream.cql.windows import (
    RangeWindow,
    RowsWindow,
    StaticWindow,
    TumbleWindow,
    UnboundedWindow,
    Window,
    parse_window,
    window_of,
)

LARGEST = 2**63 - 1
RANGE, ROWS, UNBOUNDED, STATIC = RangeWindow(10), RowsWindow(10), UnboundedWindow(), StaticWindow()
TUMBLE = TumbleWindow(5_000)
ALL: tuple[Window, ...] = (RANGE, TUMBLE, ROWS, UNBOUNDED, STATIC)


@pytest.mark.parametrize("window", ALL, ids=lambda window: window.kind.name)
def test_a_window_comes_back_from_its_kind_and_size(window: Window) -> None:
    assert window_of(window.kind, window.size) == window_of(window.kind.value, window.size) == window
    assert window.is_static or parse_window(window.text) == window
    assert [other for other in ALL if other == window] == [window]


@pytest.mark.parametrize("window", [RANGE, ROWS, UNBOUNDED, STATIC], ids=lambda window: window.kind.name)
def test_intervals_begin_with_the_row_and_saturate(window: Window) -> None:
    times = np.array([-5, 0, LARGEST - 10, LARGEST - 9, LARGEST])
    starts, ends = window.intervals(times)
    assert starts.tolist() == times.tolist()
    if window.ends_by_time:
        assert ends.tolist() == [5, 10, LARGEST, LARGEST, LARGEST]
        assert [window.latest_time(end) for end in (5, 10)] == [-5, 0]
    else:
        assert set(ends.tolist()) == {LARGEST}
    assert window.latest_time(LARGEST) == LARGEST
    assert [len(part) for part in window.intervals(times[:0])] == [0, 0]


@given(
    st.lists(st.integers(-LARGEST, LARGEST) | st.integers(-20, 20), max_size=20),
    st.integers(1, 30) | st.integers(1, LARGEST),
)
def test_a_row_is_valid_in_its_bucket(times: list[int], size: int) -> None:
    """Also before 1970. A bucket that would reach beyond the times there are ends with them."""
    window = TumbleWindow(size)
    starts, ends = window.intervals(np.array(times, np.int64))
    numbers = [time // size for time in times]
    assert starts.tolist() == [max(number * size, -LARGEST) for number in numbers]
    assert ends.tolist() == [min((number + 1) * size - 1, LARGEST) for number in numbers]
    again = window.intervals(starts)
    assert [part.tolist() for part in again] == [starts.tolist(), ends.tolist()]


@given(st.integers(-LARGEST, LARGEST) | st.integers(-99, 99), st.integers(1, 30))
def test_the_latest_row_that_ends_in_time(end: int, size: int) -> None:
    for window in (TumbleWindow(size), RangeWindow(size)):
        latest = window.latest_time(end)
        if -LARGEST < latest < LARGEST:
            ends = window.intervals(np.array([latest, latest + 1]))[1]
            assert ends[0] <= end < ends[1]


def test_what_ends_a_row() -> None:
    assert [window.ends_by_time for window in ALL] == [True, True, False, False, False]
    assert [window.counts_rows for window in ALL] == [False, False, True, False, False]
    assert [window.never_ends for window in ALL] == [False, False, False, True, True]
    assert [window.is_static for window in ALL] == [False, False, False, False, True]


def test_which_window_can_become_which() -> None:
    """A window of as many rows or less time, and an UNBOUNDED one any that time ends.

    Of a row in a bucket only the bucket's start is kept, so it cannot be sorted into other buckets later.
    """
    smaller = (RangeWindow(9), RowsWindow(9), TumbleWindow(1_000))
    larger = (RangeWindow(11), RowsWindow(11), TumbleWindow(10_000))
    possible = [(old, new) for old in ALL for new in (*ALL, *smaller, *larger) if old.covers(new)]
    assert possible == [
        (RANGE, RANGE),
        (RANGE, smaller[0]),
        (TUMBLE, TUMBLE),
        (ROWS, ROWS),
        (ROWS, smaller[1]),
        (UNBOUNDED, RANGE),
        (UNBOUNDED, TUMBLE),
        (UNBOUNDED, UNBOUNDED),
        (UNBOUNDED, smaller[0]),
        (UNBOUNDED, smaller[2]),
        (UNBOUNDED, larger[0]),
        (UNBOUNDED, larger[2]),
        (STATIC, STATIC),
    ]


def test_expected_sizes_sort_windows() -> None:
    found = sorted(
        [UNBOUNDED, TUMBLE, RangeWindow(20), RANGE, ROWS, RowsWindow(20), STATIC],
        key=lambda window: window.expected_size,
    )
    assert found == [STATIC, ROWS, RowsWindow(20), RANGE, RangeWindow(20), TUMBLE, UNBOUNDED]


def test_how_long_a_row_stays() -> None:
    assert [window.seconds(None) for window in ALL] == [10e-6, 0.005, None, math.inf, math.inf]
    assert [window.seconds(5.0) for window in ALL] == [10e-6, 0.005, 2.0, math.inf, math.inf]


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ms.QueryError, match=r"unknown kind 'hopping'; kinds: range, tumble, rows, unbounded, static"):
        window_of("hopping", 5)


def test_a_kind_that_leaves_a_question_open_cannot_be_built() -> None:
    class HoppingWindow(Window):
        counts_rows = False

    with pytest.raises(TypeError, match="abstract"):
        HoppingWindow(5)  # type: ignore[abstract]
