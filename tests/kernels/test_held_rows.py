"""Sets of rows in kernels, against plain Python: bitmaps, distinct rows, and probes of a multimap by such sets."""

from __future__ import annotations

import numpy as np
import pytest

from midstream.kernels import chains, held_rows, rings, row_sets
from midstream.kernels.distinct import find_distinct_rows
from midstream.kernels.hashing import enter_keys, leave_keys
from midstream.kernels.types import COUNT, EVICTED, VISITED, Combos, HeldRows, KeyCounts, Ring

from .test_chains import insert_entries, keys_of, new_chains
from .twins import Entries, block, drain, draw_combos, ints, layout_of, naive_join, new_cursor

ALL_KEYS = KeyCounts(np.empty(0, np.uint16), 0)


def draw_held(rng: np.random.Generator, low: int, high: int, is_run: bool) -> tuple[HeldRows, set[int]]:
    """A set of ids and the same as Python's; bits beyond its ends mean nothing."""
    if is_run:
        return HeldRows(np.empty(0, np.bool_), 0, low, high), set(range(low, high))
    bits = rng.random(high - low + 9) < 0.4
    return HeldRows(bits, low - 4, low, high), {row for row in range(low, high) if bits[row - low + 4]}


def filter_of(keys: list[int]) -> KeyCounts:
    found = KeyCounts(np.zeros(16, np.uint16), 60)
    enter_keys(np.array(keys, np.int64), *found)
    return found


