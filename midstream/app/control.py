"""`midstream control`: change the plan of a running join on Spark, and see how its cells stand."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from midstream.spark.commands.control_folder import CellStatus, Control

control_app = typer.Typer(
    name="control",
    help="Control a running join on Spark through its control folder: `midstream control PATH status`.",
    no_args_is_help=True,
)
console = Console()


@control_app.callback()
def folder(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="The folder that was given as control= to midstream.spark.sql.")],
) -> None:
    context.obj = path


@control_app.command()
def status(context: typer.Context) -> None:
    """Show the plan of each cell and how complete its states are."""
    control = _open_control(context)
    console.print(_status_table(control.status()))


@control_app.command()
def migrate(
    context: typer.Context,
    plan: Annotated[str, typer.Argument(help="The plan to change to, such as '((p s) o)'.")],
    strategy: Annotated[
        str | None, typer.Option("--strategy", "-s", help="How to change; by default as the query was told.")
    ] = None,
    cell: Annotated[
        list[int] | None, typer.Option("--cell", "-c", help="Change this cell only; may be given several times.")
    ] = None,
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait", help="Wait until the cells run the plan; by default if the query has not ended."
        ),
    ] = None,
    until_complete: Annotated[
        bool, typer.Option("--until-complete", help="Wait until the states of the new plan miss nothing, too.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Wait for at most so many seconds.")] = 600.0,
) -> None:
    """Change the plan of all cells, or of some, at the next trigger.

    A cell that cannot follow refuses, tells why, and keeps its plan; the exit code is 2 then.
    """
    control = _open_control(context)
    with Live(console=console, refresh_per_second=4) if console.is_terminal else nullcontext() as live:
        command = control.migrate(
            plan,
            strategy,
            cell,
            wait=wait,
            until_complete=until_complete,
            timeout=timeout,
            on_progress=None if live is None else lambda found: live.update(_status_table(found)),
        )
    if wait is False and not until_complete:
        console.print(f"given: {command.identity}", highlight=False)
    elif control.answer(command):
        console.print(_status_table(control.status()))
    else:
        console.print(f"given: {command.identity}; it is taken when the query is started again", highlight=False)


def _open_control(context: typer.Context) -> Control:
    from midstream.spark.commands.control_folder import control

    found: Control = control(str(context.obj))
    return found


def _status_table(status: dict[int, CellStatus]) -> Table | str:
    if not status:
        return "no cell has reported yet"
    table = Table("cell", "plan", "strategy", "phase", "complete", box=None, padding=(0, 2, 0, 0))
    for cell, cell_status in status.items():
        table.add_row(
            str(cell),
            escape(cell_status.plan),
            cell_status.strategy or "-",
            cell_status.phase or "-",
            f"{cell_status.percent:.0f} %",
        )
    return table
