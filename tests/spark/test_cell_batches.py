"""Batches of one cell, loaded from its store for each of them, against an embedded engine that never stops.

Watermarks are in whole milliseconds, as Spark's are, and rows lie on both sides of the watermark of their own batch and
of the one before, which judges them.
"""

from __future__ import annotations

import collections
import random
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.spark.checkpoint.ledger import Ledger
from midstream.spark.checkpoint.store import CellStore, open_ledger
from midstream.spark.hosts.cell import NONE_YET
from midstream.spark.parcels.encoding import from_wire, to_wire
from midstream.spark.processor import CellBatch, Delivery
from midstream.spark.routing.router import Router
from midstream.spark.spec import JoinSpec

from .test_ledger import Map

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})
TEXTS = {
    "range": "SELECT a.v, b.v AS w FROM a [RANGE 10 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k",
    "unbounded": "SELECT a.v, b.v AS w FROM a [UNBOUNDED], b [RANGE 3 SECONDS] WHERE a.k = b.k",
    "rows": "SELECT a.v, b.v AS w FROM a [ROWS 3], b [RANGE 3 SECONDS] WHERE a.k = b.k",
}
SECOND = 1_000_000


def results(tables: list[pa.Table]) -> collections.Counter[tuple[Any, ...]]:
    return collections.Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_judged_by_the_watermark_of_the_batch_before(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    spec = JoinSpec(TEXTS[kind], {"a": SCHEMA, "b": SCHEMA}, {"a": "ts", "b": "ts"}, 1)
    engine = ms.Engine(spec.routing.cell_query)
    engine.push({}, watermark=NONE_YET)
    parcels, stored = Map(), open_ledger(None, spec, "cell 0 of 1").to_bytes()
    milliseconds = late = 0
    for batch in range(30):
        before = milliseconds
        milliseconds = max(before, batch * 1_000 - rng.choice([500, 2_000, 5_000])) if rng.random() < 0.8 else before
        rows = {name: batch_of(rng, batch, before, milliseconds) for name in ("a", "b") if rng.random() < 0.8}
        store = CellStore(spec, parcels, Ledger.from_bytes(stored, "cell 0 of 1"), "cell 0 of 1")
        cell_batch = CellBatch(spec, store, deliver(spec, rows), milliseconds, 0)
        found, report = cell_batch.run(None)
        stored = store.ledger.to_bytes()
        wanted = engine.push(rows, watermark=milliseconds * 1000 if milliseconds else NONE_YET)
        assert results([from_wire(content) for content in found]) == results([wanted]), batch
        late += sum(report["late"].values())
        assert late == sum(engine.stats().late.values()), batch
    assert late > 0


def batch_of(rng: random.Random, batch: int, before: int, now: int) -> pa.Table:
    """Rows of the present, and some at the watermarks and between them."""
    times = [batch * SECOND + rng.randrange(SECOND) for _ in range(rng.randrange(6))]
    edges = [before * 1000 - 1, before * 1000, (before + now) * 500, now * 1000 - 1, now * 1000]
    # A cell orders rows of one moment by what they hold, not by where they stand: under ROWS that would matter.
    times = list(dict.fromkeys(times + rng.sample(edges, rng.randrange(4))))
    columns = [[rng.randrange(3) for _ in times], [rng.randrange(10**9) for _ in times], times]
    return pa.table([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)


def deliver(spec: JoinSpec, rows: dict[str, pa.Table]) -> Delivery:
    delivery = Delivery()
    for name, table in rows.items():
        for part in Router(spec.routing, name).split(table).parts:
            delivery.parcels.append((part.lane, to_wire(part.rows)))
            delivery.homes.append(part.home)
    return delivery
