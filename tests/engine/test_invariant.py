"""Partial states are right between any two pushes, whatever happened before; and so are the results."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.executors.tree import Tree, TreeExecutor
from midstream.plan import parse_plan
from midstream.state.missing import Box, Cause, Missing
from midstream.state.window import BaseWindow

from ..blocks import blocks
from ..evictions import evict_some
from .audit import Count, audit, executor_of, windows_of
from .small import ALIASES, CASES, SCHEMA, Small, draw_plan, draw_pushes, sorted_rows

SEEDS = blocks(3)


def restore(engine: ms.Engine, rng: random.Random, small: Small, as_bytes: bool) -> ms.Engine:
    snapshot = engine.snapshot()
    plan = draw_plan(rng, small.size) if rng.random() < 0.7 else None
    engine = ms.Engine.restore(engine.query, snapshot.to_bytes() if as_bytes else snapshot, plan=plan)
    if rng.random() < 0.5:
        cut_boxes(engine, rng)
    return engine


def cut_boxes(engine: ms.Engine, rng: random.Random) -> None:
    """Cut the boxes of all states, or of some, into several that overlap and together are what they were."""
    windows = windows_of(engine)
    heads = {number: window.head for number, window in enumerate(windows)}
    for node in executor_of(engine).joins():
        if node.state is None or not node.state.missing or rng.random() < 0.2:
            continue
        number = rng.choice(node.inputs)
        ids = np.arange(windows[number].head, windows[number].tail)
        marks = {own: windows[own].tail for own in node.inputs}
        some = ids[[rng.random() < 0.5 for _ in ids]]
        others = np.union1d(np.setdiff1d(ids, some), ids[[rng.random() < 0.2 for _ in ids]])
        middle = rng.randint(windows[number].head, windows[number].tail)
        node.state.missing = Missing()
        pieces = rng.choice(
            [
                [Box(node.inputs, marks, Cause("eviction"), rows={number: rows}) for rows in (some, others)],
                [
                    Box(node.inputs, marks | {number: middle}, Cause("restore")),
                    Box(node.inputs, marks, Cause("eviction"), lows={number: max(middle - 1, windows[number].head)}),
                ],
            ]
        )
        for box in pieces:
            node.state.missing.add(box, heads)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("small", CASES, ids=lambda case: case.name)
def test_entries_and_box_partition_the_join(small: Small, seed: int) -> None:
    """An engine that is restored now and then, against one that is not, with an audit of every state in between."""
    rng = random.Random(f"{small.name} {seed}")
    query = small.query()
    steady = ms.Engine(query, plan=draw_plan(rng, small.size))
    engine = ms.Engine(query, plan=draw_plan(rng, small.size))
    count, results, evicted = Count(), 0, 0
    for step, push in enumerate(draw_pushes(rng, small, 40)):
        wanted = sorted_rows(steady.push(push))
        assert sorted_rows(engine.push(push)) == wanted
        results += len(wanted)
        audit(engine, small, count)
        while rng.random() < 0.25:
            evicted += evict_some(engine, rng)
            audit(engine, small, count)
        if rng.random() < 0.15 or step in (12, 25):
            engine = restore(engine, rng, small, as_bytes=bool(step % 2))
            assert all(len(node.state) == 0 for node in executor_of(engine).joins() if node.state is not None)
            audit(engine, small, count)
    audit(steady, small, count)
    assert results > 0 and count.stored > 50 and count.holes > 3 and count.boxed > 10 and evicted > 5


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("small", CASES, ids=lambda case: case.name)
def test_states_kept_from_plan_to_plan_stay_right(small: Small, seed: int) -> None:
    """Transitions, overlapping too: kept states keep entries and boxes, one or several, new ones start as one box."""
    rng = random.Random(f"transition {small.name} {seed}")
    query = small.query()
    steady, engine = ms.Engine(query), ms.Engine(query, plan=draw_plan(rng, small.size))
    count, evicted = Count(), 0
    for step, push in enumerate(draw_pushes(rng, small, 40)):
        assert sorted_rows(engine.push(push)) == sorted_rows(steady.push(push))
        audit(engine, small, count)
        while rng.random() < 0.25:
            evicted += evict_some(engine, rng)
            audit(engine, small, count)
        if step % 12 == 11:
            engine = restore(engine, rng, small, as_bytes=False)
            cut_boxes(engine, rng)
            audit(engine, small, count)
        if rng.random() < 0.3:
            plan = parse_plan(draw_plan(rng, small.size), ALIASES[: small.size])
            new = Tree().make(query, plan, windows_of(engine))
            new.start(Cause("migration"), executor_of(engine).hand_over())
            engine._pipeline._lane.executor = new
            audit(engine, small, count)
    assert count.stored > 50 and count.holes > 3 and count.boxed > 10 and count.several > 0 and evicted > 5


@pytest.mark.parametrize("small", CASES, ids=lambda case: case.name)
def test_a_pinned_row_and_its_packing_keep_the_states(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A far-future row in every stream keeps the dead behind it, so that windows are packed and rows renumbered."""
    packed: list[BaseWindow] = []
    pack = BaseWindow._pack
    monkeypatch.setattr(BaseWindow, "_pack", lambda window, *rest: packed.append(window) or pack(window, *rest))
    rng = random.Random(f"pinned {small.name}")
    steady = ms.Engine(small.query(), plan=draw_plan(rng, small.size))
    engine = ms.Engine(small.query(), plan=draw_plan(rng, small.size))
    far = pa.table({"k": [77], "x": [77], "y": [77], "v": [77], "s": ["far"], "ts": [10**6]}, schema=SCHEMA)
    for pinned in (steady, engine):
        pinned.push(dict.fromkeys(ALIASES[: small.size], far), watermark=0)
    count, with_hole, watermark = Count(), 0, 0
    for step, push in enumerate(draw_pushes(rng, small, 100, pace=12, most=7)):
        times = [time for table in push.values() for time in table.column("ts").to_pylist()]
        watermark = max([watermark, *(time - 9 for time in times)])
        wanted = sorted_rows(steady.push(push, watermark=watermark))
        packed.clear()
        assert sorted_rows(engine.push(push, watermark=watermark)) == wanted
        with_hole += bool(packed) and executor_of(engine).holes() > 0
        if step % 10 == 0 or packed:
            audit(engine, small, count)
        if step % 50 == 25:
            engine = restore(engine, rng, small, as_bytes=False)
        if step % 9 == 0:
            evict_some(engine, rng)
    assert count.stored > 0
    assert with_hole > 0 or small.name not in ("common", "strings", "chain", "star")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("small", CASES, ids=lambda case: case.name)
