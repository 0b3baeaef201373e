"""The states of rows in a box: two bits each, whatever the neighbours in the byte are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from midstream.kernels import boxes
from midstream.kernels.boxes import FILLED, FILLING, MISSING
from midstream.kernels.types import Combos

from .twins import ints


def pack(states: NDArray[np.uint8]) -> NDArray[np.uint8]:
    room = boxes.room_for(len(states))
    boxes.put(room, np.arange(len(states)), states)
    return room


def unpack(room: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    return np.array([room[place // 4] >> 2 * (place % 4) & 3 for place in range(size)], np.uint8)


@pytest.mark.parametrize("seed", range(4))
def test_states_are_what_was_put_last(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = np.zeros(39, np.uint8)
    room = boxes.room_for(len(wanted))
    assert room.nbytes == 10
    for _ in range(20):
        places, states = rng.integers(0, len(wanted), 9), rng.integers(0, 3, 9).astype(np.uint8)
        boxes.put(room, places, states)
        for place, state in zip(places.tolist(), states.tolist(), strict=True):
            wanted[place] = state
        assert unpack(room, len(wanted)).tolist() == wanted.tolist()
        assert boxes.states_of(room, places).tolist() == wanted[places].tolist()


def test_claim_takes_each_row_of_the_box_once() -> None:
    states = pack(np.array([MISSING, FILLED, MISSING, FILLING, MISSING, MISSING], np.uint8))
    found = ints(3, 10, 11, 12, 12, 13, 15, 10, 16, 99)
    claimed = found[boxes.claim(found, 16, states, 10)]
    assert claimed.tolist() == [10, 12, 15]
    assert unpack(states, 6).tolist() == [FILLING, FILLED, FILLING, FILLING, MISSING, FILLING]
    elsewhere = ints(9, 14, 16)  # claimed in another box
    assert boxes.settle(np.concatenate((claimed, elsewhere)), 16, states, 10) == 3
    assert unpack(states, 6).tolist() == [FILLED, FILLED, FILLED, FILLING, MISSING, FILLED]
    assert boxes.claim(ints(10, 12, 15), 16, states, 10).tolist() == []
    assert [boxes.missing_in(states, begin, end) for begin, end in [(0, 6), (4, 5), (5, 6), (3, 3)]] == [1, 1, 0, 0]


def test_rows_that_are_being_filled_are_told_from_all_others() -> None:
    states = pack(np.array([MISSING, FILLED, FILLING, FILLING, MISSING, FILLING], np.uint8))
    filling, others = boxes.tell_filling(ints(99, 12, 10, 11, 13, 9, 15, 12, 16), 16, states, 10)
    assert filling.tolist() == [1, 4, 6, 7]
    assert others.tolist() == [0, 2, 3, 5, 8]


@pytest.mark.parametrize("seed", range(6))
def test_a_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, ends = rng.integers(0, 30, (200, 3)), rng.integers(0, 9, 200)
    filled = rng.choice(np.array([0, 1, 2, 2, 2, 2], np.uint8), 15)
    marks, horizon = ints(28, 23, 26), seed
    combos = Combos(rows, np.zeros(200, np.int64), ends)
    passed = rng.random(200) < 0.5
    all_pass = boxes.in_box(combos, marks, 1, (pack(filled), 8), horizon, passed)
    wanted = [
        bool(end >= horizon and (row < marks).all() and 8 <= row[1] < 23 and filled[row[1] - 8] == 2)
        for row, end in zip(rows, ends.tolist(), strict=True)
    ]
    assert passed.tolist() == wanted and not all_pass
    chosen = np.flatnonzero(passed)
    assert len(chosen) > 10
    inside = Combos(rows[chosen], combos.starts[chosen], ends[chosen])
    assert boxes.in_box(inside, marks, 1, (pack(filled), 8), horizon, np.empty(len(chosen), np.bool_))


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_missing_rows_from_the_top(limit: int) -> None:
    """Asked again and again, every missing place comes once, the highest first."""
    filled = np.random.default_rng(1).integers(0, 3, 60).astype(np.uint8)
    top, found, bottom = 50, [], 7
    for _ in range(60):
        places, top = boxes.missing_from_top(pack(filled), top, bottom, limit)
        assert len(places) <= limit
        found += places.tolist()
    assert found == [place for place in range(49, 6, -1) if filled[place] == 0 and limit]
