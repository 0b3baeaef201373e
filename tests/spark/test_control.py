"""A running query is told to change its plan, from outside, exactly once."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import midstream as ms
import midstream.spark
from midstream.app.control import control_app
from midstream.errors import EngineError, PlanError, SparkError
from midstream.spark.commands.control_folder import Control, ControlFolder, TooEarly
from midstream.spark.commands.messages import (
    TOO_EARLY,
    AddressedCommand,
    Command,
    address_command,
    obey,
    refuse_early,
)
from midstream.spark.listener import JoinListener

from .conftest import since
from .streams import LONG, SECOND, Input, StreamRun, check, expect, join_text, run, start

pytestmark = pytest.mark.versions

ROW = {"k": int, "ts": int}
NO_ID = "it has no id of 1 to 64 letters, digits, - and _"
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
    while [cell_status.plan for cell_status in control.status().values()] != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return [cell_status.plan for cell_status in control.status().values()] == expected


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
    good = control.migrate("((b c) a)")  # it has ended, so nobody waits
    bad_plan = Command("((b z) a)")
    control._folder.write("commands", f"{bad_plan.identity}.json", bad_plan.to_json())
    one_cell = control.migrate("((a c) b)", "moving-state", cells=1, wait=False)
    nobody = control.migrate("((a c) b)", cells=[7], wait=False)
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

    # A new checkpoint obeys none of them, nor one that nobody has taken yet: it says so, and changes nothing.
    late = control.migrate("((b c) a)", wait=False)
    again = run(joined(), tmp_path / "another checkpoint")
    assert plans(control, ["((a b) c)", "((a b) c)"])
    assert again.rows == expect(Input(ROWS), WINDOWS).rows
    with pytest.raises(TooEarly, match="refused by cell 0: the checkpoint is new and obeys commands from its second"):
        control.answer(late)


def test_a_running_query_is_migrated_and_waited_for(spark: Any, tmp_path: Path) -> None:
    frames = part(0, 6).frames(spark, tmp_path)
    text = join_text(WINDOWS)
    joined = ms.spark.sql(text, frames, "ts", LONG, partitions=1, control=str(tmp_path / "control"))
    ran = StreamRun()
    writer = joined.writeStream.foreachBatch(lambda frame, number: ran.batches.__setitem__(number, frame.toArrow()))
    query = (
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime="0 seconds").start()
    )
    try:
        seen: list[Any] = []
        control = ms.spark.control(query)
        query.processAllAvailable()
        # The source is quiet from here on: a command makes a batch of its own.
        control.migrate("((c a) b)", timeout=120, on_progress=seen.append)
        assert control.status()[0].plan == "((c a) b)"
        assert seen and control.progress().plans == {0: "((c a) b)"}
        ms.spark.control(tmp_path / "control").migrate("((b c) a)", "moving-state", timeout=120, until_complete=True)
        status = control.status()[0]
        assert (status.plan, status.percent) == ("((b c) a)", 100.0)
    finally:
        query.stop()
    filled = StreamRun({number: table for number, table in ran.batches.items() if table.num_rows})
    expected = expect(Input(ROWS), WINDOWS)
    assert filled.rows == expected.rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control folder of a query with two cells, both of which answer commands at once; the first comes too early."""
    made = ControlFolder(str(tmp_path / "control"))
    made.make()
    made.write("status", "query.json", json.dumps({"text": "", "aliases": ["a", "b"], "cells": 2}))
    given: list[Command] = []
    give = Control._give

    def give_and_answer(control: Control, command: Command) -> Command:
        given.append(command)
        answers = {0: TOO_EARLY} if len(given) == 1 else {0: "", 1: ""}
        made.write("status/answers", f"{command.identity}.json", json.dumps(answers))
        return give(control, command)

    monkeypatch.setattr(Control, "_give", give_and_answer)
    return tmp_path / "control"


def test_a_command_that_comes_too_early_is_given_again(folder: Path) -> None:
    control = ms.spark.control(folder)
    command = control.migrate("(b a)", timeout=20)
    assert control.answer(command) == {0: "", 1: ""}
    assert len(list((folder / "commands").iterdir())) == 2


def test_a_plan_with_set_operations(folder: Path) -> None:
    control = ms.spark.control(folder)
    with pytest.raises(PlanError, match="'union' at column 4: the query has no set operation"):
        control.migrate("(b union a)", wait=False)
    known = {"text": "", "aliases": ["a", "b"], "has_sets": True, "cells": 2}
    ControlFolder(str(folder)).write("status", "query.json", json.dumps(known))
    assert control.migrate("(b union a)", wait=False).plan == "(b union a)"


