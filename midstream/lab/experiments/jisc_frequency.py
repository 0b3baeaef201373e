"""JISC, figures 11 and 12: throughput of 20 joins against how often the plan changes.

A unit is as many windows of tuples as the paper's million; every run has 20 units. The plan changes back and forth
every so many units. CACQ has no plan to change, so one run of it stands for all frequencies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.jisc_streams import PAPER, Streams, get_ready, not_behind
from midstream.lab.race import CACQ, JISC, PARALLEL_TRACK, Lane, Race, lanes_for

_UNITS = 20
_PERIODS = (1, 2, 5, 10)
_FULL_PERIODS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
#: A million tuples of 21 streams, in windows of 10,000 rows.
_WINDOWS_PER_UNIT = 1_000_000 / 21 / 10_000


def _run(settings: Settings, progress: Progress, plan_of: Callable[[Streams], str]) -> Outcome:
    joins = 20 if settings.scale >= 1 else 4
    window = settings.size(400, 10_000, least=60)
    units = _UNITS if settings.scale >= 1 else 4
    periods = settings.points(_FULL_PERIODS if settings.full else _PERIODS)
    batch = max(1, window // 4)
    unit = max(1, round(_WINDOWS_PER_UNIT * window / batch)) * batch
    streams = Streams(joins, window, units * unit, batch, settings.seed)
    progress.total(units)
    progress.step("getting the kernels ready")
    get_ready((JISC, PARALLEL_TRACK, CACQ))
    moving: dict[int, list[Lane]] = {
        period: lanes_for((JISC, PARALLEL_TRACK), streams.query, streams.plan, settings.executor) for period in periods
    }
    cacq = Lane(CACQ, streams.query, streams.plan)
    race = Race([cacq, *(lane for lanes in moving.values() for lane in lanes)])
    plans = (streams.plan, plan_of(streams))
    two_plans, pushes = 0, 0
    for number in range(units):
        progress.step(f"{joins} joins, {len(race.lanes)} lanes, unit {number + 1} of {units}")
        for period, lanes in moving.items():
            if number and number % period == 0:
                for lane in lanes:
                    lane.migrate(plans[number // period % 2])
        for pushed in streams.batches(number * unit, (number + 1) * unit):
            two_plans, pushes = two_plans + moving[periods[0]][1].is_migrating, pushes + 1
            race.push(pushed)
        race.check(streams.answer(number * unit, (number + 1) * unit), f"{joins} joins, unit {number + 1}")
        progress.advance()
    seconds = {
        (period, lane.contender.name): lane.seconds for period, lanes in moving.items() for lane in (*lanes, cacq)
    }
    return _outcome(seconds, streams.rows * (joins + 1), periods, two_plans / pushes)


def _outcome(seconds: dict[tuple[int, str], float], tuples: int, periods: tuple[int, ...], two_plans: float) -> Outcome:
    """`two_plans` is the share of pushes in which Parallel Track runs two plans at the highest frequency."""
    names = (JISC.name, PARALLEL_TRACK.name, CACQ.name)
    rows = pa.Table.from_pylist(
        [
            {"units_between": period, "contender": name, "seconds": spent, "tuples_per_s": tuples / spent}
            for (period, name), spent in seconds.items()
        ]
    )
    table = pa.table(
        {
            "units between transitions": list(periods),
            **{f"{name}, tuples/s": [tuples / seconds[period, name] for period in periods] for name in names},
            "Parallel Track / JISC, time": [
                seconds[period, names[1]] / seconds[period, names[0]] for period in periods
            ],
            "CACQ / JISC, time": [seconds[period, names[2]] / seconds[period, names[0]] for period in periods],
        }
    )
    track = {period: seconds[period, PARALLEL_TRACK.name] / seconds[period, JISC.name] for period in periods}
    cacq = {period: seconds[period, CACQ.name] / seconds[period, JISC.name] for period in periods}
    problems = []
    for name, leads in ((PARALLEL_TRACK.name, track), (CACQ.name, cacq)):
        problems += not_behind(name, leads, "units between transitions")
    most_often = periods[0]
    if seconds[most_often, PARALLEL_TRACK.name] < seconds[most_often, CACQ.name]:
        problems.append(
            f"Parallel Track is not the slowest at the highest frequency: it runs two plans in {two_plans:.0%} of the "
            "pushes, because it drops the old one after one window, without scans for old tuples"
        )

    def plot(axes: Any) -> None:
        for name in names:
            axes.plot(periods, [tuples / seconds[period, name] for period in periods], marker="o", label=name)
        axes.set(xlabel="units of tuples between transitions", ylabel="tuples a second", ylim=(0, None))
        axes.legend()

    figure = (
        f"time relative to JISC with a transition every {most_often} to {periods[-1]} units: "
        f"Parallel Track {track[most_often]:.2f}x to {track[periods[-1]]:.2f}x, "
        f"CACQ {cacq[most_often]:.2f}x to {cacq[periods[-1]]:.2f}x"
    )
    return Outcome(rows, table, (plot,), verdict(not problems), figure, "; ".join(problems), True)


def run_worst_case(settings: Settings, progress: Progress) -> Outcome:
    return _run(settings, progress, lambda streams: streams.worst_case)


def run_best_case(settings: Settings, progress: Progress) -> Outcome:
    return _run(settings, progress, lambda streams: streams.best_case)


_CLAIM = "JISC has the highest throughput at every frequency, CACQ's is flat, Parallel Track's worst at high frequency"
FIGURE_11 = Experiment("jisc-fig11", "Frequency of transitions, worst case", PAPER, _CLAIM, run_worst_case)
FIGURE_12 = Experiment("jisc-fig12", "Frequency of transitions, best case", PAPER, _CLAIM, run_best_case)
