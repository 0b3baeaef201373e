"""Rings: gathering, finding the living, collecting the dead, and numbering."""

from __future__ import annotations

import numpy as np
import pytest

from midstream.kernels import rings
from midstream.kernels.types import EARLIEST, EVICTED, LARGEST, Ring

from .twins import Ints, ints

Entry = tuple[int, int, int, tuple[int, ...]]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int64])
def test_gather(dtype: type) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 255, 64).astype(dtype)
    rows = rng.integers(0, 100_000, (50, 3))
    out = np.empty(50, dtype)
    rings.gather(values, rows, 1, out)
    assert out.tolist() == [values[row_id % 64] for row_id in rows[:, 1].tolist()]


def test_gather_pairs() -> None:
    rng = np.random.default_rng(2)
    values, rows = rng.integers(-9, 9, (16, 2)), rng.integers(0, 1000, (40, 2))
    out = np.empty((40, 2), np.int64)
    rings.gather_pairs(values, rows, 1, out)
    assert out.tolist() == [values[row_id % 16].tolist() for row_id in rows[:, 1].tolist()]


def test_gather_byte_strings() -> None:
    rng = np.random.default_rng(3)
    strings = [bytes(rng.integers(0, 256, size, np.uint8)) for size in (0, 3, 1, 0, 17, 5, 0, 8)]
    heap = np.frombuffer(b"".join(strings).ljust(64, b"\0"), np.uint8).copy()
    lengths = ints(*map(len, strings))
    offsets = 640 + np.cumsum(lengths) - lengths
    rows = rng.integers(0, 999, (30, 2))
    out_offsets = np.empty(31, np.int64)
    total = rings.gather_offsets(lengths, rows, 0, out_offsets)
    out = np.full(total + 1, 7, np.uint8)
    rings.gather_bytes(offsets, heap, rows, 0, out_offsets, out)
    wanted = [strings[row_id % 8] for row_id in rows[:, 0].tolist()]
    assert out_offsets.tolist() == np.cumsum([0, *map(len, wanted)]).tolist()
    assert out[:total].tobytes() == b"".join(wanted) and out[total] == 7


@pytest.mark.parametrize("seed", range(8))
def test_the_living(seed: int) -> None:
    rng = np.random.default_rng(seed)
    head = int(rng.integers(0, 500))
    tail = head + int(rng.integers(0, 65))
    ends = rng.integers(0, 10, 64)
    for watermark in (-1, 0, 1, 4, 9, 10):
        living = [row_id for row_id in range(head, tail) if ends[row_id % 64] >= watermark]
        assert rings.alive(ends, head, tail, watermark).tolist() == living
        assert rings.first_alive(ends, head, tail, watermark) == (living[0] if living else tail)


def draw_ring(rng: np.random.Generator, capacity: int, size: int) -> tuple[Ring, Ints]:
    head = int(rng.integers(0, 300))
    ends = np.where(rng.random(capacity) < 0.2, EVICTED, rng.integers(0, 10, capacity))
    ring = Ring(
        rng.integers(0, 10, capacity),
        ends,
        rng.integers(0, 10, (capacity, 2)),
        head,
        head + size,
    )
    return ring, rng.integers(0, 99, capacity)


def entry(ring: Ring, keys: Ints, entry_id: int) -> Entry:
    slot = entry_id % len(keys)
    return int(keys[slot]), int(ring.starts[slot]), int(ring.ends[slot]), tuple(ring.members[slot].tolist())


def is_dead(found: Entry, watermark: int, floors: Ints) -> bool:
    return found[2] < watermark or any(member < floor for member, floor in zip(found[3], floors, strict=False))


