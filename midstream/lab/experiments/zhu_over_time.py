"""Intermediate tuples and output over time: `zhu-fig13` to `zhu-fig16`, after paper 001.

Five contenders run the same rows: Moving State, Parallel Track under the engine's and under the paper's purge, the old
plan and the new one. At the low setting every one keeps up with its input. The high setting is to be one that the old
plan cannot keep up with and the new plan can; which rates that takes depends on the machine, so they are found by a
short run of the old plan, and are the same for all contenders.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

import midstream as ms
from midstream.lab.definition import Experiment, Outcome, Plot, Progress, Settings, verdict
from midstream.lab.experiments.zhu_plots import Line, lines
from midstream.lab.experiments.zhu_run import COMBINED, Run, Trial, check, rows_of
from midstream.lab.experiments.zhu_stage import PAPER
from midstream.lab.experiments.zhu_streams import HIGH, LEFT_DEEP, LOW, MICROSECONDS, RIGHT_DEEP, Setting, make_streams
from midstream.lab.race import MOVING_STATE, PARALLEL_TRACK, Contender

_STEP = 0.1
_OLD, _NEW = Contender("old plan"), Contender("new plan")
_MIGRATING = (MOVING_STATE, PARALLEL_TRACK, COMBINED)
#: How many seconds of work a second of rows is to be for the old plan at the high setting.
_WANTED_LOAD = 1.5
_TRIED_SPEED = 4.0
#: A silence is noticed from this share of a window on.
_NOTICED = 0.1


@dataclass(frozen=True)
class _Runs:
    """All runs on one setting; `speed` is in times the paper's rates."""

    trial: Trial
    speed: float
    seconds: float
    runs: dict[str, Run]

    @property
    def window(self) -> float:
        return self.trial.streams.window / MICROSECONDS

    def at_the_end(self, name: str) -> float:
        """The mean number of intermediate tuples over the last quarter of event time."""
        late = [moment.entries for moment in self.runs[name].moments if moment.event_time > 0.75 * self.seconds]
        return statistics.mean(late)

    def after(self, name: str) -> float:
        """The mean number of intermediate tuples over two windows of the clock from the request on."""
        asked = self.trial.migrate_at
        found = [moment.entries for moment in self.runs[name].between(asked, asked + 2 * self.window)]
        return statistics.mean(found) if found else 0.0

    def rate_after(self, name: str) -> float:
        """Results a second over two windows of the clock from the request on."""
        asked = self.trial.migrate_at
        return sum(moment.results for moment in self.runs[name].between(asked, asked + 2 * self.window)) / (
            2 * self.window
        )

    def behind(self, name: str) -> float:
        """By how many seconds the last results came later than under the new plan; 0 if output has become the same."""
        return max(0.0, self.runs[name].moments[-1].clock - self.runs[_NEW.name].moments[-1].clock)

    def silence(self, name: str) -> float:
        """The longest time without a result that ended within two windows of the request."""
        asked = self.trial.migrate_at
        clocks = [moment.clock for moment in self.runs[name].moments if moment.results]
        gaps = [after - before for before, after in pairwise(clocks) if asked < after <= asked + 2 * self.window]
        return max(gaps, default=0.0)


def _low(settings: Settings, progress: Progress) -> _Runs:
    seconds = settings.size(50, 50, least=8)
    return _all(LOW, 1.0, seconds, settings.seed, (0.0, float(seconds)), progress)


def _high(settings: Settings, progress: Progress) -> _Runs:
    seconds = settings.size(10, 50, least=8)
    speed = max(1.0, min(1.0, settings.scale) * _saturating_speed(settings.seed))
    at = 0.2 * seconds if settings.full else 0.4 * seconds
    return _all(HIGH, speed, seconds, settings.seed, (at - 0.5 * HIGH.window, at + 0.25 * HIGH.window), progress, at)


