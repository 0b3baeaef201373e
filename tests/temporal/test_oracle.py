"""The oracle itself, before it judges anything: it agrees with a walk from instant to instant, and can disagree."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import math
from fractions import Fraction

import pyarrow as pa
import pytest

from ..blocks import blocks
from ..oracle.accept import accept
from .aggregates import add_up, average, find_type, round_decimal
from .canonical import History, Stretch, expect_rows, find_runs
from .cases import expect, make_case
from .check import check_oracles
from .naive import walk
from .queries import KINDS

BLOCK = 15
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("block", blocks(9))
@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_duckdb_agrees_with_a_walk_from_instant_to_instant(kind: str, block: int) -> None:
    rows = [check_oracles(seed, kind) for seed in range(block * BLOCK, (block + 1) * BLOCK)]
    assert sum(count > 0 for count in rows) > BLOCK // 2


def test_cases_reach_what_they_are_meant_to_reach() -> None:
    """Closed steps, rows that never end, rows that are there several times, late rows, times before 1970."""
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(40):
        case = make_case(seed)
        acceptance, expected = expect(case)
        seen["closed by a push"] += any(expected[:-1])
        seen["closed by finish"] += bool(expected[-1])
        seen["never ends"] += any(row[-1] is None for row in expected[-1])
        seen["several times"] += any(count > 1 for rows in expected for count in rows.values())
        seen["late"] += bool(acceptance.refused)
        seen["before 1970"] += any(arrival.ts < 0 for arrival in acceptance.arrivals)
        seen["at a border"] += any(arrival.ts % case.step == 0 for arrival in acceptance.arrivals)
        seen["watermark at a border"] += any(
            mark is not None and mark % case.step == 0 for mark in acceptance.watermarks
        )
        seen["null"] += any(None in row[:-2] for rows in expected for row in rows)
        seen["nan"] += any("nan" in str(row) for rows in expected for row in rows)
        seen["default step"] += not case.gives_step
    assert all(seen[what] >= 2 for what in seen) and len(seen) == 11, seen


def test_another_step_gives_other_rows() -> None:
    """So the comparison of the two oracles can fail."""
    different = 0
    for seed in range(20):
        case = make_case(seed, "distinct", scale=1)
        doubled = dataclasses.replace(case, step=case.step * 2)
        different += walk(doubled, accept(case.join)) != expect(case).rows
    assert different > 5


def test_runs_are_nested() -> None:
    row = ("a",)
    counts = [1, 2, 3, 1, 0, 1]
    history = History(range(0, 60, 10), [collections.Counter({row: count} if count else {}) for count in counts])
    assert sorted(find_runs(history), key=lambda run: (run.start, run.end or 99)) == [
        Stretch(row, 0, 39),
        Stretch(row, 10, 29),
        Stretch(row, 20, 29),
        Stretch(row, 50, None),
    ]


def test_steps_come_out_when_the_watermark_reaches_their_end() -> None:
    history = History([-3, 12], [collections.Counter({("a",): 1}), collections.Counter({("b",): 1})])
    found = expect_rows(history, 5, [-1, 0, 9, 15], pa.int64())
    assert [sorted(rows) for rows in found] == [
        [],
        [("a", -3, -1)],
        [("a", 0, 4)],
        [("a", 5, 9), ("a", 10, 11), ("b", 12, 14)],
        [("b", 15, None)],
    ]
    assert sorted(expect_rows(history, 5, [None], pa.int64())[1]) == [
        ("a", -3, -1),
        ("a", 0, 4),
        ("a", 5, 9),
        ("a", 10, 11),
        ("b", 12, None),
    ]


@pytest.mark.parametrize(
    ("values", "total", "mean"),
    [
        ([], None, None),
        ([0.1] * 10, 1.0, 0.1),
        ([1e308, 1e308, -1e308], 1e308, 1e308 / 3),
        ([1e308, 1e308], INF, 1e308),
        ([-1e308, -1e308], -INF, -1e308),
        ([INF, 1.0], INF, INF),
        ([INF, -INF], NAN, NAN),
        ([NAN, INF], NAN, NAN),
        ([1e16, 1.0, -1e16], 1.0, 1 / 3),
        ([5e-324, 5e-324, 5e-324], 1.5e-323, 5e-324),
    ],
)
def test_sums_and_averages_of_floats(values: list[float], total: float | None, mean: float | None) -> None:
    assert repr(add_up(values, pa.float64())) == repr(total)
    assert repr(average(values, pa.float64())) == repr(mean)


def test_sums_at_the_limits_of_their_types() -> None:
    limit = 2**63 - 1
    assert add_up([limit, 1, -1], pa.int64()) == limit
    assert add_up([limit, 1], pa.int64()) is None
    assert average([limit, limit], pa.float64()) == float(limit)
    assert average([2**53 + 1, 2**53 + 1], pa.float64()) == 2.0**53
    full = find_type("sum", pa.decimal128(38, 0))
    assert add_up([decimal.Decimal(10**38 - 1)] * 2, full) is None
    assert add_up([decimal.Decimal(10**38 - 1), decimal.Decimal(-1)], full) == 10**38 - 2


def test_types_and_rounding_of_decimals() -> None:
    assert find_type("sum", pa.decimal128(10, 2)) == pa.decimal128(20, 2)
    assert find_type("avg", pa.decimal128(10, 2)) == pa.decimal128(14, 6)
    assert find_type("avg", pa.decimal128(38, 10)) == pa.decimal128(38, 14)
    assert find_type("sum", pa.int32()) == find_type("count", pa.string()) == pa.int64()
    assert find_type("max", pa.date32()) == pa.date32()
    halves = [round_decimal(Fraction(number, 8), pa.decimal128(9, 2)) for number in (1, -1, 3)]
    assert halves == [decimal.Decimal("0.13"), decimal.Decimal("-0.13"), decimal.Decimal("0.38")]
