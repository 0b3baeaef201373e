"""Chains of pairs, and the least of a group, against lists."""

from __future__ import annotations

import numpy as np
import pytest

from midstream.kernels import extremes, pairs

from .twins import Ints


def pairs_of(group: int, rows: Ints, newest: Ints) -> list[int]:
    begins, out = np.empty(2, np.int64), np.empty(len(rows), np.int64)
    count = pairs.list_pairs(np.array([group]), rows, newest, begins, out)
    assert begins.tolist() == [0, count]
    assert rows[out[:count], pairs.PLACE].tolist() == list(range(count))
    return sorted(out[:count].tolist())


@pytest.mark.parametrize("seed", range(10))
def test_chains_have_the_held_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group_of = rng.integers(0, 4, 30)
    rows, newest = np.zeros((30, pairs.PAIR_WORDS), np.int64), np.zeros(4, np.int64)
    records = np.zeros(30, np.int64)
    for _ in range(6):
        ids = rng.integers(-1, 30, 20)
        there = ids[ids >= 0]
        before = np.count_nonzero(records)
        np.add.at(records, there, 1)
        assert pairs.hold(group_of[ids], ids, rows, newest) == np.count_nonzero(records) - before
        gone = np.repeat(np.arange(30), records)
        gone = rng.permutation(gone)[: rng.integers(0, len(gone) + 1)]
        signs = np.where(rng.random(len(gone)) < 0.8, -1, 1)
        before = np.count_nonzero(records)
        np.subtract.at(records, gone[signs < 0], 1)
        assert pairs.release(signs, gone, rows) == before - np.count_nonzero(records)
        for group in range(4):
            wanted = np.flatnonzero((group_of == group) & (records > 0))
            assert pairs_of(group, rows, newest) == wanted.tolist()

    begins, listed = np.empty(5, np.int64), np.empty(30, np.int64)
    kept = listed[: pairs.list_pairs(np.arange(4), rows, newest, begins, listed)]
    rows = rows[kept]
    pairs.link(begins, rows, newest)
    for group in range(4):
        wanted = np.flatnonzero(group_of[kept] == group)
        assert wanted.tolist() == list(range(begins[group], begins[group + 1]))
        assert pairs_of(group, rows, newest) == wanted.tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 31, 100])
def test_the_least_live_value_wins(size: int) -> None:
    rng = np.random.default_rng(size)
    rows = np.zeros((2 * size, pairs.PAIR_WORDS), np.int64)
    ids = rng.permutation(2 * size)
    rows[ids, pairs.PLACE] = np.arange(2 * size)
    rows[:, pairs.COUNT] = rng.integers(0, 2, 2 * size)
    keys = rng.integers(-9, 9, 2 * size)
    live = rows[ids, pairs.COUNT].copy()
    contest = extremes.Contest(np.array([0, size, 2 * size]), keys, ids)
    groups = np.repeat([5, 7], 60)
    signs, changed, wanted = [], [], []
    for group in groups.tolist():
        first = 0 if group == 5 else size
        place = first + int(rng.integers(0, size))
        sign = int(rng.choice([-1, 1])) if live[place] else 1
        live[place] += sign
        signs.append(sign)
        changed.append(ids[place])
        there = [keys[at] for at in range(first, first + size) if live[at]]
        wanted.append(min(there, default=None))
    out = np.empty(120, np.int64)
    extremes.find_least(groups, np.array(signs), np.array(changed), np.arange(120), rows, contest, out)
    assert [None if place == extremes.NO_PLACE else keys[place] for place in out.tolist()] == wanted
    assert rows[ids, pairs.COUNT].tolist() == live.tolist()