def _saturating_speed(seed: int) -> float:
    """How many times the paper's rates give the old plan the wanted load; its work grows with their fourth power."""
    setting = HIGH.faster(_TRIED_SPEED)
    tried = make_streams(setting, 1.5 * setting.window, seed)
    engine = ms.Engine(tried.query, plan=LEFT_DEEP, demand="off")
    spent = 0.0
    for until, batch in tried.slices(_STEP):
        began = time.process_time()
        engine.push(batch, watermark=round(until * MICROSECONDS))
        if until > setting.window:
            spent += time.process_time() - began
    load = spent / (0.5 * setting.window)
    return float(_TRIED_SPEED * (_WANTED_LOAD / load) ** 0.25)


def _all(
    setting: Setting,
    speed: float,
    seconds: float,
    seed: int,
    sample: tuple[float, float],
    progress: Progress,
    at: float | None = None,
) -> _Runs:
    asked = 0.2 * seconds if at is None else at
    trial = Trial(make_streams(setting.faster(speed), seconds, seed), _STEP, asked, sample)
    progress.total(len(_MIGRATING) + 3)
    runs: dict[str, Run] = {}
    for contender, plan in (
        (_OLD, LEFT_DEEP),
        (_NEW, RIGHT_DEEP),
        *((contender, LEFT_DEEP) for contender in _MIGRATING),
    ):
        progress.step(contender.name)
        runs[contender.name] = trial.run(contender, plan)
        progress.advance()
    progress.step("comparing with DuckDB")
    check(runs.values(), trial, f"window {setting.window:g} s, {speed:.1f} times the paper's rates")
    progress.advance()
    return _Runs(trial, speed, seconds, runs)


def _table(found: _Runs) -> pa.Table:
    names = list(found.runs)
    return pa.table(
        {
            "contender": names,
            "stage, s": [found.runs[name].stage if name not in (_OLD.name, _NEW.name) else None for name in names],
            "tuples, two windows from the request": [found.after(name) for name in names],
            "tuples, last quarter": [found.at_the_end(name) for name in names],
            "results/s, two windows from the request": [found.rate_after(name) for name in names],
            "longest silence, s": [found.silence(name) for name in names],
            "at the end behind the new plan, s": [found.behind(name) for name in names],
        }
    )


def _tuples_over_time(found: _Runs) -> Plot:
    series = {
        name: [(moment.clock, float(moment.entries)) for moment in run.moments] for name, run in found.runs.items()
    }
    return _over_time(found, series, "intermediate tuples")


def _rate_over_time(found: _Runs) -> Plot:
    width = found.seconds / 25
    until = max(run.moments[-1].clock for run in found.runs.values()) + width
    series = {name: run.rates(width, until) for name, run in found.runs.items()}
    return _over_time(found, series, "results a second")


def _over_time(found: _Runs, series: Mapping[str, Line], y: str) -> Plot:
    return lines(series, "clock, s", y, marked=False, moments={"change asked for": found.trial.migrate_at})


def _distance(found: _Runs) -> float:
    """How far the states of the contenders that migrate are at most from the new plan's."""
    new = found.at_the_end(_NEW.name)
    return max(abs(found.at_the_end(contender.name) / new - 1) for contender in _MIGRATING) if new else 0.0


def _has_caught_up(found: _Runs) -> bool:
    """Whether the output of the two strategies has become the new plan's."""
    return all(found.behind(contender.name) <= 0.25 * found.window for contender in (MOVING_STATE, PARALLEL_TRACK))


def _outcome(found: _Runs, plots: Sequence[Plot], holds: bool, figure: str, reason: str) -> Outcome:
    at = f" (at {found.speed:.1f} times the paper's rates)" if found.speed > 1 else ""
    return Outcome(
        rows_of(found.runs),
        _table(found),
        tuple(plots),
        verdict(holds),
        figure + at,
        "" if holds else reason,
        checked=True,
    )


