"""GenMig beside Parallel Track: `genmig-fig4` to `genmig-fig6`, after paper 002.

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
from midstream.lab.experiment import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.zhu_plots import Line, lines
from midstream.lab.experiments.zhu_run import Run, Trial, check, rows_of
from midstream.lab.experiments.zhu_streams import LEFT_DEEP, MICROSECONDS, RIGHT_DEEP, Streams
from midstream.lab.race import Contender, Lane, Race
from midstream.migrate import Options
from midstream.migrate.genmig import GenMig, GenMigReferencePoint
from midstream.migrate.parallel_track import ParallelTrack

PAPER = "002, Krämer et al. 2006"
_RATE = 100
_VALUES = {"A": 500, "B": 500, "C": 1_000, "D": 1_000}
_WINDOWS_OF_ROWS = 5
_STEP = 0.1
_SATURATED_STEP = 0.25

_OLD = Contender("old plan")
_GENMIG = Contender("GenMig", GenMig())
_REFERENCE_POINT = Contender("GenMig, reference point", GenMigReferencePoint())
_PAPERS_TRACK = Contender("Parallel Track, combined", CombinedPurge(), options=Options(hold=True))
_TRACK = Contender("Parallel Track", ParallelTrack(), options=Options(hold=True))
_CONTENDERS = (_PAPERS_TRACK, _TRACK, _GENMIG, _REFERENCE_POINT)


def _window(settings: Settings) -> float:
    """Seconds; the paper's ten, whose fivefold is the length of the streams."""
    return settings.size(10, 10, least=2)


def _streams(window: float, seed: int, predicate: str = "({0}.x - {1}.x) % 10007 = 0") -> Streams:
    """Numbers at a steady rate, the streams' rows alternating. No two values are so far apart as the modulus."""
    rows = round(_WINDOWS_OF_ROWS * window * _RATE)
    tables = {}
    for place, (name, largest) in enumerate(_VALUES.items()):
        values = np.random.default_rng([seed, place]).integers(0, largest + 1, rows)
        times = (np.arange(rows) + place / len(_VALUES)) * MICROSECONDS / _RATE
        tables[name] = pa.table({"ts": times.astype(np.int64), "x": values, "v": np.arange(rows)})
    pairs = list(pairwise(_VALUES))
    return Streams(
        tables,
        round(window * MICROSECONDS),
        [predicate.format(one, other) for one, other in pairs],
        [f"{one}.x = {other}.x" for one, other in pairs],
    )


@dataclass(frozen=True)
class _Found:
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
            for place, one in enumerate(run.moments)
            if since < one.event_time - _STEP / 2 <= since + self.window - _STEP
        ]

    def held(self, run: Run, place: int) -> int:
        """Results that are held back: what the old plan alone has given by now and this contender has not."""
        given, due = (sum(one.results for one in other.moments[: place + 1]) for other in (run, self.runs[_OLD.name]))
        return due - given

    def values(self, run: Run, place: int) -> float:
        """Values in windows, states and results that are held back."""
        return run.moments[place].values + len(_VALUES) * self.held(run, place)


def _run(settings: Settings, progress: Progress) -> _Found:
    window = _window(settings)
    trial = Trial(_streams(window, settings.seed), _STEP, 2 * window)
    progress.total(len(_CONTENDERS) + 2)
    runs = {}
    for contender in (_OLD, *_CONTENDERS):
        progress.step(contender.name)
        runs[contender.name] = trial.run(contender)
        progress.advance()
    progress.step("comparing with DuckDB")
    check(runs.values(), trial, "genmig")
    progress.advance()
    return _Found(window, trial, runs)


