"""Random runs with moves, changes and restores: every push is right, and both invariants hold all the time."""

from __future__ import annotations

import pytest

from midstream.engine.executors.eddy.moving import Mover

from .mutants import MUTANTS, Mutant
from .playing import find_wrong, play


@pytest.mark.parametrize("block", range(2))
def test_moves_cannot_be_seen_in_the_output(block: int) -> None:
    tally = play(1_000 * block, 8)
    assert tally.results > 500 and tally.entries > 500
    assert min(tally.promoted, tally.demoted, tally.migrated, tally.rerouted) > 1 and tally.restored >= 1


def test_many_moves_and_nothing_else() -> None:
    tally = play(10_000, 4, moves=0.75, changes=0.0)
    assert tally.promoted > 50 and tally.demoted > 20 and tally.migrated == 0


def test_limits_of_memory_cannot_be_seen_in_the_output() -> None:
    tally = play(20_000, 8, limits=0.4, moves=0.2)
    assert tally.results > 300 and tally.evicted > 100 and tally.switched_off > 10 and tally.entries > 300


def test_moves_where_nothing_expires_cannot_be_seen_either() -> None:
    tally = play(30_000, 8, pushes=6, lasting=1.0)
    assert tally.results > 300 and tally.entries > 300 and tally.promoted > 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_moves_where_nothing_expires_cannot_be_seen_in_many_outputs(block: int) -> None:
    play(400_000 + 1_000 * block, 100, pushes=6, lasting=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_limits_of_memory_cannot_be_seen_in_many_outputs(block: int) -> None:
    play(300_000 + 1_000 * block, 100, limits=0.4, moves=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_moves_cannot_be_seen_in_many_outputs(block: int) -> None:
    play(100_000 + 1_000 * block, 100)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(36))
def test_results_of_many_more_runs(block: int) -> None:
    assert find_wrong(200_000 + 1_000 * block, 500, pushes=15) is None


def test_moving_for_several_classes_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one class of rows builds on is misplaced for another, so that nothing is ever where all want it."""
    moves = [0]
    move_some = Mover.move_some

    def count(mover: Mover, limit: int) -> int:
        moves[0] += 1
        return move_some(mover, limit)

    monkeypatch.setattr(Mover, "move_some", count)
    assert find_wrong(204_138, 1, pushes=15) is None
    assert 20 < moves[0] < 2_000


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert find_wrong(MUTANTS[mutant], 40) is not None
