"""Payload columns of every type in random sequences of append, take, forget and resize, against a list."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.state.columns import ArrowColumn, BytesColumn, FixedColumn, PairColumn, PayloadColumn, make_column
from midstream.state.rings import SMALLEST_CAPACITY, capacity_for

Draw = Callable[[np.random.Generator], Any]
MOMENT = datetime(2024, 2, 29, 12, 30, 15)


def integers(bits: int, signed: bool) -> Draw:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda rng: [low, high, 0, 1, int(rng.integers(0, 100))][int(rng.integers(0, 5))]


def text(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list("abcä😀"), int(rng.choice([0, 0, 1, 2, 7, 30]))))


def seconds(rng: np.random.Generator) -> timedelta:
    return timedelta(seconds=int(rng.integers(-1000, 1000)))


TYPES: list[tuple[pa.DataType, type, Draw]] = [
    *((getattr(pa, f"int{bits}")(), FixedColumn, integers(bits, True)) for bits in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{bits}")(), FixedColumn, integers(bits, False)) for bits in (8, 16, 32, 64)),
    (pa.float16(), FixedColumn, lambda rng: np.float16(rng.choice([0.5, -1.0, 0.0, np.inf]))),
    (pa.float32(), FixedColumn, lambda rng: float(rng.choice([0.5, -0.0, 0.0, np.inf, np.nan]))),
    (pa.float64(), FixedColumn, lambda rng: float(rng.choice([0.1, -0.0, 0.0, 5e-324, -np.inf, np.nan]))),
    (pa.bool_(), FixedColumn, lambda rng: bool(rng.integers(0, 2))),
    (pa.date32(), FixedColumn, lambda rng: date(1970, 1, 1) + timedelta(days=int(rng.integers(-9999, 9999)))),
    (pa.date64(), FixedColumn, lambda rng: date(1970, 1, 1) + timedelta(days=int(rng.integers(-9999, 9999)))),
    *((pa.timestamp(unit), FixedColumn, lambda rng: MOMENT + seconds(rng)) for unit in ("s", "ms", "us")),
    (pa.timestamp("us", "UTC"), FixedColumn, lambda rng: MOMENT.replace(tzinfo=timezone.utc) + seconds(rng)),
    (pa.duration("ms"), FixedColumn, seconds),
    (pa.time32("s"), FixedColumn, lambda rng: time(1, 2, int(rng.integers(0, 60)))),
    (pa.time64("us"), FixedColumn, lambda rng: time(1, 2, int(rng.integers(0, 60)))),
    (pa.decimal128(30, 3), PairColumn, lambda rng: Decimal(int(rng.integers(-(2**62), 2**62))).scaleb(-3)),
    (pa.string(), BytesColumn, text),
    (pa.large_string(), BytesColumn, text),
    (pa.binary(), BytesColumn, lambda rng: text(rng).encode()),
    (pa.large_binary(), BytesColumn, lambda rng: text(rng).encode()),
    (pa.binary(3), ArrowColumn, lambda rng: bytes(rng.integers(0, 256, 3, np.uint8))),
    (pa.list_(pa.int32()), ArrowColumn, lambda rng: rng.integers(0, 9, int(rng.integers(0, 4))).tolist()),
    (pa.struct({"x": pa.int8(), "s": pa.string()}), ArrowColumn, lambda rng: {"x": 1, "s": text(rng)}),
    (pa.decimal256(50, 1), ArrowColumn, lambda rng: Decimal(int(rng.integers(-99, 99))) / 10),
]
IDS = [str(case[0]) for case in TYPES]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float | np.floating) and isinstance(right, float | np.floating):
        return bool(left == right and math.copysign(1, left) == math.copysign(1, right)) or (
            math.isnan(left) and math.isnan(right)
        )
    return bool(left == right)


class Model:
    """A column and the list that it should be; the ids start anywhere, as after a window was packed."""

    def __init__(self, column: PayloadColumn, first: int):
        self.column = column
        self.capacity = SMALLEST_CAPACITY
        self.head = self.tail = first
        self.values: dict[int, Any] = {}

    def append(self, values: list[Any], slack: int) -> None:
        """Append values as a slice of a longer array, with room made first, as a window does."""
        if len(values) + self.tail - self.head > self.capacity:
            self.resize(capacity_for(len(values) + self.tail - self.head))
        padded = pa.array([*values[:slack], *values, *values[:slack]], self.column.type)
        self.column.append(self.tail, padded.slice(min(slack, len(values)), len(values)))
        self.values.update(enumerate(values, self.tail))
        self.tail += len(values)

    def resize(self, capacity: int) -> None:
        self.column.resize(self.head, self.tail, capacity)
        self.capacity = capacity

    def forget(self, size: int) -> None:
        for row_id in range(self.head, self.head + size):
            del self.values[row_id]
        self.head += size
        self.column.forget(self.head)

    def check(self, rng: np.random.Generator) -> None:
        ids = rng.integers(self.head, self.tail, 20) if self.tail > self.head else np.empty(0, np.int64)
        for rows, at in ((np.arange(self.head, self.tail), 0), (ids, 1)):
            matrix = np.zeros((len(rows), 2), np.int64)
            matrix[:, at] = rows
            taken = self.column.take(matrix, at)
            taken.validate(full=True)
            assert taken.type == self.column.type
            wanted = [self.values[row_id] for row_id in rows.tolist()]
            assert len(taken) == len(wanted)
            assert all(same(left, right) for left, right in zip(taken.to_pylist(), wanted, strict=True))


@pytest.mark.parametrize("first", [0, 1_000_003])
@pytest.mark.parametrize(("type", "kind", "draw"), TYPES, ids=IDS)
def test_a_column_is_a_list(type: pa.DataType, kind: type, draw: Draw, first: int) -> None:
    rng = np.random.default_rng([first, len(str(type))])
    model = Model(make_column(type, SMALLEST_CAPACITY), first)
    assert isinstance(model.column, kind)
    for step in range(60):
        nulls = 0.0 if step < 15 else 0.3  # nulls come late, when values without them are there
        size = int(rng.choice([0, 1, 3, 20, 70]))
        model.append([None if rng.random() < nulls else draw(rng) for _ in range(size)], slack=step % 3)
        model.check(rng)
        held = model.tail - model.head
        if step % 20 == 19:
            model.forget(held)
        elif held:
            model.forget(int(rng.integers(0, held + 1) if held > 60 else rng.integers(0, min(held, 9) + 1)))
        if rng.random() < 0.2:
            model.resize(capacity_for((model.tail - model.head) * int(rng.integers(1, 4)) + 1))
        model.check(rng)
    assert model.tail - first > 300


@pytest.mark.parametrize("first", [0, 1_000_003])
def test_strings_larger_than_the_heap(first: int) -> None:
    rng = np.random.default_rng(1)
    model = Model(BytesColumn(pa.string(), SMALLEST_CAPACITY), first)
    for step, length in enumerate([10, 63, 64, 65, 1000, 3, 100_000, 1, 0, 200_000, 5]):
        model.append(["é" * (length // 2) + "x" * (length % 2), "", str(step)], slack=0)
        model.check(rng)
        if step % 4 == 3:
            model.forget(6)
            model.check(rng)


@pytest.mark.parametrize("first", [0, 1_000_003])
def test_a_heap_stays_in_proportion_to_what_it_holds(first: int) -> None:
    """A steady stream of strings goes round and round in one heap, whatever the ids are."""
    rng = np.random.default_rng(2)
    column = BytesColumn(pa.string(), SMALLEST_CAPACITY)
    model = Model(column, first)
    for _ in range(400):
        model.append(["x" * int(rng.integers(0, 200)) for _ in range(10)], slack=0)
        if model.tail - model.head > 40:
            model.forget(10)
        model.check(rng)
        assert len(column.parts[2]) <= 4 * 50 * 200


def test_a_heap_that_is_nearly_full_does_not_write_over_what_lives() -> None:
    """Little is forgotten and much comes, so that new bytes reach the end of the heap while its beginning is held."""
    rng = np.random.default_rng(3)
    model = Model(BytesColumn(pa.string(), SMALLEST_CAPACITY), 1)
    for step in range(60):
        model.append([chr(97 + (step + at) % 26) * 100 for at in range(9)], slack=0)
        model.check(rng)
        model.forget(1 if step % 10 else model.tail - model.head - 5)


def test_a_heap_grows_while_nothing_is_forgotten_wherever_ids_begin() -> None:
    """A packed window keeps its ids; its columns are new and have never been told to forget."""
    model = Model(BytesColumn(pa.binary(), SMALLEST_CAPACITY), 5_000_000)
    for step in range(40):
        model.append([bytes([step]) * step], slack=0)
        model.check(np.random.default_rng(step))
    held = sum(len(value) for value in model.values.values())
    assert model.column.nbytes < 8 * held + 17 * 2 * SMALLEST_CAPACITY


def test_arrow_columns_do_not_keep_the_callers_buffers() -> None:
    column = make_column(pa.list_(pa.int64()), SMALLEST_CAPACITY)
    big = pa.array([[number] * 100 for number in range(1000)], pa.list_(pa.int64()))
    before = pa.total_allocated_bytes()
    column.append(0, big.slice(10, 2))
    assert column.nbytes < 10_000
    del big
    assert pa.total_allocated_bytes() < before - 700_000


def test_arrow_columns_forget_in_proportion() -> None:
    column = make_column(pa.list_(pa.int64()), SMALLEST_CAPACITY)
    for first in range(0, 2000, 5):
        column.append(first, pa.array([[at] * 20 for at in range(first, first + 5)], pa.list_(pa.int64())))
        column.forget(max(first - 50, 0))
        assert column.nbytes < 4 * 55 * 170 + 1000
    taken = column.take(np.arange(1950, 2000).reshape(-1, 1), 0)
    assert [values[0] for values in taken.to_pylist()] == list(range(1950, 2000))


def test_a_column_without_nulls_pays_nothing_for_them() -> None:
    column = make_column(pa.int64(), 1024)
    column.append(0, pa.array(range(1000)))
    assert column.nbytes == 8 * 1024
    assert column.take(np.arange(9).reshape(-1, 1), 0).buffers()[0] is None
    column.append(1000, pa.array([None], pa.int64()))
    assert column.nbytes == 9 * 1024
    assert column.take(np.array([[999], [1000]]), 0).to_pylist() == [999, None]
