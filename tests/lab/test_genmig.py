"""The experiments of paper 002 at a small scale; that each of them runs and is checked is tested with all others."""

from __future__ import annotations

import pytest

from midstream.lab.definition import Outcome, Settings, SilentProgress
from midstream.lab.experiments import find_experiment
from midstream.lab.experiments.genmig import uniform_streams


def run(id: str) -> Outcome:
    outcome = find_experiment(id).run(Settings(scale=0.3), SilentProgress())
    assert outcome.checked
    assert outcome.rows.num_rows and outcome.plots
    return outcome


def test_predicates_leave_nothing_to_an_index_and_mean_equality() -> None:
    rows = uniform_streams(2.0, 1)
    assert not rows.query.key_classes and not rows.query.bands and len(rows.query.thetas) == 3
    values = {name: table["x"].to_pylist() for name, table in rows.tables.items()}
    assert max(values["A"]) <= 500 and 500 < max(values["C"]) <= 1000
    assert all((left - right) % 10007 == 0 for left, right in zip(values["A"], values["A"], strict=True))


def test_parallel_track_is_silent_in_its_second_window_and_genmig_is_smooth() -> None:
    outcome = run("genmig-fig4")
    assert "at most 0% off" in outcome.figure and " 0 results in its second w" in outcome.figure
    lengths = dict(zip(*(outcome.table[name].to_pylist() for name in outcome.table.column_names[:2]), strict=True))
    assert lengths["GenMig"] == pytest.approx(1, abs=0.1)
    assert lengths["Parallel Track"] == pytest.approx(1, abs=0.1)
    assert lengths["Parallel Track, combined"] == pytest.approx(2, abs=0.2)


def test_genmig_holds_less_than_parallel_track() -> None:
    outcome = run("genmig-fig5")
    assert outcome.holds, outcome.figure
