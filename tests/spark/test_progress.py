"""What a query tells about itself: counters, plans, migrations, a stream that stalls, cells that are idle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.spark.reports.cell_report import DEMAND_FIELDS, LARGEST_REPORT, MEMORY_FIELDS, report_of, write_report
from midstream.spark.reports.totals import Progress, cell_reports
from midstream.spark.routing.router import Router
from midstream.spark.spec import JoinSpec

from . import streams
from .streams import SECOND, Input

WINDOWS: dict[str, int | None] = {"a": 3 * SECOND, "b": 3 * SECOND, "c": 3 * SECOND}


def told(streams: int = 3, letters: str = "s", length: int = 5, plan: int = 50) -> dict[str, Any]:
    """What a cell tells, with names of that length."""
    names = [f"{place}{letters * length}" for place in range(streams)]
    counts = dict.fromkeys(names, 2**50)
    return {
        "in": counts,
        "out": 2**50,
        "late": counts,
        "dropped": 2**50,
        "rejected": 2**50,
        "bytes": 2**50,
        "stored": 2**50,
        "parcels": 2**20,
        "watermark": 2**50,
        "reached": dict.fromkeys(names, 2**62),
        "plan": letters * plan,
        "executor": "stairs",
        "policy": "cost",
        "place": "loaded",
        "loads": 3,
        "resident": 2**50,
        "seconds": 123.456789,
        "store": 1e5,
        "total": 1e6,
        "migration": {
            "strategy": "genmig-reference-point",
            "phase": "x" * 20,
            "percent": 99.9,
            "holes": 2**50,
            "unit": "unfilled rows",
            "to": "",
        },
        "memory": dict.fromkeys(MEMORY_FIELDS, 2**50),
        "demand": dict.fromkeys(DEMAND_FIELDS, 2**50),
        "kinds": dict.fromkeys(("window", "hidden", "join", "suspended", "output"), 2**50),
        "heavy": [f"{letters * length}.{letters * length}", letters * 60, 0.123456789],
    }


def test_six_streams_leave_room_for_demand_and_memory() -> None:
    wide = {name: 10**9 if value == 2**50 else value for name, value in told(6, "s", 6, 500).items()}
    wide |= {name: dict.fromkeys(wide[name], 10**9) for name in ("in", "memory", "demand", "kinds")}
    wide |= {"late": dict.fromkeys(wide["late"], 10**4), "migration": None}
    del wide["heavy"]
    assert {"mem", "dem"} <= report_of(3, wide).keys()


@pytest.mark.parametrize("count", [1, 3, 7, 40, 200])
@pytest.mark.parametrize("letters", ["s", "é", '"', "\U0001f600"])
@pytest.mark.parametrize("length", [1, 30, 250])
def test_a_report_stays_below_a_kilobyte(count: int, letters: str, length: int) -> None:
    for plan in (10, 240, 5_000):
        report = report_of(999_999, told(count, letters, length, plan))
        assert len(write_report(report)) <= LARGEST_REPORT <= 1024
        total = Progress.of({999_999: report})
        assert sum(total.rows_in.values()) == count * 2**50 == sum(total.late.values())
        assert total.rows_out == total.dropped == total.rejected == total.state_bytes == total.holes == 2**50


def test_small_reports_are_whole() -> None:
    report = report_of(1, told(2))
    assert set(report["in"]) == set(report["reached"]) == {"0sssss", "1sssss"} and len(report["plan"]) == 50


def test_no_reports() -> None:
    none = Progress.of({})
    assert (none.rows_in, none.rows_out, none.held_back_by, none.in_place) == ({}, 0, None, 0.0)
    assert none.memory == none.demand == none.bytes_by_kind == {}


def test_memory_is_summed_over_cells() -> None:
    others = {"demand": None, "kinds": {}}
    reports = {
        cell: report_of(cell, told() | others | {"memory": dict.fromkeys(MEMORY_FIELDS, cell)}) for cell in (1, 2, 4)
    }
    total = Progress.of(reports).memory
    assert total == dict.fromkeys(MEMORY_FIELDS, 7) | {"over": 4}


def test_demand_and_bytes_are_summed_over_cells() -> None:
    counted = dict.fromkeys(DEMAND_FIELDS, 1) | {"hidden": 10, "woken": 2, "released": 3, "suspended": 7}
    reports = {
        cell: report_of(cell, told(1) | {"memory": None, "demand": counted, "kinds": {"window": cell, "join": 5}})
        for cell in (1, 2)
    }
    total, saved = Progress.of(reports), (10 - 2 - 3 + 1) + (7 - 1)
    assert total.demand == {name: 2 * count for name, count in counted.items()} | {"saved": 2 * saved}
    assert total.bytes_by_kind == {"window": 3, "join": 10}


@pytest.mark.versions
def test_reports_of_classic_and_connect_sessions() -> None:
    from pyspark.sql import Row

    text = json.dumps(report_of(1, told()))
    shapes = [
        {"observedMetrics": {"midstream_ab": {"cell_0": None, "cell_1": text}, "other": {"x": "{"}}},
        {"observedMetrics": {"midstream_ab": Row(cell_0=None, cell_1=text)}},
        {"observedMetrics": {"midstream_ab": Row(values=[None, text], schema=None)}},
    ]
    for shape in shapes:
        assert cell_reports(shape) == {1: json.loads(text)}
    for nothing in ({"observedMetrics": None}, {}, {"observedMetrics": {"midstream_ab": None}}):
        assert cell_reports(nothing) == {}


def test_the_stream_that_holds_the_watermark_back() -> None:
    def report(**reached: int | None) -> dict[str, Any]:
        return report_of(0, told() | {"reached": reached})

    assert Progress.of({0: report(a=5, b=3), 1: report(a=1, b=4)}).held_back_by == "b"
    assert Progress.of({0: report(a=5, b=3), 1: report(a=5, b=5)}).held_back_by is None
    assert Progress.of({0: report(a=5, b=3, c=None)}).held_back_by == "c"
    assert Progress.of({0: report(a=5, c=None), 1: report(a=5, c=4)}).held_back_by == "c"


def test_a_stalled_stream_is_named_and_joins_go_on(spark: Any, tmp_path: Path) -> None:
    """Stream c has rows in the first batch only: the watermark stays, and so does everything that came after it."""
    rows = [[(k, number * 10 + k, number * 10 * SECOND) for k in range(6)] for number in range(4)]
    given = Input({"a": rows, "b": rows, "c": [rows[0], [], [], []]})
    windows = {**WINDOWS, "c": 25 * SECOND, "b": 25 * SECOND, "a": 25 * SECOND}
    frame = ms.spark.sql(
        streams.join_text(windows),
        given.frames(spark, tmp_path),
        "ts",
        {"a": "0 seconds", "b": "9 seconds", "c": "0 seconds"},
        partitions=2,
    )
    ran = streams.run(frame, tmp_path / "checkpoint")
    expected = streams.expect(given, windows, ran.watermarks)
    streams.check(ran, expected)
    assert len(expected.by_batch[2]) > 0, "joins go on"
    last = Progress.of(ran.reports()[3])
    assert last.held_back_by == "c"
    assert last.stored_bytes > Progress.of(ran.reports()[1]).stored_bytes > 0
    assert last.rows_in == {"a": 6, "b": 6} and last.rows_out == len(expected.by_batch[3])
    assert Progress.of(ran.reports()[0]).rows_in == {"a": 6, "b": 6, "c": 6}
    for reports in ran.reports():
        assert all(len(write_report(report)) <= LARGEST_REPORT for report in reports.values())


def test_a_stream_whose_rows_are_filtered_out_does_not_hold_back(spark: Any, tmp_path: Path) -> None:
    """Stream b goes on, though no row of it passes the filter after the first batch; c stands still."""
    rows = [[(k, number * 10 + k, number * 10 * SECOND) for k in range(6)] for number in range(3)]
    given = Input({"a": rows, "b": rows, "c": [rows[0], rows[0], rows[0]]})
    text = streams.join_text(WINDOWS) + " AND b.v < 10"
    frame = ms.spark.sql(text, given.frames(spark, tmp_path), "ts", streams.LONG, partitions=2)
    ran = streams.run(frame, tmp_path / "checkpoint")
    assert Progress.of(ran.reports()[2]).held_back_by == "c"


def test_a_stream_without_any_row_is_named(spark: Any, tmp_path: Path) -> None:
    rows = [[(k, k, number * SECOND) for k in range(6)] for number in range(2)]
    given = Input({"a": rows, "b": rows, "c": [[], []]})
    frame = ms.spark.sql(streams.join_text(WINDOWS), given.frames(spark, tmp_path), "ts", partitions=1)
    ran = streams.run(frame, tmp_path / "checkpoint")
    assert not ran.rows and set(ran.watermarks) == {None}
    assert Progress.of(ran.reports()[1]).held_back_by == "c"


@pytest.mark.versions
def test_idle_cells_are_called_and_purge(spark: Any, tmp_path: Path) -> None:
    """After the first batch all rows have a key of cell 0; the last batch has none, and both cells have only timers."""
    spec = JoinSpec(streams.join_text(WINDOWS), dict.fromkeys(WINDOWS, Input({}).table([]).schema), "ts", 2)
    router = Router(spec.routing, "a")
    key = next(k for k in range(20) if router.split(Input({}).table([(k, 0, 0)])).parts[0].cell == 0)
    first = [(k, k, k * 1000) for k in range(20)]
    later = [[(key, 100 * number + v, number * 20 * SECOND + v) for v in range(5)] for number in range(1, 4)]
    given = Input({name: [first, *later] for name in WINDOWS})
    frame = ms.spark.sql(streams.join_text(WINDOWS), given.frames(spark, tmp_path), "ts", "1 second", partitions=2)
    query = streams.start(frame, tmp_path / "checkpoint", ran := streams.StreamRun())
    query.awaitTermination()
    ran.progress = list(query.recentProgress)
    streams.check(ran, streams.expect(given, WINDOWS, ran.watermarks))
    reports = ran.reports()
    assert [sorted(by_cell) for by_cell in reports] == [[0, 1]] * 5
    assert all(
        report["wm"] == (mark and mark // 1000)
        for all_of, mark in zip(reports, ran.watermarks, strict=True)
        for report in all_of.values()
    )
    assert [by_cell[1]["parcels"] for by_cell in reports] == [3, 3, 0, 0, 0]
    purged = reports[2][1]
    assert purged["stored"] == 0 and purged["in"] == {}
    busy = reports[3][0]
    assert busy["parcels"] <= 6 and busy["wm"] * 1000 == ran.watermarks[3]
    total = ms.spark.progress(query)
    assert set(total.plans.values()) == {"((a b) c)"} and total.seconds["total"] > 0
    assert total.rows_in.keys() <= {"a", "b", "c"}


def test_two_joins_in_one_query_do_not_mix_their_reports(spark: Any, tmp_path: Path) -> None:
    rows = [[(k, k, number * SECOND) for k in range(6)] for number in range(2)]
    given = Input({"a": rows, "b": rows, "c": [row[:2] for row in rows]})
    frames = given.frames(spark, tmp_path / "in")
    windows: dict[str, dict[str, int | None]] = {
        "ab": {"a": SECOND, "b": SECOND},
        "bc": {"b": SECOND // 2, "c": SECOND // 2},
    }
    joins = [
        ms.spark.sql(
            streams.join_text(own),
            {stream: frames[stream] for stream in own},
            "ts",
            partitions=2,
            name=name,
            control=tmp_path / name,
        ).toDF("x", "y", "valid_from", "valid_to")
        for name, own in windows.items()
    ]
    ran = streams.StreamRun()
    query = streams.start(joins[0].union(joins[1]), tmp_path / "checkpoint", ran)
    query.awaitTermination()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    for name, own in windows.items():
        expected = streams.expect(Input({stream: given.batches[stream] for stream in own}), own)
        found = [ms.spark.cell_reports(progress, name) for progress in query.recentProgress]
        assert [sum(cell["out"] for cell in reports.values()) for reports in found][:2] == [
            sum(results.values()) for results in expected.by_batch
        ]
        assert set(ms.spark.progress(query, name).plans.values()) == {f"({' '.join(own)})"}
        told = json.loads((tmp_path / name / "status" / "cells.json").read_text())
        assert {report["plan"] for report in told["cells"].values()} == {f"({' '.join(own)})"}
    with pytest.raises(ms.SparkError, match="the query has several joins; give join=, one of ab, bc"):
        ms.spark.progress(query)
    with pytest.raises(ms.SparkError, match="the query has no join 'cd'; joins: ab, bc"):
        ms.spark.progress(query, "cd")
    with pytest.raises(ms.SparkError, match=r"control: this query has several joins; give a folder, one of .*ab, .*bc"):
        ms.spark.control(query)


def test_progress_of_a_query_without_a_join(spark: Any, tmp_path: Path) -> None:
    frames = Input({"a": [[(1, 1, 1)]]}).frames(spark, tmp_path)
    query = frames["a"].writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    query.processAllAvailable()
    try:
        with pytest.raises(ms.SparkError, match="progress: the query has no join of Midstream; give the query that"):
            ms.spark.progress(query)
        with pytest.raises(ms.SparkError, match="control: this query has no control folder"):
            ms.spark.control(query)
        assert ms.spark.reason(query) is None
    finally:
        query.stop()
