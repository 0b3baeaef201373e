"""A join state against the list of entries that live: exactly those are found, and the dead do not pile up."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from midstream.kernels.types import COUNT, LARGEST, SMALLEST, Combos, Layout
from midstream.state.indexes import Ints, new_cursor
from midstream.state.join_state import Access, JoinState
from midstream.state.window import Renumbering

INPUTS = (3, 1)
Entry = tuple[int, int, int, int, int]  # key, start, end, row of input 3, row of input 1


def combos_of(entries: list[Entry]) -> tuple[Combos, Ints]:
    array = np.array(entries, np.int64).reshape(-1, 5)
    combos = Combos(np.ascontiguousarray(array[:, 3:]), array[:, 1].copy(), array[:, 2].copy())
    return combos, array[:, 0].copy()


class Model:
    """A state and the entries that live in it."""

    def __init__(self, access: Access, state: JoinState | None = None):
        self.state = JoinState(INPUTS, access) if state is None else state
        self.entries: list[Entry] = []

    def store(self, entries: list[Entry]) -> None:
        self.state.store(*combos_of(entries))
        self.entries += entries

    def purge(self, watermark: int, heads: dict[int, int]) -> None:
        self.state.purge(watermark, heads)
        self.entries = [
            one for one in self.entries if one[2] >= watermark and one[3] >= heads[3] and one[4] >= heads[1]
        ]

    def found(self, watermark: int, heads: dict[int, int]) -> Counter[Entry]:
        """What lives in the ring, with the keys that lead there."""
        state, ring = self.state, self.state.ring()
        size = len(ring.starts)
        ids: dict[int, list[int]] = {}
        if state.hash_index is not None:
            ids = {key: state.hash_index.find(ring.head, np.array([key])).tolist() for key in range(8)}
        elif state.sorted_index is not None:
            one = state.sorted_index
            ids = {key: one.find(ring.head, np.array([key]), np.array([key])).tolist() for key in range(8)}
        else:
            ids = {0: list(range(ring.head, ring.tail))}
        found: Counter[Entry] = Counter()
        for key, listed in ids.items():
            for at in listed:
                assert ring.head <= at < ring.tail
                slot = at & (size - 1)
                third, first = ring.members[slot].tolist()
                end = int(ring.ends[slot])
                if end >= watermark and third >= heads[3] and first >= heads[1]:
                    found[key, int(ring.starts[slot]), end, third, first] += 1
        return found

    def check(self, watermark: int, heads: dict[int, int]) -> None:
        assert self.found(watermark, heads) == Counter(self.entries)
        if self.state.hash_index is not None:
            keys = np.arange(8)
            probing = Combos(np.arange(8).reshape(-1, 1), np.full(8, SMALLEST), np.full(8, LARGEST))
            room = 2 * len(self.state) + 1
            out = Combos(np.empty((room, 3), np.int64), np.empty(room, np.int64), np.empty(room, np.int64))
            cursor = new_cursor()
            assert self.state.hash_index.probe(self.state.ring(), keys, probing, out, cursor, Layout(0, 2))
            rows = out.rows[: cursor[COUNT]].tolist()
            got = Counter(
                (key, int(out.starts[at]), int(out.ends[at]), third, first)
                for at, (third, first, key) in enumerate(rows)
                if out.ends[at] >= watermark and third >= heads[3] and first >= heads[1]
            )
            assert got == Counter(self.entries)


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_living_are_found(seed: int, access: Access) -> None:
    rng = np.random.default_rng(seed)
    model = Model(access)
    heads, watermark, row = {3: 0, 1: 0, 0: 10**6}, 0, 0
    for step in range(150):
        size = int(rng.choice([0, 1, 10, 60]))
        keys = rng.integers(0, 8 if access is not Access.LOOP else 1, size).tolist()
        lives = rng.choice([1, 5, 40, 400], size).tolist()
        model.store(
            [(key, watermark, watermark + life, row + 1, row // 2) for key, life in zip(keys, lives, strict=True)]
        )
        row += int(rng.integers(0, 4))
        watermark += int(rng.integers(0, 5))
        if step % 10 == 9:
            heads = {3: max(heads[3], row - int(rng.integers(50, 200))), 1: heads[1], 0: 10**6}
        model.purge(watermark, heads)
        if step % 4 == 0:
            model.check(watermark, heads)
    model.purge(10**6, heads)
    assert len(model.state) == 0


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_state_in_place_of_another_has_nothing_of_it(width: int, access: Access) -> None:
    heads = {3: 0, 1: 0, **dict.fromkeys(range(10, 15), 0)}
    rng = np.random.default_rng(width)
    old = JoinState(tuple(range(10, 10 + width)), access)
    for _ in range(9):
        size = int(rng.integers(1, 90))
        rows = np.zeros((size, width), np.int64)
        old.store(Combos(rows, np.zeros(size, np.int64), np.full(size, 10**6)), rng.integers(0, 8, size))
        old.purge(0, heads)
    model = Model(access, JoinState.in_place_of(old, INPUTS))
    assert len(model.state) == 0 and model.state.capacity == old.capacity
    assert not model.state.missing
    model.check(0, heads)
    for step in range(40):
        key = 0 if access is Access.LOOP else step % 8
        model.store([(key, step, step + 30, step, step + at) for at in range(step)])
        model.purge(step, heads)
        model.check(step, heads)


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("long_share", [0.0, 0.1, 0.5])
def test_garbage_stays_in_proportion(long_share: float, access: Access) -> None:
    """Steady work with entries of very different lives: the long-lived stand in the way and have to be moved."""
    rng = np.random.default_rng(int(long_share * 10))
    model = Model(access)
    heads = {3: 0, 1: 0}
    worst = 0.0
    for now in range(1, 800):
        lives = np.where(rng.random(20) < long_share, 200, 3).tolist()
        key = now % 8 if access is not Access.LOOP else 0
        model.store([(key, now, now + life, now, now) for life in lives])
        model.purge(now, heads)
        if now > 300:
            live = len(model.entries)
            worst = max(worst, len(model.state) / (live + 100))
            assert len(model.state._starts) <= 16 * max(len(model.state), 64)
    model.check(800 - 1, heads)
    assert worst <= 3
    assert model.state.nbytes <= 16 * (len(model.state) + 64) * 8 * 12


def test_a_state_shrinks_after_a_burst() -> None:
    model = Model(Access.HASH)
    heads = {3: 0, 1: 0}
    model.store([(at % 8, 0, 10, at, at) for at in range(30_000)])
    full = model.state.nbytes
    for now in range(11, 60):
        model.store([(now % 8, now, now + 10, now, now)])
        model.purge(now, heads)
    assert model.state.nbytes < full / 10
    model.check(59, heads)


@pytest.mark.parametrize("access", list(Access))
def test_one_long_lived_entry_in_front_does_not_hold_the_dead(access: Access) -> None:
    model = Model(access)
    heads = {3: 0, 1: 0}
    model.store([(0, 0, 10**6, 0, 0)])
    for now in range(1, 500):
        model.store([(0, now, now + 2, now, now)] * 10)
        model.purge(now, heads)
        model.check(now, heads)
        assert len(model.state) < 3 * 31 + 100


@pytest.mark.parametrize("access", list(Access))
def test_renumbering_changes_rows_and_nothing_else(access: Access) -> None:
    rng = np.random.default_rng(4)
    model = Model(access)
    heads = {3: 0, 1: 0}
    model.store([(0, 0, 10, int(rng.integers(0, 50)), int(rng.integers(0, 50))) for _ in range(90)])
    kept = np.sort(np.unique([one[3] for one in model.entries]))
    first = 60 - len(kept)
    new = {int(old): first + at for at, old in enumerate(kept)}
    model.state.renumber(3, Renumbering(kept, first))
    model.state.renumber(2, Renumbering(kept, 0))
    model.entries = [(*one[:3], new[one[3]], one[4]) for one in model.entries]
    model.check(0, heads)


def test_entries_that_are_not_dead_are_never_moved_without_need() -> None:
    """While less than half of the ring is dead, the ring is left alone."""
    model = Model(Access.HASH)
    model.store([(1, 0, 5 if at % 4 == 3 else 50, at, at) for at in range(1000)])
    before = model.state.meter.bytes_moved
    model.purge(10, {3: 0, 1: 0})
    assert model.state.meter.bytes_moved == before and len(model.state) == 1000
    model.check(10, {3: 0, 1: 0})