def test_completeness_is_waited_for_on_request(folder: Path) -> None:
    """All cells run the plan, but one still misses something: that is enough unless somebody asks for more."""

    def tell(phase: str) -> None:
        cells = {0: {"plan": "(b a)", "mig": ["jisc", phase, 40.0, 3, "unfilled rows"]}, 1: {"plan": "(b a)"}}
        ControlFolder(str(folder)).write("status", "cells.json", json.dumps({"is_running": True, "cells": cells}))

    tell("running")
    control = ms.spark.control(folder)
    control.migrate("(b a)", timeout=20)
    runner = CliRunner()
    with pytest.raises(SparkError, match="has not been changed everywhere within 1 s"):
        control.migrate("(b a)", timeout=1, until_complete=True)
    ran = runner.invoke(control_app, [str(folder), "migrate", "(b a)"])
    assert ran.exit_code == 0 and "40 %" in ran.stdout
    control.migrate("(b a)", timeout=20, until_complete=True, on_progress=lambda _: tell("done"))
    ran = runner.invoke(control_app, [str(folder), "migrate", "(b a)", "--until-complete", "--timeout", "20"])
    assert ran.exit_code == 0 and "done" in ran.stdout


def test_nobody_waits_for_a_query_that_has_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # nobody answers
    ended = {"is_running": False, "cells": {0: {"plan": "(a b)"}, 1: {"plan": "(a b)"}}}
    ControlFolder(str(folder)).write("status", "cells.json", json.dumps(ended))
    ran = CliRunner().invoke(control_app, [str(folder), "migrate", "(b a)"])
    assert ran.exit_code == 0 and "it is taken when the query is started again" in " ".join(ran.stdout.split())
    ran = CliRunner().invoke(control_app, [str(folder), "migrate", "(b a)", "--no-wait"])
    assert ran.exit_code == 0 and ran.stdout.startswith("given: ")
    with pytest.raises(SparkError, match="has not been changed everywhere within 1 s"):
        ms.spark.control(folder).migrate("(b a)", wait=True, timeout=1)


def test_only_refusals_are_answered() -> None:
    """What else fails inside a change of plan fails the batch."""

    def migrate(plan: str, strategy: str | None) -> None:
        raise {"plan": PlanError("no such input"), "engine": EngineError("no such strategy")}[plan]

    told = [AddressedCommand("1", "plan", None), AddressedCommand("2", "engine", None)]
    assert obey(told, migrate) == [["1", "no such input"], ["2", "no such strategy"]]
    with pytest.raises(KeyError):
        obey([AddressedCommand("3", "another", None)], migrate)


@pytest.mark.parametrize("place", ["s3a://bucket/checkpoints", "hdfs://nowhere:8020/checkpoints", "dbfs:/checkpoints"])
def test_a_default_folder_that_cannot_be_reached_means_off(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    frames = part(0, 1).frames(spark, tmp_path)
    before = sorted(tmp_path.iterdir())
    spark.conf.set("spark.sql.streaming.checkpointLocation", place)
    try:
        with caplog.at_level(logging.INFO, "midstream"):
            ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    (line,) = [record.getMessage() for record in caplog.records if "control" in record.getMessage()]
    assert line.startswith("midstream: control is off: control: ") and "control=PATH before the first start" in line
    with pytest.raises(SparkError, match="is no folder that can be reached"):
        ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1, control=f"{place}/control")
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_made(spark: Any, tmp_path: Path) -> None:
    frames = part(0, 1).frames(spark, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SparkError, match=r"control: the folder .*file/control' cannot be made"):
        ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1, control=str(tmp_path / "file" / "control"))


def test_a_folder_under_the_checkpoint_location(spark: Any, tmp_path: Path) -> None:
    frames = part(0, 1).frames(spark, tmp_path)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1)
        ran = StreamRun()
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
        ("[" * 60_000, "it is not JSON"),
        ("[" * 100_000, "it has 100,000 characters, and a command at most 65,536"),
        *(
            (json.dumps({"do": "migrate", "plan": "(a b)", "id": identity}), NO_ID)
            for identity in (None, 3, "", "x" * 65, "/../../../victim", "a/b", ".x", "ä", "x\n")
        ),
        (json.dumps({"do": "migrate", "plan": "(a b)"}), NO_ID),
        (
            json.dumps({"do": "migrate", "plan": "(a b)", "id": "x", "cells": ["1"]}),
            "its cells are not a list of numbers",
        ),
        (json.dumps({"do": "migrate", "plan": "(a b)", "id": "x", "strategy": 3}), "its strategy is not a text"),
        (
            json.dumps({"do": "migrate", "plan": "(a b)", "id": "x", "budget": 3}),
            "it has 'budget', which no command has; a migration has plan, strategy and cells",
        ),
    ],
)
def test_files_that_are_no_commands(text: str, reason: str) -> None:
    ((cell, command),) = address_command(text, 4)
    assert cell == 0 and command.refusal == f"the command was not understood: {reason}"
    assert command.identity in ("x", "unknown")


