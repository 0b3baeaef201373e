"""Going on at any time, from a snapshot or from rows and the routing's record: rows go the ways they would have gone.

Rows come in order, some pushes have none or only those of some inputs, and some joins find nothing, so that a router
has equals to choose from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import midstream as ms
from midstream.engine.routing.choice import RoutingRecord
from midstream.engine.routing.trees import TreeSearch

ROUTED = ("stems", "eddy", "stairs")
SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "ts": pa.int64()})
STATIC = pa.schema({"a": pa.int64()})
WINDOW = 3_000
#: No rows wait: a restore lets these in, and then the router has seen others than it would have seen.
ALL_ENTER = {"demand": "off"}
KINDS = {
    "chain": "SELECT r.ts AS x FROM {r}, {s}, {t}, {u} WHERE r.a = s.a AND s.b = t.b AND t.a = u.a",
    "common key": "SELECT r.ts AS x FROM {r}, {s}, {t}, {u} WHERE r.a = s.a AND s.a = t.a AND t.a = u.a",
    "static": "SELECT r.ts AS x FROM {r}, {s}, {t}, z WHERE r.a = s.a AND s.b = t.b AND z.a = t.a",
    "branches": "SELECT r.ts AS x FROM {r}, {s}, {t} WHERE r.a = s.a AND s.a = t.a "
    "UNION ALL SELECT u.ts AS x FROM {u}, {r} v WHERE u.a = v.a",
}


def make_query(kind: str) -> ms.Query:
    text = KINDS[kind].format(**{name: f"{name} [RANGE {WINDOW} MICROSECONDS]" for name in "rstu"})
    names = [name for name in "rstu" if f" {name} [" in text]
    tables = {"z": STATIC} if kind == "static" else {}
    return ms.query(text, schemas=dict.fromkeys(names, SCHEMA) | tables, event_time=dict.fromkeys(names, "ts"))


def make_pushes(query: ms.Query, rng: random.Random, count: int = 24) -> list[dict[str, pa.Table]]:
    """A thousand microseconds each; what keys an input has changes now and then."""
    keys = {name: rng.choice([2, 30, 10_000]) for name in query.streams}
    pushes = []
    for number in range(count):
        if rng.random() < 0.2:
            keys[rng.choice(sorted(keys))] = rng.choice([2, 30, 10_000])
        push = {}
        for name in query.streams if rng.random() < 0.8 else ():
            size = rng.choice([0, 3, 60])
            columns = [[rng.randrange(keys[name]) for _ in range(size)] for _ in "ab"]
            times = sorted(number * 1_000 + rng.randrange(1_000) for _ in range(size))
            push[name] = pa.table([*columns, times], schema=SCHEMA)
        pushes.append(push)
    return pushes


def ways_of(engine: ms.Engine) -> list[tuple[str, str]]:
    assert engine.routing is not None
    return [(way.alias, way.order) for way in engine.routing.streams]


def resume(
    query: ms.Query, pushes: Sequence[dict[str, pa.Table]], watermark: int, record: RoutingRecord, **options: Any
) -> ms.Engine:
    """An engine that goes on from the rows that are in their windows and from a record that was stored as text."""
    stored = json.dumps(record.to_json())
    assert len(stored) < 1 << 14
    rows = {}
    for name in query.streams:
        table = pa.concat_tables([SCHEMA.empty_table(), *(push[name] for push in pushes if name in push)])
        rows[name] = table.filter(pc.greater_equal(table["ts"], watermark - WINDOW))
    recalled = RoutingRecord.from_json(json.loads(stored))
    return ms.Engine.resume(query, rows, watermark, plan=recalled.plan, routing=recalled, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("executor", ROUTED)
def test_rows_go_the_ways_they_would_have_gone(executor: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeSearch, "price", 1e18)  # another spanning tree moves states, which nobody stores
    query = make_query(kind)
    tables = {name: pa.table({"a": [*range(20)]}) for name in query.tables}
    seen = set()
    for seed in range(4):
        rng = random.Random(f"{executor} {kind} {seed}")
        first = RoutingRecord(executor, rng.choice(["rank", "cost", "cumulative", "lottery", "content"]), cell=seed)
        engine, other = (
            ms.Engine(query, tables=tables, executor=executor, routing=first, seed=seed, **ALL_ENTER) for _ in range(2)
        )
        pushes = make_pushes(query, rng)
        for number, push in enumerate(pushes):
            before, now = (number - 1) * 1_000, number * 1_000
            record = other.routing_record
            assert record is not None
            if rng.random() < 0.3:
                other = ms.Engine.restore(query, other.snapshot().to_bytes(), **ALL_ENTER)
            elif number and rng.random() < 0.5:
                other = resume(query, pushes[:number], before, record, tables=tables, executor=executor, **ALL_ENTER)
            found = [each.push(push, watermark=now).num_rows for each in (engine, other)]
            assert found[0] == found[1]
            assert other.routing_record == engine.routing_record
            if "r" in push and push["r"].num_rows:  # which has all routers decide: until then they show the plan
                assert ways_of(other) == ways_of(engine) and str(other.plan) == str(engine.plan)
            seen.add(tuple(ways_of(engine)))
    assert len(seen) > 1


def draw_drifting(seed: int, size: int, keys: int) -> list[dict[str, pa.Table]]:
    """Rows of S find partners in R or in T, in shares near to each other: little decides which way they go."""
    rng = random.Random(seed)
    pushes = []
    for number in range(24):
        share = rng.uniform(0.3, 0.7)
        to_r = [rng.random() < share for _ in range(size)]

        def draw(wanted: Sequence[bool]) -> list[int]:
            found = [has or rng.random() < 0.02 for has in wanted]
            return [rng.randrange(keys) if has else rng.randrange(10**6, 10**9) for has in found]

        columns = {
            "r": (draw([True] * size), draw([True] * size)),
            "s": (draw(to_r), draw([not has for has in to_r])),
            "t": (draw([True] * size), draw([True] * size)),
        }
        times = sorted(number * 4_000 + rng.randrange(4_000) for _ in range(size))
        pushes.append({name: pa.table([*found, times], schema=SCHEMA) for name, found in columns.items()})
    return pushes


@pytest.mark.parametrize("executor", ROUTED)
def test_the_same_rows_go_the_same_ways_again(executor: str) -> None:
    """Also where rows wait because that pays: no decision goes by which keys share a bucket, which is drawn anew."""
    query = ms.query(
        "SELECT r.ts AS x, t.ts AS y FROM r [RANGE 20 MILLISECONDS], s [RANGE 20 MILLISECONDS], "
        "t [RANGE 20 MILLISECONDS] WHERE r.a = s.a AND s.b = t.b",
        schemas=dict.fromkeys("rst", SCHEMA),
        event_time="ts",
    )
    hidden = 0
    for seed in range(6):
        pushes = draw_drifting(seed, 340, 21 + seed)
        found = []
        for _ in range(2):
            engine = ms.Engine(query, executor=executor, plan="((r s) t)")
            ways = []
            for push in pushes:
                engine.push(push)
                ways.append(ways_of(engine))
            found.append((ways, engine.stats().demand, engine._pipeline.meter.lookups))
        assert found[0] == found[1]
        hidden += found[0][1].hidden
    assert hidden > 0


def test_a_push_without_rows_changes_nothing_of_a_routing() -> None:
    query = make_query("chain")
    for executor in ROUTED:
        pushes = make_pushes(query, random.Random(1), 8)
        records = []
        for empty in (0, 2):
            engine = ms.Engine(query, executor=executor)
            for number, push in enumerate(pushes):
                for _ in range(empty):
                    engine.push({}, watermark=(number - 1) * 1_000)
                engine.push(push, watermark=number * 1_000)
            records.append(engine.routing_record)
        assert records[0] == records[1]


def test_what_static_rows_find_before_there_are_others_is_not_counted() -> None:
    query = make_query("static")
    engine = ms.Engine(query, tables={"z": pa.table({"a": [*range(200)]})}, executor="stems")
    record = engine.routing_record
    assert record is not None and record.rates is not None and not record.rates["counts"] and not record.rates["chunk"]


def test_on_another_executor_only_the_rates_go_on() -> None:
    query = make_query("chain")
    engine = ms.Engine(query, executor="stairs", routing="lottery", seed=4)
    for number, push in enumerate(make_pushes(query, random.Random(2))):
        engine.push(push, watermark=number * 1_000)
    record = engine.routing_record
    assert record is not None
    other = ms.Engine(query, executor="stems", routing=record)
    assert other.routing is not None and other.routing.policy == "rank"
    assert other.routing_record is not None and other.routing_record.rates == record.rates
    same = ms.Engine(query, executor="stairs", routing=replace(record, policy="fixed"), seed=5)
    assert same.routing is not None and same.routing.policy == "fixed"
    assert same.routing_record is not None and same.routing_record.rates == {**(record.rates or {}), "seed": 5}


def test_classes_are_told_apart_by_the_same_shares() -> None:
    """Shares drift while no rate moves: nobody decides then but an engine that was restored."""
    texts = ("r [RANGE 20 MILLISECONDS]", "s [RANGE 1 MILLISECOND]", "t [RANGE 20 MILLISECONDS]")
    query = ms.query(
        f"SELECT r.ts AS x FROM {', '.join(texts)} WHERE r.a = s.a AND s.b = t.b", dict.fromkeys("rst", SCHEMA), "ts"
    )
    options = {"executor": "stems", "routing": "content", **ALL_ENTER}
    has_told_apart = False
    for seed in (22, 23):
        rng = np.random.default_rng(seed)
        engine, other = (ms.Engine(query, **options) for _ in range(2))
        for number in range(30):
            share = 0.5 + 0.35 * np.sin(number / 4 + seed)
            push = {}
            for name in "rst":
                kind = rng.random(150) < (share if name == "s" else 0.5)
                many, few = rng.integers(0, 8, 150), rng.integers(0, 400, 150)
                times = number * 4000 + np.sort(rng.integers(0, 4000, 150))
                columns = [np.where(kind, many, 1000 + few), np.where(kind, 1000 + few, many), times]
                push[name] = pa.table(columns, schema=SCHEMA)
            other = ms.Engine.restore(query, other.snapshot(), **ALL_ENTER)
            for each in (engine, other):
                each.push(push, watermark=number * 4000)
            assert ways_of(engine) == ways_of(other), (seed, number)
            has_told_apart |= len(ways_of(engine)) > 3
    assert has_told_apart
