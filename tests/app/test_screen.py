"""Both screens over the same moments."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from midstream.app.screen import LiveScreen, Moment, PlainScreen, open_screen
from midstream.plan import parse_plan

PLAN = parse_plan("(o p) s", ["o", "p", "s"])
MOMENTS = [
    Moment(seconds=0.5 * step, rows_in=100 * step, rows_to_come=2_000 - 100 * step, rows_out=10 * step,
           state_bytes=1_000 * step, state_rows={frozenset("o"): 5 * step, frozenset("op"): 7 * step})
    for step in range(21)
]  # fmt: skip


def show_demo(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None)
    with open_screen(console, PLAN) as screen:
        for moment in MOMENTS:
            screen.show(moment)
    return out.getvalue()


def test_a_pipe_gets_a_line_for_each_tenth() -> None:
    lines = show_demo(terminal=False).splitlines()
    assert len(lines) == 10
    assert lines[0] == " 10%  200 rows in, 200 rows/s, 20 results, 20 results/s, 2.0 kB of state"
    assert lines[-1] == "100%  2,000 rows in, 200 rows/s, 200 results, 20 results/s, 20.0 kB of state"


def test_a_terminal_gets_the_plan_with_its_states_and_the_rates() -> None:
    text = show_demo(terminal=True)
    for piece in ("plan ((o p) s)", "⋈", "140 rows", "100 rows", "20.0 kB", "results/s", "100%"):
        assert piece in text


@pytest.mark.parametrize(("terminal", "kind"), [(True, LiveScreen), (False, PlainScreen)])
def test_the_console_decides(terminal: bool, kind: type) -> None:
    assert isinstance(open_screen(Console(file=io.StringIO(), force_terminal=terminal), PLAN), kind)


def test_no_rows_at_all_are_done() -> None:
    assert Moment(0.0, 0, 0, 0, 0, {}).share == 1.0
