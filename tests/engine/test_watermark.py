"""The watermark: implicit, per stream, explicit, and how one becomes the other."""

from __future__ import annotations

import pytest

from midstream.engine.input.watermark import NONE_YET, Watermark
from midstream.errors import InputError


def tracker(**delays: int) -> Watermark:
    return Watermark(delays or {"a": 0, "b": 0})


def test_it_is_the_smallest_of_the_maxima_less_the_delays() -> None:
    one = tracker(a=5, b=20)
    assert one.current == NONE_YET
    one.advance({"a": 100}, None)
    assert one.current == NONE_YET, "a stream without rows holds it back"
    assert one.held_back_by() == "b"
    one.advance({"b": 90}, None)
    assert one.current == 70
    one.advance({"b": 200}, None)
    assert one.current == 95 and one.held_back_by() == "a"
    one.advance({"a": 50, "b": 10}, None)
    assert one.current == 95, "older rows do not take it back"


def test_a_watermark_for_one_stream_moves_that_stream_on() -> None:
    one = tracker()
    one.advance({"a": 100}, {"b": 40})
    assert one.current == 40 and not one.is_explicit
    one.advance({"b": 70}, None)
    assert one.current == 70, "maxima go on counting"
    one.advance({}, {"b": 90})
    assert one.current == 90
    one.advance({}, {"b": 500})
    assert one.current == 100 and one.held_back_by() == "a"
    one.advance({"a": 300}, {})
    assert one.current == 300


def test_a_watermark_for_one_stream_may_be_below_what_it_has_reached() -> None:
    one = tracker()
    one.advance({"a": 100, "b": 100}, None)
    one.check({"a": 10})
    one.advance({}, {"a": 10})
    assert one.current == 100


def test_after_one_for_the_query_only_given_ones_count() -> None:
    one = tracker()
    one.advance({"a": 100, "b": 100}, None)
    one.advance({"a": 300, "b": 300}, 120)
    assert one.current == 120 and one.is_explicit
    one.advance({"a": 900, "b": 900}, None)
    assert one.current == 120
    one.advance({}, {"a": 500})
    assert one.current == 120 and one.held_back_by() == "b"
    one.advance({}, {"b": 200})
    assert one.current == 200
    one.advance({}, 600)
    assert one.current == 600 and one.held_back_by() is None


def test_one_for_the_query_reaches_streams_without_rows() -> None:
    one = tracker()
    one.advance({}, 50)
    assert one.current == 50


def test_one_for_the_query_does_not_take_a_stream_back() -> None:
    one = tracker()
    one.advance({}, {"a": 500})
    one.advance({}, 100)
    assert one.given == {"a": 500, "b": 100} and one.current == 100
    one.advance({}, {"b": 800})
    assert one.current == 500


def test_what_goes_back_or_is_unknown_is_refused() -> None:
    one = tracker()
    one.advance({"a": 100, "b": 100}, {"a": 200})
    with pytest.raises(InputError, match="go back from 100 to 99"):
        one.check(99)
    one.check(100)
    with pytest.raises(InputError, match="stream 'a' would go back from 200 to 199"):
        one.check({"b": 1000, "a": 199})
    one.check({"a": 200})
    with pytest.raises(InputError, match="unknown stream 'c'; streams: a, b"):
        one.check({"c": 1})
    one.check(None)


@pytest.mark.parametrize("given", [None, 500, {"a": 700}, {"a": 700, "b": 650}])
def test_what_a_push_would_do_changes_nothing(given: int | dict[str, int] | None) -> None:
    one = tracker(a=10, b=0)
    one.advance({"a": 100, "b": 80}, None)
    before = one.to_json() | {"maxima": dict(one.maxima), "given": dict(one.given)}
    expected = one.after({"a": 600, "b": 400}, given)
    assert one.to_json() == before
    one.advance({"a": 600, "b": 400}, given)
    assert one.current == expected


def test_delays_near_the_smallest_time_do_not_overflow() -> None:
    one = tracker(a=10)
    one.advance({"a": NONE_YET + 3}, None)
    assert one.current == NONE_YET


def test_it_survives_a_snapshot() -> None:
    one = tracker()
    one.advance({"a": 100, "b": 30}, {"b": 50})
    other = tracker()
    other.from_json(one.to_json())
    for each in (one, other):
        each.advance({"b": 70}, None)
    assert one.to_json() == other.to_json() and other.current == 70
    other.advance({}, 1000)
    assert one.current == 70 and not one.is_explicit, "nothing is shared"
