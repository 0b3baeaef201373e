"""The benchmark of a memory limit at a small size: its answers are checked by itself."""

from __future__ import annotations

import pytest
from rich.console import Console

from midstream.lab.answers import Digest
from midstream.lab.bench import memory


def test_a_small_run_prints_every_share() -> None:
    console = Console(record=True, width=160)
    memory.run(window=4_000, rounds=1, console=console)
    text = console.export_text()
    assert "even keys" in text and "Zipf(1) keys" in text and text.count("(>= 0.90)") == 2


def test_different_answers_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(range(1, 1 << 20))
    monkeypatch.setattr(memory, "digest_of", lambda tables: Digest(1, next(answers)))
    with pytest.raises(AssertionError, match="results differ"):
        memory.run(window=4_000, rounds=1, console=Console(quiet=True))
