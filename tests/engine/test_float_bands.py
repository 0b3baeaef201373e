"""Bands of floats: the comparison as it was written decides, whatever finds the candidates.

Every comparison runs as a band, probed from either side, also into a join state with holes, and hidden in an OR, where
no index can help. The expected pairs are computed in plain Python, one by one.
"""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest

import midstream as ms
from tests.cql.test_equivalence import FLOATS, SIZES, evaluate, parts_of

SCHEMA = pa.schema({"ts": pa.int64(), "f": pa.float64(), "n": pa.int64()})
VALUES = [*FLOATS, *SIZES, *(-size for size in SIZES), 1e9 + 2e-7, -1e9 - 1e-7, 9e307]


def table(values: list[float]) -> pa.Table:
    return pa.table({"ts": [0] * len(values), "f": values, "n": range(len(values))}, schema=SCHEMA)


def engine(where: str, third: str = "", plan: str | None = None) -> ms.Engine:
    text = f"SELECT a.n AS a, b.n AS b FROM a [UNBOUNDED], b [UNBOUNDED]{third} WHERE {where}"
    query = ms.query(text, schemas=dict.fromkeys("abc", SCHEMA), event_time="ts")
    return ms.Engine(query, plan=plan)


def pairs(*results: pa.Table) -> list[tuple[int, int]]:
    return sorted((row["a"], row["b"]) for result in results for row in result.to_pylist())


def find_expected(where: str, left: list[float], right: list[float]) -> list[tuple[int, int]]:
    parts = parts_of(f"SELECT 1 AS one FROM s a, s b WHERE {where}")
    return [
        (i, j)
        for i, x in enumerate(left)
        for j, y in enumerate(right)
        if all(evaluate(part, ({"f": x}, {"f": y})) is True for part in parts)
    ]


def some_comparison(dice: random.Random) -> str:
    x, y = dice.choice([("a.f", "b.f"), ("b.f", "a.f")])
    c, d, e = (f"{dice.choice([-1, 1]) * dice.choice(SIZES)!r}D" for _ in range(3))
    e = dice.choice([c, c, e])
    operator = dice.choice(["<", "<=", ">", ">="])
    return dice.choice(
        [
            f"{x} {operator} {y}",
            f"{x} + {c} {operator} {y}",
            f"{x} + {c} {operator} {y} + {e}",
            f"{x} + {c} - {d} {operator} {y} - {e}",
            f"({x} + {c}) - ({y} + {e}) {dice.choice(['<', '<=', '='])} {d}",
            f"abs(({x} - {c}) - ({y} - {e})) <= abs({d})",
            f"{x} + {c} BETWEEN {y} + {e} AND {y} + {d}",
        ]
    )


def check(where: str, left: list[float], right: list[float]) -> None:
    right_answer = find_expected(where, left, right)
    a, b = table(left), table(right)
    for first, second in (({"a": a}, {"b": b}), ({"b": b}, {"a": a})):
        runner = engine(where)
        assert pairs(runner.push(first), runner.push(second)) == right_answer, where
    assert pairs(engine(f"({where}) OR a.n < 0").push({"a": a, "b": b})) == right_answer, where
    # The third stream sees the pairs through a state, or probes a state whose pairs are missing at first.
    c = pa.table({"ts": [0], "f": [0.0], "n": [0]}, schema=SCHEMA)
    runner = engine(f"{where} AND b.n >= c.n", third=", c [UNBOUNDED]", plan="(a b) c")
    found = [runner.push({"b": b})]
    runner.migrate("a (b c)", budget=0)
    found += [runner.push({"c": c}), runner.push({"a": a})]
    assert pairs(*found) == right_answer, where


def test_constants_that_cancel_out_still_round() -> None:
    check("a.f + 1e9D <= b.f + 1e9D", [1e-9], [0.0])
    assert find_expected("a.f + 1e9D <= b.f + 1e9D", [1e-9], [0.0]) == [(0, 0)]
    check("a.f - 1e9D + 1e9D <= b.f", [1e-9], [0.0])
    check("a.f + 1e9D - 1e9D <= b.f", [1e-9], [0.0])


@pytest.mark.parametrize(
    "where",
    [
        "a.f + 1e308D <= b.f + 1e308D",
        "a.f + 1e308D >= b.f",
        "a.f - 1e308D - 1e308D < b.f - 1.7e308D",
        "(a.f + 1e308D) - (b.f + 1e308D) <= 1e300D",
    ],
)
def test_sums_that_overflow(where: str) -> None:
    large = [1e308, 9e307, 1.7e308, math.inf, -1e308, -1.7e308, -math.inf, 0.0, math.nan]
    check(where, large, large)


@pytest.mark.parametrize("seed", range(25))
def test_any_comparison(seed: int) -> None:
    dice = random.Random(seed)
    where = " AND ".join(some_comparison(dice) for _ in range(dice.choice([1, 1, 2])))
    check(where, dice.sample(VALUES, 20), dice.sample(VALUES, 20))
