"""Snapshots of queries with steps: operators must stay, and the stored step goes on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.snapshot.checkpoint import check_query
from midstream.errors import SnapshotError

SCHEMA = pa.schema({"k": pa.int64(), "x": pa.int32(), "name": pa.string(), "ts": pa.int64()})
GROUPED = "SELECT k, sum(x) AS total FROM a [RANGE 10 SECONDS] GROUP BY k HAVING count(*) > 1"


def make_query(text: str, step: str | None = None, schema: pa.Schema = SCHEMA) -> ms.Query:
    return ms.query(text, {"a": schema}, "ts", step=step)


def take_snapshot(text: str, step: str | None = None) -> ms.Snapshot:
    engine = ms.Engine(make_query(text, step))
    engine.push({"a": [{"k": 1, "x": 2, "name": "three", "ts": 4}]})
    return ms.Snapshot.from_bytes(engine.snapshot().to_bytes())


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (GROUPED, GROUPED.replace("SELECT", "SELECT DISTINCT"), "distinct"),
        (GROUPED, GROUPED.replace("GROUP BY k", "GROUP BY k, name"), "group keys"),
        (GROUPED, GROUPED.replace("sum(x)", "max(x)"), "aggregates"),
        (GROUPED, GROUPED.replace("> 1", "> 2"), "having"),
        (GROUPED, GROUPED.partition(" HAVING")[0], "aggregates"),
        (GROUPED, GROUPED.replace("AS total", "AS t"), "outputs"),
        (GROUPED, GROUPED.replace("k, sum(x) AS total", "sum(x) AS total"), "outputs"),
        ("SELECT DISTINCT k FROM a [RANGE 1 SECOND]", "SELECT k FROM a [RANGE 1 SECOND] GROUP BY k", "distinct"),
        ("SELECT DISTINCT k FROM a [RANGE 1 SECOND]", "SELECT DISTINCT x FROM a [RANGE 1 SECOND]", "outputs"),
        ("SELECT k FROM a [TUMBLE 1 SECOND]", "SELECT k, x FROM a [TUMBLE 1 SECOND]", "outputs"),
        ("SELECT k FROM a [TUMBLE 1 SECOND]", "SELECT k FROM a [TUMBLE 1 SECOND] GROUP BY k", "grouped"),
    ],
)
def test_other_operators_are_refused(before: str, after: str, part: str) -> None:
    snapshot = take_snapshot(before)
    check_query(make_query(before), snapshot)
    with pytest.raises(SnapshotError, match=rf"the snapshot is of another query; {part}: "):
        ms.Engine.restore(make_query(after), snapshot)


def test_a_join_does_not_become_a_query_with_steps_or_back() -> None:
    plain, distinct = "SELECT k FROM a [RANGE 1 SECOND]", "SELECT DISTINCT k FROM a [RANGE 1 SECOND]"
    with pytest.raises(SnapshotError, match="is of a plain join, and the query has DISTINCT"):
        ms.Engine.restore(make_query(distinct), take_snapshot(plain))
    with pytest.raises(SnapshotError, match="of a query with steps of 100 milliseconds, and the query is a plain join"):
        ms.Engine.restore(make_query(plain), take_snapshot(distinct))
    with pytest.raises(SnapshotError, match="is of a plain join, and the query has DISTINCT"):
        ms.Engine.restore(make_query("SELECT k FROM a [TUMBLE 1 MS]"), take_snapshot("SELECT k FROM a [UNBOUNDED]"))


def test_the_stored_step_goes_on_although_windows_are_smaller() -> None:
    snapshot = take_snapshot(GROUPED)
    smaller = make_query(GROUPED.replace("10 SECONDS", "2 SECONDS"))
    assert (smaller.step, check_query(smaller, snapshot).step) == (200_000, 1_000_000)
    unbounded = GROUPED.replace("RANGE 10 SECONDS", "UNBOUNDED")
    assert check_query(make_query(GROUPED), take_snapshot(unbounded, "7 s")).step == 7_000_000


def test_a_step_that_is_given_must_be_the_stored_one() -> None:
    snapshot = take_snapshot(GROUPED)
    assert check_query(make_query(GROUPED, "1 s"), snapshot).step == 1_000_000
    with pytest.raises(SnapshotError, match=r"in steps of 1 second and step= says 2 seconds; give step='1 second', or"):
        ms.Engine.restore(make_query(GROUPED, "2 s"), snapshot)


def test_the_stored_step_must_be_a_multiple_of_new_buckets() -> None:
    texts = [f"SELECT DISTINCT k FROM a [{window}]" for window in ("UNBOUNDED", "TUMBLE 5 SECONDS", "TUMBLE 2 SECONDS")]
    snapshot = take_snapshot(texts[0], "10 s")
    assert check_query(make_query(texts[1]), snapshot).step == 10_000_000
    with pytest.raises(SnapshotError, match=r"not a multiple of \[TUMBLE 5 SECONDS\] of 'a'; keep the former window"):
        ms.Engine.restore(make_query(texts[1]), take_snapshot(texts[0], "1 s"))
    with pytest.raises(SnapshotError, match=r"'a' was \[TUMBLE 5 SECONDS\] and would become \[TUMBLE 2 SECONDS\]"):
        ms.Engine.restore(make_query(texts[2], "10 s"), take_snapshot(texts[1], "10 s"))


def test_the_types_of_operators_must_stay() -> None:
    wider = SCHEMA.set(1, pa.field("x", pa.int64()))
    with pytest.raises(SnapshotError, match="the snapshot is of another query; aggregates: "):
        ms.Engine.restore(make_query(GROUPED, schema=wider), take_snapshot(GROUPED))


def test_a_plain_join_is_described_as_before() -> None:
    """So that snapshots and checkpoints of earlier versions still fit."""
    meta: dict[str, Any] = take_snapshot("SELECT k FROM a [RANGE 1 SECOND]").meta
    assert "step" not in meta
    assert list(meta["query"]) == ["inputs", "filters", "keys", "bands", "thetas", "time"]
