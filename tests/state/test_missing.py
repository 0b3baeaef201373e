"""What a state lacks, against its definition: a set of rows per input and box, and combinations made of such rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from midstream.kernels.types import Combos
from midstream.state.indexes import HashIndex
from midstream.state.missing import Box, Cause, Missing
from midstream.state.window import Renumbering

INPUTS = (4, 0, 2)
CAUSE = Cause("migration")


class Naive:
    """The naive twin: `boxes` have the rows of each input that are in them."""

    def __init__(self, heads: dict[int, int], tails: dict[int, int]):
        self.boxes: list[dict[int, set[int]]] = []
        self.heads = dict(heads)
        self.tails = dict(tails)

    def enter(self, number: int, size: int) -> None:
        self.tails[number] += size

    def forget(self, number: int, head: int) -> None:
        self.heads[number] = head
        for box in self.boxes:
            box[number] = {row for row in box[number] if row >= head}
        self.drop_empty()

    def drop_empty(self) -> None:
        self.boxes = [box for box in self.boxes if all(box.values())]

    def rows(self, number: int) -> set[int]:
        return set().union(*(box[number] for box in self.boxes))


def check_covered(
    missing: Missing, boxes: list[dict[int, set[int]]], naive: Naive, filling: int, claimed: set[int]
) -> None:
    """Every combination of live rows: it is covered if it has a claimed row and a box has it."""
    ids = [list(range(naive.heads[number], naive.tails[number])) for number in INPUTS]
    rows = np.array(list(itertools.product(*ids)), np.int64).reshape(-1, 3)
    ends = np.arange(len(rows)) % 3
    combos = Combos(rows, np.zeros(len(rows), np.int64), ends)
    found = missing.covered(combos, filling, 1)
    passed = np.ones(len(rows), np.bool_) if found is None else found
    column = INPUTS.index(filling)
    wanted = [
        end >= 1
        and row[column] in claimed
        and any(all(own in box[number] for own, number in zip(row, INPUTS, strict=True)) for box in boxes)
        for row, end in zip(rows.tolist(), ends.tolist(), strict=True)
    ]
    assert passed.tolist() == wanted


def check_missing(missing: Missing, naive: Naive) -> None:
    """Every combination of live rows, while none is being filled: it is missing if a box has it."""
    ids = [list(range(naive.heads[number], naive.tails[number])) for number in INPUTS]
    rows = np.array(list(itertools.product(*ids)), np.int64).reshape(-1, 3)
    combos = Combos(rows, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
    wanted = [
        any(all(own in box[number] for own, number in zip(row, INPUTS, strict=True)) for box in naive.boxes)
        for row in rows.tolist()
    ]
    assert missing.has(combos).tolist() == wanted


def draw_box(naive: Naive, rng: np.random.Generator) -> Box:
    """A box of all rows there are; perhaps only of some rows of an input, or of its rows from one on."""
    marks = dict(naive.tails)
    sets = {number: set(range(naive.heads[number], marks[number])) for number in INPUTS}
    rows, lows = {}, {}
    number = int(rng.choice(INPUTS))
    kind = int(rng.integers(0, 4))
    held = np.arange(naive.heads[number], marks[number])
    if kind in (1, 3):
        rows[number] = rng.choice(held, int(rng.integers(0, 4))) if len(held) else held
        sets[number] &= set(rows[number].tolist())
    if kind in (2, 3):
        low = int(rng.choice(INPUTS))
        lows[low] = naive.heads[low] + int(rng.integers(0, 3))
        sets[low] = {row for row in sets[low] if row >= lows[low]}
    naive.boxes.append(sets)
    naive.drop_empty()
    return Box(INPUTS, marks | {1: 99}, Cause("eviction") if rows else CAUSE, rows, lows | {1: 4})


@pytest.mark.parametrize("most_boxes", [1, 3])
@pytest.mark.parametrize("seed", range(25))
def test_what_is_missing_is_in_a_box(seed: int, most_boxes: int) -> None:
    rng = np.random.default_rng(seed)
    heads = {number: int(rng.integers(0, 50)) for number in INPUTS}
    naive = Naive(heads, {number: heads[number] + int(rng.integers(3, 9)) for number in INPUTS})
    missing = Missing()
    for _ in range(100):
        number = int(rng.choice(INPUTS))
        if len(naive.boxes) < most_boxes:
            missing.add(draw_box(naive, rng), naive.heads | {1: 0})
        match int(rng.integers(0, 5)):
            case 0:
                naive.enter(number, int(rng.integers(0, 3)))
            case 1:
                naive.forget(number, min(naive.heads[number] + int(rng.integers(0, 2)), naive.tails[number]))
                missing.forget(naive.heads | {1: 0})
            case 2:
                renumber(missing, naive, number, rng)
            case _:
                fill(missing, naive, number, rng)
        missing.forget(naive.heads | {1: 0})
        naive.drop_empty()
        assert bool(missing) == bool(naive.boxes)
        assert (missing.only_box is None) == (len(naive.boxes) != 1)
        for own in INPUTS:
            assert missing.remaining(own, naive.heads[own]) == len(naive.rows(own))
        check_missing(missing, naive)


def fill(missing: Missing, naive: Naive, number: int, rng: np.random.Generator) -> None:
    """Claim random rows, some of them twice, new or filled already; check what is covered in between; settle."""
    held = np.arange(naive.heads[number], naive.tails[number])
    ids = rng.choice(held, int(rng.integers(0, 4))) if len(held) else held
    if not missing:
        return
    if rng.random() < 0.5:
        claimed = ids[missing.claim(number, naive.heads[number], ids)]
    else:
        claimed = claim_by_key(missing, naive, number, ids)
    assert len(claimed) == len(set(claimed.tolist()))
    assert set(claimed.tolist()) == set(ids.tolist()) & naive.rows(number)
    again = missing.claim(number, naive.heads[number], ids)
    assert len(again) == 0, "rows being filled are not claimed again"
    check_covered(missing, naive.boxes, naive, number, set(claimed.tolist()))
    missing.settle(number, naive.heads[number], claimed)
    for box in naive.boxes:
        box[number] -= set(claimed.tolist())
    naive.boxes = [box for box in naive.boxes if box[number]]
    if missing:
        check_covered(missing, naive.boxes, naive, number, set())


def claim_by_key(missing: Missing, naive: Naive, number: int, ids: np.ndarray) -> np.ndarray:
    """Through an index on the window, in which every row has its id as key."""
    head, tail = naive.heads[number], naive.tails[number]
    held = np.arange(head, tail)
    index = HashIndex(128)
    index.insert(head, held, 10 * held, 10 * held + 9)
    claimed = missing.claim_by_key(number, head, index, ids)
    assert claimed.starts.tolist() == (10 * claimed.rows[:, 0]).tolist()
    assert claimed.ends.tolist() == (10 * claimed.rows[:, 0] + 9).tolist()
    return claimed.rows[:, 0]


def renumber(missing: Missing, naive: Naive, number: int, rng: np.random.Generator) -> None:
    """A window is packed: some rows are dead and go, the others keep their order with the highest ids."""
    held = np.arange(naive.heads[number], naive.tails[number])
    kept = held[rng.random(len(held)) < 0.8]
    first = naive.tails[number] - len(kept)
    new = {int(old): first + at for at, old in enumerate(kept)}
    missing.renumber(number, Renumbering(kept, first))
    for box in naive.boxes:
        box[number] = {new[row] for row in box[number] if row in new}
    naive.heads[number] = first


def test_inputs_of_other_states_do_not_matter() -> None:
    missing = Missing([Box((0, 1), {0: 5, 1: 6, 2: 7}, CAUSE, lows={2: 3})])
    missing.renumber(2, Renumbering(np.array([1, 3]), 5))
    assert [missing.remaining(number, 0) for number in (0, 1)] == [5, 6]


def test_a_box_without_rows_of_an_input_is_not_kept() -> None:
    missing = Missing()
    missing.add(Box((0, 1), {0: 5, 1: 6}, CAUSE), {0: 0, 1: 6})
    missing.add(Box((0, 1), {0: 5, 1: 6}, CAUSE, rows={0: np.array([], np.int64)}), {0: 0, 1: 0})
    missing.add(Box((0, 1), {0: 5, 1: 6}, CAUSE, rows={0: np.array([5])}), {0: 0, 1: 0})
    assert not missing
    missing.add(Box((0, 1), {0: 5, 1: 6}, CAUSE), {0: 4, 1: 5})
    assert missing


def test_records_cost_two_bits_a_row_and_only_for_inputs_that_are_filled() -> None:
    box = Box((0, 1), {0: 1000, 1: 2000}, CAUSE)
    assert box.nbytes == 0
    box.claim(1, 500, np.array([600]))
    assert box.nbytes == 1500 / 4


def test_a_migration_adopts_what_others_left_but_not_what_was_evicted() -> None:
    earlier, restore, eviction, later = Cause("migration"), Cause("restore"), Cause("eviction"), Cause("migration")
    marks, heads = {0: 9, 1: 9}, {0: 1, 1: 1}
    missing = Missing()
    missing.add(Box((0, 1), marks, earlier), heads)
    missing.add(Box((0, 1), marks, restore, rows={1: np.array([8])}), heads)
    missing.add(Box((0, 1), marks, eviction, rows={0: np.array([2, 3, 2])}), heads)
    missing.adopt(later)
    assert [box.cause for box in missing] == [later, later, eviction]
    assert not missing.is_due_to(earlier) and missing.is_due_to(later) and missing.is_due_to(eviction)
    assert (missing.remaining(0, 1), missing.remaining(0, 1, eviction)) == (8, 2)


def test_the_newest_rows_are_those_of_one_cause() -> None:
    mine, eviction = Cause("migration"), Cause("eviction")
    marks, heads = {0: 9, 1: 9}, {0: 1, 1: 1}
    missing = Missing()
    missing.add(Box((0, 1), marks, eviction, rows={0: np.array([2, 8])}), heads)
    missing.add(Box((0, 1), marks, mine, rows={0: np.array([3, 5, 8])}), heads)
    assert missing.newest(0, 1, 0, mine).tolist() == []
    assert missing.newest(0, 1, 2, mine).tolist() == [8, 5]
    for ids in ([8, 5], [3]):
        claimed = np.array(ids)
        assert len(missing.claim(0, 1, claimed)) == len(claimed)
        missing.settle(0, 1, claimed)
    assert not missing.is_due_to(mine)
    assert missing.newest(0, 1, 2, mine).tolist() == []
    assert missing.newest(0, 1, 9).tolist() == [2], "8 was filled in both boxes"
