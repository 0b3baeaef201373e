"""Small stories at the edges: of types, of steps, of time itself."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms

SECOND = 1_000_000
LIMIT = 2**63 - 1
INF, NAN = math.inf, math.nan


def start(text: str, step: Any = "10 seconds", x: pa.DataType | None = None) -> ms.Engine:
    """An engine over streams `a` and `b` with columns k, x and ts, whose watermark is the one it is given."""
    schema = pa.schema({"k": pa.int64(), "x": x or pa.int64(), "ts": pa.int64()})
    query = ms.query(text, {"a": schema, "b": schema}, event_time="ts", delay="1 hour", step=step)
    return ms.Engine(query)


def rows(*values: tuple[Any, float], key: int = 1) -> list[dict[str, Any]]:
    """Rows of a value and a time in seconds."""
    return [{"k": key, "x": value, "ts": round(seconds * SECOND)} for value, seconds in values]


def read(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows of output, with times in seconds and last moments as the moments after them, in the order of time."""
    found = []
    for *values, valid_from, valid_to in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.append((*values, valid_from / SECOND, None if valid_to is None else (valid_to + 1) / SECOND))
    return sorted(found, key=lambda row: (row[-2], str(row)))


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([LIMIT, 1, -1], LIMIT),
        ([LIMIT, 1], None),
        ([-LIMIT, -1], -LIMIT - 1),
        ([-LIMIT, -2], None),
        ([LIMIT] * 5 + [-LIMIT] * 5, 0),
        ([None, None], None),
        ([None, 5], 5),
    ],
)
def test_sums_at_the_limits_of_int64(values: list[int | None], total: int | None) -> None:
    engine = start("SELECT sum(x) AS s FROM a [TUMBLE 10 SECONDS]", step=None)
    engine.push({"a": rows(*((value, second) for second, value in enumerate(values)))})
    assert read(engine.push({}, watermark=20 * SECOND)) == [(total, 0, 10)]


def test_a_sum_comes_back_from_beyond_its_type() -> None:
    engine = start("SELECT sum(x) AS s, count(*) AS n FROM a [RANGE 4 SECONDS]")
    engine.push({"a": rows((LIMIT, 1), (1, 3))})
    found = read(engine.push({}, watermark=20 * SECOND))
    after = 1 / SECOND
    assert found == [(LIMIT, 1, 1, 3), (None, 2, 3, 5 + after), (1, 1, 5 + after, 7 + after)]


@pytest.mark.parametrize(
    ("special", "together"), [(INF, INF), (-INF, -INF), (NAN, NAN), (1e308, 1e308 + 1.5), (1e16, 10000000000000002.0)]
)
def test_a_sum_of_floats_forgets_what_has_gone(special: float, together: float) -> None:
    engine = start("SELECT sum(x) AS s, max(x) AS m, count(*) AS n FROM a [RANGE 4 SECONDS]", "1 minute", pa.float64())
    engine.push({"a": rows((special, 1), (1.5, 3), (0.1, 6), (0.2, 6))})
    found = read(engine.push({}, watermark=60 * SECOND))
    assert repr(found[1][:2]) == repr((together, max(special, 1.5) if special == special else NAN))
    assert [row[:2] for row in found[2:]] == [(1.5, 1.5), (math.fsum([1.5, 0.1, 0.2]), 1.5), (0.1 + 0.2, 0.2)]


def test_infinities_of_both_signs_are_nan_while_both_are_there() -> None:
    engine = start("SELECT sum(x) AS s, avg(x) AS m FROM a [RANGE 4 SECONDS]", x=pa.float64())
    engine.push({"a": rows((INF, 1), (-INF, 3))})
    found = read(engine.push({}, watermark=20 * SECOND))
    assert [repr(row[:2]) for row in found] == [repr(pair) for pair in ((INF, INF), (NAN, NAN), (-INF, -INF))]


