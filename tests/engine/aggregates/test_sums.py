"""Counts, sums and averages against fractions, while results come and go."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.engine.operators.aggregates import Accumulator

from .histories import Stage, make, run_history

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


def present(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def maybe_null(rng: random.Random, value: Any) -> Any:
    return None if rng.random() < 0.2 else value


@pytest.mark.parametrize("seed", range(8))
def test_counts(seed: int) -> None:
    run_history(Stage(make("count", None, pa.int64()), len, None), lambda rng: None, seed)
    counted = Stage(make("count", pa.string(), pa.int64()), lambda values: len(present(values)), pa.string())
    run_history(counted, lambda rng: maybe_null(rng, "x"), seed)


def draw_integer(rng: random.Random) -> int | None:
    ends = (SMALLEST, SMALLEST + 1, -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, LARGEST - 1, LARGEST)
    near = rng.choice([rng.randrange(-9, 9), rng.randrange(2**52, 2**54), rng.randrange(SMALLEST, LARGEST)])
    return maybe_null(rng, rng.choice([near, rng.choice(ends)]))


def sum_of_integers(values: list[Any]) -> int | None:
    total = sum(present(values))
    return total if present(values) and SMALLEST <= total <= LARGEST else None


def average_of_integers(values: list[Any]) -> float | None:
    return sum(present(values)) / len(present(values)) if present(values) else None


@pytest.mark.parametrize("seed", range(30))
def test_integers(seed: int) -> None:
    run_history(Stage(make("sum", pa.int64(), pa.int64()), sum_of_integers, pa.int64()), draw_integer, seed)
    run_history(Stage(make("avg", pa.int64(), pa.float64()), average_of_integers, pa.int64()), draw_integer, seed)


def divide_decimals(total: int, count: int, type: pa.DataType) -> Decimal | None:
    """`total` in units of the type's last digit, by count; halves go away from 0."""
    magnitude = (2 * abs(total) + count) // (2 * count)
    if magnitude >= 10**type.precision:
        return None
    with localcontext() as context:
        context.prec = 99
        return Decimal(magnitude if total >= 0 else -magnitude).scaleb(-type.scale)


DECIMALS = [(4, 2), (9, 0), (18, 6), (28, 3), (34, 34), (38, 0), (38, 10), (38, 36), (38, 38)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("precision", "scale"), DECIMALS)
def test_decimals(precision: int, scale: int, seed: int) -> None:
    argument = pa.decimal128(precision, scale)
    sum_type = pa.decimal128(min(38, precision + 10), scale)
    average_type = pa.decimal128(min(38, precision + 4), min(38, scale + 4))
    shift = 10 ** (average_type.scale - scale)

    def draw(rng: random.Random) -> Decimal | None:
        largest = 10**precision - 1
        units = rng.choice([largest, -largest, rng.randrange(-largest, largest), rng.randrange(-9, 10), 0])
        with localcontext() as context:
            context.prec = 99
            return maybe_null(rng, Decimal(units).scaleb(-scale))

    def total(values: list[Any]) -> int:
        return int(sum(Fraction(value) for value in present(values)) * 10**scale)

    def expect_sum(values: list[Any]) -> Decimal | None:
        return divide_decimals(total(values), 1, sum_type) if present(values) else None

    def expect_average(values: list[Any]) -> Decimal | None:
        return divide_decimals(total(values) * shift, len(present(values)), average_type) if present(values) else None

    run_history(Stage(make("sum", argument, sum_type), expect_sum, argument), draw, seed)
    run_history(Stage(make("avg", argument, average_type), expect_average, argument), draw, seed)


def add_all(accumulator: Accumulator, values: list[Any], type: pa.DataType) -> Any:
    """The aggregate of values that are added to one group at once."""
    accumulator.resize(1)
    words = np.zeros((len(values), accumulator.words), np.int64)
    groups = np.zeros(len(values), np.int64)
    accumulator.encode(groups, pa.array(values, type), words)
    ends = np.array([len(values) - 1])
    return accumulator.apply(groups, np.ones(len(values), np.int64), words, ends)[0].as_py()


def test_halves_of_decimals_go_away_from_zero() -> None:
    argument, type = pa.decimal128(5, 0), pa.decimal128(9, 4)
    values = [Decimal(1)] + [Decimal(0)] * 31  # 0.03125
    assert add_all(make("avg", argument, type), values, argument) == Decimal("0.0313")
    assert add_all(make("avg", argument, type), [-value for value in values], argument) == Decimal("-0.0313")
    assert Decimal("0.03125").quantize(Decimal("0.0001"), ROUND_HALF_UP) == Decimal("0.0313")


def test_a_sum_comes_back_into_range() -> None:
    accumulator = make("sum", pa.int64(), pa.int64())
    assert add_all(accumulator, [LARGEST, 1], pa.int64()) is None
    assert add_all(accumulator, [-1], pa.int64()) == LARGEST
    assert add_all(make("sum", pa.int64(), pa.int64()), [SMALLEST, -1], pa.int64()) is None
    assert add_all(make("sum", pa.int64(), pa.int64()), [SMALLEST + 1, -1], pa.int64()) == SMALLEST
    assert add_all(make("sum", pa.int64(), pa.int64()), [None, None], pa.int64()) is None
    assert add_all(make("avg", pa.int64(), pa.float64()), [LARGEST] * 3, pa.int64()) == 2.0**63


FLOATS = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1e-300,
    0.1,
    -0.1,
    1 / 3,
    1.0,
    2.0**53,
    1e16,
    -1e308,
    1e308,
]
ODD_FLOATS = [float("nan"), float("inf"), float("-inf"), 1.7976931348623157e308, -1.7976931348623157e308, 1.0, 0.1]


