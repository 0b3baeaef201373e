"""The experiments of paper 001 at a small scale: their parts, and verdicts that do not depend on the machine.

That each of them runs and is checked is tested with all others.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pyarrow as pa
import pytest

import midstream as ms
from midstream.errors import EngineError
from midstream.lab.answers import digest_of
from midstream.lab.combined_purge import CombinedPurge
from midstream.lab.definition import Outcome, Settings, SilentProgress, WrongAnswer
from midstream.lab.experiments import find_experiment
from midstream.lab.experiments.zhu_recompute import Machine, Pause, estimate_pause
from midstream.lab.experiments.zhu_run import COMBINED, Trial, check, run_tracks
from midstream.lab.experiments.zhu_streams import MICROSECONDS, RIGHT_DEEP, SET_1, SET_2, Setting, Streams, make_streams
from midstream.lab.peers import migrate_by
from midstream.lab.race import MOVING_STATE, PARALLEL_TRACK, Contender

DENSE = Setting(0.5, (0.05,) * 4, (0.5, 0.4, 0.3))


def run(id: str, scale: float = 0.05) -> Outcome:
    outcome = find_experiment(id).run(Settings(scale=scale), SilentProgress())
    assert outcome.checked
    assert outcome.rows.num_rows and outcome.table.num_rows and outcome.plots
    return outcome


def naive(rows: Streams, since: float) -> pa.Table:
    """Every combination of rows, tested one by one."""
    tables = [table.to_pylist() for table in rows.tables.values()]
    limits = [int(text.rsplit(" ", 1)[1]) for text in rows.predicates]
    found = []
    for combination in itertools.product(*tables):
        times = [row["ts"] for row in combination]
        if max(times) - min(times) > rows.window or max(times) < since * MICROSECONDS:
            continue
        pairs = zip(itertools.pairwise(combination), limits, strict=True)
        if all((left["r"] + right["l"]) % 1000 < limit for (left, right), limit in pairs):
            found.append((*(row["v"] for row in combination), max(times), min(times) + rows.window))
    return pa.table([list(column) for column in zip(*found, strict=True)], names=list("abcdst"))


def test_the_oracle_is_the_definition() -> None:
    rows = make_streams(DENSE, 1.0, 3)
    assert rows.answer(0.0, 2.0).rows > 50
    for since in (0.0, 0.6):
        assert rows.answer(since, 2.0) == digest_of([naive(rows, since)])


def test_predicates_leave_nothing_to_an_index() -> None:
    query = make_streams(SET_1, 1.0, 1).query
    assert not query.key_classes and not query.bands and len(query.thetas) == 3


def test_slices_have_every_row_once_and_in_time() -> None:
    rows = make_streams(SET_1, 3.0, 1)
    taken: dict[str, list[int]] = {name: [] for name in rows.tables}
    for until, batch in rows.slices(0.25):
        for name, table in batch.items():
            assert all(moment < until * MICROSECONDS for moment in table["ts"].to_pylist())
            taken[name] += table["v"].to_pylist()
    assert taken == {name: list(range(table.num_rows)) for name, table in rows.tables.items()}


def test_reduction_factors_are_those_of_the_setting() -> None:
    rows = make_streams(SET_1.faster(100), 1.0, 1)
    rows_a, rows_b = (rows.tables[name].to_pylist() for name in "AB")
    held = sum((a["r"] + b["l"]) % 1000 < 100 for a in rows_a for b in rows_b)
    assert held / (len(rows_a) * len(rows_b)) == pytest.approx(SET_1.factors[0], rel=0.1)


def test_the_combined_purge_takes_two_windows_and_the_engine_one() -> None:
    ours, combined = run_tracks(replace(SET_2, window=2.0), 1, "test")
    assert 0.9 * 2.0 <= ours.event_stage <= 1.05 * 2.0
    assert 1.8 * 2.0 <= combined.event_stage <= 2.05 * 2.0
    assert max(moment.entries for moment in combined.moments) > max(moment.entries for moment in ours.moments)


def test_a_plan_of_one_join_takes_one_window_either_way() -> None:
    for run in run_tracks(SET_2, 1, "test", "AB"):
        assert 0.85 <= run.event_stage <= 1.05


def test_results_are_the_same_whatever_migrates() -> None:
    trial = Trial(make_streams(DENSE, 4.0, 5), 0.1, 1.5)
    runs = [trial.run(contender) for contender in (MOVING_STATE, PARALLEL_TRACK, COMBINED, Contender("old plan"))]
    check(runs, trial, "test")
    assert all(migrated.stage > 0 for migrated in runs[:3]) and runs[3].stage == 0
    with pytest.raises(WrongAnswer, match="gives 0 results"):
        check([replace(runs[0], sample=digest_of([]))], trial, "test")


def test_the_combined_purge_is_for_one_window() -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    text = "SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 2 SECONDS] WHERE a.k = b.k"
    engine = ms.Engine(ms.query(text, {"a": schema, "b": schema}, "ts"), plan="(a b)")
    with pytest.raises(EngineError, match="one RANGE window"):
        migrate_by(CombinedPurge(), engine, "(b a)")


def test_a_pause_can_be_measured_again_and_again() -> None:
    pause = Pause(make_streams(DENSE, 1.0, 2), 0.5)
    assert pause.seconds(times=3) > 0 and pause.seconds("(A ((B C) D))", times=3) > 0
    pause.check(RIGHT_DEEP, 0.3, "test")


def test_the_estimate_grows_as_the_equations_say() -> None:
    costs = replace(Machine(1, rows=200).costs, start=0.0)
    assert costs.compare > 0 or costs.store > 0
    small, large = (estimate_pause(replace(SET_1.faster(100), window=window), costs) for window in (10.0, 20.0))
    assert 7 < large / small < 8
    printed = estimate_pause(replace(SET_1.faster(100), window=20.0), costs, as_printed=True)
    assert 1.9 < printed / large < 2


def test_figure_9_is_two_windows() -> None:
    outcome = run("zhu-fig9")
    assert outcome.holds, outcome.figure


@pytest.mark.parametrize("id", ["zhu-fig13", "zhu-fig14"])
def test_the_low_setting_converges(id: str) -> None:
    outcome = run(id, scale=0.3)
    assert outcome.holds, outcome.figure