def test_groups_of_nulls_alone() -> None:
    text = """SELECT k, count(*) AS n, count(x) AS c, count(DISTINCT x) AS d, sum(x) AS s, avg(x) AS v, min(x) AS lo,
              max(x) AS hi FROM a [TUMBLE 10 SECONDS] GROUP BY k"""
    engine = start(text, step=None)
    engine.push({"a": [{"k": None, "x": None, "ts": 1}, {"k": None, "x": None, "ts": 1}, {"k": 2, "x": 7, "ts": 9}]})
    assert read(engine.finish()) == [(2, 1, 1, 1, 7, 7.0, 7, 7, 0, 10), (None, 2, 0, 0, None, None, None, None, 0, 10)]


ODD = [NAN, -NAN, -0.0, 0.0, None, None, INF]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT DISTINCT x FROM a [TUMBLE 10 SECONDS]", ["0.0", "None", "inf", "nan"]),
        ("SELECT x FROM a [TUMBLE 10 SECONDS] GROUP BY x HAVING count(*) = 2", ["0.0", "None", "nan"]),
        ("SELECT x FROM a [TUMBLE 10 SECONDS] EXCEPT SELECT x FROM b [TUMBLE 10 SECONDS]", ["inf"]),
        (
            "SELECT x FROM a [TUMBLE 10 SECONDS] INTERSECT ALL SELECT x FROM b [TUMBLE 10 SECONDS]",
            ["0.0", "0.0", "None", "nan"],
        ),
        (
            "SELECT x FROM a [TUMBLE 10 SECONDS] UNION SELECT x FROM b [TUMBLE 10 SECONDS]",
            ["0.0", "None", "inf", "nan"],
        ),
        ("SELECT max(x) AS m FROM a [TUMBLE 10 SECONDS]", ["nan"]),
        ("SELECT min(x) AS m FROM a [TUMBLE 10 SECONDS]", ["0.0"]),
        ("SELECT CAST(count(DISTINCT x) AS DOUBLE) AS d FROM a [TUMBLE 10 SECONDS]", ["3.0"]),
    ],
)
def test_nulls_are_equal_and_so_are_nans_and_zeros(text: str, wanted: list[str]) -> None:
    engine = start(text, step=None, x=pa.float64())
    given = {"a": rows(*((x, 5) for x in ODD)), "b": rows((None, 1), (NAN, 2), (-0.0, 3), (0.0, 4))}
    engine.push({stream: given[stream] for stream in engine.query.streams})
    assert sorted(map(str, engine.finish().column(0).to_pylist())) == wanted


def test_nothing_valid_gives_no_row() -> None:
    """Not even that of an aggregate without GROUP BY, which SQL gives for no rows at all."""
    engine = start("SELECT count(*) AS n FROM a [RANGE 1 SECOND]")
    assert engine.push({}, watermark=100 * SECOND).num_rows == 0
    engine.push({"a": rows((1, 100))})
    assert read(engine.finish()) == [(1, 100, 101 + 1 / SECOND)]


def test_having_filters_before_runs_are_formed() -> None:
    """A count that changes where nobody sees it does not cut a run: only the runs of output rows matter."""
    text = "SELECT k FROM a [RANGE 4 SECONDS] GROUP BY k HAVING count(*) > 1"
    engine = start(text)
    engine.push({"a": rows((0, 1), (0, 2), (0, 3))})
    assert read(engine.finish()) == [(1, 2, 6 + 1 / SECOND)]


def test_rows_of_one_moment() -> None:
    """What ends just before something equal begins is one run; what is there twice is two rows."""
    engine = start("SELECT x FROM a [TUMBLE 2 SECONDS]")
    engine.push({"a": rows((7, 1), (7, 1), (7, 2), (8, 1))})
    assert read(engine.finish()) == [(7, 0, 2), (7, 0, 4), (8, 0, 2)]


