"""The command line: what it prints and how it ends."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from midstream.app import cli

TEXT = "SELECT o.id FROM orders [RANGE 1 HOUR] o, payments [RANGE 1 HOUR] p WHERE o.id = p.order_id"
SCHEMAS = ["-s", "orders=ts timestamp, id bigint", "-s", "payments=ts timestamp, order_id bigint"]


@dataclass(frozen=True)
class Run:
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


Midstream = Callable[..., Run]


@pytest.fixture
def midstream(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Midstream:
    """Runs `midstream` with arguments, in this process."""

    def run(*args: str, stdin: str = "") -> Run:
        monkeypatch.setattr(sys, "argv", ["midstream", *args])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return Run(ended.value.code if isinstance(ended.value.code, int) else 0, printed.out, printed.err)

    return run


def test_it_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "midstream.app.cli", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.startswith("midstream ")


def test_help_names_every_command(midstream: Midstream) -> None:
    run = midstream("--help")
    assert run.returncode == 0
    for command in ("demo", "explain", "bench", "doctor"):
        assert re.search(rf"\b{command}\b", run.stdout)


@pytest.mark.parametrize("command", [["demo"], ["explain"], ["bench"], ["bench", "engine"], ["doctor"]])
def test_every_command_has_help(midstream: Midstream, command: list[str]) -> None:
    run = midstream(*command, "--help")
    assert run.returncode == 0
    assert "Usage" in run.stdout


def test_doctor_finds_nothing_wrong_here(midstream: Midstream) -> None:
    run = midstream("doctor")
    assert run.returncode == 0, run.stdout
    assert "pyarrow" in run.stdout
    assert "kernel cache" in run.stdout


def test_explain_shows_the_model_and_the_plan(midstream: Midstream) -> None:
    run = midstream("explain", "--text", TEXT, *SCHEMAS)
    assert run.returncode == 0, run.stderr
    assert "key int64: o.id = p.order_id" in run.stdout
    assert run.stdout.endswith(
        """\
default plan (o p)

⋈       key o.id = p.order_id
├─ o
└─ p
"""
    )


def test_explain_takes_another_plan_and_a_file_or_a_pipe(midstream: Midstream, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text(TEXT)
    from_file = midstream("explain", str(file), *SCHEMAS, "--plan", "p o", "-e", "orders=ts", "-e", "payments=ts")
    assert "plan (p o)" in from_file.stdout, from_file.stderr
    assert midstream("explain", "-", *SCHEMAS, "--plan", "p o", stdin=TEXT).stdout == from_file.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "explain: give either a file with the query or --text"),
        (["nowhere.sql"], "explain: cannot read 'nowhere.sql'"),
        (["-t", TEXT, "-s", "orders"], "schema: 'orders' has no '='"),
        (["-t", TEXT, *SCHEMAS, "-p", "(o x)"], "plan: unknown input 'x' at column 4; inputs: o, p"),
        (["-t", "SELECT", *SCHEMAS], "query: "),
        (["-t", TEXT], "explain: the columns of 'orders' are not known; give them with --schema 'orders="),
        (["-t", TEXT, *SCHEMAS[:2]], "explain: the columns of 'payments' are not known; give them with --schema"),
        (["-t", TEXT, *SCHEMAS, "--assume-zone", "Mars"], "query: assume_zone='Mars' is no time zone"),
        (["-t", TEXT, *SCHEMAS, "--step", "1 s"], "query: step='1 s' is of no use"),
    ],
)
def test_what_cannot_run_says_why_in_one_line(midstream: Midstream, args: list[str], message: str) -> None:
    run = midstream("explain", *args)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith(f"error {message}")
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "args",
    [["demo", "--embedded"], ["bench", "engine"], ["bench", "temporal"], ["bench", "spark", "--quick"], ["soak"]],
)
def test_what_duckdb_checks_asks_for_it_first(
    midstream: Midstream, monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    run = midstream(*args)
    assert run.returncode == 2
    assert "DuckDB checks the result and is not installed; run: pip install 'midstream[demo]'" in run.stderr


@pytest.mark.parametrize(
    ("module", "told"),
    [("matplotlib", "error matplotlib is not installed; run: pip install 'midstream[plots]'"), ("q", None)],
)
def test_a_missing_extra_is_one_line(
    midstream: Midstream, monkeypatch: pytest.MonkeyPatch, module: str, told: str | None
) -> None:
    """Also where nobody has asked for it first; what is no extra of ours is a defect, and shows where."""

    def app() -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(cli, "app", app)
    if told is None:
        with pytest.raises(ModuleNotFoundError):
            cli.main()
        return
    run = midstream()
    assert run.returncode == 2 and run.stderr.strip() == told