def test_a_plan_of_nothing_but_operators_is_refused() -> None:
    text = "SELECT DISTINCT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"
    query = ms.query(text, {"a": ROW, "b": ROW}, "ts")
    engine = ms.Engine(query)
    plan = "distinct(" * 5_000 + "a" + ")" * 5_000 + " b"
    ((identity, reason),) = obey([AddressedCommand("x", plan, None)], engine.migrate)
    assert identity == "x" and "distinct(distinct(" not in reason and "operators" in reason


def test_answers_stay_in_their_folder(spark: Any, tmp_path: Path) -> None:
    """Whatever a report says, and whoever wrote it: the driver writes answers below the control folder alone."""
    folder = ControlFolder(str(tmp_path / "control"))
    folder.make()
    victim = tmp_path / "victim.json"
    victim.write_text("mine")
    listener = JoinListener(spark)
    outside = ["/../../../../victim", "../victim", "a/b", "x" * 300, "", ".", "\0"]
    reports = {0: {"ans": [*([identity, "no"] for identity in outside), ["good", ""]]}}
    listener._tell(SimpleNamespace(runId="r", batchId=1), folder, {}, reports)
    assert victim.read_text() == "mine"
    assert [path.name for path in (tmp_path / "control" / "status" / "answers").iterdir()] == ["good.json"]


def test_a_status_that_was_cut_off_is_none(tmp_path: Path) -> None:
    """As after the end of a machine that had renamed the file, and not yet written it."""
    folder = ControlFolder(str(tmp_path / "control"))
    folder.make()
    for content in ("", '{"cells": ', "7"):
        (tmp_path / "control" / "status" / "cells.json").write_text(content)
        assert folder.read("status/cells.json") is None and ms.spark.control(tmp_path / "control").status() == {}
    (tmp_path / "control" / "status" / "query.json").mkdir()
    with pytest.raises(SparkError, match=r"control: '.*query.json' cannot be written; "):
        folder.write("status", "query.json", "{}")


@pytest.mark.slow
def test_two_queries_of_one_name_tell_their_own_folders(spark: Any, tmp_path: Path) -> None:
    frames = part(0, 1).frames(spark, tmp_path)
    folders = {cells: str(tmp_path / f"control-{cells}") for cells in (1, 2)}
    joined = {
        cells: ms.spark.sql(
            join_text(WINDOWS), frames, "ts", LONG, partitions=1, cells=cells, name="both", control=folder
        )
        for cells, folder in folders.items()
    }
    for cells, frame in joined.items():
        run(frame, tmp_path / f"checkpoint-{cells}")
    for cells, folder in folders.items():
        assert plans(ms.spark.control(folder), ["((a b) c)"] * cells)


def test_a_first_batch_that_does_not_know_its_number_obeys_nothing() -> None:
    early = AddressedCommand.from_bytes(refuse_early(AddressedCommand("1", "(a b)", None).to_bytes()))
    assert early == AddressedCommand("1", "(a b)", None, TOO_EARLY)
    refused = AddressedCommand("1", "", None, "it is not JSON")
    assert AddressedCommand.from_bytes(refuse_early(refused.to_bytes())) == refused


def test_a_folder_with_any_name(spark: Any, tmp_path: Path) -> None:
    """Spark shows paths as they are, neither encoded nor quoted; and a folder of data may be called commands."""
    given = part(0, 1)
    folder = tmp_path / "my jobs, ä+b#c%20d" / "control"
    given.write(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "a").rename(tmp_path / "data" / "commands")
    (tmp_path / "a").symlink_to(tmp_path / "data" / "commands")
    frames = given.frames(spark, tmp_path)
    frames["a"] = spark.readStream.schema(frames["a"].schema).parquet(str(tmp_path / "data" / "commands"))
    joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1, control=str(folder))
    ran = StreamRun()
    query = start(joined, tmp_path / "checkpoint", ran)
    query.awaitTermination()
    control = ms.spark.control(query)
    assert plans(control, ["((a b) c)"]) and plans(ms.spark.control(folder), ["((a b) c)"])
    assert not (tmp_path / "data" / "status").exists()
    command = ms.spark.control(folder).migrate("((b c) a)")
    run(joined, tmp_path / "checkpoint")
    assert plans(control, ["((b c) a)"]) and control.answer(command) == {0: ""}


@pytest.mark.parametrize("name", ["a*", "a?", "a[1]", "{a}", "a\\b"])
def test_a_folder_that_spark_takes_for_a_pattern(spark: Any, tmp_path: Path, name: str) -> None:
    frames = part(0, 1).frames(spark, tmp_path)
    with pytest.raises(SparkError, match="Spark takes for a pattern"):
        ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=1, control=str(tmp_path / name))


def test_a_new_checkpoint_obeys_nothing_that_it_finds() -> None:
    command = Command("(a b)", cells=(3, 1))
    assert [cell for cell, answer in address_command(command.to_json(), 4) if answer.refusal is None] == [3, 1]
    ((cell, answer),) = address_command(command.to_json(), 4, is_first_batch=True)
    assert cell == 0 and answer.refusal == TOO_EARLY


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
