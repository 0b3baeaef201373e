"""Keys that somebody has chosen to share a bucket cost no more than random ones: buckets depend on a secret."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.state import indexes
from midstream.state.keys import codes_of

from ..kernels.test_hashing import unmix_all
from ..kernels.twins import naive_mix

SIZE = 4_000
Keys = pa.Array


def draw_distinct() -> Keys:
    return pa.array(random.Random(1).sample(range(2**62), SIZE))


def choose_keys() -> Keys:
    """Keys whose codes, mixed in the way that everybody knows, end in 20 zeros."""
    keys = unmix_all([place << 20 for place in range(SIZE)])
    assert all(naive_mix(key) % 2**20 == 0 for key in keys[:50].tolist())
    return pa.array(keys)


def choose_texts() -> Keys:
    """Texts of eight bytes whose codes, mixed once more, end in seven zeros."""
    texts = pa.array([f"{number:08x}" for number in range(128 * SIZE)])
    found = [place for place, code in enumerate(codes_of(texts).tolist()) if naive_mix(code) % 128 == 0]
    return texts.take(pa.array(found))


def run(keys: Keys) -> ms.Engine:
    """Every key once in each of three streams; the first plan and one that is filled after a change."""
    schema = pa.schema({"k": keys.type, "ts": pa.int64()})
    query = ms.query(
        "SELECT a.ts FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] WHERE a.k = b.k AND b.k = c.k",
        schemas=dict.fromkeys("abc", schema),
        event_time="ts",
    )
    engine = ms.Engine(query, plan="((a b) c)")
    rows = pa.table([keys, np.arange(len(keys))], schema=schema)
    half = len(keys) // 2
    found = engine.push(dict.fromkeys("abc", rows.slice(0, half))).num_rows
    engine.migrate("((b c) a)", "moving-state")
    found += engine.push(dict.fromkeys("abc", rows.slice(half))).num_rows
    assert found == len(keys)
    return engine


def slots(engine: ms.Engine) -> float:
    return engine.stats().work.slots_visited / sum(engine.stats().rows_in.values())


@pytest.mark.parametrize("make", [choose_keys, choose_texts])
def test_chosen_keys_visit_as_many_slots_as_random_ones(
    make: Callable[[], Keys], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(1)
    monkeypatch.setattr(indexes, "draw_seed", lambda: dice.getrandbits(63))
    assert slots(run(make())) < 1.5 * slots(run(draw_distinct()))


def test_seeds_are_drawn_for_every_index_and_are_not_in_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = indexes.draw_seed
    monkeypatch.setattr(indexes, "draw_seed", lambda: drawn.append(draw()) or drawn[-1])
    engine = run(draw_distinct())
    assert len(set(drawn)) == len(drawn) > 3
    snapshot = engine.snapshot().to_bytes()
    for seed in drawn:
        assert seed.to_bytes(8, "little") not in snapshot and str(seed).encode() not in snapshot
    seeds = len(drawn)
    assert ms.Engine.restore(engine.query, snapshot).snapshot().to_bytes() == snapshot
    assert len(set(drawn)) == len(drawn) > seeds


def test_results_do_not_depend_on_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seed in (0, 1, 2**63 - 1):
        monkeypatch.setattr(indexes, "draw_seed", lambda seed=seed: seed)
        found.append(run(draw_distinct()).stats().rows_out)
    assert found == [SIZE] * 3
