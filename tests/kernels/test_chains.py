"""The hash multimap over a ring: equal keys, nothing of what the ring forgot, and going on when a block is full."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from numba import njit

from midstream.kernels import boxes, chains, partners
from midstream.kernels.buckets import begin_chain, newest_entry
from midstream.kernels.types import COUNT, EARLIEST, EVICTED, LARGEST, NO_ID, ROW, VISITED, Chains, Combos, Ring

from .twins import (
    INT64S,
    Entries,
    Ints,
    drain,
    draw_combos,
    ints,
    layout_of,
    naive_bucket_hash,
    naive_join,
    new_cursor,
)


def new_chains(capacity: int, buckets: int, seed: int = 7) -> Chains:
    return Chains(np.full(buckets, NO_ID, np.int64), np.zeros((capacity, 4), np.int64), seed)


def insert_entries(entries: Entries, made: Chains, pieces: int = 1) -> Chains:
    """All entries, inserted in that many calls."""
    bounds = np.linspace(entries.head, entries.tail, pieces + 1).astype(int)
    for first, last in itertools.pairwise(bounds.tolist()):
        ids = range(first, last)
        columns = [ints(*(of[entry_id] for entry_id in ids)) for of in (entries.keys, entries.starts, entries.ends)]
        chains.insert(made, entries.head, first, *columns)
    return made


def keys_of(rng: np.random.Generator, size: int, keys: int) -> Ints:
    return rng.integers(0, keys + 2, size)


@pytest.mark.parametrize("buckets", [1, 2, 64])
@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_probe_is_the_naive_join(seed: int, width: int, buckets: int) -> None:
    rng = np.random.default_rng([seed, width, buckets])
    entries = Entries.draw(rng, int(rng.integers(1, 200)), int(rng.integers(0, 65)), width, keys=5)
    made = insert_entries(entries, new_chains(64, buckets, seed), pieces=1 + seed)
    combos = draw_combos(rng, 40, 2)
    keys = keys_of(rng, 40, 5)
    entry_first = bool(seed % 2)
    layout = layout_of(max(width, 1), 2, entry_first)
    head = entries.head + int(rng.integers(0, 10)) if entries.tail - entries.head > 10 else entries.head
    tail = max(entries.tail - int(rng.integers(0, 10)), head)
    ring = entries.ring(64, head, tail)
    wanted = naive_join(
        entries, head, tail, combos, lambda at, entry_id: int(keys[at]) == entries.keys[entry_id], entry_first
    )
    for capacity in (1, 2, 7, 10_000):
        found, calls = drain(
            lambda out, cursor: chains.probe(made, ring, keys, combos, out, cursor, layout),
            max(width, 1) + 2,
            capacity,
        )
        assert found == wanted
        assert calls >= len(wanted) / capacity


def test_a_block_that_is_full_after_every_match_loses_and_repeats_nothing() -> None:
    rng = np.random.default_rng(1)
    entries = Entries.draw(rng, 1, 60, 2, keys=1)
    made = insert_entries(entries, new_chains(64, 1))
    combos, keys = draw_combos(rng, 50, 1), np.zeros(50, np.int64)
    wanted = naive_join(entries, 1, 61, combos, lambda at, entry_id: True, True)
    assert len(wanted) > 500

    def step(out: object, cursor: Ints) -> bool:
        return bool(chains.probe(made, entries.ring(64), keys, combos, out, cursor, layout_of(2, 1, True)))

    found, calls = drain(step, 3, 1)
    assert found == wanted and calls >= len(wanted)
    assert drain(step, 3, 4, kept=3) == (found, calls)


def test_what_stands_in_the_block_stays() -> None:
    entries = Entries({1: 3}, {1: 0}, {1: 9}, None, 1, 2)
    made = insert_entries(entries, new_chains(64, 2))
    combos = draw_combos(np.random.default_rng(2), 1, 1)
    combos.starts[0], combos.ends[0] = 4, 5
    cursor = new_cursor()
    cursor[COUNT] = 2
    out = draw_combos(np.random.default_rng(3), 4, 2)
    before = out.rows[[0, 1, 3]].copy()
    assert chains.probe(made, entries.ring(64), ints(3), combos, out, cursor, layout_of(1, 1, True))
    assert cursor[COUNT] == 3 and cursor[ROW] == 1 and cursor[VISITED] == 1
    assert out.rows[2].tolist() == [1, int(combos.rows[0, 0])] and (out.starts[2], out.ends[2]) == (4, 5)
    assert (out.rows[[0, 1, 3]] == before).all()


def test_intervals_touch_at_their_ends_and_keys_may_be_any_int64() -> None:
    size = len(INT64S)
    ids = range(1, size + 1)
    entries = Entries(
        dict(zip(ids, INT64S, strict=True)), dict.fromkeys(ids, 10), dict.fromkeys(ids, 20), None, 1, size + 1
    )
    made = insert_entries(entries, new_chains(64, 4))
    for start, end, hits in [(0, 9, False), (0, 10, True), (20, 30, True), (21, 30, False), (12, 13, True)]:
        combos = draw_combos(np.random.default_rng(0), size, 1)
        combos.starts[:], combos.ends[:] = start, end
        found, _ = drain(
            lambda out, cursor, combos=combos: chains.probe(
                made, entries.ring(64), ints(*INT64S), combos, out, cursor, layout_of(1, 1, True)
            ),
            2,
            3,
        )
        assert [row[0] for row, _, _ in found] == (list(ids) if hits else [])


def test_a_ring_that_wraps_many_times_finds_only_what_it_holds() -> None:
    """Slots and buckets are reused; chains run into ids that have been overwritten long ago."""
    rng = np.random.default_rng(5)
    made = new_chains(16, 8)
    all_entries = Entries.draw(rng, 1, 400, 0, keys=4)
    head = tail = 1
    while tail < 401:
        size = min(int(rng.integers(1, 9)), 401 - tail)
        head = max(head, tail + size - 16)
        part = Entries(all_entries.keys, all_entries.starts, all_entries.ends, None, tail, tail + size)
        insert_entries(part, made)
        tail += size
        head = min(head + int(rng.integers(0, 4)), tail)
        held = Entries(all_entries.keys, all_entries.starts, all_entries.ends, None, head, tail)
        combos, keys = draw_combos(rng, 12, 1), keys_of(rng, 12, 4)
        wanted = naive_join(
            held, head, tail, combos, lambda at, entry_id, keys=keys: keys[at] == all_entries.keys[entry_id], True
        )
        ring = held.ring(16)

        def step(out: object, cursor: Ints, ring: Ring = ring, keys: Ints = keys, combos: object = combos) -> bool:
            return bool(chains.probe(made, ring, keys, combos, out, cursor, layout_of(1, 1, True)))

        assert drain(step, 2, 5)[0] == wanted
        found = np.empty(1000, np.int64)
        cursor = new_cursor()
        assert chains.find(made, head, ints(0, 1, 2, 3), found, cursor)
        assert sorted(found[: cursor[COUNT]].tolist()) == list(range(head, tail))


@pytest.mark.parametrize("room", [1, 3, 500])
@pytest.mark.parametrize("seed", range(4))
def test_find_names_every_id_of_every_key(seed: int, room: int) -> None:
    rng = np.random.default_rng([seed, room])
    entries = Entries.draw(rng, 90, 50, 0, keys=6)
    made = insert_entries(entries, new_chains(64, 4))
    keys = keys_of(rng, 9, 6)
    head = 90 + 5 * seed
    evicted = rng.choice(np.arange(90, 140), 12, replace=False)
    chains.end(made, evicted)
    living = [entry_id for entry_id in range(head, 140) if entry_id not in evicted]
    wanted = Counter(entry_id for key in keys.tolist() for entry_id in living if entries.keys[entry_id] == key)
    found: Counter[int] = Counter()
    out, cursor, done = np.empty(room, np.int64), new_cursor(), False
    while not done:
        done = chains.find(made, head, keys, out, cursor)
        assert done or cursor[COUNT] == room
        found.update(out[: cursor[COUNT]].tolist())
        cursor[COUNT] = 0
    assert found == wanted


@pytest.mark.parametrize("seed", range(4))
def test_a_probe_of_all_times_refuses_what_was_evicted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    entries = Entries.draw(rng, 90, 50, 2, keys=6)
    made = insert_entries(entries, new_chains(64, 32))
    evicted = rng.choice(np.arange(90, 140), 20, replace=False)
    chains.end(made, evicted)
    keys = keys_of(rng, 9, 6)
    combos = Combos(rng.integers(0, 9, (9, 1)), np.full(9, EARLIEST), np.full(9, LARGEST))
    staying = {entry_id: key for entry_id, key in entries.keys.items() if entry_id not in evicted}
    wanted = naive_join(entries, 90, 140, combos, lambda at, entry_id: staying.get(entry_id) == keys[at], True)
    found, _ = drain(
        lambda out, cursor: chains.probe(made, entries.ring(64), keys, combos, out, cursor, layout_of(2, 1, True)), 3, 7
    )
    assert found == wanted and wanted


@pytest.mark.parametrize("buckets", [1, 4, 256])
def test_relink_gives_what_inserting_gives(buckets: int) -> None:
    rng = np.random.default_rng(buckets)
    entries = Entries.draw(rng, 100, 60, 0, keys=7)
    inserted_anew = insert_entries(entries, new_chains(64, buckets))
    relinked = Chains(np.full(buckets, 12345, np.int64), inserted_anew.slots.copy(), inserted_anew.seed)
    relinked.slots[:, 3] = 12345
    chains.relink(relinked, 120, 160)
    chains.relink(inserted_anew, 120, 160)
    for key in range(7):
        out, cursor = np.empty(64, np.int64), new_cursor()
        assert chains.find(relinked, 120, ints(key), out, cursor)
        wanted = [entry_id for entry_id in range(159, 119, -1) if entries.keys[entry_id] == key]
        assert out[: cursor[COUNT]].tolist() == wanted
    assert (relinked.buckets == inserted_anew.buckets).all()
    chains.relink(relinked, 160, 160)
    assert (relinked.buckets == NO_ID).all()


@pytest.mark.parametrize("seed", range(4))
def test_marks_tell_which_keys_a_chain_may_have(seed: int) -> None:
    """As a naive twin that keeps the hashes of each chain: what has left counts until a whole chain has."""
    rng = np.random.default_rng(seed)
    made = new_chains(64, 16, seed)
    kept: dict[int, list[tuple[int, int]]] = {}  # by bucket, hashes with their ids
    for first in range(1, 300, 20):
        head = max(1, first - int(rng.integers(10, 45)))
        hashes = rng.integers(0, 2**32, 20)
        for entry_id, hashed in enumerate(hashes.tolist(), first):
            chain = kept.setdefault(hashed & 15, [])
            if not chain or chain[-1][1] < head:
                chain.clear()
            before = begin(made.buckets, hashed, entry_id, head)
            assert before == (chain[-1][1] if chain else before) and (chain or before < head)
            chain.append((hashed, entry_id))
        for hashed in (*hashes.tolist(), *rng.integers(0, 2**32, 50).tolist()):
            chain = kept.get(hashed & 15, [])
            may_be_there = any(hashed >> 28 == other >> 28 for other, _ in chain)
            assert newest(made.buckets, hashed) == (chain[-1][1] if may_be_there else NO_ID)


@njit
def begin(buckets, hashed, entry, head):  # type: ignore[no-untyped-def]
    return begin_chain(buckets, hashed, entry, head)


@njit
def newest(buckets, hashed):  # type: ignore[no-untyped-def]
    return newest_entry(buckets, hashed)


def test_probes_for_keys_that_are_not_there_look_at_few_slots() -> None:
    rng = np.random.default_rng(3)
    entries = Entries.draw(rng, 1, 1024, 0, keys=2**40)
    made = insert_entries(entries, new_chains(1024, 2048))
    combos, keys, cursor = draw_combos(rng, 4096, 1), rng.integers(2**41, 2**42, 4096), new_cursor()
    block = Combos(np.empty((8, 2), np.int64), np.empty(8, np.int64), np.empty(8, np.int64))
    assert chains.probe(made, entries.ring(1024), keys, combos, block, cursor, layout_of(1, 1, True))
    assert cursor[COUNT] == 0 and cursor[VISITED] < 4096 / 16, "half a slot a row without marks"


def test_keys_of_one_bucket_are_told_apart() -> None:
    """Keys that share a bucket of a larger table, not only of one with a single bucket."""
    colliding = [key for key in range(2000) if naive_bucket_hash(key, 7) & 63 == 17][:10]
    assert len(colliding) == 10
    ids = range(1, 11)
    entries = Entries(dict(zip(ids, colliding, strict=True)), dict.fromkeys(ids, 0), dict.fromkeys(ids, 1), None, 1, 11)
    made = insert_entries(entries, new_chains(16, 64))
    assert np.count_nonzero(made.buckets != NO_ID) == 1
    for entry_id, key in enumerate(colliding, 1):
        out, cursor = np.empty(4, np.int64), new_cursor()
        assert chains.find(made, 1, ints(key), out, cursor)
        assert out[: cursor[COUNT]].tolist() == [entry_id]


@pytest.mark.parametrize("seed", range(4))
def test_claim_takes_missing_rows_once(seed: int) -> None:
    """Of many rows of few keys, so that there are more than there are keys: those in the box, and they are taken."""
    rng = np.random.default_rng(seed)
    entries = Entries.draw(rng, 100, 60, 0, keys=3)
    made = insert_entries(entries, new_chains(64, 8))
    base, mark, head = 95 + 5 * seed, 150, 104
    filled = rng.choice(np.array([0, 0, 1, 2], np.uint8), mark - base)
    keys = ints(1, 1, 2, 7)
    wanted = [
        entry_id
        for entry_id in range(max(head, base), mark)
        if entries.keys[entry_id] in (1, 2) and filled[entry_id - base] == 0
    ]
    states, places = boxes.room_for(len(filled)), np.arange(len(filled))
    boxes.put(states, places, filled)
    claimed = chains.claim(made, head, keys, mark, states, base)
    found = claimed.rows[:, 0]
    assert sorted(found.tolist()) == wanted and len(wanted) > len(keys)
    assert claimed.starts.tolist() == [entries.starts[entry_id] for entry_id in found.tolist()]
    assert claimed.ends.tolist() == [entries.ends[entry_id] for entry_id in found.tolist()]
    after = boxes.states_of(states, places)
    assert [entry_id + base for entry_id in np.flatnonzero(after != filled).tolist()] == wanted
    assert (after[np.array(wanted) - base] == boxes.FILLING).all()
    assert len(chains.claim(made, head, keys, mark, states, base).rows) == 0


@pytest.mark.parametrize("width", [1, 3])
def test_store_writes_the_ring_and_inserts(width: int) -> None:
    """Entries of several calls, round the ring's end."""
    rng = np.random.default_rng(width)
    entries = Entries.draw(rng, 50, 60, width, keys=5)
    assert entries.members is not None
    wanted, made = entries.ring(64), new_chains(64, 16)
    ring = entries.ring(64)
    for array in ring[:3]:
        array[:] = -7
    for first, last in ((50, 61), (61, 61), (61, 110)):
        ids = range(first, last)
        rows = np.array([entries.members[entry_id] for entry_id in ids], np.int64).reshape(-1, width)
        starts, ends, keys = (
            ints(*(of[entry_id] for entry_id in ids)) for of in (entries.starts, entries.ends, entries.keys)
        )
        chains.store(made, ring._replace(tail=first), keys, Combos(rows, starts, ends))
    for array, other in zip(ring[:3], wanted[:3], strict=True):
        assert (array == other).all()
    twin = insert_entries(entries, new_chains(64, 16))
    assert (made.buckets == twin.buckets).all() and (made.slots == twin.slots).all()


