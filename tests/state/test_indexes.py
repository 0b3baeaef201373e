"""Both indexes against a dictionary of what the ring holds, while it grows, forgets and is resized."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from midstream.kernels.types import COUNT, LARGEST, SMALLEST, Combos, Layout, Ring
from midstream.state import indexes
from midstream.state.indexes import HashIndex, Ints, SortedIndex, new_cursor
from midstream.state.rings import SMALLEST_CAPACITY, capacity_for


class Feed:
    """Keys that come and go by id; `capacity` is that of the ring."""

    def __init__(self, seed: int, keys: int):
        self.rng = np.random.default_rng([seed, keys])
        self.keys: dict[int, int] = {}
        self.head = self.tail = 1
        self.capacity = SMALLEST_CAPACITY
        self._spread = keys

    def draw(self, size: int) -> Ints:
        keys = self.rng.integers(0, self._spread, size)
        self.keys.update(enumerate(keys.tolist(), self.tail))
        return keys

    def forget(self, size: int) -> None:
        for row_id in range(self.head, self.head + size):
            del self.keys[row_id]
        self.head += size

    def ring(self) -> Ring:
        zeros = np.zeros(self.capacity, np.int64)
        return Ring(zeros, zeros, np.empty((0, 1), np.int64), self.head, self.tail)

    def __len__(self) -> int:
        return self.tail - self.head


def always(size: int) -> tuple[Ints, Ints]:
    return np.zeros(size, np.int64), np.zeros(size, np.int64)


def make_combos(size: int) -> Combos:
    return Combos(np.arange(size).reshape(-1, 1), *always(size))


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("expected", [0, 500])
@pytest.mark.parametrize("keys", [1, 10, 10_000])
def test_the_hash_index_is_a_dictionary(
    keys: int, expected: int, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with chains that buckets share after a resize, and with reserve to grow in place."""
    monkeypatch.setattr(indexes, "_SHARED_FROM", SMALLEST_CAPACITY if is_shared else 1 << 40)
    feed, index = Feed(expected + is_shared, keys), HashIndex(SMALLEST_CAPACITY, expected)
    for _ in range(80):
        size = int(feed.rng.choice([0, 1, 7, 60]))
        if len(feed) + size > feed.capacity or feed.rng.random() < 0.1:
            feed.capacity = capacity_for((len(feed) + size) * int(feed.rng.integers(1, 3)) + 1)
            index.resize(feed.head, feed.tail, feed.capacity)
        index.insert(feed.tail, feed.draw(size), *always(size))
        feed.tail += size
        wanted_keys = feed.rng.integers(-1, keys + 1, 8)
        found = index.find(feed.head, wanted_keys)
        assert Counter(found.tolist()) == Counter(
            row_id for key in wanted_keys.tolist() for row_id, held in feed.keys.items() if held == key
        )
        out = Combos(np.empty((40_000, 2), np.int64), np.empty(40_000, np.int64), np.empty(40_000, np.int64))
        cursor = new_cursor()
        assert index.probe(feed.ring(), wanted_keys, make_combos(8), out, cursor, Layout(0, 1))
        pairs = Counter(map(tuple, out.rows[: cursor[COUNT]].tolist()))
        assert pairs == Counter(
            (row_id, at)
            for at, key in enumerate(wanted_keys.tolist())
            for row_id, held in feed.keys.items()
            if held == key
        )
        feed.forget(int(feed.rng.integers(0, len(feed) + 1)) if feed.rng.random() < 0.5 else 0)
    assert index.nbytes == feed.capacity * (2 * 8 + 4 * 8)


@pytest.mark.parametrize("keys", [1, 10, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_the_sorted_index_is_a_list(seed: int, keys: int) -> None:
    feed, index = Feed(seed, keys), SortedIndex(SMALLEST_CAPACITY)
    feed.capacity = 4096
    for _ in range(80):
        size = int(feed.rng.choice([0, 1, 7, 60]))
        index.insert(feed.tail, feed.draw(size), *always(size))
        feed.tail += size
        lows = feed.rng.integers(-1, keys + 1, 5)
        highs = lows + feed.rng.integers(-1, keys, 5)
        wanted = [
            (row_id, at)
            for at, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
            for row_id, held in feed.keys.items()
            if low <= held <= high
        ]
        assert sorted(index.find(feed.ring(), lows, highs).tolist()) == sorted({row_id for row_id, _ in wanted})
        pairs: Counter[tuple[int, ...]] = Counter()
        for run in range(index.run_count):
            out = Combos(np.empty((30_000, 2), np.int64), np.empty(30_000, np.int64), np.empty(30_000, np.int64))
            cursor = new_cursor()
            assert index.probe(run, feed.ring(), (lows, highs), make_combos(5), out, cursor, Layout(0, 1))
            pairs.update(map(tuple, out.rows[: cursor[COUNT]].tolist()))
        assert pairs == Counter(wanted)
        feed.forget(int(feed.rng.integers(0, len(feed) + 1)) if feed.rng.random() < 0.4 else 0)
        index.forget(feed.head, feed.tail)


@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize("held", [0, 1, 50, 1000])
def test_runs_stay_few_and_small(batch: int, held: int) -> None:
    """A steady stream over a window of `held` rows: logarithmically many runs, bytes in proportion to what is live."""
    rng = np.random.default_rng([batch, held])
    index = SortedIndex(SMALLEST_CAPACITY)
    tail = 0
    for _ in range(600):
        index.insert(tail, rng.integers(0, 100, batch), *always(batch))
        tail += batch
        head = max(tail - held, 0)
        index.forget(head, tail)
        live = tail - head
        assert index.run_count <= 2 + max(live + batch, SMALLEST_CAPACITY).bit_length()
        assert index.nbytes <= 16 * (2 * live + SMALLEST_CAPACITY)
    zeros = np.zeros(capacity_for(tail - head), np.int64)
    ring = Ring(zeros, zeros, np.empty((0, 1), np.int64), head, tail)
    found = index.find(ring, np.array([SMALLEST]), np.array([LARGEST]))
    assert sorted(found.tolist()) == list(range(head, tail))


def test_runs_stay_few_when_nothing_is_forgotten() -> None:
    index = SortedIndex(SMALLEST_CAPACITY)
    for row_id in range(3000):
        index.insert(row_id, np.array([row_id % 7]), *always(1))
        assert index.run_count <= (row_id + 1).bit_length()
    assert index.nbytes == 16 * 3000


def test_an_index_that_forgets_everything_is_empty() -> None:
    index = SortedIndex(SMALLEST_CAPACITY)
    index.insert(0, np.arange(500), *always(500))
    index.insert(500, np.arange(10), *always(10))
    index.forget(510, 510)
    assert index.run_count == 0 and index.nbytes == 0
    index.insert(510, np.array([3]), *always(1))
    zeros = np.zeros(SMALLEST_CAPACITY, np.int64)
    ring = Ring(zeros, zeros, np.empty((0, 1), np.int64), 510, 511)
    assert index.find(ring, np.array([3]), np.array([3])).tolist() == [510]