@pytest.mark.parametrize("is_filtered", [False, True])
@pytest.mark.parametrize("is_run", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_probe_joins_with_the_rows_of_the_set(seed: int, is_run: bool, is_filtered: bool) -> None:
    rng = np.random.default_rng([seed, is_run, is_filtered])
    entries = Entries.draw(rng, 5, 60, 0, keys=9)
    made = insert_entries(entries, new_chains(64, 8, seed))
    held, rows = draw_held(rng, entries.head + 3, entries.tail - 5, is_run)
    combos, keys, layout = draw_combos(rng, 60, 2), keys_of(rng, 60, 9), layout_of(1, 2, bool(seed % 2))
    filter = filter_of([entries.keys[row] for row in rows]) if is_filtered else ALL_KEYS
    wanted = naive_join(
        entries,
        entries.head,
        entries.tail,
        combos,
        lambda at, row: row in rows and entries.keys[row] == keys[at],
        bool(seed % 2),
    )

    def probe(out: Combos, cursor: np.ndarray, keys_held: KeyCounts = filter) -> bool:
        return bool(held_rows.probe(made, keys, combos, out, cursor, layout, held, keys_held))

    assert drain(probe, 3, capacity=7)[0] == wanted and wanted
    filtered, plain = new_cursor(), new_cursor()
    assert probe(block(3, 4_000), filtered) and probe(block(3, 4_000), plain, ALL_KEYS)
    assert filtered[COUNT] == plain[COUNT] == len(wanted) and filtered[VISITED] <= plain[VISITED]


@pytest.mark.parametrize("is_run", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_rows_of_a_set_are_found_once_by_their_keys(seed: int, is_run: bool) -> None:
    rng = np.random.default_rng([seed, is_run])
    entries = Entries.draw(rng, 5, 60, 0, keys=30)
    made = insert_entries(entries, new_chains(64, 8, seed))
    held, rows = draw_held(rng, entries.head + 3, entries.tail - 5, is_run)
    keys = keys_of(rng, 50, 9)
    wanted = sorted(row for row in rows if entries.keys[row] in keys)
    for filter in (ALL_KEYS, filter_of([entries.keys[row] for row in rows])):
        assert sorted(held_rows.find(made, keys, held, filter).tolist()) == wanted


def test_a_key_stays_in_a_filter_as_long_as_a_row_has_it() -> None:
    """Also where more rows share a place than can be counted: then it stays for good."""
    counts = filter_of([3, 3, 8])
    leave_keys(ints(3), *counts)
    assert counts.counts.sum() == 2 and (counts.counts == filter_of([3, 8]).counts).all()
    leave_keys(ints(3, 8), *counts)
    assert counts.counts.sum() == 0
    most = np.iinfo(counts.counts.dtype).max
    for many in (most - 1, most, most + 1, most + 1_000):
        counts, fives = filter_of([]), np.full(many, 5)
        enter_keys(fives, *counts)
        assert leave_keys(fives[1:], *counts) == (many - 1 if many >= most else 0)
        assert counts.counts.max() == (most if many >= most else 1)


@pytest.mark.parametrize("seed", range(6))
def test_entries_are_found_by_the_rows_that_they_have(seed: int) -> None:
    rng = np.random.default_rng(seed)
    entries = Entries.draw(rng, 5, 60, 2, keys=4)
    made = insert_entries(entries, new_chains(64, 8, seed))
    members = rng.integers(1, 40, (64, 2))
    key_of = {row: int(rng.integers(0, 5)) for row in range(1, 40)}
    for entry in range(entries.head, entries.tail):  # the key of an entry is that of its row
        made.slots[entry % 64, 0] = key_of[int(members[entry % 64, 1])]
    chains.relink(made, entries.head, entries.tail)
    gone = set(rng.choice(np.arange(entries.head, entries.tail), 6, replace=False).tolist())
    for entry in gone:
        made.slots[entry % 64, 2] = EVICTED
    ring = Ring(np.zeros(64, np.int64), np.zeros(64, np.int64), members, entries.head + 4, entries.tail)
    rows = rng.permutation(np.arange(1, 40))[:15]
    found = held_rows.find_members(made, ring, 1, rows, ints(*(key_of[row] for row in rows.tolist())))
    wanted = [
        entry
        for entry in range(ring.head, ring.tail)
        if entry not in gone and int(members[entry % 64, 1]) in rows.tolist()
    ]
    assert sorted(found.tolist()) == wanted and wanted


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [1, 2, 4])
def test_distinct_rows_are_the_first_of_equal_ones(seed: int, width: int) -> None:
    rng = np.random.default_rng([seed, width])
    rows = rng.integers(0, 4, (int(rng.integers(0, 200)), width)) * 1_000_003
    seen: dict[tuple[int, ...], int] = {}
    for place, row in enumerate(rows.tolist()):
        seen.setdefault(tuple(row), place)
    assert find_distinct_rows(rows).tolist() == list(seen.values())
    assert find_distinct_rows(rows[:, :1]).tolist() == find_distinct_rows(rows[:, :1].copy()).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_bitmaps_say_what_was_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    held, rows = draw_held(rng, 10, 60, is_run=bool(seed % 2))
    ids = rng.integers(0, 80, 40)
    found = np.empty(40, np.bool_)
    row_sets.has(held, ids, found)
    assert found.tolist() == [row in rows for row in ids.tolist()]
    before = rng.random(40) < 0.2
    marked = before.copy()
    assert row_sets.mark(held, ids, marked) == (found | before).sum()
    assert marked.tolist() == (found | before).tolist()
    bits, some = np.zeros(80, np.bool_), rng.integers(5, 85, 30)
    assert row_sets.add(bits, 5, some) == len(set(some.tolist())) == bits.sum()
    assert row_sets.discard(bits, 5, some[:10]) == len(set(some[:10].tolist()))
    assert set((np.flatnonzero(bits) + 5).tolist()) == set(some.tolist()) - set(some[:10].tolist())
    assert row_sets.measure(some) == (some.min(), some.max(), False)
    assert row_sets.measure(np.arange(7, 12)) == (7, 11, True)


def test_what_is_dead_is_told_by_its_end_and_its_rows() -> None:
    combos = draw_combos(np.random.default_rng(3), 40, 2)
    heads, live = ints(2, 3), np.empty(40, np.bool_)
    count = rings.find_live(combos, 5, heads, live)
    wanted = (combos.ends >= 5) & (combos.rows >= heads).all(axis=1)
    assert live.tolist() == wanted.tolist() and count == wanted.sum()