@pytest.mark.parametrize("least_dead", [0, 9, 17, 33])
@pytest.mark.parametrize("budget", [0, 1, 5, 1000])
@pytest.mark.parametrize("size", [1, 30, 63, 64])
@pytest.mark.parametrize("seed", range(3))
def test_collect_forgets_the_dead_and_moves_the_living(seed: int, size: int, budget: int, least_dead: int) -> None:
    rng = np.random.default_rng([seed, size, budget])
    ring, keys = draw_ring(rng, 64, size)
    watermark, floors = int(rng.integers(0, 8)), rng.integers(0, 4, 2)
    before = [entry(ring, keys, entry_id) for entry_id in range(ring.head, ring.tail)]
    sampled = [before[(i * size + ring.tail % size) // 32] for i in range(32)]
    may_move = budget if sum(is_dead(found, watermark, floors) for found in sampled) >= least_dead else 0
    gone, moved = 0, []
    for found in before:
        if not is_dead(found, watermark, floors):
            if len(moved) == may_move:
                break
            moved.append(found)
        gone += 1
    head, evicted, from_ids = rings.collect(ring, watermark, floors, 32, least_dead, budget)
    assert (head, len(from_ids)) == (ring.head + gone, len(moved))
    assert evicted == sum(found[2] == EVICTED for found in before[:gone])
    assert [before[entry_id - ring.head] for entry_id in from_ids.tolist()] == moved
    tail = ring.tail + len(moved)
    keys[np.arange(ring.tail, tail) % 64] = keys[from_ids % 64]
    assert [entry(ring, keys, entry_id) for entry_id in range(head, tail)] == before[gone:] + moved


@pytest.mark.parametrize("size", [0, 1, 30, 64])
@pytest.mark.parametrize("seed", range(4))
def test_evicted_entries_are_ended_once(seed: int, size: int) -> None:
    rng = np.random.default_rng([seed, size])
    ring, keys = draw_ring(rng, 64, size)
    rows, column, base = set(rng.integers(0, 12, 5).tolist()), int(rng.integers(0, 2)), 1
    chosen = np.array([base + place in rows for place in range(9)])
    for _ in range(2):
        before = {entry_id: entry(ring, keys, entry_id) for entry_id in range(ring.head, ring.tail)}
        wanted = [
            entry_id
            for entry_id, (_, _, end, members) in before.items()
            if end != EVICTED and members[column] in rows & set(range(1, 10))
        ]
        assert rings.find_rows(ring, column, chosen, base).tolist() == wanted
        assert rings.evict(ring, column, chosen, base).tolist() == wanted
        for entry_id, (key, start, end, members) in before.items():
            assert entry(ring, keys, entry_id) == (key, start, EVICTED if entry_id in wanted else end, members)
    assert not wanted, "the second time there is nothing left"


@pytest.mark.parametrize("seed", range(6))
def test_living_entries_are_neither_ended_nor_below_a_floor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ring, keys = draw_ring(rng, 64, 10 * seed)
    for watermark, floors in ((EARLIEST, np.zeros(0, np.int64)), (4, ints(2, 3))):
        wanted = [
            entry_id
            for entry_id in range(ring.head, ring.tail)
            if not is_dead(entry(ring, keys, entry_id), watermark, floors)
        ]
        assert rings.living(ring, watermark, floors).tolist() == wanted


@pytest.mark.parametrize("size", [1, 5, 32, 64])
def test_samples_are_spread_over_the_ring(size: int) -> None:
    rng = np.random.default_rng(size)
    ring, keys = draw_ring(rng, 64, size)
    floors = ints(2, 3)
    for offset in (0, 1, size, 12345):
        places = [ring.head + (i * size + offset % size) // 32 for i in range(32)]
        assert ring.head <= places[0] and places[-1] < ring.tail
        wanted = sum(is_dead(entry(ring, keys, entry_id), 5, floors) for entry_id in places)
        assert rings.dead_of_sample(ring, 5, floors, 32, offset) == wanted
    assert rings.dead_of_sample(ring, 11, floors, 32, 0) == 32
    evicted = sum(ring.ends[(ring.head + i * size // 32) % 64] == EVICTED for i in range(32))
    assert rings.dead_of_sample(ring, 0, ints(0, 0), 32, 0) == evicted


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_rows_leave_when_their_nth_successor_comes(seed: int, size: int) -> None:
    """Rows come in pushes, some of them filtered out: those still count."""
    rng = np.random.default_rng([seed, size])
    ordinals, ends = np.empty(64, np.int64), np.full(64, LARGEST)
    stream: list[int] = []
    kept: list[int] = []
    entry_at, head, arrival = 100, 100, 0
    while len(kept) < 200:
        count = int(rng.integers(0, 6))
        gaps = rng.integers(1, 4, count)
        arrivals = arrival + np.cumsum(gaps)
        arrival = int(arrivals[-1]) if count else arrival
        keeps = rng.random(count) < 0.7
        first = len(stream)
        for at in range(count):
            if keeps[at]:
                slot = (100 + len(kept)) % 64
                ordinals[slot], ends[slot] = first + at, LARGEST
                kept.append(first + at)
        stream += arrivals.tolist()
        tail = 100 + len(kept)
        entry_at = rings.close_rows(ordinals, ends, (entry_at, tail), size, first, arrivals)
        closed = [place for place in kept if place + size < len(stream)]
        assert entry_at == 100 + len(closed)
        for row_id in range(head, tail):
            ordinal = kept[row_id - 100]
            wanted = stream[ordinal + size] - 1 if ordinal + size < len(stream) else LARGEST
            assert ends[row_id % 64] == wanted
        head = entry_at
