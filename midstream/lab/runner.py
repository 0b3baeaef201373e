"""Runs experiments: a progress bar meanwhile, then a table, a plot, the raw rows in a file, and a verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from midstream.lab.definition import Experiment, LabError, Outcome, Plot, Settings, WrongAnswer

_INCHES = (6.4, 4.4)


@dataclass(frozen=True)
class ExperimentRun:
    """An experiment that has run; without an outcome if its output was wrong."""

    experiment: Experiment
    outcome: Outcome | None
    seconds: float
    problem: str = ""


def run_all(experiments: Sequence[Experiment], settings: Settings, console: Console) -> bool:
    """Run experiments one after the other and print their verdicts; whether all output was right.

    A claim that does not hold is a finding, not a failure; a wrong answer is one.
    """
    require_matplotlib()
    ran = [_run(experiment, settings, console) for experiment in experiments]
    if len(ran) > 1:
        console.print(_verdicts(ran))
    return all(run.outcome is not None for run in ran)


def require_matplotlib() -> None:
    """Raise an error that says what to install if plots cannot be drawn; called before the work starts."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise LabError(
            "lab: matplotlib draws the plots and is not installed; run: pip install 'midstream[plots]'"
        ) from None


def _run(experiment: Experiment, settings: Settings, console: Console) -> ExperimentRun:
    console.rule(f"[bold]{experiment.id}[/]  {escape(experiment.title)}")
    console.print(f"claim: {escape(experiment.claim)} [dim]({escape(experiment.paper)})[/]", highlight=False)
    began = time.perf_counter()
    try:
        with Bar(console, experiment.id) as bar:
            outcome = experiment.run(settings, bar)
    except WrongAnswer as problem:
        console.print(f"[bold red]wrong answer[/]  {escape(str(problem))}", highlight=False)
        return ExperimentRun(experiment, None, time.perf_counter() - began, str(problem))
    ran = ExperimentRun(experiment, outcome, time.perf_counter() - began)
    folder = write(experiment, outcome, settings.out)
    console.print(as_rich(outcome.table))
    _print_verdict(ran, folder, console)
    return ran


def write(experiment: Experiment, outcome: Outcome, out: Path) -> Path:
    """Write the raw rows and the plot into a folder of the experiment's own; the folder."""
    folder = out / experiment.id
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(outcome.rows, folder / "rows.parquet")
    if outcome.plots:
        draw(outcome.plots, experiment.title, folder / "plot.png")
    return folder


def draw(plots: Sequence[Plot], title: str, path: Path) -> None:
    """Draw plots beside each other into one picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_INCHES[0] * len(plots), _INCHES[1]), layout="constrained")
    FigureCanvasAgg(figure)
    for place, plot in enumerate(plots):
        plot(figure.add_subplot(1, len(plots), place + 1))
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def as_rich(table: pa.Table) -> Table:
    """A table for the terminal; numbers stand right."""
    shown = Table()
    for field in table.schema:
        is_text = pa.types.is_string(field.type) or pa.types.is_boolean(field.type)
        shown.add_column(escape(field.name), justify="left" if is_text else "right")
    for row in table.to_pylist():
        shown.add_row(*(escape(_cell(value)) for value in row.values()))
    return shown


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_verdict(ran: ExperimentRun, folder: Path, console: Console) -> None:
    outcome = ran.outcome
    assert outcome is not None
    console.print(f"{_mark(outcome)}  {escape(outcome.figure)}", highlight=False)
    if outcome.reason:
        console.print(f"because  {escape(outcome.reason)}", highlight=False)
    checked = "output checked against the oracle" if outcome.checked else "no output to check"
    console.print(
        f"[dim]{checked}; {ran.seconds:.0f} s; raw rows and plot in {escape(str(folder))}[/]", highlight=False
    )


def _mark(outcome: Outcome) -> str:
    return "[bold green]holds[/]" if outcome.holds else "[bold yellow]does not hold[/]"


def _verdicts(ran: Sequence[ExperimentRun]) -> Table:
    table = Table("experiment", "verdict", "figure", "checked", title="Verdicts")
    table.add_column("seconds", justify="right")
    for run in ran:
        if run.outcome is None:
            table.add_row(
                run.experiment.id, "[bold red]wrong answer[/]", escape(run.problem), "no", f"{run.seconds:.0f}"
            )
            continue
        outcome = run.outcome
        line = outcome.figure if outcome.holds else f"{outcome.figure}; {outcome.reason}"
        checked = "yes" if outcome.checked else "-"
        table.add_row(run.experiment.id, _mark(outcome), escape(line), checked, f"{run.seconds:.0f}")
    return table


class Bar:
    """The progress of an experiment as a bar that disappears at its end."""

    def __init__(self, console: Console, title: str):
        self._bars = RichProgress(
            TextColumn("{task.fields[title]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("getting ready", total=None, title=title)

    def __enter__(self) -> Bar:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def total(self, steps: int) -> None:
        self._bars.update(self._task, total=steps)

    def step(self, text: str) -> None:
        self._bars.update(self._task, description=text)

    def advance(self, steps: int = 1) -> None:
        self._bars.advance(self._task, steps)