def test_rows_at_the_border_of_a_step_and_beside_it() -> None:
    engine = start("SELECT DISTINCT x FROM a [RANGE 1 SECOND]")
    after = 1 / SECOND
    engine.push({"a": rows((1, 10), (2, 10 - after), (3, 10 + after), (4, 9 - after))})
    assert engine.push({}, watermark=10 * SECOND - 1).num_rows == 0
    assert read(engine.push({}, watermark=10 * SECOND)) == [(4, 9 - after, 10), (2, 10 - after, 10)]
    assert read(engine.finish()) == [(1, 10, 11 + after), (2, 10, 11), (3, 10 + after, 11 + 2 * after)]


def test_a_row_at_the_watermark_is_not_late() -> None:
    engine = start("SELECT DISTINCT x FROM a [RANGE 0 SECONDS]")
    engine.push({}, watermark=10 * SECOND)
    engine.push({"a": rows((1, 10), (2, 10 - 1 / SECOND))})
    assert read(engine.push({}, watermark=20 * SECOND)) == [(1, 10, 10 + 1 / SECOND)]
    assert engine.stats().late == {"a": 1}


def test_times_before_1970() -> None:
    engine = start("SELECT count(*) AS n FROM a [TUMBLE 10 SECONDS]", step=None)
    engine.push({"a": rows((1, -10), (1, -10 - 1 / SECOND), (1, -1 / SECOND), (1, 0))})
    assert read(engine.push({}, watermark=-10 * SECOND)) == [(1, -20, -10)]
    assert read(engine.push({}, watermark=0)) == [(2, -10, 0)]
    assert read(engine.finish()) == [(1, 0, 10)]


def test_what_never_ends_is_one_row_of_finish() -> None:
    engine = start("SELECT DISTINCT x FROM a [UNBOUNDED]")
    engine.push({"a": rows((1, 3), (2, 25))})
    assert read(engine.push({}, watermark=15 * SECOND)) == [(1, 3, 10)]
    assert read(engine.finish()) == [(1, 10, None), (2, 25, None)]


def test_without_a_watermark_finish_gives_everything() -> None:
    engine = start("SELECT DISTINCT a.x AS x FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k")
    engine.push({"a": rows((1, 3), (2, 25))})
    engine = ms.Engine.restore(engine.query, engine.snapshot())
    engine.push({"b": rows((0, 7))})
    assert read(engine.finish()) == [(1, 7, None), (2, 25, None)]


def test_more_rows_than_a_table_holds() -> None:
    """Rows without an end come in the first piece of the results, and others after it."""
    engine = start("SELECT k, count(*) AS n FROM a [UNBOUNDED] GROUP BY k", "1 second")
    engine.push({"a": [*rows((0, 0)), *rows((0, 0), (0, 200), key=2)]})
    steps = [(2, 1, second, second + 1) for second in range(200)]
    assert read(engine.finish()) == [(1, 1, 0, None), *steps, (2, 2, 200, None)]


@pytest.mark.parametrize("hold", [False, True])
def test_results_cannot_be_held_back(hold: bool) -> None:
    """They come when their step closes, whatever a migration does."""
    engine = start("SELECT DISTINCT a.x AS x FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k")
    engine.push({"a": rows((1, 1)), "b": rows((1, 2))})
    if hold:
        with pytest.raises(ms.EngineError, match="hold"):
            engine.migrate("(b a)", "parallel-track", hold=True)
    else:
        engine.migrate("(b a)", "parallel-track")
    assert read(engine.push({}, watermark=10 * SECOND)) == [(1, 2, 10)]


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (0, "step=0 is not a whole number of milliseconds, at least 1; give one, such as step='1 minute'"),
        (60, "step: 60 has no unit; write text such as '30 seconds', or give a timedelta"),
        (datetime.timedelta(0), "is not a whole number of milliseconds, at least 1"),
        (datetime.timedelta(microseconds=1), "is not a whole number of milliseconds, at least 1"),
        (datetime.timedelta(milliseconds=-1), "is not a whole number of milliseconds, at least 1"),
        (True, "step: True is not a duration"),
        ("1 month", "step: 'month' is not a unit of fixed length"),
        ("9 ms", "step='9 ms' is not a multiple of [TUMBLE 10 SECONDS] of 'a'; give one, such as step='10 seconds'"),
        ("5 s", "step='5 s' is not a multiple of [TUMBLE 10 SECONDS] of 'a'; give one, such as step='10 seconds'"),
    ],
)
def test_a_step_that_cannot_be(step: Any, told: str) -> None:
    with pytest.raises(ms.QueryError, match=re.escape(told)):
        start("SELECT count(*) AS n FROM a [TUMBLE 10 SECONDS]", step)


