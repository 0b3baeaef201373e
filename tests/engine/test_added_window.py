"""A kind of window from outside the package: a class that answers the questions, and how its rows leave.

The rows of a window of buckets are valid on their bucket. Nothing else has to know of it: joins, plans, every
migration, snapshots and estimates ask the window.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
import random
from typing import Any

import numpy as np
import pytest

import midstream as ms
from midstream.adapt.estimate import estimate
from midstream.cql import windows
from midstream.cql.windows import Times, Window
from midstream.plan import parse_plan
from midstream.state import expiry

BUCKET = 10


class MoreKinds(enum.Enum):
    BUCKETS = "buckets"


class BucketWindow(Window):
    kind: Any = MoreKinds.BUCKETS
    text = "BUCKETS"
    counts_rows = False
    ends_by_time = True
    never_ends = False
    expected_size = (2, BUCKET)

    def intervals(self, times: Times) -> tuple[Times, Times]:
        starts = times // self.size * self.size
        return starts, starts + self.size - 1

    def latest_time(self, end: int) -> int:
        return end

    def covers(self, other: Window) -> bool:
        return self == other

    def seconds(self, rows_per_second: float | None) -> float | None:
        return self.size / 1e6


def bucketed() -> ms.Query:
    row = {"k": int, "v": int, "ts": int}
    text = "SELECT a.v AS a, b.v AS b, c.v AS c FROM a [UNBOUNDED], b [UNBOUNDED], c [UNBOUNDED] "
    query = ms.query(text + "WHERE a.k = b.k AND b.k = c.k", {"a": row, "b": row, "c": row}, "ts")
    inputs = (dataclasses.replace(entry, window=BucketWindow(BUCKET)) for entry in query.inputs)
    return dataclasses.replace(query, inputs=tuple(inputs))


@pytest.fixture
def add_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_WINDOWS", (*windows._WINDOWS, BucketWindow))
    monkeypatch.setitem(expiry._EXPIRIES, MoreKinds.BUCKETS, expiry.TimeExpiry)  # type: ignore[misc]


Row = dict[str, int]


def draw_tables(seed: int) -> list[dict[str, list[Row]]]:
    rng, number = random.Random(seed), itertools.count()
    return [
        {
            name: [{"k": rng.randrange(3), "v": next(number), "ts": now + rng.randrange(4)} for _ in range(3)]
            for name in "abc"
        }
        for now in range(0, 60, 2)
    ]


def find_expected(pushes: list[dict[str, list[Row]]]) -> collections.Counter[tuple[int, ...]]:
    found: collections.Counter[tuple[int, ...]] = collections.Counter()
    for combination in itertools.product(*([row for push in pushes for row in push[name]] for name in "abc")):
        buckets, keys = {row["ts"] // BUCKET for row in combination}, {row["k"] for row in combination}
        if len(buckets) == len(keys) == 1:
            begin = buckets.pop() * BUCKET
            found[(*(row["v"] for row in combination), begin, begin + BUCKET - 1)] += 1
    return found


@pytest.mark.usefixtures("add_kind")
@pytest.mark.parametrize("strategy", ["jisc", "moving-state", "parallel-track", "genmig", "genmig-reference-point"])
def test_an_added_window_runs_through_migrations_and_restores(strategy: str) -> None:
    pushes, engine = draw_tables(1), ms.Engine(bucketed(), plan="((a b) c)")
    results: collections.Counter[tuple[int, ...]] = collections.Counter()
    for place, push in enumerate(pushes):
        if place == 10:
            engine.migrate("(a (b c))", strategy)
        if place == 20:
            engine = ms.Engine.restore(engine.query, engine.snapshot().to_bytes(), plan="((a c) b)")
        table = engine.push(push, watermark=2 * place)
        results.update(tuple(row.values()) for row in table.to_pylist())
    assert results == find_expected(pushes)
    assert max(state.rows for state in engine.stats().states if state.kind == "window") < 40, "dead rows have left"


@pytest.mark.usefixtures("add_kind")
def test_an_added_window_is_estimated() -> None:
    query = bucketed()
    plans = (parse_plan(text, query.aliases) for text in ("((a b) c)", "(a (b c))"))
    lengths = {found.strategy: found.length for found in estimate(query, *plans).strategies}
    assert lengths["genmig"] == lengths["parallel-track"] == BUCKET / 1e6


def test_a_window_whose_rows_leave_by_no_rule_is_refused() -> None:
    with pytest.raises(ms.EngineError, match=r"not known when rows of \[BUCKETS\] leave; kinds with a rule: RANGE"):
        ms.Engine(bucketed())


def test_a_snapshot_with_an_unknown_window_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    query = bucketed()
    with monkeypatch.context() as patch:
        patch.setitem(expiry._EXPIRIES, MoreKinds.BUCKETS, expiry.TimeExpiry)  # type: ignore[misc]
        snapshot = ms.Engine(query).snapshot()
    with pytest.raises(ms.SnapshotError, match=r"restore: input 'a': window: unknown kind 'buckets'; kinds: range"):
        ms.Engine.restore(query, snapshot)


def test_intervals_of_first_moments_are_the_same() -> None:
    """What a snapshot relies on."""
    starts, ends = BucketWindow(BUCKET).intervals(np.arange(-25, 25))
    again = BucketWindow(BUCKET).intervals(starts)
    assert np.array_equal(starts, again[0]) and np.array_equal(ends, again[1])
