"""The screen of the demo on Spark: a chart with a bar for each batch, and the same chart as a picture at the end.

A terminal gets a live chart, everything else a line for each batch when it is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from midstream.app.demo_streams import NEW_PLAN, Story
from midstream.app.screen import number_text, size_text

if TYPE_CHECKING:
    from midstream.spark.jobs.demo import Batch

_BAR = 28
_HEADROOM = 3.0


@dataclass(frozen=True)
class Part:
    """A part of the story, and the colour that it is drawn in."""

    name: str
    colour: str


QUIET = Part("before the flip, old plan", "green")
SUFFERING = Part("after the flip, old plan", "red")
CHANGING = Part("the batch of the change", "yellow")
RECOVERED = Part("after the change, new plan", "cyan")
PARTS = (QUIET, SUFFERING, CHANGING, RECOVERED)


def parts_of(batches: Sequence[Batch], story: Story) -> list[Part]:
    """The part of the story that each batch belongs to, by when the streams flip and which plans the cells had."""
    found: list[Part] = []
    for batch in batches:
        if NEW_PLAN in batch.plans.values():
            found.append(RECOVERED if CHANGING in found else CHANGING)
        else:
            found.append(QUIET if batch.number < story.quiet else SUFFERING)
    return found


def note_text(batch: Batch, part: Part, story: Story) -> str:
    """A remark on a batch; empty if there is none."""
    if batch.number == 0:
        return "starts workers and hosts"
    if batch.number == story.quiet:
        return "the attack begins: selectivities flip"
    return migration_text(batch.migrations) if part in (CHANGING, RECOVERED) else ""


def migration_text(migrations: Mapping[int, Mapping[str, Any]]) -> str:
    """How far cells are with a new plan.

    >>> migration_text({0: {"strategy": "jisc", "percent": 99.6}, 1: {"strategy": "jisc", "percent": 100.0}})
    'jisc: cell 0 99.6 %, cell 1 100 %'
    """
    if not migrations:
        return ""
    strategy = next(iter(migrations.values()))["strategy"]
    if all(migration["percent"] >= 100 for migration in migrations.values()):
        return f"{strategy}: all cells 100 %"
    return f"{strategy}: " + ", ".join(
        f"cell {cell} {migration['percent']:g} %" for cell, migration in migrations.items()
    )


def plans_text(plans: Mapping[int, str]) -> str:
    """The plans of the cells, once if they agree.

    >>> plans_text({0: "(a b)", 1: "(a b)"}), plans_text({0: "(a b)", 1: "(b a)"})
    ('(a b)', '0 (a b), 1 (b a)')
    """
    if len(set(plans.values())) == 1:
        return next(iter(plans.values()))
    return ", ".join(f"{cell} {plan}" for cell, plan in plans.items())


class ChartScreen:
    """A bar for each batch, and a line for the one that is running."""

    def __init__(self, console: Console, story: Story) -> None:
        self._console = console
        self._story = story
        self._batches: list[Batch] = []
        self._since = time.monotonic()
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._picture, console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> ChartScreen:
        self._since = time.monotonic()
        if self._console.is_terminal:
            self._live.start()
        else:
            self._console.print(
                f"{'batch':>5} {'rows/s':>9} {'':{_BAR}} {'results':>8} {'late':>4}  plan", highlight=False
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, batch: Batch) -> None:
        """Add a batch that is done."""
        self._batches.append(batch)
        self._since = time.monotonic()
        if not self._console.is_terminal:
            # A pipe cannot go back to draw shorter bars; the second batch, still warming up, is a third of a full one.
            scale = self._batches[1].rate * _HEADROOM if len(self._batches) > 1 else 0.0
            bar = self._bar(batch, scale) if scale else ""
            rate, rows_out = number_text(batch.rate), number_text(batch.rows_out)
            told = f"{batch.number:5} {rate:>9} {bar:{_BAR}} {rows_out:>8} {batch.late:4}"
            what = note_text(batch, parts_of(self._batches, self._story)[-1], self._story)
            line = f"{told}  {plans_text(batch.plans)}  {what}"
            self._console.print(line.rstrip(), highlight=False, soft_wrap=True, markup=False)

    def tell(self, command: str) -> None:
        """Show the command that is typed meanwhile."""
        self._console.print(f"$ {command}", style="bold", highlight=False, soft_wrap=True, markup=False)

    def _bar(self, batch: Batch, top: float) -> str:
        return "█" * min(max(1, round(batch.rate / top * _BAR)), _BAR)

    def _picture(self) -> RenderableType:
        table = Table(box=None, padding=(0, 1), header_style="dim")
        table.add_column("batch", justify="right")
        table.add_column("rows/s", justify="right")
        table.add_column("", min_width=_BAR)
        table.add_column("results", justify="right")
        table.add_column("late", justify="right")
        table.add_column("plan of the cells")
        table.add_column("")
        top = max((batch.rate for batch in self._batches), default=1.0)
        for batch, part in zip(self._batches, parts_of(self._batches, self._story), strict=True):
            bar = Text(self._bar(batch, top), style=part.colour)
            late, plans = str(batch.late), Text(plans_text(batch.plans), style=part.colour)
            what = Text(note_text(batch, part, self._story), style="dim")
            table.add_row(
                str(batch.number), number_text(batch.rate), bar, number_text(batch.rows_out), late, plans, what
            )
        return Group(table, self._footer())

    def _footer(self) -> RenderableType:
        done = len(self._batches)
        rows = sum(batch.rows_in for batch in self._batches)
        facts = f"{number_text(rows)} of {number_text(self._story.total)} rows"
        if self._batches:
            facts += f", {size_text(self._batches[-1].state_bytes)} of state"
        if done >= self._story.batches:
            return Text(f"  {facts}", style="dim")
        seconds = time.monotonic() - self._since
        self._spinner.update(text=Text(f"batch {done} of {self._story.batches}, {seconds:.1f} s; {facts}", style="dim"))
        return self._spinner


# Summary and picture -------------------------------------------------------------------------------------------------


def rate_of(batches: Iterable[Batch]) -> float:
    """Rows a second over several batches."""
    chosen = list(batches)
    seconds = sum(batch.seconds for batch in chosen)
    return sum(batch.rows_in for batch in chosen) / seconds if seconds else 0.0


def batches_in(batches: Sequence[Batch], part: Part, story: Story) -> list[Batch]:
    """The batches of a part; the very first, which starts processes, is left out."""
    found = zip(batches, parts_of(batches, story), strict=True)
    return [batch for batch, its in found if batch.number > 0 and its is part]


def summary(batches: Sequence[Batch], story: Story) -> Table:
    """Throughput before, during and after."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for name in ("batches", "rows/s", "engine, s a batch", "state"):
        table.add_column(name, justify="right")
    for part in PARTS:
        chosen = batches_in(batches, part, story)
        if chosen:
            engine = sum(batch.engine_seconds for batch in chosen) / len(chosen)
            table.add_row(
                Text(part.name, style=part.colour),
                str(len(chosen)),
                number_text(rate_of(chosen)),
                f"{engine:.2f}",
                size_text(max(batch.state_bytes for batch in chosen)),
            )
    return table