def nearest(exact: Fraction) -> float:
    """The nearest double, by Python's own division of integers."""
    try:
        return exact.numerator / exact.denominator + 0.0
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def expect_floats(values: list[Any], is_average: bool) -> float | None:
    there = present(values)
    if not there:
        return None
    odd = [value for value in there if not np.isfinite(value)]
    if odd:
        return sum(odd)
    return nearest(sum(map(Fraction, there), Fraction(0)) / (len(there) if is_average else 1))


def draw_bits(rng: random.Random) -> float:
    bits = np.array([rng.getrandbits(64)], np.uint64)
    value = float(bits.view(np.float64)[0])
    return value if np.isfinite(value) else 0.5


@pytest.mark.parametrize("kind", ["chosen", "odd", "bits", "subnormal", "money", "wide"])
@pytest.mark.parametrize("seed", range(10))
def test_floats(kind: str, seed: int) -> None:
    def draw(rng: random.Random) -> float | None:
        value = {
            "chosen": lambda: rng.choice(FLOATS),
            "odd": lambda: rng.choice(ODD_FLOATS),
            "bits": lambda: draw_bits(rng),
            "subnormal": lambda: rng.choice([-1, 1]) * 5e-324 * rng.randrange(9),
            "money": lambda: round(rng.uniform(-1e4, 1e4), 2),
            "wide": lambda: rng.uniform(-2, 2) * 10.0 ** rng.randrange(-20, 20),
        }[kind]()
        return maybe_null(rng, value)

    for function in ("sum", "avg"):
        stage = Stage(
            make(function, pa.float64(), pa.float64()),
            lambda values, function=function: expect_floats(values, function == "avg"),
            pa.float64(),
        )
        run_history(stage, draw, seed)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1e308, -1e308, 1e-300], 1e-300),
        ([1e308, 1e308, -1e308], 1e308),
        ([1e308, 1e308], float("inf")),
        ([1.7976931348623157e308, 2.0**969], 1.7976931348623157e308),
        ([1.7976931348623157e308, 2.0**970], float("inf")),
        ([-1.7976931348623157e308, -(2.0**970), 5e-324], -1.7976931348623157e308),
        ([2.0**53, 1.0], 2.0**53),
        ([2.0**53, 1.0, 5e-324], 2.0**53 + 2),
        ([-5e-324, 5e-324], 0.0),
        ([-0.0, -0.0], 0.0),
        ([0.1] * 10, 1.0),
    ],
)
def test_sums_of_floats_are_rounded_once(values: list[float], total: float) -> None:
    assert repr(add_all(make("sum", pa.float64(), pa.float64()), values, pa.float64())) == repr(total)


def test_averages_of_floats_are_rounded_once() -> None:
    def average(values: list[float]) -> float:
        return add_all(make("avg", pa.float64(), pa.float64()), values, pa.float64())

    assert average([1e308, 1e308]) == 1e308, "their sum is beyond the largest double"
    assert repr(average([5e-324, 0.0])) == "0.0", "a tie goes to the even one"
    assert average([5e-324] * 2 + [0.0]) == 5e-324
    assert repr(average([-5e-324, 0.0, 0.0])) == "0.0"


def test_infinities_that_go_leave_the_finite_sum() -> None:
    accumulator = make("sum", pa.float64(), pa.float64())
    accumulator.resize(1)
    values = pa.array([0.1, float("inf"), float("nan"), float("-inf")])
    words = np.zeros((4, 1), np.int64)
    accumulator.encode(np.zeros(4, np.int64), values, words)
    order = [0, 1, 2, 3, 2, 1, 3]
    signs = np.array([1, 1, 1, 1, -1, -1, -1])
    found = accumulator.apply(np.zeros(7, np.int64), signs, words[order], np.arange(7)).to_pylist()
    assert found[0] == 0.1 and found[1] == float("inf") and found[5] == float("-inf") and found[6] == 0.1
    assert all(np.isnan(value) for value in found[2:5])


@pytest.mark.parametrize("bits", [0x7FF8000000000001, 0x7FF0000000000001, -1, -0x8000000000000])
def test_every_nan_is_a_value(bits: int) -> None:
    """Whatever its bits are; one of them is kept for null."""
    values = np.array([bits], np.int64).view(np.float64)
    accumulator = make("sum", pa.float64(), pa.float64())
    accumulator.resize(1)
    words = np.zeros((1, 1), np.int64)
    accumulator.encode(np.array([0]), pa.array(values), words)
    found = accumulator.apply(np.array([0, 0]), np.array([1, -1]), words[[0, 0]], np.array([0, 1]))
    assert np.isnan(found[0].as_py()) and not found[1].is_valid


def test_memory_follows_the_exponents_in_use() -> None:
    def memory(values: list[float]) -> int:
        accumulator = make("sum", pa.float64(), pa.float64())
        accumulator.resize(10_000)
        assert add_all_of(accumulator, values) is not None
        return accumulator.nbytes // 10_000

    def add_all_of(accumulator: Accumulator, values: list[float]) -> Any:
        words = np.zeros((len(values), 1), np.int64)
        groups = np.zeros(len(values), np.int64)
        accumulator.encode(groups, pa.array(values), words)
        return accumulator.apply(groups, np.ones(len(values), np.int64), words, np.array([0]))

    assert memory([0.01, 123.45, 1e6]) <= 32 + 8 * 6
    assert memory([5e-324, 1.7e308]) <= 32 + 8 * 67
