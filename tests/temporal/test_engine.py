"""The engine against the oracle: random queries, plans, executors, migrations, restarts, chunks, watermarks."""

from __future__ import annotations

import pytest

from .check import check_block
from .queries import KINDS
from .ways import STRATEGY_NAMES

BLOCK = 30
MANY = 200


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_every_step_comes_out_once_and_in_its_push(kind: str) -> None:
    check_block(1_000, BLOCK // 2, kind)


def test_every_strategy_and_every_kind_of_restart_is_reached() -> None:
    tally = check_block(2_000, 3 * BLOCK)
    wanted = (*STRATEGY_NAMES, "restored", "resumed", "evicted", "smaller windows", "limited runs", "evicted by limits")
    assert all(tally[name] for name in wanted), tally


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_many_random_cases(block: int) -> None:
    check_block(100_000 + block * MANY, MANY, ways=1)
