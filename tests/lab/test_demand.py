"""The benchmark of demand at a small size: its answers are checked by itself, and its counts are what they say."""

from __future__ import annotations

from rich.console import Console

from midstream.lab.bench import demand


def test_a_small_run_prints_every_verdict() -> None:
    console = Console(record=True, width=160)
    demand.run(window=200, rounds=1, console=console)
    text = console.export_text()
    assert text.count("hold") == 9 and "share of combinations put into states" in text
