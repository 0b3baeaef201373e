"""`midstream lab`: the papers' experiments from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

lab_app = typer.Typer(name="lab", help="Run the experiments of the papers on this machine.", no_args_is_help=True)
console = Console()


@lab_app.command("list")
def list_experiments() -> None:
    """The experiments, each with the claim that it puts to the test."""
    from midstream.lab.experiments import EXPERIMENTS

    table = Table("id", "experiment", "claim", "paper")
    for experiment in EXPERIMENTS:
        table.add_row(experiment.id, experiment.title, experiment.claim, experiment.paper)
    console.print(table)


@lab_app.command("run")
def run(
    id: Annotated[str, typer.Argument(help="An experiment of `midstream lab list`, or all.", metavar="ID|all")],
    full: Annotated[bool, typer.Option("--full", help="The paper's sizes; takes much longer than a minute.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the generated rows.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder for raw rows and plots.")] = Path("out/lab"),
    executor: Annotated[str, typer.Option(help="What runs before a transition: tree, stems, eddy or stairs.")] = "tree",
) -> None:
    """Run one experiment, or all, and say whether the paper's claim holds here.

    A claim that does not hold is a finding. Exits with 1 only if a contender's output was wrong.
    """
    from midstream.lab.definition import Settings
    from midstream.lab.experiments import EXPERIMENTS, find_experiment
    from midstream.lab.runner import run_all

    chosen = EXPERIMENTS if id == "all" else (find_experiment(id),)
    if not run_all(chosen, Settings(full, seed, out, executor), console):
        raise typer.Exit(1)