def _tuples(found: _Runs) -> Outcome:
    distance = _distance(found)
    fewer = found.at_the_end(_NEW.name) / found.at_the_end(_OLD.name)
    names = (MOVING_STATE.name, PARALLEL_TRACK.name, COMBINED.name)
    moving, parallel, combined = (found.after(name) / found.after(_NEW.name) for name in names)
    return _outcome(
        found,
        (_tuples_over_time(found),),
        distance <= 0.15 and fewer < 1,
        f"in the last quarter all are within {distance:.0%} of the new plan, which has {fewer:.2f} times the old one's "
        f"tuples; in the two windows after the request Moving State holds {moving:.1f} times the new plan's, Parallel "
        f"Track {parallel:.1f} times, under the paper's purge {combined:.1f} times",
        "a contender's states still differ from the new plan's by more than 15 %, or the new plan has no fewer tuples",
    )


def _fig13(settings: Settings, progress: Progress) -> Outcome:
    return _tuples(_low(settings, progress))


def _fig14(settings: Settings, progress: Progress) -> Outcome:
    found = _low(settings, progress)
    pause = found.runs[MOVING_STATE.name].stage
    is_short = pause < _NOTICED * found.window
    return _outcome(
        found,
        (_rate_over_time(found),),
        is_short and _has_caught_up(found),
        f"at the end Moving State is {found.behind(MOVING_STATE.name):.2f} s behind the new plan and Parallel Track "
        f"{found.behind(PARALLEL_TRACK.name):.2f} s; Moving State pauses for {1e3 * pause:.1f} ms",
        "output is still later than the new plan's" if is_short else "the pause is noticed",
    )


def _fig15(settings: Settings, progress: Progress) -> Outcome:
    return _tuples(_high(settings, progress))


def _fig16(settings: Settings, progress: Progress) -> Outcome:
    found = _high(settings, progress)
    silent, beside = found.silence(MOVING_STATE.name), found.silence(PARALLEL_TRACK.name)
    pause = found.runs[MOVING_STATE.name].stage
    is_silent = silent >= _NOTICED * found.window + beside
    reason = (
        f"computing the states takes {1e3 * pause:.0f} ms, less than a push of the old plan: at these rates the work "
        "lies in the results, and the states of the new plan are small"
        if not is_silent
        else "output is still later than the new plan's"
    )
    rates = found.rate_after(MOVING_STATE.name) / max(1e-9, found.rate_after(PARALLEL_TRACK.name))
    return _outcome(
        found,
        (_rate_over_time(found),),
        is_silent and _has_caught_up(found),
        f"Moving State gives nothing for {silent:.2f} s, {silent / found.window:.0%} of a window, Parallel Track for "
        f"{beside:.2f} s; in two windows after the request Moving State gives {rates:.1f} times as many results; at "
        f"the end it is {found.behind(MOVING_STATE.name):.2f} s behind the new plan and Parallel Track "
        f"{found.behind(PARALLEL_TRACK.name):.2f} s",
        reason,
    )


ZHU_FIGURE_13 = Experiment(
    "zhu-fig13",
    "Intermediate tuples over time, low setting",
    PAPER,
    "both strategies converge to the new plan, which holds fewer tuples",
    _fig13,
)
ZHU_FIGURE_14 = Experiment(
    "zhu-fig14",
    "Output rate over time, low setting",
    PAPER,
    "both strategies converge to the new plan; the silence of Moving State is too short to matter",
    _fig14,
)
ZHU_FIGURE_15 = Experiment(
    "zhu-fig15",
    "Intermediate tuples over time, high setting",
    PAPER,
    "both strategies converge to the new plan, which holds fewer tuples",
    _fig15,
)
ZHU_FIGURE_16 = Experiment(
    "zhu-fig16",
    "Output rate over time, high setting",
    PAPER,
    "Moving State is silent for a while; both strategies converge to the new plan",
    _fig16,
)
