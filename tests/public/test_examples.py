"""The scripts in examples/ run as they are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_from_pandas_frames_to_a_live_migration(capsys: pytest.CaptureFixture[str]) -> None:
    script = EXAMPLES / "pandas_to_migration.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 30
    runpy.run_path(str(script))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "batch 0: 5 results by ((o p) s)"
    assert printed[3].startswith("<midstream.Migration ((o p) s) to ((p s) o) by jisc: begun")
    assert printed[-2] == "batch 5: 5 results by ((p s) o)"
    assert printed[-1] == "Midstream finds 30 results, a batch join by pandas 30"


def test_distinct_moves_below_a_join(capsys: pytest.CaptureFixture[str]) -> None:
    script = EXAMPLES / "distinct_below_a_join.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 20
    runpy.run_path(str(script))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("<midstream.Migration (c u) to (distinct(c) u) by jisc: begun")
    kept = "(distinct(c) u) keeps {'distinct(c)': 12} of 18,000 clicks; rows before and after: [18, 18]"
    assert printed[1] == kept


def test_halving_the_memory_of_a_running_engine(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "halve_the_memory.py"))
    printed = capsys.readouterr().out.splitlines()
    assert "and from now on at most" in printed[0]
    assert "after 60 batches" in printed[1]
    assert printed[2].startswith("entries given up: ") and not printed[2].startswith("entries given up: 0,")


def test_every_example_is_tested() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert names == ["distinct_below_a_join.py", "halve_the_memory.py", "pandas_to_migration.py"]
