"""GenMig beside Parallel Track: `genmig-fig4` and `genmig-fig5`, after paper 002.

Four streams of uniform numbers are joined on equality by nested loops, as in the paper: the predicates are written so
that the engine cannot use an index. A and B have half as many values as C and D, so the left-deep plan has a large
intermediate result, and the right-deep one to which the query migrates has not.

Parallel Track runs as the papers have it, holding back the new plan's results until the old plan is dropped: once under
the paper's purge rule and once under the engine's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from midstream.lab.combined_purge import CombinedPurge
from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.zhu_plots import Line, lines
from midstream.lab.experiments.zhu_run import Run, Trial, check, rows_of
from midstream.lab.experiments.zhu_streams import MICROSECONDS, Streams
from midstream.lab.race import Contender
from midstream.migrate import Options
from midstream.migrate.strategies.genmig import GenMig, GenMigReferencePoint
from midstream.migrate.strategies.parallel_track import ParallelTrack

PAPER = "Dynamic Plan Migration for Snapshot-Equivalent Continuous Queries in Data Stream Systems, EDBT 2006"
_RATE = 100
_VALUES = {"A": 500, "B": 500, "C": 1_000, "D": 1_000}
WINDOWS_OF_ROWS = 5
_STEP = 0.1

_OLD = Contender("old plan")
GENMIG = Contender("GenMig", GenMig())
REFERENCE_POINT = Contender("GenMig, reference point", GenMigReferencePoint())
_PAPERS_TRACK = Contender("Parallel Track, combined", CombinedPurge(), options=Options(hold=True))
_TRACK = Contender("Parallel Track", ParallelTrack(), options=Options(hold=True))
CONTENDERS = (_PAPERS_TRACK, _TRACK, GENMIG, REFERENCE_POINT)


def uniform_streams(window: float, seed: int, predicate: str = "({0}.x - {1}.x) % 10007 = 0") -> Streams:
    """Numbers at a steady rate, the streams' rows alternating. No two values are so far apart as the modulus."""
    rows = round(WINDOWS_OF_ROWS * window * _RATE)
    tables = {}
    for place, (name, largest) in enumerate(_VALUES.items()):
        values = np.random.default_rng([seed, place]).integers(0, largest + 1, rows)
        times = (np.arange(rows) + place / len(_VALUES)) * MICROSECONDS / _RATE
        tables[name] = pa.table({"ts": times.astype(np.int64), "x": values, "v": np.arange(rows)})
    pairs = list(pairwise(_VALUES))
    return Streams(
        tables,
        round(window * MICROSECONDS),
        [predicate.format(left, right) for left, right in pairs],
        [f"{left}.x = {right}.x" for left, right in pairs],
    )


@dataclass(frozen=True)
class _Runs:
    """All contenders on the same rows, and the old plan, which never migrates."""

    window: float
    trial: Trial
    runs: dict[str, Run]

    def during(self, name: str, measure: Callable[[Run, int], float], window: int) -> list[float]:
        """A measure at every moment of the first or second window of the migration."""
        since = self.trial.migrate_at + (window - 1) * self.window
        run = self.runs[name]
        return [
            measure(run, place)
            for place, moment in enumerate(run.moments)
            if since < moment.event_time - _STEP / 2 <= since + self.window - _STEP
        ]

    def since_the_first_window(self, name: str) -> int:
        """Results after the first window of the migration and before its end."""
        run = self.runs[name]
        since = self.trial.migrate_at + self.window + _STEP / 2
        until = self.trial.migrate_at + run.event_stage - _STEP / 2
        return sum(moment.results for moment in run.moments if since < moment.event_time < until)

    def held(self, run: Run, place: int) -> int:
        """Results that are held back: what the old plan alone has given by now and this contender has not."""
        given, due = (
            sum(moment.results for moment in compared.moments[: place + 1]) for compared in (run, self.runs[_OLD.name])
        )
        return due - given

    def values(self, run: Run, place: int) -> float:
        """Values in windows, states and results that are held back."""
        return run.moments[place].values + len(_VALUES) * self.held(run, place)


def _run(settings: Settings, progress: Progress) -> _Runs:
    window = float(settings.size(7, 10, least=2))
    trial = Trial(uniform_streams(window, settings.seed), _STEP, 2 * window)
    progress.total(len(CONTENDERS) + 2)
    runs = {}
    for contender in (_OLD, *CONTENDERS):
        progress.step(contender.name)
        runs[contender.name] = trial.run(contender)
        progress.advance()
    progress.step("comparing with DuckDB")
    check(runs.values(), trial, GenMig.name)
    progress.advance()
    return _Runs(window, trial, runs)


