"""Masks over proposed combinations, one by one against plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from midstream.kernels import checks
from midstream.kernels.types import Combos

from .twins import INT64S, Ints, ints

Mask = NDArray[np.bool_]
FIRST = 3
SIZE = 200


def draw_rows(rng: np.random.Generator, width: int = 3, size: int = SIZE) -> Ints:
    """Row ids far above any capacity, so that slots are what counts."""
    return rng.integers(10_000, 10_100, (FIRST + size, width))


def draw_mask(rng: np.random.Generator, size: int = SIZE) -> Mask:
    return rng.random(size) < 0.8


def find_expected(before: Mask, holds: list[bool]) -> list[bool]:
    """A check only ever clears."""
    return [was and now for was, now in zip(before.tolist(), holds, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_same_codes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, passed = draw_rows(rng), draw_mask(rng)
    left, right = rng.integers(0, 3, 16), rng.integers(0, 3, 32)
    wanted = find_expected(passed, [left[row[2] % 16] == right[row[0] % 32] for row in rows[FIRST:].tolist()])
    checks.same_codes(rows, FIRST, (2, 0), (left, right), passed)
    assert passed.tolist() == wanted
    assert any(wanted) and not all(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_same_pairs_compares_both_words(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, passed = draw_rows(rng), draw_mask(rng)
    left, right = rng.integers(0, 2, (16, 2)), rng.integers(0, 2, (64, 2))
    wanted = find_expected(
        passed, [left[row[1] % 16].tolist() == right[row[2] % 64].tolist() for row in rows[FIRST:].tolist()]
    )
    checks.same_pairs(rows, FIRST, (1, 2), (left, right), passed)
    assert passed.tolist() == wanted
    assert any(wanted) and not all(wanted)


def heap_of(rng: np.random.Generator, values: list[bytes], capacity: int) -> tuple[Ints, Ints, NDArray[np.uint8]]:
    """Values in a heap that has gone round: offsets are far above its size, and no value is split at its end."""
    heap = rng.integers(97, 100, capacity, np.uint8)
    at = capacity * 5 + capacity // 2
    offsets = []
    for value in values:
        if at % capacity + len(value) > capacity:
            at += capacity - at % capacity
        heap[at % capacity : at % capacity + len(value)] = np.frombuffer(value, np.uint8)
        offsets.append(at)
        at += len(value)
    assert at - offsets[0] <= capacity, "the heap is too small for the test"
    return ints(*offsets), ints(*map(len, values)), heap


@pytest.mark.parametrize("seed", range(6))
def test_same_bytes_in_heaps_that_have_gone_round(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool = [b"", b"a", b"b", b"ab", b"abc", b"abd", b"bbc", b"abcabcabcabcabcab", b"abcabcabcabcabcaa"]
    sides = [[pool[at] for at in rng.integers(0, len(pool), size)] for size in (16, 8)]
    left, right = heap_of(rng, sides[0], 256), heap_of(rng, sides[1], 128)
    rows, passed = draw_rows(rng), draw_mask(rng)
    wanted = find_expected(passed, [sides[0][row[0] % 16] == sides[1][row[1] % 8] for row in rows[FIRST:].tolist()])
    checks.same_bytes(rows, FIRST, (0, 1), (0, 0), left, right, passed)
    assert passed.tolist() == wanted
    assert any(wanted) and not all(wanted)


def test_an_empty_string_equals_only_an_empty_string_even_at_the_end_of_its_heap() -> None:
    heap = np.full(64, 97, np.uint8)
    empty_at_end = ints(64, 63), ints(0, 1), heap
    other = ints(128 + 64, 0), ints(0, 1), heap
    rows = np.array(list(itertools.product((0, 1), (0, 1))), np.int64)
    passed = np.ones(4, np.bool_)
    checks.same_bytes(rows, 0, (0, 1), (0, 0), empty_at_end, other, passed)
    assert passed.tolist() == [True, False, False, True]


def test_bytes_of_rows_below_the_heads_are_not_looked_at() -> None:
    side = ints(0, 0), ints(1, 1), np.full(64, 97, np.uint8)
    rows = np.array(list(itertools.product((0, 1), (0, 1))), np.int64)
    for heads, wanted in (((1, 0), [False, False, True, True]), ((0, 1), [False, True, False, True])):
        passed = np.ones(4, np.bool_)
        checks.same_bytes(rows, 0, (0, 1), heads, side, side, passed)
        assert passed.tolist() == wanted


def bounds_of(low: int | None, high: int | None) -> tuple[bool, int, bool, int]:
    return low is not None, low or 0, high is not None, high or 0


def in_band(a: int, b: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= a - b) and (high is None or a - b <= high)


@pytest.mark.parametrize("low", [None, *INT64S])
def test_a_band_is_exact_at_the_ends_of_int64(low: int | None) -> None:
    """All extremes as values and as bounds: a sum that overflows or is held at an end lets the wrong ones pass."""
    size = len(INT64S)
    values = np.concatenate([ints(*INT64S), np.zeros(16 - size, np.int64)])
    pairs = list(itertools.product(range(size), range(size)))
    rows = np.array(pairs, np.int64)
    for high in [None, *INT64S]:
        passed = np.ones(len(pairs), np.bool_)
        checks.in_band(rows, 0, (0, 1), (values, values), bounds_of(low, high), passed)
        wrong = [
            f"{INT64S[a]} - {INT64S[b]} in [{low}, {high}]: {now}"
            for (a, b), now in zip(pairs, passed.tolist(), strict=True)
            if now != in_band(INT64S[a], INT64S[b], low, high)
        ]
        assert not wrong


@pytest.mark.parametrize(("low", "high"), [(-2, 3), (0, 0), (1, 5), (-9, -4), (3, 1), (None, 0), (0, None)])
def test_a_band_is_a_difference(low: int | None, high: int | None) -> None:
    rng = np.random.default_rng(23)
    rows, passed = draw_rows(rng), draw_mask(rng)
    left, right = rng.integers(-10, 10, 32), rng.integers(-10, 10, 8)
    holds = [in_band(int(left[row[2] % 32]), int(right[row[1] % 8]), low, high) for row in rows[FIRST:].tolist()]
    wanted = find_expected(passed, holds)
    checks.in_band(rows, FIRST, (2, 1), (left, right), bounds_of(low, high), passed)
    assert passed.tolist() == wanted


def test_raise_to_and_at_most() -> None:
    rng = np.random.default_rng(11)
    rows, passed = draw_rows(rng), draw_mask(rng)
    arrivals, ends = rng.integers(-50, 50, 32), rng.integers(-20, 80, 32)
    highest = rng.integers(-40, 40, SIZE)
    wanted = [max(was, arrivals[row[1] % 32]) for was, row in zip(highest.tolist(), rows[FIRST:].tolist(), strict=True)]
    checks.raise_to(rows, FIRST, 1, arrivals, highest)
    assert highest.tolist() == wanted
    holds = [value <= ends[row[2] % 32] for value, row in zip(wanted, rows[FIRST:].tolist(), strict=True)]
    after = find_expected(passed, holds)
    checks.at_most(rows, FIRST, 2, ends, highest, passed)
    assert passed.tolist() == after
    assert any(after) and not all(after)


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("first", [0, 5])
def test_pack_keeps_what_passed_in_its_order(first: int, chance: float) -> None:
    rng = np.random.default_rng([first, int(chance * 10)])
    combos = Combos(rng.integers(0, 99, (60, 3)), rng.integers(0, 99, 60), rng.integers(0, 99, 60))
    passed = rng.random(50) < chance
    rows = [(*combos.rows[at].tolist(), int(combos.starts[at]), int(combos.ends[at])) for at in range(60)]
    wanted = rows[:first] + [row for row, keeps in zip(rows[first:], passed, strict=False) if keeps]
    end = checks.pack(combos, first, passed)
    assert end == len(wanted)
    packed = [(*combos.rows[at].tolist(), int(combos.starts[at]), int(combos.ends[at])) for at in range(end)]
    assert packed == wanted


def test_pack_in_stages_is_pack_of_both() -> None:
    rng = np.random.default_rng(13)
    combos = Combos(np.arange(40).reshape(-1, 1), np.arange(40), np.arange(40))
    first = rng.random(40) < 0.6
    end = checks.pack(combos, 0, first)
    second = rng.random(end) < 0.6
    end = checks.pack(combos, 0, second)
    assert combos.rows[:end, 0].tolist() == np.flatnonzero(first)[second].tolist()
    assert combos.starts[:end].tolist() == combos.ends[:end].tolist() == combos.rows[:end, 0].tolist()
