"""The oracles against each other, without the engine."""

from __future__ import annotations

import pytest

from ..blocks import blocks
from .cases import make_case
from .check import check_batchings, check_oracles
from .predicates import KINDS

BLOCK = 25


@pytest.mark.parametrize("block", blocks(24))
def test_naive_join_and_duckdb_agree(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        check_oracles(make_case(seed))


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_are_free(kind: str) -> None:
    for seed in range(20):
        check_batchings(make_case(seed, kind=kind))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_naive_join_and_duckdb_agree_on_many(block: int) -> None:
    for seed in range(100_000 + block * BLOCK, 100_000 + (block + 1) * BLOCK):
        check_oracles(make_case(seed))


def test_a_case_is_a_function_of_its_seed() -> None:
    for seed in range(10):
        first, second = make_case(seed), make_case(seed)
        assert (first.text, first.plans, str(first.pushes)) == (second.text, second.plans, str(second.pushes))


def test_most_cases_have_results() -> None:
    from .run import expect

    found = [len(expect(make_case(seed)).results) for seed in range(100)]
    assert sum(count > 0 for count in found) > 60
    assert max(found) < 50_000