def test_a_step_as_a_timedelta() -> None:
    engine = start("SELECT count(*) AS n FROM a [TUMBLE 10 SECONDS]", datetime.timedelta(seconds=20))
    engine.push({"a": rows((1, 1))})
    assert engine.push({}, watermark=10 * SECOND).num_rows == 0
    assert read(engine.push({}, watermark=20 * SECOND)) == [(1, 0, 10)]


BEFORE_FIRST_BORDER, LAST_BORDER = -9223372036850000001, 9223372036850000000


@pytest.mark.parametrize(
    ("window", "first", "last"),
    [
        (
            "RANGE 1 SECOND",
            [(1, -LIMIT, -LIMIT), (2, -LIMIT + 1, -LIMIT + SECOND), (1, -LIMIT + SECOND + 1, -LIMIT + SECOND + 1)],
            [(1, LIMIT - 1, LIMIT - 1), (2, LIMIT, None)],
        ),
        ("TUMBLE 10 SECONDS", [(2, -LIMIT, BEFORE_FIRST_BORDER)], [(2, LAST_BORDER, None)]),
    ],
)
def test_the_ends_of_time(window: str, first: list[object], last: list[object]) -> None:
    """What is valid at the last moment there is has no end; the step of that moment never closes before `finish`."""
    engine = start(f"SELECT count(*) AS n FROM a [{window}]")

    def push(moments: list[int], watermark: int) -> list[object]:
        found = engine.push({"a": [{"k": 1, "x": 1, "ts": moment} for moment in moments]}, watermark=watermark)
        return [tuple(row.values()) for row in found.to_pylist()]

    assert push([-LIMIT, -LIMIT + 1], watermark=-LIMIT + 30 * SECOND) == first
    assert push([LIMIT - 1, LIMIT], watermark=LIMIT) == []
    assert [tuple(row.values()) for row in engine.finish().to_pylist()] == last


def count_calls(action: Callable[[], object]) -> int:
    """How many functions are called, Python's and others."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("window", ["RANGE 20 SECONDS", "TUMBLE 10 SECONDS"])
@pytest.mark.parametrize("text", ["SELECT DISTINCT a.x AS x", "SELECT a.x AS x, count(*) AS n", "SELECT count(*) AS n"])
def test_steps_in_which_nothing_is_valid_cost_nothing(text: str, window: str) -> None:
    """However far the watermark jumps; the first row after it is as cheap as the next."""
    group = " GROUP BY a.x" if text.endswith("n") and "x" in text else ""
    costs = []
    for jump in (1_000, 10**12):
        engine = start(f"{text} FROM a [{window}], b [{window}] WHERE a.k = b.k{group}")
        engine.push({"a": rows((1, 1), (2, 5)), "b": rows((1, 2))}, watermark=2 * SECOND)
        work = engine.stats().work.slots_visited
        calls = count_calls(lambda engine=engine, jump=jump: engine.push({}, watermark=jump * SECOND))  # type: ignore[misc]
        later = {"a": rows((1, jump)), "b": rows((1, jump))}
        calls += count_calls(lambda engine=engine, later=later: engine.push(later))  # type: ignore[misc]
        costs.append((calls, engine.stats().work.slots_visited - work))
    assert costs[0][0] == pytest.approx(costs[1][0], rel=0.05) and costs[0][1] == costs[1][1]