def _fig4(settings: Settings, progress: Progress) -> Outcome:
    found = _run(settings, progress)
    runs, window = found.runs, found.window
    width = window / 10
    rates = {name: run.rates(width, WINDOWS_OF_ROWS * window) for name, run in runs.items()}
    usual = statistics.mean(rate for _, rate in rates[_OLD.name][len(rates[_OLD.name]) // 5 :])
    peaks = {name: max(rate for _, rate in points) for name, points in rates.items()}
    dips = {
        name: min(rate for at, rate in points if 2 * window < at < 4 * window) / usual for name, points in rates.items()
    }
    stages = {contender.name: runs[contender.name].stage / window for contender in CONTENDERS}
    second = found.since_the_first_window(_PAPERS_TRACK.name)
    burst = peaks[_PAPERS_TRACK.name] / peaks[_OLD.name]
    smooth = max(
        abs(ours - theirs) / usual for (_, ours), (_, theirs) in zip(rates[GENMIG.name], rates[_OLD.name], strict=True)
    )
    is_on_time = abs(stages[GENMIG.name] - 1) <= 0.1 and abs(stages[_PAPERS_TRACK.name] - 2) <= 0.2
    holds = is_on_time and second == 0 and burst >= 3 and smooth <= 0.5
    series: dict[str, Line] = {contender.name: rates[contender.name] for contender in (_PAPERS_TRACK, _TRACK, GENMIG)}
    return Outcome(
        rows_of(runs),
        pa.table(
            {
                "contender": [contender.name for contender in CONTENDERS],
                "migration, windows": [stages[contender.name] for contender in CONTENDERS],
                "least rate during 2w, of the usual": [dips[contender.name] for contender in CONTENDERS],
                "highest rate, of the usual": [peaks[contender.name] / usual for contender in CONTENDERS],
                "results from w to its end": [found.since_the_first_window(contender.name) for contender in CONTENDERS],
            }
        ),
        (lines(series, "clock, s", "results a second", marked=False, moments={"migration": 2 * window}),),
        verdict(holds),
        f"GenMig ends after {stages[GENMIG.name]:.2f} w, at most {smooth:.0%} off the rate of a query that does not "
        f"migrate; Parallel Track after {stages[_PAPERS_TRACK.name]:.2f} w, with {second} results in its second w "
        f"and then {burst:.0f} times the usual peak; purging as the engine does, after {stages[_TRACK.name]:.2f} w",
        "" if holds else "lengths, silence, burst or smoothness are not as expected",
        checked=True,
    )


def _fig5(settings: Settings, progress: Progress) -> Outcome:
    found = _run(settings, progress)
    names = [contender.name for contender in CONTENDERS]
    means = {name: [statistics.mean(found.during(name, found.values, part)) for part in (1, 2)] for name in names}
    moments = {name: found.during(name, found.values, 1) + found.during(name, found.values, 2) for name in names}
    pairs = list(zip(moments[GENMIG.name], moments[_PAPERS_TRACK.name], strict=True))
    below = sum(ours < theirs for ours, theirs in pairs) / len(pairs)
    never_above = all(ours <= 1.02 * theirs for ours, theirs in pairs)
    shares = [ours / theirs for ours, theirs in zip(means[GENMIG.name], means[_PAPERS_TRACK.name], strict=True)]
    beside_ours = statistics.mean(moments[GENMIG.name]) / statistics.mean(moments[_TRACK.name])
    holds = never_above and max(shares) < 1
    series = {
        name: [(moment.clock, found.values(run, place)) for place, moment in enumerate(run.moments)]
        for name, run in found.runs.items()
    }
    return Outcome(
        rows_of(found.runs),
        pa.table(
            {
                "contender": names,
                "values, mean of the first w": [means[name][0] for name in names],
                "values, mean of the second w": [means[name][1] for name in names],
                "state bytes, peak": [max(moment.bytes for moment in found.runs[name].moments) for name in names],
            }
        ),
        (
            lines(series, "clock, s", "values held", marked=False, moments={"migration": 2 * found.window}),
            lines(
                {
                    name: [(moment.clock, moment.bytes / 1e6) for moment in run.moments]
                    for name, run in found.runs.items()
                },
                "clock, s",
                "MB of states, without what is held back",
                marked=False,
            ),
        ),
        verdict(holds),
        f"GenMig holds {shares[0]:.2f} times the values of Parallel Track in the first w and {shares[1]:.2f} times in "
        f"the second, and fewer in {below:.0%} of all moments; {beside_ours:.2f} times if Parallel Track purges as the "
        "engine does",
        ""
        if holds
        else "the states of both are the same in the first w, and what is held back does not make up for it",
        checked=True,
    )


GENMIG_FIGURE_4 = Experiment(
    "genmig-fig4",
    "Output rate during a migration",
    PAPER,
    "GenMig ends after w and is smooth; Parallel Track ends after 2w, silent in its second w, then bursts",
    _fig4,
)
GENMIG_FIGURE_5 = Experiment(
    "genmig-fig5",
    "Memory during a migration",
    PAPER,
    "GenMig stays below Parallel Track",
    _fig5,
)
