"""Everything registered runs at a small scale, checks its output, and leaves rows, a plot and a verdict behind."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from midstream.app.cli import app
from midstream.lab.definition import Experiment, LabError, Outcome, Progress, Settings, WrongAnswer
from midstream.lab.experiments import EXPERIMENTS, find_experiment
from midstream.lab.runner import run_all
from midstream.lab.tpch import find_generator


def small(out: Path, executor: str = "tree") -> Settings:
    return Settings(seed=7, out=out, executor=executor, scale=0.02)


def run_small(experiment: Experiment, settings: Settings) -> tuple[bool, str]:
    screen = io.StringIO()
    is_right = run_all([experiment], settings, Console(file=screen, width=200))
    return is_right, screen.getvalue()


#: Experiments with a twin that runs the same code with another input.
TWINS = {
    "jisc-fig8",
    "jisc-fig9",
    "zhu-fig9",
    "zhu-fig11",
    "zhu-fig15",
    "jit-fig11",
    "jit-fig12",
    "jit-fig13",
    "jit-fig16",
}


def each_experiment() -> Iterator[Any]:
    for experiment in EXPERIMENTS:
        yield pytest.param(experiment, id=experiment.id, marks=[pytest.mark.slow] if experiment.id in TWINS else [])


@pytest.mark.parametrize("experiment", list(each_experiment()))
def test_an_experiment_leaves_rows_a_plot_and_a_verdict(experiment: Experiment, tmp_path: Path) -> None:
    if experiment.id == "stairs-fig7" and find_generator() is None:
        pytest.skip("tpchgen-cli is not installed")
    is_right, printed = run_small(experiment, small(tmp_path))
    assert is_right, printed
    assert experiment.claim in printed
    assert "holds" in printed or "does not hold" in printed
    assert "output checked against the oracle" in printed
    assert pq.read_table(tmp_path / experiment.id / "rows.parquet").num_rows > 0
    assert (tmp_path / experiment.id / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("id", ["jisc-fig7", "jisc-fig12"])
def test_an_experiment_may_begin_on_stems(id: str, tmp_path: Path) -> None:
    is_right, printed = run_small(find_experiment(id), small(tmp_path, "stems"))
    assert is_right, printed


def test_ids_are_different() -> None:
    assert len({experiment.id for experiment in EXPERIMENTS}) == len(EXPERIMENTS)


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(LabError, match="unknown experiment 'jisc-fig99'; experiments: "):
        find_experiment("jisc-fig99")


def outcome(holds: bool) -> Outcome:
    rows = pa.table({"x": [1, 2], "y": [0.5, None], "name": ["a", "b"]})
    if holds:
        return Outcome(rows, rows, (lambda axes: axes.plot([1, 2]),), "holds", "2.0x")
    return Outcome(rows, rows, (), "does not hold", "0.5x", "it is slower")


def make_experiment(id: str, holds: bool) -> Experiment:
    return Experiment(id, "Title", "Paper", "claim", lambda settings, progress: outcome(holds))


def run_and_fail(settings: Settings, progress: Progress) -> Outcome:
    progress.total(2)
    progress.step("first")
    progress.advance()
    raise WrongAnswer("lane 1 gives 3 results; expected are 4")


def test_all_verdicts_stand_in_one_table_at_the_end(tmp_path: Path) -> None:
    screen = io.StringIO()
    experiments = [
        make_experiment("one", True),
        Experiment("two", "Title", "Paper", "claim", run_and_fail),
        make_experiment("three", False),
    ]
    assert not run_all(experiments, Settings(out=tmp_path), Console(file=screen, width=160))
    table = screen.getvalue().split("Verdicts")[1]
    assert "wrong answer" in table and "expected are 4" in table
    assert "0.5x; it is slower" in table
    assert table.index("one") < table.index("two") < table.index("three")
    assert not (tmp_path / "two").exists()


def test_a_claim_that_does_not_hold_is_no_failure(tmp_path: Path) -> None:
    screen = io.StringIO()
    assert run_all([make_experiment("one", False)], Settings(out=tmp_path), Console(file=screen, width=160))
    assert "because  it is slower" in screen.getvalue()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"executor": "magic"}, "unknown executor 'magic'; executors: tree, stems"), ({"scale": 0}, "scale=0")],
)
def test_settings_are_checked(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        Settings(**wrong)  # type: ignore[arg-type]


def test_the_command_line_lists_and_runs(tmp_path: Path) -> None:
    listed = CliRunner().invoke(app, ["lab", "list"], env={"COLUMNS": "200"})
    assert listed.exit_code == 0
    for experiment in EXPERIMENTS:
        assert experiment.id in listed.output
    unknown = CliRunner().invoke(app, ["lab", "run", "nothing", "--out", str(tmp_path)])
    assert isinstance(unknown.exception, LabError)
