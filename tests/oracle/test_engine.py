"""The engine against the naive join: every plan, every cut, restores, pieces, windows, watermarks, late rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ..blocks import blocks
from .cases import make_case
from .check import Ways, check_engine, every_batching, every_plan, everything, limits, pieces, restores, small_pieces
from .predicates import KINDS
from .spec import Case

BLOCK = 10
#: For what every test run has for each of many shapes, and for themes that run a case in every way.
SMALL_BLOCK, SMALLEST_BLOCK = 3, 2
Theme = Callable[[Case, random.Random], Ways]
#: Every seed runs on the tree, and every fourth on one of the others too. In `make test-all` every seed runs on SteMs,
#: whose hops all executors but the tree share, and every third on both kinds of eddies.
Executors = Callable[[int], tuple[str, ...]]
OTHERS = ("stems", "stairs", "stems", "eddy", "stairs")


def most(seed: int) -> tuple[str, ...]:
    return ("tree",) if seed % 4 else ("tree", OTHERS[seed // 4 % len(OTHERS)])


def rest(seed: int) -> tuple[str, ...]:
    wanted = ("stems",) if seed % 3 else ("stems", "eddy", "stairs")
    return tuple(executor for executor in wanted if executor not in most(seed))


over_executors = pytest.mark.parametrize("on", [most, pytest.param(rest, marks=pytest.mark.slow)], ids=["all", "rest"])


def check(first: int, count: int, theme: Theme, on: Executors, **shape: Any) -> None:
    """All seeds of a block, so that one failure does not hide the next; the first is shown in full."""
    failures: dict[int, Exception] = {}
    for seed in range(first, first + count):
        try:
            check_engine(make_case(seed, **shape), theme, on(seed))
        except Exception as failure:
            failures[seed] = failure
    if failures:
        seeds = ", ".join(str(seed) for seed in failures)
        raise AssertionError(f"failing seeds: {seeds}; shape {shape}") from next(iter(failures.values()))


@over_executors
@pytest.mark.parametrize("block", blocks(36))
def test_every_plan_gives_the_results_of_the_definition(block: int, on: Executors) -> None:
    check(1_000 + block * BLOCK, BLOCK, every_plan, on)


@over_executors
@pytest.mark.parametrize("block", blocks(36))
def test_results_do_not_depend_on_how_the_input_is_cut(block: int, on: Executors) -> None:
    check(3_000 + block * BLOCK, BLOCK, every_batching, on)


@over_executors
@pytest.mark.parametrize("block", blocks(26))
def test_stored_and_restored_engines_go_on(block: int, on: Executors) -> None:
    check(5_000 + block * BLOCK, BLOCK, restores, on)


@over_executors
@pytest.mark.parametrize("block", blocks(20))
def test_results_in_pieces_are_the_same(block: int, on: Executors) -> None:
    check(7_000 + block * BLOCK, BLOCK, pieces, on)


@over_executors
@pytest.mark.parametrize("block", blocks(20))
def test_large_values_are_cut_into_pieces(block: int, on: Executors) -> None:
    check(8_000 + block * BLOCK, BLOCK, small_pieces, on)


@over_executors
@pytest.mark.parametrize("block", blocks(16))
def test_limits_of_memory_change_no_result(block: int, on: Executors) -> None:
    check(19_000 + block * SMALL_BLOCK, SMALL_BLOCK, limits, on)


@over_executors
@pytest.mark.parametrize("block", blocks(2))
@pytest.mark.parametrize("kind", KINDS)
def test_every_shape_of_join(kind: str, block: int, on: Executors) -> None:
    check(9_000 + block * SMALL_BLOCK, SMALL_BLOCK, every_plan, on, kind=kind)


@over_executors
@pytest.mark.parametrize("block", blocks(2))
@pytest.mark.parametrize("inputs", range(1, 8))
def test_any_number_of_inputs(inputs: int, block: int, on: Executors) -> None:
    check(10_000 + block * SMALL_BLOCK, SMALL_BLOCK, every_plan, on, inputs=inputs)


@over_executors
@pytest.mark.parametrize("block", blocks(10))
@pytest.mark.parametrize("windows", ["range", "mixed", "rows", "static"])
def test_every_kind_of_window(windows: str, block: int, on: Executors) -> None:
    check(11_000 + block * SMALLEST_BLOCK, SMALLEST_BLOCK, everything, on, windows=windows)


@over_executors
@pytest.mark.parametrize("block", blocks(6))
@pytest.mark.parametrize("windows", ["range", "rows"])
def test_many_rows_at_one_moment(windows: str, block: int, on: Executors) -> None:
    check(16_800 + block * SMALL_BLOCK, SMALL_BLOCK, every_batching, on, windows=windows, ties=True)


@over_executors
@pytest.mark.parametrize("block", blocks(2))
@pytest.mark.parametrize("windows", ["range", "rows", "static"])
def test_names_like_those_inside_the_engine(windows: str, block: int, on: Executors) -> None:
    check(18_000 + block * SMALL_BLOCK, SMALL_BLOCK, restores, on, windows=windows, odd_names=True)


@over_executors
@pytest.mark.parametrize("block", blocks(2))
@pytest.mark.parametrize("windows", ["range", "mixed", "rows"])
def test_one_stream_under_two_aliases(windows: str, block: int, on: Executors) -> None:
    check(16_000 + block * SMALL_BLOCK, SMALL_BLOCK, every_batching, on, windows=windows, self_join=True, inputs=2)
    check(16_500 + block * SMALL_BLOCK, SMALL_BLOCK, every_plan, on, windows=windows, self_join=True)


@over_executors
@pytest.mark.parametrize("block", blocks(10))
@pytest.mark.parametrize(
    "watermarks", ["implicit", "implicit late", "explicit", "explicit late", "per stream", "switch"]
)
def test_every_kind_of_watermark(watermarks: str, block: int, on: Executors) -> None:
    check(12_000 + block * SMALLEST_BLOCK, SMALLEST_BLOCK, everything, on, watermarks=watermarks)


@over_executors
@pytest.mark.parametrize("block", blocks(2))
@pytest.mark.parametrize("time", ["int64", "s", "ms", "us", "ns"])
def test_every_kind_of_event_time(time: str, block: int, on: Executors) -> None:
    check(13_000 + block * SMALL_BLOCK, SMALL_BLOCK, every_plan, on, time=time)


@over_executors
@pytest.mark.parametrize("block", blocks(3))
def test_larger_input(block: int, on: Executors) -> None:
    check(14_000 + block * SMALL_BLOCK, SMALL_BLOCK, every_batching, on, big=True)


@over_executors
@pytest.mark.slow
@pytest.mark.parametrize("block", range(12))
def test_everything_on_many(block: int, on: Executors) -> None:
    check(200_000 + block * BLOCK, BLOCK, everything, on)


@over_executors
@pytest.mark.slow
@pytest.mark.parametrize("block", range(3))
def test_larger_input_in_every_way(block: int, on: Executors) -> None:
    check(300_000 + block * SMALL_BLOCK, SMALL_BLOCK, everything, on, big=True)
