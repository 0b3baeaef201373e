"""Snapshots: what is refused, what a smaller window or another plan makes of one, and damage."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.snapshot.format import VERSION, Snapshot
from midstream.errors import SnapshotError

from .audit import Count, audit
from .small import CASES, RANGES, SCHEMA, Small, draw_plan, draw_pushes, sorted_rows

COMMON, ROWS = CASES[0], CASES[8]
LARGEST_ROWS = f"ROWS {2**63 - 1}"


def make_running_engine(small: Small, seed: int = 1, pushes: int = 15) -> ms.Engine:
    rng = random.Random(seed)
    engine = ms.Engine(small.query())
    for push in draw_pushes(rng, small, pushes):
        engine.push(push)
    return engine


def test_a_snapshot_comes_back_from_bytes() -> None:
    snapshot = make_running_engine(COMMON).snapshot()
    again = Snapshot.from_bytes(snapshot.to_bytes())
    assert again.meta == snapshot.meta
    assert list(again.windows) == list(snapshot.windows)
    assert all(again.windows[alias].equals(table) for alias, table in snapshot.windows.items())


def test_a_snapshot_shares_nothing_with_the_engine() -> None:
    engine = make_running_engine(COMMON)
    snapshot = engine.snapshot()
    before = snapshot.to_bytes()
    for push in draw_pushes(random.Random(2), COMMON, 10):
        engine.push(push, watermark=None)
    assert snapshot.to_bytes() == before


@pytest.mark.parametrize("data", [b"", b"hello", b"MIDSTREAM-SNAPSHOT", b"MIDSTREAM-SNAPSHOT\0\0\0"])
def test_what_is_no_snapshot(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="not a Midstream snapshot"):
        Snapshot.from_bytes(data)


def test_a_snapshot_cut_off_anywhere_is_refused() -> None:
    data = make_running_engine(COMMON).snapshot().to_bytes()
    for size in [*range(0, len(data), 37), len(data) - 1]:
        with pytest.raises(SnapshotError):
            Snapshot.from_bytes(data[:size])


def test_another_version_is_refused() -> None:
    data = make_running_engine(COMMON).snapshot().to_bytes()
    at = len(b"MIDSTREAM-SNAPSHOT")
    assert int.from_bytes(data[at : at + 2], "little") == VERSION
    other = data[:at] + (9).to_bytes(2, "little") + data[at + 2 :]
    with pytest.raises(SnapshotError, match=f"format version 9, but this Midstream reads version {VERSION}"):
        Snapshot.from_bytes(other)


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_refused(seed: int) -> None:
    """Single bytes are changed: the snapshot is refused as damaged, or it is read as it was."""
    rng = random.Random(seed)
    snapshot = make_running_engine(COMMON).snapshot()
    data = snapshot.to_bytes()
    for _ in range(150):
        at = rng.randrange(len(data))
        damaged = data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]
        try:
            read = Snapshot.from_bytes(damaged)
        except SnapshotError as problem:
            assert "snapshot:" in str(problem)
        else:
            assert read.to_bytes() == data, f"byte {at} was changed, and so were the rows"


OTHERS: list[tuple[str, dict[str, Any], str]] = [
    ("another predicate", {"where": "a.x = b.x AND b.k = c.k AND c.k = d.k"}, "keys"),
    ("one more filter", {"where": COMMON.where + " AND a.v > 1"}, "filters"),
    ("a band", {"where": COMMON.where + " AND a.v - b.v BETWEEN 0 AND 3"}, "bands"),
    ("a theta", {"where": COMMON.where + " AND a.v + b.v <> c.v"}, "thetas"),
    ("fewer inputs", {"windows": RANGES[:3], "where": "a.k = b.k AND b.k = c.k"}, "inputs"),
]


@pytest.mark.parametrize(("changes", "part"), [case[1:] for case in OTHERS], ids=[case[0] for case in OTHERS])
def test_another_query_is_refused(changes: dict[str, Any], part: str) -> None:
    other = Small("other", changes.get("windows", COMMON.windows), changes["where"], ())
    with pytest.raises(SnapshotError, match=rf"the snapshot is of another query; {part}: "):
        ms.Engine.restore(other.query(), make_running_engine(COMMON).snapshot())


FILTERS = (" AND a.v > 0", " AND a.v < 9")
THETAS = (" AND a.v + b.v <> c.v", " AND b.v + c.v <> d.v")


def test_filters_and_conditions_may_change_places() -> None:
    """What is stored goes by neither, so that the other text goes on as the first would have."""
    first = Small("first", COMMON.windows, COMMON.where + "".join(FILTERS + THETAS), ())
    other = Small("other", COMMON.windows, COMMON.where + "".join((*reversed(FILTERS), *reversed(THETAS))), ())
    pushes = list(draw_pushes(random.Random(7), first, 30))
    running = ms.Engine(first.query())
    for push in pushes[:15]:
        running.push(push)
    restored = ms.Engine.restore(other.query(), running.snapshot())
    results = 0
    for push in pushes[15:]:
        expected = sorted_rows(running.push(push))
        assert sorted_rows(restored.push(push)) == expected
        results += len(expected)
    assert results


def test_keys_may_not_change_places() -> None:
    """The codes in a snapshot are named by the places of their keys."""
    where = "a.k = b.k AND b.x = c.x AND c.v = d.v"
    turned = " AND ".join(reversed(where.split(" AND ")))
    first, other = (Small("keys", COMMON.windows, text, ()) for text in (where, turned))
    with pytest.raises(SnapshotError, match="the snapshot is of another query; keys: "):
        ms.Engine.restore(other.query(), make_running_engine(first).snapshot())


@pytest.mark.parametrize(
    ("small", "windows", "text"),
    [
        (
            COMMON,
            ("RANGE 31 MICROSECONDS", *RANGES[1:]),
            r"'a' was \[RANGE 30 MICROSECONDS\] and would become \[RANGE 31 MICROSECONDS\]",
        ),
        (COMMON, (*RANGES[:3], "UNBOUNDED"), r"'d' was \[RANGE 60 MICROSECONDS\] and would become \[UNBOUNDED\]"),
        (COMMON, ("ROWS 3", *RANGES[1:]), r"'a' was \[RANGE 30 MICROSECONDS\] and would become \[ROWS 3\]"),
        (ROWS, ("ROWS 6", *ROWS.windows[1:]), r"'a' was \[ROWS 5\] and would become \[ROWS 6\]"),
    ],
)
def test_a_larger_window_is_refused(small: Small, windows: tuple[str, ...], text: str) -> None:
    with pytest.raises(SnapshotError, match=text):
        ms.Engine.restore(small.query(windows), make_running_engine(small).snapshot())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("small", "before", "after"),
    [
        (COMMON, COMMON.windows, ("RANGE 12 MICROSECONDS", RANGES[1], "RANGE 0 MICROSECONDS", RANGES[3])),
        (COMMON, ("UNBOUNDED", *RANGES[1:]), COMMON.windows),
        (ROWS, ROWS.windows, ("ROWS 2", "RANGE 20 MICROSECONDS", "ROWS 9", "ROWS 1")),
        (ROWS, (LARGEST_ROWS,) * 4, (LARGEST_ROWS, "ROWS 3", "ROWS 9223372036854775000", "ROWS 5")),
    ],
    ids=["range", "unbounded", "rows", "largest rows"],
)
def test_a_smaller_window_goes_on_as_if_it_had_always_been_so(
    small: Small, before: tuple[str, ...], after: tuple[str, ...], seed: int
) -> None:
    rng = random.Random(seed)
    wide, narrow = ms.Engine(small.query(before)), ms.Engine(small.query(after))
    pushes = list(draw_pushes(rng, small, 40, pace=5))
    for push in pushes[:15]:
        wide.push(push)
        narrow.push(push)
    engine = ms.Engine.restore(small.query(after), wide.snapshot().to_bytes(), plan=draw_plan(rng, small.size))
    count, results = Count(), 0
    for push in pushes[15:]:
        wanted = sorted_rows(narrow.push(push))
        assert sorted_rows(engine.push(push)) == wanted
        results += len(wanted)
        audit(engine, small, count)
    assert results > 0 and count.stored > 0


def test_other_outputs_need_columns_that_were_kept() -> None:
    schemas = dict.fromkeys("ab", SCHEMA)
    texts = [f"SELECT {columns} FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k" for columns in ("a.x, b.y", "b.y")]
    wide, narrow = (ms.query(text, schemas=schemas, event_time="ts") for text in texts)
    rows = pa.table({"k": [1], "x": [2], "y": [3], "v": [4], "s": ["five"], "ts": [6]}, schema=SCHEMA)
    engine = ms.Engine(wide)
    engine.push({"a": rows})
    other = ms.Engine.restore(narrow, engine.snapshot())
    assert other.push({"b": rows}).column("y").to_pylist() == [3]
    with pytest.raises(SnapshotError, match="did not keep column 'x' of 'a'"):
        ms.Engine.restore(wide, ms.Engine(narrow).snapshot())


def test_counters_and_watermark_go_on() -> None:
    engine = make_running_engine(COMMON)
    before, after = engine.stats(), ms.Engine.restore(engine.query, engine.snapshot()).stats()
    for name in ("rows_in", "rows_out", "late", "rejected", "watermark", "held_back_by"):
        assert getattr(after, name) == getattr(before, name)
