"""A join state against the list of entries that live: exactly those are found, and the dead do not pile up."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from midstream.kernels import loops
from midstream.kernels.types import AFRESH, COUNT, EARLIEST, EVICTED, LARGEST, NEXT, ROW, Combos, Layout
from midstream.state.indexes import HashIndex, Ints, new_cursor
from midstream.state.join_state import Access, JoinState, Signature
from midstream.state.window import Renumbering

INPUTS = (3, 1)
Entry = tuple[int, int, int, int, int]  # key, start, end, row of input 3, row of input 1


def combos_of(entries: list[Entry]) -> tuple[Combos, Ints]:
    array = np.array(entries, np.int64).reshape(-1, 5)
    combos = Combos(np.ascontiguousarray(array[:, 3:]), array[:, 1].copy(), array[:, 2].copy())
    return combos, array[:, 0].copy()


WAY = ("key",)
OTHER_WAY = ("key from behind",)


class Model:
    """A state and the entries that live in it. With a second way, they are also found by 7 less the key."""

    def __init__(self, access: Access, state: JoinState | None = None, second: Access | None = None):
        self.ways = {WAY: access} if second is None else {WAY: access, OTHER_WAY: second}
        self.state = JoinState(INPUTS, self.ways) if state is None else state
        self.entries: list[Entry] = []

    def store(self, entries: list[Entry]) -> None:
        combos, keys = combos_of(entries)
        self.state.store(combos, {WAY: keys, OTHER_WAY: 7 - keys})
        self.entries += entries

    def purge(self, watermark: int, heads: dict[int, int]) -> None:
        self.state.purge(watermark, heads)
        self.entries = [
            entry for entry in self.entries if entry[2] >= watermark and entry[3] >= heads[3] and entry[4] >= heads[1]
        ]

    def evict(self, number: int, rows: list[int]) -> int:
        evicted = self.state.evict(number, np.array(rows, np.int64))
        column = 3 + INPUTS.index(number)
        self.entries = [entry for entry in self.entries if entry[column] not in rows]
        return evicted

    def found(self, way: Signature, watermark: int, heads: dict[int, int]) -> Counter[Entry]:
        """What lives in the ring, with the keys that lead there."""
        state, ring = self.state, self.state.ring()
        size = len(ring.starts)
        index = state.indexes.get(way)
        ids: dict[int, list[int]] = {}
        for key in range(8):
            wanted = np.array([key if way == WAY else 7 - key])
            if isinstance(index, HashIndex):
                ids[key] = index.find(ring.head, wanted).tolist()
            elif index is not None:
                ids[key] = index.find(ring, wanted, wanted).tolist()
        if index is None:
            ids[0] = list(range(ring.head, ring.tail))
        found: Counter[Entry] = Counter()
        for key, listed in ids.items():
            for at in listed:
                assert ring.head <= at < ring.tail
                slot = at & (size - 1)
                third, first = ring.members[slot].tolist()
                end = int(ring.ends[slot])
                if end >= watermark and end != EVICTED and third >= heads[3] and first >= heads[1]:
                    found[key, int(ring.starts[slot]), end, third, first] += 1
        return found

    def check(self, watermark: int, heads: dict[int, int]) -> None:
        assert set(self.state.indexes) == {way for way, access in self.ways.items() if access is not Access.LOOP}
        for way, access in self.ways.items():
            assert self.found(way, watermark, heads) == Counter(self.entries)
            self._check_probe(way, access, watermark, heads)
        entries = self.state.entries((1, 3))
        alive = (entries.ends >= watermark) & (entries.rows >= [heads[1], heads[3]]).all(axis=1)
        listed = Counter(zip(entries.starts[alive].tolist(), *entries.rows[alive].T.tolist(), strict=True))
        assert listed == Counter((start, first, third) for _, start, _, third, first in self.entries)
        assert len(self.state) == len(entries.starts)

    def _check_probe(self, way: Signature, access: Access, watermark: int, heads: dict[int, int]) -> None:
        """Probes of all times, one for each key, find the living and nothing evicted."""
        keys = np.arange(8) if way == WAY else 7 - np.arange(8)
        probing = Combos(np.arange(8).reshape(-1, 1), np.full(8, EARLIEST), np.full(8, LARGEST))
        room = 8 * (self.state.ring().tail - self.state.ring().head) + 1
        out = Combos(np.empty((room, 3), np.int64), np.empty(room, np.int64), np.empty(room, np.int64))
        ring, index, cursor = self.state.ring(), self.state.indexes.get(way), new_cursor()
        if isinstance(index, HashIndex):
            assert index.probe(ring, keys, probing, out, cursor, Layout(0, 2))
        elif index is not None:
            for run in range(index.run_count):
                cursor[ROW], cursor[NEXT] = 0, AFRESH
                assert index.probe(run, ring, (keys, keys), probing, out, cursor, Layout(0, 2))
        else:
            only = Combos(*(array[:1] for array in probing))
            assert loops.probe(ring, only, out, cursor, Layout(0, 2))
        got = Counter(
            (key, int(out.starts[at]), int(out.ends[at]), third, first)
            for at, (third, first, key) in enumerate(out.rows[: cursor[COUNT]].tolist())
            if out.ends[at] >= watermark and third >= heads[3] and first >= heads[1]
        )
        assert got == Counter(self.entries)


#: Loops alone find entries whatever their key is.
PAIRS = [(access, None) for access in Access] + [(Access.HASH, Access.SORTED), (Access.HASH, Access.HASH)]


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize(("access", "second"), PAIRS)
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_living_are_found(seed: int, access: Access, second: Access | None, evicts: bool) -> None:
    rng = np.random.default_rng([seed, evicts])
    model = Model(access, second=second)
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
        if evicts and rng.random() < 0.3:
            before, number = len(model.state), int(rng.choice(INPUTS))
            newest = row if number == 3 else row // 2
            evicted = model.evict(number, rng.integers(newest - 60, newest + 2, int(rng.integers(0, 30))).tolist())
            assert len(model.state) == before - evicted
        if step % 4 == 0:
            model.check(watermark, heads)
    model.purge(10**6, heads)
    assert len(model.state) == 0


@pytest.mark.parametrize("access", [Access.HASH, Access.SORTED])
@pytest.mark.parametrize("first", list(Access))
@pytest.mark.parametrize("evicts", [False, True])
def test_an_index_is_added_to_entries_that_are_there(evicts: bool, first: Access, access: Access) -> None:
    rng, heads = np.random.default_rng(7), {3: 0, 1: 0}
    model = Model(first)
    model.store([(0, 0, 10, at, at % 9) for at in range(200)])
    if evicts:
        assert model.evict(1, [2, 5]) > 0
    keys = rng.integers(0, 8, len(model.entries))
    model.state.add_index(OTHER_WAY, access, 7 - keys)
    model.state.keep_indexes([OTHER_WAY])
    model.entries = [(key, *entry[1:]) for key, entry in zip(keys.tolist(), model.entries, strict=True)]
    model.ways = {OTHER_WAY: access}
    model.check(0, heads)
    model.store([(at % 8, 5, 20, 200 + at, at) for at in range(100)])
    model.evict(3, list(range(150, 220)))
    model.purge(0, heads)
    model.check(0, heads)
    model.purge(11, heads)
    model.check(11, heads)


@pytest.mark.parametrize("access", list(Access))
def test_a_quarter_evicted_is_collected_and_its_memory_given_back(access: Access) -> None:
    model, heads = Model(access), {3: 0, 1: 0}
    model.store([(0, 0, 10, at, at % 100) for at in range(20_000)])
    full = model.state.nbytes
    assert model.evict(1, list(range(24))) == 4_800
    assert model.evict(1, list(range(24))) == 0, "what is gone is not evicted again"
    model.state.purge(int(EVICTED), heads)
    assert model.state.nbytes == full, "not a quarter yet"
    assert len(model.state) == 15_200
    model.evict(1, list(range(90)))
    model.state.purge(int(EVICTED), heads)
    ring = model.state.ring()
    assert ring.tail - ring.head == len(model.state) == 2_000
    assert model.state.nbytes < full / 4
    model.check(0, heads)


def test_evicted_entries_that_leave_at_the_head_are_not_counted_any_more() -> None:
    model, heads = Model(Access.HASH), {3: 0, 1: 0}
    model.store([(0, 0, 5 if at < 500 else 50, at, at) for at in range(1000)])
    model.evict(3, list(range(100)))
    assert len(model.state) == 900
    model.purge(10, heads)
    assert len(model.state) == 500 and model.state._evicted == 0
    model.check(10, heads)


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_state_in_place_of_another_has_nothing_of_it(width: int, access: Access) -> None:
    heads = {3: 0, 1: 0, **dict.fromkeys(range(10, 15), 0)}
    rng = np.random.default_rng(width)
    old = JoinState(tuple(range(10, 10 + width)), {WAY: access})
    for _ in range(9):
        size = int(rng.integers(1, 90))
        rows = np.zeros((size, width), np.int64)
        old.store(Combos(rows, np.zeros(size, np.int64), np.full(size, 10**6)), {WAY: rng.integers(0, 8, size)})
        old.purge(0, heads)
    model = Model(access, JoinState.in_place_of(old, INPUTS, {WAY: access}))
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
    kept = np.sort(np.unique([entry[3] for entry in model.entries]))
    first = 60 - len(kept)
    new = {int(old): first + at for at, old in enumerate(kept)}
    model.state.renumber(3, Renumbering(kept, first))
    model.state.renumber(2, Renumbering(kept, 0))
    model.entries = [(*entry[:3], new[entry[3]], entry[4]) for entry in model.entries]
    model.check(0, heads)


def test_entries_that_are_not_dead_are_never_moved_without_need() -> None:
    """While less than half of the ring is dead, the ring is left alone."""
    model = Model(Access.HASH)
    model.store([(1, 0, 5 if at % 4 == 3 else 50, at, at) for at in range(1000)])
    before = model.state.meter.bytes_moved
    model.purge(10, {3: 0, 1: 0})
    assert model.state.meter.bytes_moved == before and len(model.state) == 1000
    model.check(10, {3: 0, 1: 0})
