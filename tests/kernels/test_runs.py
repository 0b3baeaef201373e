"""Sorted runs: merging, ranges of values, and sums held at the ends of int64. Nested loops come along."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from midstream.kernels import loops, runs
from midstream.kernels.types import COUNT, EVICTED, LARGEST, SMALLEST, VISITED, Combos

from .twins import INT64S, Entries, Ints, drain, draw_combos, ints, layout_of, naive_join, new_cursor


def run_of(entries: Entries, ids: list[int]) -> tuple[Ints, Ints]:
    ordered = sorted(ids, key=lambda entry_id: (entries.keys[entry_id], entry_id))
    return ints(*(entries.keys[entry_id] for entry_id in ordered)), ints(*ordered)


def clamp(value: int) -> int:
    return max(min(value, int(LARGEST)), int(SMALLEST))


@pytest.mark.parametrize("seed", range(12))
def test_merge_sorts_and_leaves_out_what_is_forgotten(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = []
    first = 10
    for size in rng.integers(0, 20, 2).tolist():
        values = np.sort(rng.integers(0, 8, size) if seed % 2 else rng.choice(ints(*INT64S), size))
        sides.append((values, rng.permutation(np.arange(first, first + size))))
        first += size
    head = int(rng.integers(5, first + 2))
    values, ids = runs.merge(*sides[0], *sides[1], head)
    pairs = [(v, entry_id) for side in sides for v, entry_id in zip(*(array.tolist() for array in side), strict=True)]
    assert Counter(zip(values.tolist(), ids.tolist(), strict=True)) == Counter(p for p in pairs if p[1] >= head)
    assert (values[1:] >= values[:-1]).all()


@pytest.mark.parametrize("width", [0, 2])
@pytest.mark.parametrize("seed", range(6))
def test_probe_is_the_naive_join(seed: int, width: int) -> None:
    rng = np.random.default_rng([seed, width])
    entries = Entries.draw(rng, 130, 60, width, keys=20)
    in_run = sorted(rng.choice(np.arange(130, 190), 45, replace=False).tolist())
    run = run_of(entries, in_run)
    head, tail = 130 + int(rng.integers(0, 12)), 190 - int(rng.integers(0, 12))
    combos = draw_combos(rng, 30, 2)
    lows = rng.integers(-2, 22, 30)
    highs = lows + rng.integers(-3, 6, 30)
    entry_first = bool(seed % 2)
    layout = layout_of(max(width, 1), 2, entry_first)
    wanted = naive_join(
        entries,
        head,
        tail,
        combos,
        lambda at, entry_id: entry_id in in_run and lows[at] <= entries.keys[entry_id] <= highs[at],
        entry_first,
    )
    assert wanted
    ring = entries.ring(64, head, tail)
    for capacity in (1, 3, 5000):
        found, _ = drain(
            lambda out, cursor: runs.probe(run, ring, (lows, highs), combos, out, cursor, layout),
            max(width, 1) + 2,
            capacity,
        )
        assert found == wanted


@pytest.mark.parametrize("room", [1, 4, 500])
@pytest.mark.parametrize("seed", range(4))
def test_find_names_every_id_in_every_range(seed: int, room: int) -> None:
    rng = np.random.default_rng([seed, room])
    entries = Entries.draw(rng, 40, 50, 0, keys=15)
    run = run_of(entries, list(range(40, 90)))
    lows = rng.integers(-2, 16, 8)
    highs = lows + rng.integers(-2, 8, 8)
    head = 40 + 4 * seed
    wanted = Counter(
        entry_id
        for low, high in zip(lows, highs, strict=True)
        for entry_id in range(head, 90)
        if low <= entries.keys[entry_id] <= high
    )
    evicted = rng.choice(np.arange(40, 90), 9, replace=False)
    ring = entries.ring(64, head)
    ring.ends[evicted % 64] = EVICTED
    wanted = Counter({entry_id: times for entry_id, times in wanted.items() if entry_id not in evicted})
    found: Counter[int] = Counter()
    out, cursor, done = np.empty(room, np.int64), new_cursor(), False
    while not done:
        done = runs.find(run, ring, lows, highs, out, cursor)
        assert done or cursor[COUNT] == room
        found.update(out[: cursor[COUNT]].tolist())
        cursor[COUNT] = 0
    assert found == wanted


def test_ranges_reach_the_ends_of_int64() -> None:
    run = ints(*INT64S), np.arange(len(INT64S))
    ring = Entries.draw(np.random.default_rng(0), 0, 16, 0, keys=1).ring(16)
    for low in INT64S:
        for high in INT64S:
            out, cursor = np.empty(20, np.int64), new_cursor()
            assert runs.find(run, ring, ints(low), ints(high), out, cursor)
            assert out[: cursor[COUNT]].tolist() == [at for at, value in enumerate(INT64S) if low <= value <= high]


def test_an_empty_run_has_nothing() -> None:
    nothing = np.empty(0, np.int64)
    out, cursor = np.empty(2, np.int64), new_cursor()
    ring = Entries.draw(np.random.default_rng(0), 0, 16, 0, keys=1).ring(16)
    assert runs.find((nothing, nothing), ring, ints(SMALLEST), ints(LARGEST), out, cursor)
    assert cursor[COUNT] == 0
    assert [array.size for array in runs.merge(nothing, nothing, nothing, nothing, 0)] == [0, 0]


@pytest.mark.parametrize("amount", INT64S)
def test_shifts_are_held_at_the_ends(amount: int) -> None:
    rng = np.random.default_rng(7)
    values = np.concatenate([ints(*INT64S), rng.integers(SMALLEST, LARGEST, 200, endpoint=True)])
    out = np.empty(len(values), np.int64)
    for is_low in (True, False):
        empty = runs.shift(values, amount, is_low, out)
        assert out.tolist() == [clamp(value + amount) for value in values.tolist()]
        beyond = [value + amount > LARGEST if is_low else value + amount < SMALLEST for value in values.tolist()]
        assert empty.tolist() == beyond, "a bound beyond all values leaves nothing to find"


@pytest.mark.parametrize("width", [0, 2])
@pytest.mark.parametrize("seed", range(5))
def test_loops_join_with_everything(seed: int, width: int) -> None:
    rng = np.random.default_rng([seed, width])
    entries = Entries.draw(rng, 50, int(rng.integers(0, 40)), width, keys=1)
    ring = entries.ring(64)
    combos = draw_combos(rng, 15, 1)
    entry_first = bool(seed % 2)
    layout = layout_of(max(width, 1), 1, entry_first)
    wanted = naive_join(entries, entries.head, entries.tail, combos, lambda at, entry_id: True, entry_first)
    for capacity in (1, 4, 5000):
        visited = []

        def probe(out: Combos, cursor: Ints, visited: list[int] = visited) -> bool:
            is_done = bool(loops.probe(ring, combos, out, cursor, layout))
            visited.append(int(cursor[VISITED]))
            return is_done

        found, _ = drain(probe, max(width, 1) + 1, capacity)
        assert found == wanted
        pairs = len(combos.starts) * (entries.tail - entries.head)
        assert visited[-1] == pairs, "every pair once, however often it goes on"


def test_nobody_probes_with_nothing() -> None:
    entries = Entries.draw(np.random.default_rng(0), 0, 10, 0, keys=1)
    nothing = Combos(np.empty((0, 1), np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    found, calls = drain(
        lambda out, cursor: loops.probe(entries.ring(64), nothing, out, cursor, layout_of(1, 1, True)), 2, 1
    )
    assert (found, calls) == ([], 1)


@pytest.mark.parametrize("seed", range(4))
def test_partners_are_found_once_and_what_waits_for_them_wakes_once(seed: int) -> None:
    rng = np.random.default_rng([seed, 78])
    entries = Entries.draw(rng, 130, 60, 0, keys=20)
    in_run = sorted(rng.choice(np.arange(130, 190), 45, replace=False).tolist())
    run, ring = run_of(entries, in_run), entries.ring(64, 136)
    gone = rng.choice(in_run, 8, replace=False)
    ring.ends[gone % 64] = EVICTED
    combos, lows = draw_combos(rng, 25, 1), rng.integers(-2, 22, 25)
    highs = lows + rng.integers(-3, 4, 25)
    matches = {
        (at, entry_id)
        for at in range(25)
        for entry_id in set(in_run) - set(gone.tolist())
        if entry_id >= 136
        and lows[at] <= entries.keys[entry_id] <= highs[at]
        and entries.starts[entry_id] <= combos.ends[at]
        and entries.ends[entry_id] >= combos.starts[at]
    }
    found = np.arange(25) == 3
    runs.find_partners(run, ring, (lows, highs), (combos.starts, combos.ends), found)
    assert set(np.flatnonzero(found).tolist()) == {at for at, _ in matches} | {3}
    reasons = rng.integers(0, 3, 64)
    before = reasons.copy()
    woken = runs.wake(run, ring, (lows, highs), (combos.starts, combos.ends), reasons, 1)
    wanted = {entry_id for _, entry_id in matches if before[entry_id % 64] == 1}
    assert sorted(woken.tolist()) == sorted(wanted) and wanted
    assert {slot for slot in range(64) if reasons[slot] != before[slot]} == {entry_id % 64 for entry_id in wanted}
