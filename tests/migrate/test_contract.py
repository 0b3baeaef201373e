"""Every strategy under random migrations: each push gives what the oracle says, no more and no less.

A block of seeds goes on until so many migrations were made; how many there were is recorded with the test.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .changes import MIXED, NAMES
from .migrating import check_block

QUOTA = 160
QUICK_BLOCKS = 2
SLOW_BLOCKS = 18
STRATEGIES = (*NAMES, MIXED)
Record = Callable[[str, object], None]


def check(strategy: str, first: int, record_property: Record, big: bool | None = None) -> None:
    tally = check_block(first + 10_000 * STRATEGIES.index(strategy), strategy, QUOTA, big)
    made, refused = tally.count(strategy), sum(tally.refused.values())
    record_property("migrations", made)
    print(f"{strategy}: {made} migrations, {refused} refused; {tally.runs} runs, {tally.evicted} entries evicted")
    assert made >= QUOTA
    assert tally.results > 0
    assert tally.evicted > 0


@pytest.mark.parametrize("block", range(QUICK_BLOCKS))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_migrations_cannot_be_seen_in_the_output(strategy: str, block: int, record_property: Record) -> None:
    check(strategy, 600_000 + block * 1_000, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(SLOW_BLOCKS))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_migrations_cannot_be_seen_in_the_output(strategy: str, block: int, record_property: Record) -> None:
    check(strategy, 2_000_000 + block * 100_000, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_migrations_of_larger_input(strategy: str, record_property: Record) -> None:
    check(strategy, 5_000_000, record_property, big=True)


def test_the_blocks_add_up() -> None:
    assert QUOTA * QUICK_BLOCKS * len(STRATEGIES) >= 2_000
    assert QUOTA * SLOW_BLOCKS * len(STRATEGIES) >= 20_000
