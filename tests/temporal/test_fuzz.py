"""The fuzzer itself: it replays a seed, and prints the smallest case that it finds of an engine that is wrong."""

from __future__ import annotations

import pytest

from midstream.engine.operators import stepped

from . import fuzz


def test_a_seed_can_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--seed", "7"]) == 0
    assert capsys.readouterr().out.startswith("1 cases, 0 failures")


def test_steps_that_close_too_late_are_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = stepped.start_of_step
    monkeypatch.setattr(stepped, "start_of_step", lambda moment, step: right(moment - 1, step))
    assert fuzz.main(["--start", "7", "--cases", "40", "--shrink-seconds", "1"]) == 1
    text = capsys.readouterr().out
    assert "smallest failing case found" in text and "replay: python -m tests.temporal.fuzz --seed" in text