def _fig4(settings: Settings, progress: Progress) -> Outcome:
    found = _run(settings, progress)
    runs, window = found.runs, found.window
    width = window / 10
    rates = {name: run.rates(width, _WINDOWS_OF_ROWS * window) for name, run in runs.items()}
    usual = statistics.mean(rate for _, rate in rates[_OLD.name][len(rates[_OLD.name]) // 5 :])
    peaks = {name: max(rate for _, rate in points) for name, points in rates.items()}
    dips = {
        name: min(rate for at, rate in points if 2 * window < at < 4 * window) / usual for name, points in rates.items()
    }
    stages = {one.name: runs[one.name].stage / window for one in _CONTENDERS}
    second = sum(found.during(_PAPERS_TRACK.name, lambda run, place: run.moments[place].results, 2)[:-1])
    burst = peaks[_PAPERS_TRACK.name] / peaks[_OLD.name]
    smooth = max(
        abs(one - other) / usual for (_, one), (_, other) in zip(rates[_GENMIG.name], rates[_OLD.name], strict=True)
    )
    is_on_time = abs(stages[_GENMIG.name] - 1) <= 0.1 and abs(stages[_PAPERS_TRACK.name] - 2) <= 0.2
    holds = is_on_time and second == 0 and burst >= 3 and smooth <= 0.5
    series: dict[str, Line] = {one.name: rates[one.name] for one in (_PAPERS_TRACK, _TRACK, _GENMIG)}
    return Outcome(
        rows_of(runs),
        pa.table(
            {
                "contender": [one.name for one in _CONTENDERS],
                "migration, windows": [stages[one.name] for one in _CONTENDERS],
                "least rate during 2w, of the usual": [dips[one.name] for one in _CONTENDERS],
                "highest rate, of the usual": [peaks[one.name] / usual for one in _CONTENDERS],
                "results in the second w": [
                    int(sum(found.during(one.name, lambda run, place: run.moments[place].results, 2)))
                    for one in _CONTENDERS
                ],
            }
        ),
        (lines(series, "clock, s", "results a second", marked=False, moments={"migration": 2 * window}),),
        verdict(holds),
        f"GenMig ends after {stages[_GENMIG.name]:.2f} w, at most {smooth:.0%} off the rate of a query that does not "
        f"migrate; Parallel Track after {stages[_PAPERS_TRACK.name]:.2f} w, with {second:.0f} results in its second w "
        f"and then {burst:.0f} times the usual peak; purging as the engine does, after {stages[_TRACK.name]:.2f} w",
        "" if holds else "lengths, silence, burst or smoothness are not as expected",
        checked=True,
    )


def _fig5(settings: Settings, progress: Progress) -> Outcome:
    found = _run(settings, progress)
    names = [one.name for one in _CONTENDERS]
    means = {name: [statistics.mean(found.during(name, found.values, part)) for part in (1, 2)] for name in names}
    moments = {name: found.during(name, found.values, 1) + found.during(name, found.values, 2) for name in names}
    pairs = list(zip(moments[_GENMIG.name], moments[_PAPERS_TRACK.name], strict=True))
    below = sum(ours < theirs for ours, theirs in pairs) / len(pairs)
    never_above = all(ours <= 1.02 * theirs for ours, theirs in pairs)
    shares = [ours / theirs for ours, theirs in zip(means[_GENMIG.name], means[_PAPERS_TRACK.name], strict=True)]
    beside_ours = statistics.mean(moments[_GENMIG.name]) / statistics.mean(moments[_TRACK.name])
    holds = never_above and max(shares) < 1
    series = {
        name: [(one.clock, found.values(run, place)) for place, one in enumerate(run.moments)]
        for name, run in found.runs.items()
    }
    return Outcome(
        rows_of(found.runs),
        pa.table(
            {
                "contender": names,
                "values, mean of the first w": [means[name][0] for name in names],
                "values, mean of the second w": [means[name][1] for name in names],
                "state bytes, peak": [max(one.bytes for one in found.runs[name].moments) for name in names],
            }
        ),
        (
            lines(series, "clock, s", "values held", marked=False, moments={"migration": 2 * found.window}),
            lines(
                {name: [(one.clock, one.bytes / 1e6) for one in run.moments] for name, run in found.runs.items()},
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


def _fig6(settings: Settings, progress: Progress) -> Outcome:
    window = _window(settings)
    rounds = settings.size(1, 3)
    steps = round(_WINDOWS_OF_ROWS * window / _SATURATED_STEP)
    progress.total(rounds * steps + 1)
    totals = dict.fromkeys((one.name for one in _CONTENDERS), 0.0)
    curves: list[dict[str, object]] = []
    for number in range(rounds):
        costly = _streams(window, settings.seed + number, "({0}.x * {0}.x - {1}.x * {1}.x) % 1000003 = 0")
        race = Race([Lane(one, costly.query, LEFT_DEEP) for one in _CONTENDERS])
        is_asked = False
        for until, batch in costly.slices(_SATURATED_STEP):
            if not is_asked and until > 2 * window:
                race.migrate(RIGHT_DEEP)
                is_asked = True
            race.push(batch)
            curves += [
                {
                    "round": number,
                    "contender": lane.contender.name,
                    "event_time": until,
                    "seconds": lane.seconds,
                    "results": lane.digest.rows,
                }
                for lane in race.lanes
            ]
            progress.advance()
        for name, seconds in race.times().items():
            totals[name] += seconds
        race.check(costly.answer(0.0, float("inf")), "genmig-fig6")
    progress.advance()
    track, ours, coalesce, reference = (totals[one.name] for one in _CONTENDERS)
    holds = track > coalesce > reference
    first = [one for one in curves if one["round"] == 0]
    return Outcome(
        pa.Table.from_pylist(curves),
        pa.table(
            {
                "contender": list(totals),
                "seconds": list(totals.values()),
                "of Parallel Track, combined": [seconds / track for seconds in totals.values()],
            }
        ),
        (
            lines(
                {
                    name: [
                        (float(str(one["seconds"])), float(str(one["results"])))
                        for one in first
                        if one["contender"] == name
                    ]
                    for name in totals
                },
                "processing time, s",
                "results so far",
                marked=False,
            ),
        ),
        verdict(holds),
        f"GenMig takes {coalesce / track:.2f} times and its reference point {reference / track:.2f} times as long as "
        f"Parallel Track under the paper's purge; {coalesce / ours:.2f} and {reference / ours:.2f} times as long as "
        "under the engine's",
        "" if holds else _why(track, coalesce, reference),
        checked=True,
    )


def _why(track: float, coalesce: float, reference: float) -> str:
    if reference >= coalesce:
        return "cutting rows at the split time spares the old plan work, which is more than coalescing costs"
    return "results are found and coalesced in batches, which costs as much as the second window of two plans"


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
GENMIG_FIGURE_6 = Experiment(
    "genmig-fig6",
    "Runtime of a saturated system that migrates",
    PAPER,
    "Parallel Track takes longest, then GenMig with coalesce; the reference point is fastest",
    _fig6,
)