@pytest.mark.parametrize("seed", range(4))
def test_partners_are_found_once_and_what_waits_for_them_wakes_once(seed: int) -> None:
    rng = np.random.default_rng([seed, 77])
    entries = Entries.draw(rng, int(rng.integers(1, 200)), 50, 0, keys=9)
    made = insert_entries(entries, new_chains(64, 2, seed))
    gone = rng.choice(np.arange(entries.head, entries.tail), 8, replace=False)
    chains.end(made, gone)
    head, combos, keys = entries.head + 5, draw_combos(rng, 25, 1), keys_of(rng, 25, 9)
    matches = {
        (at, entry_id)
        for at in range(25)
        for entry_id in range(head, entries.tail)
        if entry_id not in gone
        and entries.keys[entry_id] == keys[at]
        and entries.starts[entry_id] <= combos.ends[at]
        and entries.ends[entry_id] >= combos.starts[at]
    }
    found = np.arange(25) == 3
    partners.find_partners(made, head, keys, (combos.starts, combos.ends), found)
    assert set(np.flatnonzero(found).tolist()) == {at for at, _ in matches} | {3}
    counts = np.zeros(25, np.int64)
    partners.count_partners(made, head, keys, (combos.starts, combos.ends), np.arange(25), 1 << 20, counts)
    assert counts.tolist() == [sum(at == row for row, _ in matches) for at in range(25)]
    some = np.arange(1, 25, 3)
    counts = np.zeros(len(some), np.int64)
    partners.count_partners(made, head, keys, (combos.starts, combos.ends), some, 1 << 20, counts)
    assert counts.tolist() == [sum(at == row for row, _ in matches) for at in some]
    having, lacking = partners.split(made, head, keys, (combos.starts, combos.ends))
    assert having.tolist() == sorted({at for at, _ in matches})
    assert sorted([*having.tolist(), *lacking.tolist()]) == list(range(25)) and lacking.tolist() == sorted(lacking)
    reasons = rng.integers(0, 3, 64)
    before = reasons.copy()
    woken = partners.wake(made, head, keys, (combos.starts, combos.ends), reasons, 1)
    wanted = {entry_id for _, entry_id in matches if before[entry_id % 64] == 1}
    assert sorted(woken.tolist()) == sorted(wanted) and wanted
    assert {slot for slot in range(64) if reasons[slot] != before[slot]} == {entry_id % 64 for entry_id in wanted}


