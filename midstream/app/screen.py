"""How the demo shows a running engine: a live picture in a terminal, a few plain lines everywhere else."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from midstream.plan import Node, Plan, draw

_BARS = "▁▂▃▄▅▆▇█"
_HISTORY = 32


@dataclass(frozen=True)
class Moment:
    """The engine at one moment, counted from the start. `state_rows` has the rows of each state by its aliases."""

    seconds: float
    rows_in: int
    rows_to_come: int
    rows_out: int
    state_bytes: int
    state_rows: Mapping[frozenset[str], int]

    @property
    def share(self) -> float:
        """How much of the input is done, from 0 to 1."""
        whole = self.rows_in + self.rows_to_come
        return self.rows_in / whole if whole else 1.0

    @property
    def done(self) -> bool:
        return self.rows_to_come == 0


class Screen(AbstractContextManager["Screen"], Protocol):
    """Something that moments are shown on."""

    def show(self, moment: Moment) -> None: ...


def open_screen(console: Console, plan: Plan) -> Screen:
    """The screen that fits the console: live for a terminal, lines for a pipe or a file."""
    return LiveScreen(console, plan) if console.is_terminal else PlainScreen(console)


class PlainScreen:
    """One line for each tenth of the input."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.shown = 0
        self.rates = Rates()

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, moment: Moment) -> None:
        tenth = int(moment.share * 10)
        if tenth <= self.shown:
            return
        self.shown = tenth
        rows, results = self.rates.since_last(moment)
        self.console.print(
            f"{moment.share:4.0%}  {number_text(moment.rows_in)} rows in, {number_text(rows)} rows/s, "
            f"{number_text(moment.rows_out)} results, {number_text(results)} results/s, "
            f"{size_text(moment.state_bytes)} of state",
            highlight=False,
            soft_wrap=True,
        )


class LiveScreen:
    """The plan with the rows of each state, rates with their recent past, and a progress bar."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self.plan = plan
        self.rates = Rates()
        self.rows = deque([0.0], _HISTORY)
        self.results = deque([0.0], _HISTORY)
        self.live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> LiveScreen:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def show(self, moment: Moment) -> None:
        if moment.done:
            rows, results = Rates().since_last(moment)
        elif moment.seconds - self.rates.seconds < 0.1:
            return
        else:
            rows, results = self.rates.since_last(moment)
            self.rows.append(rows)
            self.results.append(results)
        self.live.update(self._picture(moment, rows, results), refresh=True)

    def _picture(self, moment: Moment, rows_rate: float, results_rate: float) -> RenderableType:
        def label(node: Node) -> str:
            if node == self.plan.root:
                return f"{moment.rows_out:,} results"
            rows = moment.state_rows.get(frozenset(self.plan.aliases[number] for number in node.inputs))
            return "" if rows is None else f"{rows:>7,} rows"

        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim")
        facts.add_column(justify="right", min_width=11)
        facts.add_column()
        facts.add_row("rows in", number_text(moment.rows_in), "")
        facts.add_row("rows/s", number_text(rows_rate), Text(sparkline(self.rows), style="cyan"))
        facts.add_row("results", number_text(moment.rows_out), "")
        facts.add_row("results/s", number_text(results_rate), Text(sparkline(self.results), style="green"))
        facts.add_row("state", size_text(moment.state_bytes), "")
        facts.add_row("elapsed", f"{moment.seconds:.1f} s", "")
        plan = Panel(Text(draw(self.plan, label)), title=f"plan {self.plan}", title_align="left", padding=(0, 1))
        rates = Panel(facts, title="in all" if moment.done else "now", title_align="left", padding=(0, 1))
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=1.0, completed=moment.share, width=60), f"{moment.share:4.0%}")
        return Group(Columns([plan, rates]), bar)


class Rates:
    """Rows and results a second between two moments that are shown."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.rows_in = 0
        self.rows_out = 0

    def since_last(self, moment: Moment) -> tuple[float, float]:
        passed = max(moment.seconds - self.seconds, 1e-9)
        rates = (moment.rows_in - self.rows_in) / passed, (moment.rows_out - self.rows_out) / passed
        self.seconds, self.rows_in, self.rows_out = moment.seconds, moment.rows_in, moment.rows_out
        return rates


def number_text(number: float) -> str:
    """A number of rows.

    >>> number_text(1234567.8)
    '1,234,568'
    """
    return f"{number:,.0f}"


def size_text(number: int) -> str:
    """A number of bytes in the unit that fits.

    >>> size_text(512), size_text(2_000), size_text(3_400_000)
    ('512 B', '2.0 kB', '3.4 MB')
    """
    value, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1_000:
            break
        value, unit = value / 1_000, larger
    return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"


def sparkline(values: deque[float]) -> str:
    """The recent past as a row of bars, the highest at full height.

    >>> sparkline(deque([0.0, 5.0, 10.0]))
    '▁▅█'
    """
    top = max(values) or 1.0
    return "".join(_BARS[int(value / top * (len(_BARS) - 1) + 0.5)] for value in values)
