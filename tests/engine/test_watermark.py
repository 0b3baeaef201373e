"""The watermark: implicit, per stream, explicit, and how one becomes the other."""

from __future__ import annotations

import pytest

from midstream.engine.input.watermark import NONE_YET, Watermark
from midstream.errors import InputError


def make_watermark(**delays: int) -> Watermark:
    return Watermark(delays or {"a": 0, "b": 0})


def test_it_is_the_smallest_of_the_maxima_less_the_delays() -> None:
    watermark = make_watermark(a=5, b=20)
    assert watermark.current == NONE_YET
    watermark.advance({"a": 100}, None)
    assert watermark.current == NONE_YET, "a stream without rows holds it back"
    assert watermark.held_back_by() == "b"
    watermark.advance({"b": 90}, None)
    assert watermark.current == 70
    watermark.advance({"b": 200}, None)
    assert watermark.current == 95 and watermark.held_back_by() == "a"
    watermark.advance({"a": 50, "b": 10}, None)
    assert watermark.current == 95, "older rows do not take it back"


def test_a_watermark_for_one_stream_moves_that_stream_on() -> None:
    watermark = make_watermark()
    watermark.advance({"a": 100}, {"b": 40})
    assert watermark.current == 40 and not watermark.is_explicit
    watermark.advance({"b": 70}, None)
    assert watermark.current == 70, "maxima go on counting"
    watermark.advance({}, {"b": 90})
    assert watermark.current == 90
    watermark.advance({}, {"b": 500})
    assert watermark.current == 100 and watermark.held_back_by() == "a"
    watermark.advance({"a": 300}, {})
    assert watermark.current == 300


def test_a_watermark_for_one_stream_may_be_below_what_it_has_reached() -> None:
    watermark = make_watermark()
    watermark.advance({"a": 100, "b": 100}, None)
    watermark.check({"a": 10})
    watermark.advance({}, {"a": 10})
    assert watermark.current == 100


def test_after_one_for_the_query_only_given_ones_count() -> None:
    watermark = make_watermark()
    watermark.advance({"a": 100, "b": 100}, None)
    watermark.advance({"a": 300, "b": 300}, 120)
    assert watermark.current == 120 and watermark.is_explicit
    watermark.advance({"a": 900, "b": 900}, None)
    assert watermark.current == 120
    watermark.advance({}, {"a": 500})
    assert watermark.current == 120 and watermark.held_back_by() == "b"
    watermark.advance({}, {"b": 200})
    assert watermark.current == 200
    watermark.advance({}, 600)
    assert watermark.current == 600 and watermark.held_back_by() is None


def test_one_for_the_query_reaches_streams_without_rows() -> None:
    watermark = make_watermark()
    watermark.advance({}, 50)
    assert watermark.current == 50


def test_one_for_the_query_does_not_take_a_stream_back() -> None:
    watermark = make_watermark()
    watermark.advance({}, {"a": 500})
    watermark.advance({}, 100)
    assert watermark.given == {"a": 500, "b": 100} and watermark.current == 100
    watermark.advance({}, {"b": 800})
    assert watermark.current == 500


def test_what_goes_back_or_is_unknown_is_refused() -> None:
    watermark = make_watermark()
    watermark.advance({"a": 100, "b": 100}, {"a": 200})
    with pytest.raises(InputError, match="go back from 100 to 99"):
        watermark.check(99)
    watermark.check(100)
    with pytest.raises(InputError, match="stream 'a' would go back from 200 to 199"):
        watermark.check({"b": 1000, "a": 199})
    watermark.check({"a": 200})
    with pytest.raises(InputError, match="unknown stream 'c'; streams: a, b"):
        watermark.check({"c": 1})
    watermark.check(None)


@pytest.mark.parametrize("given", [None, 500, {"a": 700}, {"a": 700, "b": 650}])
def test_what_a_push_would_do_changes_nothing(given: int | dict[str, int] | None) -> None:
    watermark = make_watermark(a=10, b=0)
    watermark.advance({"a": 100, "b": 80}, None)
    before = watermark.to_json() | {"maxima": dict(watermark.maxima), "given": dict(watermark.given)}
    expected = watermark.after({"a": 600, "b": 400}, given)
    assert watermark.to_json() == before
    watermark.advance({"a": 600, "b": 400}, given)
    assert watermark.to_json() == expected.to_json()


def test_delays_near_the_smallest_time_do_not_overflow() -> None:
    watermark = make_watermark(a=10)
    watermark.advance({"a": NONE_YET + 3}, None)
    assert watermark.current == NONE_YET


def test_it_survives_a_snapshot() -> None:
    watermark = make_watermark()
    watermark.advance({"a": 100, "b": 30}, {"b": 50})
    other = make_watermark()
    other.from_json(watermark.to_json())
    for each in (watermark, other):
        each.advance({"b": 70}, None)
    assert watermark.to_json() == other.to_json() and other.current == 70
    other.advance({}, 1000)
    assert watermark.current == 70 and not watermark.is_explicit, "nothing is shared"
