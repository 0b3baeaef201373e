"""The demo on Spark: what it says when something is missing, how it is drawn, and that it ends with the same rows."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from midstream.app import demo_screen, demo_spark, doctor
from midstream.app.demo_screen import (
    CHANGING,
    QUIET,
    RECOVERED,
    SUFFERING,
    ChartScreen,
    batches_in,
    note_text,
    parts_of,
    summary,
)
from midstream.app.demo_streams import NEW_PLAN, OLD_PLAN, Story
from midstream.app.doctor import Java
from midstream.errors import SparkError

STORY = Story(rows=1_000, quiet=3, suffering=2, recovered=2)
RATES = [50, 400, 400, 200, 200, 350, 400]


def batches() -> list[Any]:
    demo = pytest.importorskip("midstream.spark.jobs.demo")
    told = []
    for number, rate in enumerate(RATES):
        is_new = number >= STORY.quiet + STORY.suffering
        migrations = {0: {"strategy": "jisc", "percent": 98.5 if number == 5 else 100.0}} if is_new else {}
        plans = {0: NEW_PLAN if is_new else OLD_PLAN}
        told.append(demo.Batch(number, 4_000, 10, 0, 4_000 / rate, 0.5, 10_000_000, plans, migrations))
    return told


def test_every_batch_belongs_to_a_part() -> None:
    assert parts_of(batches(), STORY) == [QUIET] * 3 + [SUFFERING] * 2 + [CHANGING, RECOVERED]


def test_a_command_that_comes_late_lengthens_the_suffering() -> None:
    told = [replace(batch, plans={0: OLD_PLAN} if batch.number < 6 else {0: NEW_PLAN}) for batch in batches()]
    assert parts_of(told, STORY)[3:] == [SUFFERING] * 3 + [CHANGING]


def test_the_first_batch_is_not_counted() -> None:
    assert [batch.number for batch in batches_in(batches(), QUIET, STORY)] == [1, 2]
    assert note_text(batches()[0], QUIET, STORY) == "starts workers and hosts"


@pytest.mark.parametrize("terminal", [True, False])
def test_every_batch_is_shown_with_its_rate_and_plan(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=150, color_system=None)
    with ChartScreen(console, STORY) as screen:
        for batch in batches():
            screen.show(batch)
        screen.tell("midstream control PATH migrate PLAN")
    text = out.getvalue()
    for piece in (
        "400",
        "███",
        OLD_PLAN,
        NEW_PLAN,
        "selectivities flip",
        "jisc: cell 0 98.5 %",
        "jisc: all cells 100 %",
        "$ midstream control PATH migrate PLAN",
    ):
        assert piece in text
    if not terminal:
        assert len(text.splitlines()) == 1 + STORY.batches + 1


def test_the_summary_has_throughput_before_during_and_after() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(summary(batches(), STORY))
    lines = out.getvalue().splitlines()
    assert [line.split()[-5] for line in lines[1:]] == ["2", "2", "1", "1"]
    assert "400" in lines[1] and "200" in lines[2] and "350" in lines[3] and "400" in lines[4]


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert demo_screen.draw(batches(), STORY, tmp_path / "new" / "demo.png")
    assert (tmp_path / "new" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not demo_screen.draw(batches(), STORY, tmp_path / "demo.png")


@pytest.mark.parametrize(
    ("missing", "java", "told"),
    [
        (["pyspark"], Java("java", "17.0.1"), r"pyspark is not installed; run: pip install 'midstream\[spark\]'"),
        (["pandas", "protobuf"], None, "pandas, protobuf are not installed"),
        ([], None, "needs Java 17 or newer, and there is none; install it"),
        ([], Java("/old/java", "11.0.2"), "needs Java 17 or newer, but /old/java is 11.0.2; install it"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, missing: list[str], java: Java | None, told: str
) -> None:
    monkeypatch.setattr(demo_spark, "missing_for_spark", lambda: missing)
    monkeypatch.setattr(demo_spark, "find_java", lambda: java)
    with pytest.raises(SparkError, match=told) as raised:
        demo_spark.run(STORY, Console(file=io.StringIO()), Path("nowhere"))
    assert "midstream demo --embedded" in str(raised.value) and "\n" not in str(raised.value)
    assert not Path("nowhere").exists()


def need_java() -> None:
    java = doctor.find_java()
    if doctor.missing_for_spark() or java is None or not java.ok:
        pytest.skip("no Spark here: midstream doctor says what is missing")


def command(out: Path, temporary: Path) -> tuple[list[str], dict[str, str]]:
    arguments = [sys.executable, "-m", "midstream.app.cli", "demo", "--rows", "2000", "--out", str(out)]
    return arguments, os.environ | {"TMPDIR": str(temporary), "COLUMNS": "150"}


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_the_demo_ends_with_the_same_rows_and_leaves_nothing_behind(tmp_path: Path) -> None:
    need_java()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    arguments, environment = command(tmp_path / "out", temporary)
    ran = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "same rows: Spark SQL" in ran.stdout and ran.stderr == ""
    assert NEW_PLAN in ran.stdout and "jisc: " in ran.stdout and "/control migrate " in ran.stdout
    assert not list(temporary.glob("midstream-demo-*"))
    assert (tmp_path / "out" / "demo-spark.log").exists()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Programs that are started here hear SIGINT, also if a shell runs the tests in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_cleans_up(tmp_path: Path, number: signal.Signals) -> None:
    need_java()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    arguments, environment = command(tmp_path / "out", temporary)
    with subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            if line.lstrip().startswith("0 "):  # the first batch is done
                break
        process.send_signal(number)
        assert process.wait(120) != 0
        assert "Traceback" not in process.stderr.read()
    deadline = time.monotonic() + 30
    while list(temporary.glob("midstream-demo-*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not list(temporary.glob("midstream-demo-*"))
