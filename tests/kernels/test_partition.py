"""Rows by cell: coordinates, marks and groups against naive twins."""

from __future__ import annotations

import bisect

import numpy as np
import pytest

from midstream.kernels import partition
from midstream.kernels.types import Combos

from .twins import INT64S, Ints, ints, naive_mix

SEED = 0x51ED270B7A103D05


def naive_coordinate(code: int, seed: int, share: int) -> int:
    return (naive_mix(code ^ seed) % 2**64 >> 32) * share >> 32


def coordinates(codes: Ints, seed: int, share: int, stride: int = 1) -> Ints:
    cells = np.zeros(len(codes), np.int64)
    partition.add_coordinates(codes, seed, share, stride, cells)
    return cells


@pytest.mark.parametrize("share", [1, 2, 3, 7, 8, 1000])
def test_coordinates_are_their_naive_twin(share: int) -> None:
    rng = np.random.default_rng(share)
    codes = np.concatenate([ints(*INT64S), np.arange(-500, 500), rng.integers(-(2**63), 2**63 - 1, 500)])
    expected = [naive_coordinate(code, SEED, share) for code in codes.tolist()]
    assert coordinates(codes, SEED, share).tolist() == expected
    assert min(expected) >= 0 and max(expected) < share


def test_coordinates_of_several_dimensions_add_up() -> None:
    codes = np.arange(100)
    cells = coordinates(codes, SEED, 3)
    partition.add_coordinates(codes, SEED ^ 1, 4, 3, cells)
    expected = [naive_coordinate(code, SEED, 3) + 3 * naive_coordinate(code, SEED ^ 1, 4) for code in range(100)]
    assert cells.tolist() == expected


@pytest.mark.parametrize("share", [2, 3, 4, 8, 64])
@pytest.mark.parametrize("step", [1, 2, 8, 1000, 1 << 20, 1 << 32, 1 << 40])
def test_regular_integers_spread_evenly(share: int, step: int) -> None:
    counts = np.bincount(coordinates(np.arange(64_000) * step, SEED, share), minlength=share)
    mean = 64_000 / share
    assert abs(counts - mean).max() < 6 * mean**0.5


def test_dimensions_are_independent() -> None:
    codes = np.arange(64_000)
    pairs = coordinates(codes, SEED, 4) * 4 + coordinates(codes, SEED ^ 1, 4)
    assert abs(np.bincount(pairs, minlength=16) - 4000).max() < 6 * 4000**0.5


def test_marks() -> None:
    wanted = ints(-(2**63), -5, 0, 7, 2**63 - 1)
    codes = np.concatenate([ints(*INT64S), np.arange(-10, 10)])
    marks = np.ones(len(codes), np.int64)
    partition.mark(codes, wanted, 4, marks)
    assert marks.tolist() == [5 if code in wanted.tolist() else 1 for code in codes.tolist()]
    partition.mark(codes, ints(), 2, marks)
    assert marks.max() == 5


@pytest.mark.parametrize(("rows", "count"), [(0, 3), (1, 1), (100, 1), (100, 7), (50, 200)])
def test_groups_are_stable(rows: int, count: int) -> None:
    cells = np.random.default_rng(rows).integers(0, count, rows)
    order, begins = partition.group(cells, count)
    expected = sorted(range(rows), key=lambda place: cells[place])
    assert order.tolist() == expected
    ordered = [int(cells[place]) for place in expected]
    assert begins.tolist() == [bisect.bisect_left(ordered, cell) for cell in range(count + 1)]


@pytest.mark.parametrize("are_exact", [False, True])
def test_combinations_split_by_the_class_of_a_code(are_exact: bool) -> None:
    rng = np.random.default_rng(3)
    bounds, way_of_class = ints(-3, 5, 20), ints(0, 1, 0, 2)
    for size in (0, 1, 200):
        codes, rows = rng.integers(-10, 30, size), rng.integers(0, 1_000, (size, 2))
        combos = Combos(rows, rng.integers(0, 9, size), rng.integers(9, 99, size))
        parted, parted_codes = Combos(*(np.empty_like(array) for array in combos)), np.empty_like(codes)
        begins = partition.split(codes, bounds, are_exact, way_of_class, combos, parted, parted_codes)
        order = []
        for way in range(3):
            assert begins[way] == len(order)
            order += [at for at, code in enumerate(codes.tolist()) if naive_way(code, are_exact) == way]
        assert begins.tolist()[-1] == len(order) == size
        for array, found in zip((*combos, codes), (*parted, parted_codes), strict=True):
            assert (array[order] == found).all()


def naive_way(code: int, are_exact: bool) -> int:
    """The way of a code's class among classes that begin at -3, 5 and 20, or are these very codes."""
    bounds = [-3, 5, 20]
    if are_exact:
        return [0, 1, 0, 2][bounds.index(code) + 1 if code in bounds else 0]
    return [0, 1, 0, 2][bisect.bisect_right(bounds, code)]