def test_a_fill_never_emits_and_leaves_nothing_missing(small: Small, seed: int) -> None:
    """Filling everything at once, or row by row, between pushes changes no result."""
    rng = random.Random(f"fill {small.name} {seed}")
    query = small.query()
    steady = ms.Engine(query, plan=draw_plan(rng, small.size))
    engine = ms.Engine(query, plan=draw_plan(rng, small.size))
    count = Count()
    for step, push in enumerate(draw_pushes(rng, small, 30)):
        wanted = sorted_rows(steady.push(push))
        assert sorted_rows(engine.push(push)) == wanted
        if step % 6 == 5:
            engine = restore(engine, rng, small, as_bytes=False)
            before = engine.stats().rows_out
            evict_some(engine, rng)
            fill(executor_of(engine), rng, step % 12 == 5, engine._pipeline._horizon)
            assert engine.stats().rows_out == before == steady.stats().rows_out
            audit(engine, small, count)
            if step % 12 == 5:
                assert not any(node.state.missing for node in executor_of(engine).joins() if node.state is not None)
    assert count.stored > 20


def fill(executor: TreeExecutor, rng: random.Random, everything: bool, horizon: int) -> None:
    for node in executor.joins():
        while node.state is not None and node.state.missing:
            executor.filler.fill_some(node, 1 << 20 if everything else rng.randrange(1, 4), horizon)
            if not everything and rng.random() < 0.5:
                break