def draw(batches: Sequence[Batch], story: Story, path: Path) -> bool:
    """Write the chart as a PNG; False if matplotlib is not there."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.2), layout="constrained")
    colours = {"green": "tab:green", "red": "tab:red", "yellow": "goldenrod", "cyan": "tab:cyan"}
    for part in PARTS:
        chosen = batches_in(batches, part, story)
        axes.bar(
            [batch.number for batch in chosen],
            [batch.rate / 1000 for batch in chosen],
            color=colours[part.colour],
            label=part.name,
        )
    top = max((batch.rate / 1000 for batch in batches), default=1.0) * 1.2
    changed = [batch.number for batch in batches_in(batches, CHANGING, story)]
    for at, text in ((story.quiet, "selectivities flip"), *((number, "the plan changes") for number in changed)):
        axes.axvline(at - 0.5, color="black", linestyle="--", linewidth=1)
        axes.text(at - 0.4, top * 0.97, text, va="top")
    axes.set_ylim(0, top)
    axes.set_xlabel("batch (the first, which starts processes, is left out)")
    axes.set_ylabel("thousand rows/s")
    axes.set_title("A four-way join on Spark that changes its plan midstream")
    axes.legend(loc="lower center", ncols=4, bbox_to_anchor=(0.5, -0.32), fontsize="small", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True
