"""What windows of each kind answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

import midstream as ms
from midstream.cql.windows import (
    RangeWindow,
    RowsWindow,
    StaticWindow,
    UnboundedWindow,
    Window,
    parse_window,
    window_of,
)

LARGEST = 2**63 - 1
RANGE, ROWS, UNBOUNDED, STATIC = RangeWindow(10), RowsWindow(10), UnboundedWindow(), StaticWindow()
ALL: tuple[Window, ...] = (RANGE, ROWS, UNBOUNDED, STATIC)


@pytest.mark.parametrize("given", ALL, ids=lambda given: given.kind.name)
def test_a_window_comes_back_from_its_kind_and_size(given: Window) -> None:
    assert window_of(given.kind, given.size) == window_of(given.kind.value, given.size) == given
    assert given.is_static or parse_window(given.text) == given
    assert [other for other in ALL if other == given] == [given]


@pytest.mark.parametrize("given", ALL, ids=lambda given: given.kind.name)
def test_intervals_begin_with_the_row_and_saturate(given: Window) -> None:
    times = np.array([-5, 0, LARGEST - 10, LARGEST - 9, LARGEST])
    starts, ends = given.intervals(times)
    assert starts.tolist() == times.tolist()
    if given.ends_by_time:
        assert ends.tolist() == [5, 10, LARGEST, LARGEST, LARGEST]
        assert [given.latest_time(end) for end in (5, 10)] == [-5, 0]
    else:
        assert set(ends.tolist()) == {LARGEST}
    assert given.latest_time(LARGEST) == LARGEST
    assert [len(part) for part in given.intervals(times[:0])] == [0, 0]


def test_what_ends_a_row() -> None:
    assert [given.ends_by_time for given in ALL] == [True, False, False, False]
    assert [given.counts_rows for given in ALL] == [False, True, False, False]
    assert [given.never_ends for given in ALL] == [False, False, True, True]
    assert [given.is_static for given in ALL] == [False, False, False, True]


def test_which_window_can_become_which() -> None:
    """A window of as many rows or less time, and an UNBOUNDED one any that time ends."""
    smaller = (RangeWindow(9), RowsWindow(9))
    larger = (RangeWindow(11), RowsWindow(11))
    possible = [(old, new) for old in ALL for new in (*ALL, *smaller, *larger) if old.covers(new)]
    assert possible == [
        (RANGE, RANGE),
        (RANGE, smaller[0]),
        (ROWS, ROWS),
        (ROWS, smaller[1]),
        (UNBOUNDED, RANGE),
        (UNBOUNDED, UNBOUNDED),
        (UNBOUNDED, smaller[0]),
        (UNBOUNDED, larger[0]),
        (STATIC, STATIC),
    ]


def test_expected_sizes_sort_windows() -> None:
    found = sorted(
        [UNBOUNDED, RangeWindow(20), RANGE, ROWS, RowsWindow(20), STATIC], key=lambda window: window.expected_size
    )
    assert found == [STATIC, ROWS, RowsWindow(20), RANGE, RangeWindow(20), UNBOUNDED]


def test_how_long_a_row_stays() -> None:
    assert [given.seconds(None) for given in ALL] == [10e-6, None, math.inf, math.inf]
    assert [given.seconds(5.0) for given in ALL] == [10e-6, 2.0, math.inf, math.inf]


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ms.QueryError, match=r"unknown kind 'hopping'; kinds: range, rows, unbounded, static"):
        window_of("hopping", 5)


def test_a_kind_that_leaves_a_question_open_cannot_be_built() -> None:
    class HoppingWindow(Window):
        counts_rows = False

    with pytest.raises(TypeError, match="abstract"):
        HoppingWindow(5)  # type: ignore[abstract]
