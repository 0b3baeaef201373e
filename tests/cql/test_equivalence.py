"""Taking WHERE apart changes nothing: filters, keys, bands and thetas together hold just where the text does.

Expressions are evaluated one row at a time by a few lines of Python: what overflows is null, NaN is the largest float.
Values are small, or at the ends of their types, where arithmetic overflows.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from midstream.cql import query
from midstream.cql.conjuncts import read_conjuncts
from midstream.cql.expressions import Reader
from midstream.cql.model import Band, Cast, Column, Expr, Literal, Query
from midstream.cql.names import Scope
from midstream.cql.syntax import Source
from midstream.engine.joins.access import find_float_ranges
from midstream.state.keys import codes_of

from ..blocks import blocks

TYPES = {
    "t": pa.int8(), "i": pa.int32(), "l": pa.int64(), "u": pa.uint32(), "f": pa.float64(), "g": pa.float32(),
    "ts": pa.timestamp("us"), "day": pa.date32(),
}  # fmt: skip
SCHEMA = pa.schema(TYPES)
DAY = 86_400_000_000
Row = dict[str, int | float | None]

FLOATS = (0.0, -0.0, 1.0, 2.5, -1.0, 3.25, 0.1, math.inf, -math.inf, math.nan)
SIZES = (5e-324, 1e-310, 1e-9, 1e-7, 1.0, 1e9, 1e9 + 1e-7, 2.0**53, 1e16, 1e300, 1e308, 1.7e308)
"""Sizes far apart, with neighbours, so that adding one makes another vanish or overflow."""


def bounds(type: pa.DataType) -> tuple[int, int]:
    if str(type).startswith("uint"):
        return 0, 2**type.bit_width - 1
    return -(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1


def order(value: int | float) -> tuple[bool, int | float]:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


COMPARE: dict[str, Callable[[tuple[bool, float], tuple[bool, float]], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def fit(value: int | float, type: pa.DataType) -> int | float | None:
    """A result in its type: rounded, or null if it overflows."""
    if pa.types.is_floating(type):
        value = float(value)
        return value if type == pa.float64() or not math.isfinite(value) else pa.scalar(value, type).as_py()
    low, high = bounds(type)
    return int(value) if low <= value <= high else None


def evaluate(expr: Expr, rows: tuple[Row, Row]) -> int | float | bool | None:
    if isinstance(expr, Column):
        return rows[expr.input][expr.name]
    if isinstance(expr, Literal):
        if isinstance(expr.value, datetime.timedelta):
            return expr.value // datetime.timedelta(microseconds=1)
        return float(expr.value) if isinstance(expr.value, Decimal) else expr.value  # type: ignore[return-value]
    if isinstance(expr, Cast):
        value = evaluate(expr.operand, rows)
        if value is None:
            return None
        if pa.types.is_date(expr.operand.type) and pa.types.is_timestamp(expr.type):
            value *= DAY
        return fit(value, expr.type)
    values = [evaluate(arg, rows) for arg in expr.args]
    if expr.function == "is_null":
        return values[0] is None
    if expr.function == "and":
        return False if False in values else None if None in values else True
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if expr.function in COMPARE:
        return COMPARE[expr.function](order(known[0]), order(known[1]))
    if expr.function == "not":
        return not known[0]
    if expr.function == "unix_micros":
        return known[0]
    result = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "abs": lambda a, _: abs(a),
        "negate": lambda a, _: -a,
    }[expr.function](known[0], known[-1])
    return fit(result, expr.type)


def in_band(band: Band, rows: tuple[Row, Row]) -> bool:
    """Exactly for integers; for floats as the engine searches, from both sides."""
    sides = (rows[0], rows[1])
    left, right = evaluate(band.left, sides), evaluate(band.right, sides)
    if left is None or right is None:
        return False
    if band.type == pa.int64():
        return (band.low is None or left - right >= band.low) and (band.high is None or left - right <= band.high)
    low, high = band.low, band.high
    turned = (None if high is None else -high, None if low is None else -low)
    return _is_found(left, right, (low, high), band) and _is_found(right, left, turned, band)


def _is_found(partner: float, value: float, bounds: tuple[float | None, float | None], band: Band) -> bool:
    lows, highs = find_float_ranges(np.array([value], np.float64), *bounds, band.rounding)
    (code,) = codes_of(pa.array([partner], pa.float64()))
    return bool(lows[0] <= code <= highs[0])


def model_holds(model: Query, rows: tuple[Row, Row]) -> bool:
    filters = all(evaluate(expr, rows) is True for relation in model.inputs for expr in relation.filters)
    bands = all(in_band(band, rows) for band in model.bands)
    thetas = all(evaluate(theta.expr, rows) is True for theta in model.thetas)
    keys = True
    for key_class in model.key_classes:
        first, second = (evaluate(expr, rows) for _, expr in key_class.keys)
        keys = keys and first is not None and second is not None and order(first) == order(second)
    return filters and bands and thetas and keys


def parts_of(text: str) -> list[Expr]:
    source = Source(text)
    reader = Reader(Scope(source, ("a", "b"), (SCHEMA, SCHEMA)))
    conjuncts = read_conjuncts(reader, [source.parse().args["where"].this])
    return [part.expr for conjunct in conjuncts for part in conjunct.parts]


def some_value(dice: random.Random, name: str) -> int | float | None:
    type = TYPES[name]
    if dice.random() < 0.05:
        return None
    if pa.types.is_floating(type):
        value = dice.choice([*FLOATS, *(dice.choice([-1, 1]) * size for size in SIZES)])
        return value if type == pa.float64() else fit(max(min(value, 1e38), -1e38), type)
    low, high = (-10_000_000, 10_000_000) if name == "day" else bounds(type)
    near = dice.choice([0, 0, low, high]) + dice.randint(-4, 4) * dice.choice([1, 1, 1_000_000 if name == "ts" else 1])
    return min(max(near, low), high)


def some_condition(dice: random.Random) -> str:
    operator = dice.choice(["<", "<=", ">", ">=", "=", "<", "<="])
    family = dice.choice(["whole", "whole", "float", "ts", "day"])
    if family == "ts":
        shift = f"INTERVAL {dice.randint(-3, 3)} SECONDS"
        return dice.choice(
            [
                f"a.ts {operator} b.ts",
                f"b.ts {operator} a.ts + {shift}",
                f"a.ts - b.ts {operator} {shift}",
                f"abs(b.ts - a.ts) {operator} {shift}",
                f"a.ts BETWEEN b.ts - {shift} AND b.ts + INTERVAL 2 SECONDS",
                f"a.ts {operator} b.day",
            ]
        )
    if family == "day":
        return dice.choice([f"a.day {operator} b.day", f"a.day {operator} b.day + {dice.randint(-3, 3)}",
                            f"b.day - a.day {operator} INTERVAL 2 DAYS"])  # fmt: skip
    names = ["t", "i", "l", "u"] if family == "whole" else ["f", "f", "g", "i"]
    x, y = f"a.{dice.choice(names)}", f"b.{dice.choice(names)}"
    x, y = dice.choice([(x, y), (y, x)])
    c, d = (dice.choice([0, 1, -1, 3, 127, -(2**31), 2**31 - 1, 2**63 - 1]) for _ in range(2))
    if family == "float":
        c, d = (dice.choice([0, 1, -2, *(f"{size!r}D" for size in SIZES)]) for _ in range(2))
        e = dice.choice([c, d])
        if dice.random() < 0.5:
            return dice.choice(
                [
                    f"{x} + {c} {operator} {y} + {e}",
                    f"{x} - {c} {operator} {y} - {e}",
                    f"{x} + {c} - {d} {operator} {y} - {e}",
                    f"({x} + {c}) - ({y} + {e}) {operator} {d}",
                    f"abs(({x} - {c}) - ({y} - {e})) <= {d}",
                    f"{x} + {c} BETWEEN {y} + {e} AND {y} + {d}",
                ]
            )
    return dice.choice(
        [
            f"{x} {operator} {y}",
            f"{x} {operator} {y} + {c}",
            f"{x} - {c} {operator} {y}",
            f"{x} - {y} {operator} {c}",
            f"{c} {operator} {x} - {y}",
            f"{x} + {c} - {y} {operator} {d}",
            f"{x} - ({y} + {c}) {operator} {d} - 1",
            f"abs({x} - {y}) {operator} {c}",
            f"{c} {operator} abs({x} - {y} + 1)",
            f"{x} BETWEEN {y} - {c} AND {y} + {d}",
            f"{x} - {y} BETWEEN {c} AND {d}",
            f"-{x} {operator} {y}",
            f"{x} + {y} {operator} {c}",
        ]
    )


@pytest.mark.parametrize("seed", blocks(400, 3))
def test_the_model_holds_where_the_text_does(seed: int) -> None:
    dice = random.Random(seed)
    where = " AND ".join(some_condition(dice) for _ in range(dice.randint(1, 3)))
    text = f"SELECT 1 AS one FROM s [ROWS 5] a, s [ROWS 5] b WHERE {where}"
    model = query(text, {"s": SCHEMA}, "ts")
    parts = parts_of(text)
    for _ in range(120):
        rows = tuple({name: some_value(dice, name) for name in TYPES} for _ in range(2))
        expected = all(evaluate(expr, rows) is True for expr in parts)  # type: ignore[arg-type]
        assert model_holds(model, rows) == expected, (where, rows)  # type: ignore[arg-type]


def test_the_conditions_are_of_all_kinds() -> None:
    dice = random.Random(1)
    found = {"exact": 0, "candidates": 0, "none": 0, "filters": 0}
    for _ in range(300):
        text = f"SELECT 1 AS one FROM s [ROWS 5] a, s [ROWS 5] b WHERE {some_condition(dice)}"
        model = query(text, {"s": SCHEMA}, "ts")
        found["filters"] += any(relation.filters for relation in model.inputs)
        found["none"] += not model.bands
        for band in model.bands:
            found["exact" if band.exact else "candidates"] += 1
    assert min(found.values()) > 10, found
