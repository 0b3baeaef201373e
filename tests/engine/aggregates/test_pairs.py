"""min, max and count(DISTINCT) against sorted lists and sets, while results come and go."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.engine.operators.aggregates import pairs

from .histories import Stage, make, run_history

NAN = float("nan")
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, -1, 0, 127],
    pa.int64(): [-(2**63), -1, 0, 1, 2**63 - 1],
    pa.uint64(): [0, 1, 2**63, 2**64 - 1],
    pa.float32(): [-math.inf, -1.5, 0.0, 1.5, math.inf, NAN],
    pa.float64(): [-math.inf, -1.0, -5e-324, 0.0, 5e-324, 1.0, math.inf, NAN],
    pa.bool_(): [False, True],
    pa.string(): ["", "a", "a\0", "ab", "z", "é", "\uffff", "\U00010000"],
    pa.large_string(): ["", "b" * 50, "b" * 51],
    pa.binary(): [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0"],
    pa.binary(2): [b"\0\xff", b"\x7f\0", b"\x80\0"],
    pa.decimal128(38, 2): [Decimal(-(10**35)), Decimal("-0.01"), Decimal(0), Decimal("0.01"), Decimal(10**35)],
    pa.decimal256(60, 0): [Decimal(-(10**50)), Decimal(0), Decimal(10**50)],
    pa.date32(): [-1, 0, 1],
    pa.timestamp("us", "UTC"): [-1, 0, 1],
}


@pytest.fixture(autouse=True)
def forgets_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "FEWEST_FORGOTTEN", 0)


def drawing(type: pa.DataType) -> Callable[[random.Random], Any]:
    """Draws a place in the list of values, which are in their order, or null."""
    places = range(len(VALUES[type]))
    return lambda rng: None if rng.random() < 0.2 else rng.choice(places)


class ListedStage(Stage):
    """Has places in the list of values where others have values; -0.0 comes as often as 0.0."""

    def __init__(self, function: str, type: pa.DataType):
        result = pa.int64() if function == "count_distinct" else type
        super().__init__(make(function, type, result), self._expect, type)
        self._function = function
        self._listed = VALUES[type]

    def to_arrow(self, values: list[Any]) -> pa.Array:
        listed = [None if place is None else self._listed[place] for place in values]
        if pa.types.is_floating(self.type):
            listed = [-0.0 if value == 0 and at % 2 else value for at, value in enumerate(listed)]
        return pa.array(listed, self.type)

    def _expect(self, places: list[Any]) -> Any:
        there = sorted({place for place in places if place is not None})
        if self._function == "count_distinct":
            return len(there)
        return self._listed[there[0 if self._function == "min" else -1]] if there else None


@pytest.mark.parametrize("function", ["min", "max", "count_distinct"])
@pytest.mark.parametrize("type", VALUES, ids=str)
def test_values_of_every_type(type: pa.DataType, function: str) -> None:
    for seed in range(4):
        run_history(ListedStage(function, type), drawing(type), seed)


@pytest.mark.parametrize("function", ["min", "max", "count_distinct"])
@pytest.mark.parametrize("seed", range(6))
def test_many_values(function: str, seed: int) -> None:
    expect: dict[str, Callable[[set[int]], int | None]] = {
        "min": lambda values: min(values, default=None),
        "max": lambda values: max(values, default=None),
        "count_distinct": len,
    }
    stage = Stage(make(function, pa.int64(), pa.int64()), lambda values: expect[function](set(values)), pa.int64())
    run_history(stage, lambda rng: rng.randrange(60), seed, results=120)


def test_pairs_are_forgotten_once_no_record_holds_them() -> None:
    """Every step brings new values and lets those of two steps ago go: memory stays the same."""
    stage = Stage(make("max", pa.string(), pa.string()), lambda values: max(values, default=None), pa.string())
    rng = random.Random(0)
    known = []
    for step in range(12):
        new = [(place % 3, step * 10 + place % 10, step * 10 + 15, f"{step} {place}") for place in range(40)]
        stage.take(new)
        stage.close((step + 1) * 10, rng)
        assert isinstance(stage.accumulator, pairs.Pairs)
        known.append(len(stage.accumulator.interner))
        assert stage.accumulator.held == len(stage.records)
    assert max(known) <= 40 * 5
    assert stage.compared > 100


def test_words_of_changes_without_a_sign_mean_nothing() -> None:
    for function, value in (("min", 5), ("max", 5), ("count_distinct", 1), ("sum", 5), ("count", 1)):
        accumulator = make(function, pa.int64(), pa.int64())
        accumulator.resize(2)
        words = np.zeros((1, accumulator.words), np.int64)
        accumulator.encode(np.array([1]), pa.array([5]), words)
        given = np.concatenate([np.full_like(words, 99), words, np.full_like(words, 99)])
        found = accumulator.apply(np.array([0, 1, 1]), np.array([0, 1, 0]), given, np.arange(3))
        assert found.to_pylist() == [0 if function.startswith("count") else None, value, value]


@pytest.mark.parametrize("function", ["min", "max", "count", "count_distinct"])
def test_values_without_a_type_are_all_null(function: str) -> None:
    accumulator = make(function, pa.null(), pa.null())
    accumulator.resize(1)
    words = np.zeros((1, 1), np.int64)
    accumulator.encode(np.array([0]), pa.nulls(1), words)
    found = accumulator.apply(np.array([0]), np.array([1]), words, np.array([0]))
    assert found.to_pylist() == [0 if function.startswith("count") else None]


def test_nothing_to_apply() -> None:
    nothing = np.empty(0, np.int64)
    for function in ("count", "sum", "avg", "min", "max", "count_distinct"):
        accumulator = make(function, pa.float64(), pa.float64())
        accumulator.resize(0)
        out = np.empty((0, accumulator.words), np.int64)
        accumulator.encode(nothing, pa.array([], pa.float64()), out)
        assert len(accumulator.apply(nothing, nothing, out, nothing)) == 0
        accumulator.keep(nothing)
        assert accumulator.renumbering() is None
