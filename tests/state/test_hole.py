"""A hole against the definition of its box: a set of rows per input, and combinations made only of such rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from midstream.kernels.types import Combos
from midstream.state.hole import Hole
from midstream.state.window import Renumbering

INPUTS = (4, 0, 2)


class Box:
    """The naive hole: `rows` are the rows in the box, `live` those that the window holds."""

    def __init__(self, marks: dict[int, int], heads: dict[int, int]):
        self.rows = {number: set(range(heads[number], marks[number])) for number in INPUTS}
        self.heads = dict(heads)
        self.tails = dict(marks)

    def enter(self, number: int, size: int) -> None:
        self.tails[number] += size

    def forget(self, number: int, head: int) -> None:
        self.heads[number] = head
        self.rows[number] = {one for one in self.rows[number] if one >= head}

    def is_gone(self) -> bool:
        return any(not rows for rows in self.rows.values())


def covered(hole: Hole, box: Box, filling: int, claimed: set[int]) -> None:
    """Every combination of live rows: it is covered if it has a claimed row and its other rows are in the box."""
    ids = [list(range(box.heads[number], box.tails[number])) for number in INPUTS]
    rows = np.array(list(itertools.product(*ids)), np.int64).reshape(-1, 3)
    ends = np.arange(len(rows)) % 3
    combos = Combos(rows, np.zeros(len(rows), np.int64), ends)
    found = hole.covered(combos, filling, 1)
    passed = np.ones(len(rows), np.bool_) if found is None else found
    wanted = [
        all(
            one in (claimed if number == filling else box.rows[number]) for one, number in zip(row, INPUTS, strict=True)
        )
        and end >= 1
        for row, end in zip(rows.tolist(), ends.tolist(), strict=True)
    ]
    assert passed.tolist() == wanted


@pytest.mark.parametrize("seed", range(25))
def test_a_hole_is_its_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heads = {number: int(rng.integers(0, 50)) for number in INPUTS}
    marks = {number: heads[number] + int(rng.integers(3, 9)) for number in INPUTS}
    hole, box = Hole(INPUTS, marks | {1: 99}), Box(marks, heads)
    steps = 0
    while not box.is_gone() and steps < 200:
        steps += 1
        number = int(rng.choice(INPUTS))
        match int(rng.integers(0, 5)):
            case 0:
                box.enter(number, int(rng.integers(0, 2)))
            case 1:
                head = min(box.heads[number] + int(rng.integers(0, 2)), box.tails[number])
                box.forget(number, head)
                assert hole.forget(box.heads | {1: 0}) == (not box.is_gone())
            case 2:
                renumber(hole, box, number, rng)
            case _:
                fill(hole, box, number, rng)
        for one in INPUTS:
            assert hole.remaining(one, box.heads[one]) == len(box.rows[one])
    assert hole.forget(box.heads | {1: 0}) == (not box.is_gone())


def fill(hole: Hole, box: Box, number: int, rng: np.random.Generator) -> None:
    """Claim random rows, some of them twice, new or filled already; check the cover in between; settle."""
    held = np.arange(box.heads[number], box.tails[number])
    ids = rng.choice(held, int(rng.integers(0, 4))) if len(held) else held
    claimed = ids[hole.claim(number, box.heads[number], ids)]
    assert len(claimed) == len(set(claimed.tolist()))
    assert set(claimed.tolist()) == set(ids.tolist()) & box.rows[number]
    again = hole.claim(number, box.heads[number], ids)
    assert len(again) == 0, "rows being filled are not claimed again"
    box.rows[number] -= set(claimed.tolist())
    covered(hole, box, number, set(claimed.tolist()))
    hole.settle(number, claimed)
    covered(hole, box, number, set())


def renumber(hole: Hole, box: Box, number: int, rng: np.random.Generator) -> None:
    """A window is packed: some rows are dead and go, the others keep their order with the highest ids."""
    held = np.arange(box.heads[number], box.tails[number])
    kept = held[rng.random(len(held)) < 0.8]
    first = box.tails[number] - len(kept)
    renumbering = Renumbering(kept, first)
    new = {int(old): first + at for at, old in enumerate(kept)}
    hole.renumber(number, renumbering)
    box.rows[number] = {new[one] for one in box.rows[number] if one in new}
    box.heads[number] = first
    for one in new.values():
        assert first <= one < box.tails[number]


def test_inputs_of_other_states_do_not_matter() -> None:
    hole = Hole((0, 1), {0: 5, 1: 6, 2: 7})
    hole.renumber(2, Renumbering(np.array([1, 3]), 5))
    assert [hole.remaining(number, 0) for number in (0, 1)] == [5, 6]


def test_a_hole_without_rows_of_an_input_is_gone_at_once() -> None:
    assert not Hole((0, 1), {0: 5, 1: 6}).forget({0: 0, 1: 6})
    assert Hole((0, 1), {0: 5, 1: 6}).forget({0: 4, 1: 5})


def test_records_cost_two_bits_a_row_and_only_for_inputs_that_are_filled() -> None:
    hole = Hole((0, 1), {0: 1000, 1: 2000})
    assert hole.nbytes == 0
    hole.claim(1, 500, np.array([600]))
    assert hole.nbytes == 1500 / 4