@pytest.mark.parametrize("seed", range(4))
def test_the_same_combination_is_found_unless_it_was_evicted_or_is_dead(seed: int) -> None:
    rng = np.random.default_rng([seed, 78])
    entries = Entries.draw(rng, int(rng.integers(1, 200)), 50, 2, keys=5)
    assert entries.members is not None
    entries.members = {entry_id: (row % 3, other % 3) for entry_id, (row, other) in entries.members.items()}
    made = insert_entries(entries, new_chains(64, 2, seed))
    gone = rng.choice(np.arange(entries.head, entries.tail), 25, replace=False)
    chains.end(made, gone)
    head, keys = entries.head + 5, keys_of(rng, 60, 5)
    combos = draw_combos(rng, 60, 2)._replace(rows=rng.integers(0, 3, (60, 2)))
    found = np.zeros(60, np.bool_)
    horizon = int(np.median(list(entries.ends.values())))
    chains.find_same(made, entries.ring(64, head), keys, combos.rows, horizon, found)
    wanted = [
        any(
            entries.keys[entry_id] == keys[at]
            and entries.members[entry_id] == tuple(combos.rows[at].tolist())
            and entries.ends[entry_id] >= horizon
            for entry_id in range(head, entries.tail)
            if entry_id not in gone
        )
        for at in range(60)
    ]
    assert found.tolist() == wanted and 0 < sum(wanted) < 60


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_what_matches_is_taken_once(seed: int, width: int) -> None:
    rng = np.random.default_rng([seed, 78])
    entries = Entries.draw(rng, int(rng.integers(1, 200)), 50, width, keys=9)
    made, ring = insert_entries(entries, new_chains(64, 2, seed)), entries.ring(64)
    combos, keys = draw_combos(rng, 25, 1), keys_of(rng, 25, 9)
    wanted = {
        entry_id
        for at in range(25)
        for entry_id in range(entries.head, entries.tail)
        if entries.keys[entry_id] == keys[at]
        and entries.starts[entry_id] <= combos.ends[at]
        and entries.ends[entry_id] >= combos.starts[at]
    }
    before = Combos(ring.members.copy(), ring.starts.copy(), ring.ends.copy())
    taken = partners.take(made, ring, keys, (combos.starts, combos.ends))
    slots = sorted(entry_id % 64 for entry_id in wanted)
    found = sorted(zip(taken.rows.tolist(), taken.starts.tolist(), taken.ends.tolist(), strict=True))
    assert found == sorted((before[0][slot].tolist(), before[1][slot], before[2][slot]) for slot in slots) and found
    assert np.flatnonzero(ring.ends != before.ends).tolist() == slots
    assert (made.slots[slots, 2] == EVICTED).all() and (ring.ends[slots] == EVICTED).all()
    assert len(partners.take(made, ring, keys, (combos.starts, combos.ends)).starts) == 0


def test_counting_partners_ends_after_the_row_that_makes_it_enough() -> None:
    entries = Entries.draw(np.random.default_rng(5), 1, 40, 0, keys=1)
    made = insert_entries(entries, new_chains(64, 2))
    keys, always = np.array([entries.keys[1]] * 3), (np.full(3, -(10**9)), np.full(3, 10**9))
    counts = np.zeros(3, np.int64)
    assert partners.count_partners(made, entries.head, keys, always, np.arange(3), 41, counts) == (2, 80, 80)
    assert partners.count_partners(made, entries.head, keys, always, np.arange(3), 0, counts) == (0, 0, 0)
    assert counts.tolist() == [40, 40, 0]
