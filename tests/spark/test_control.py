"""A running query is told to change its plan, from outside, exactly once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.errors import PlanError, SparkError
from midstream.spark.commands import Command, addressed

from .conftest import since
from .streams import LONG, SECOND, Input, Ran, check, expect, join_text, run, start

pytestmark = pytest.mark.versions

WINDOWS = {"a": 30 * SECOND, "b": 30 * SECOND, "c": 30 * SECOND}
ROWS = {
    name: [
        [((5 * at + batch) % 7, 100 * batch + at, (10 * batch + at) * SECOND) for at in range(8)] for batch in range(6)
    ]
    for name in WINDOWS
}


def plans(control: Any, expected: list[str]) -> bool:
    """Whether the cells report these plans; the driver's listener hears of a batch a little after it has ended."""
    deadline = time.monotonic() + 30
    while [one.plan for one in control.status().values()] != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return [one.plan for one in control.status().values()] == expected


def part(begin: int, end: int) -> Input:
    return Input({name: batches[begin:end] for name, batches in ROWS.items()})


def test_commands_take_effect_once_and_survive_a_restart(spark: Any, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "control", tmp_path / "checkpoint"
    frames = part(0, 2).frames(spark, tmp_path)

    def joined() -> Any:
        return ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=2, control=str(folder))

    first = joined()
    control = ms.spark.control(folder)
    begun = run(first, checkpoint)
    assert plans(control, ["((a b) c)", "((a b) c)"])

    # Commands that come while no query runs are there at the next start; the bad ones change nothing.
    good = control.migrate("((b c) a)")
    bad_plan = Command("((b z) a)")
    control._folder.write("commands", f"{bad_plan.identity}.json", bad_plan.to_json())
    one_cell = control.migrate("((a c) b)", "moving-state", cells=1)
    nobody = control.migrate("((a c) b)", cells=[7])
    part(2, 4).write(tmp_path, first=2)
    gone_on = run(joined(), checkpoint)
    assert plans(control, ["((b c) a)", "((a c) b)"])
    assert control.answer(good) == {0: "", 1: ""}
    assert control.answer(one_cell) == {1: ""}
    with pytest.raises(SparkError, match="refused by cell 0: plan: unknown input 'z'"):
        control.answer(bad_plan)
    with pytest.raises(SparkError, match="refused by cell 0: there is no cell 7; cells: 0 to 1"):
        control.answer(nobody)

    # They do not take effect again.
    part(4, 6).write(tmp_path, first=4)
    ended = run(joined(), checkpoint)
    assert plans(control, ["((b c) a)", "((a c) b)"])
    assert begun.rows + gone_on.rows + ended.rows == expect(Input(ROWS), WINDOWS).rows


def test_a_running_query_is_migrated_and_waited_for(spark: Any, tmp_path: Path) -> None:
    frames = part(0, 6).frames(spark, tmp_path)
    text = join_text(WINDOWS)
    joined = ms.spark.sql(text, frames, "ts", LONG, partitions=1, control=str(tmp_path / "control"))
    ran = Ran()
    writer = joined.writeStream.foreachBatch(lambda frame, number: ran.batches.__setitem__(number, frame.toArrow()))
    query = (
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime="0 seconds").start()
    )
    try:
        seen: list[Any] = []
        control = ms.spark.control(query)
        control.migrate("((c a) b)", wait=True, timeout=120, on_progress=seen.append)
        assert plans(control, ["((c a) b)"])
        assert seen and control.progress().plans == {0: "((c a) b)"}
        query.processAllAvailable()
    finally:
        query.stop()
    filled = Ran({number: table for number, table in ran.batches.items() if table.num_rows})
    expected = expect(Input(ROWS), WINDOWS)
    assert filled.rows == expected.rows


def test_a_folder_under_the_checkpoint_location(spark: Any, tmp_path: Path) -> None:
    frames = part(0, 1).frames(spark, tmp_path)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1)
        ran = Ran()
        query = start(joined, tmp_path / "checkpoint", ran)
        query.awaitTermination()
        control = ms.spark.control(query)
        assert plans(control, ["((a b) c)"])
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert len(list((tmp_path / "all" / "midstream-control").iterdir())) == 1
    check(ran, expect(part(0, 1), WINDOWS))


def test_what_cannot_be_controlled(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SparkError, match="is not the control folder of a query"):
        ms.spark.control(tmp_path)
    frames = part(0, 1).frames(spark, tmp_path)
    ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1, control=str(tmp_path / "control"))
    with pytest.raises(PlanError, match="unknown input 'z'"):
        ms.spark.control(tmp_path / "control").migrate("((a b) z)")
    ran = run(ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1), tmp_path / "checkpoint")
    assert ran.progress


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("[1]", 'it is not {"do": "migrate", ...}'),
        (json.dumps({"do": "drop"}), 'it is not {"do": "migrate", ...}'),
        (json.dumps({"do": "migrate", "id": "x"}), "it has no plan"),
        (json.dumps({"do": "migrate", "plan": "(a b)"}), "it has no id"),
        (
            json.dumps({"do": "migrate", "plan": "(a b)", "id": "x", "cells": ["1"]}),
            "its cells are not a list of numbers",
        ),
        (json.dumps({"do": "migrate", "plan": "(a b)", "id": "x", "strategy": 3}), "its strategy is not a text"),
    ],
)
def test_files_that_are_no_commands(text: str, reason: str) -> None:
    ((cell, one),) = addressed(text, 4)
    assert cell == 0 and one.refusal == f"the command was not understood: {reason}"


@since("4.2")
def test_sources_have_names_where_spark_wants_them(spark: Any, tmp_path: Path) -> None:
    """With source evolution on, a query with a source that has no name does not start."""
    given = part(0, 2)
    given.write(tmp_path)
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    frames = {
        name: session.readStream.schema("k long, v long, ts timestamp")
        .option("maxFilesPerTrigger", 1)
        .name(f"stream_{name}")
        .parquet(str(tmp_path / name))
        for name in WINDOWS
    }
    folder = tmp_path / "control"
    joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=2, control=str(folder))
    ran = run(joined, tmp_path / "checkpoint")
    assert ran.rows == expect(given, WINDOWS).rows
    assert plans(ms.spark.control(folder), ["((a b) c)", "((a b) c)"])
