"""How long the migration stage lasts against the window: `zhu-fig9` and `zhu-fig10`, after paper 001.

Parallel Track waits until the old rows have gone, Moving State computes. Parallel Track's stage is measured on the
virtual clock, under the engine's purge, where an entry leaves with its oldest row, and under the paper's, where it
leaves a window after its newest. Moving State's is the processing time of the transition.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from midstream.lab.definition import Experiment, Outcome, Plot, Progress, Settings, verdict
from midstream.lab.experiments.zhu_plots import lines
from midstream.lab.experiments.zhu_recompute import Machine, Pause, estimate_pause
from midstream.lab.experiments.zhu_run import COMBINED, run_tracks
from midstream.lab.experiments.zhu_streams import RIGHT_DEEP, SET_1, make_streams
from midstream.lab.race import PARALLEL_TRACK

PAPER = "Dynamic Plan Migration for Continuous Queries over Data Streams, SIGMOD 2004"
#: The new plan of the paper's figure 4, to which its equation 8 applies as it stands.
_FIGURE_4 = "(A ((B C) D))"
#: At this many times the paper's rates comparisons outweigh what every transition costs. A stays as it is: the pause
#: does not depend on it, and the old plan's work does.
_SPEED, _FULL_SPEED = 8, 12


def windows_of(settings: Settings, first: float, last: float, default: int, full: int) -> list[float]:
    """Windows from `first` to `last`, evenly spread."""
    return [round(float(window), 3) for window in np.linspace(first, last, settings.size(default, full, least=3))]


# Figure 9 ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wait:
    """The length of one stage of Parallel Track, in seconds of the clock."""

    window: float
    height: int
    contender: str
    seed: int
    stage: float


def _fig9(settings: Settings, progress: Progress) -> Outcome:
    windows = windows_of(settings, 1.0, 7.0, 7, 13)
    seeds = range(settings.seed, settings.seed + settings.size(3, 10))
    progress.total(2 * len(windows) * len(seeds))
    found: list[_Wait] = []
    for window in windows:
        setting = replace(SET_1, window=window)
        for seed in seeds:
            for names, height in (("ABCD", 3), ("AB", 1)):
                progress.step(f"W = {window} s, height {height}")
                runs = run_tracks(setting, seed, f"zhu-fig9, W = {window} s", names)
                found += [_Wait(window, height, run.contender, seed, run.stage) for run in runs]
                progress.advance()
    cases = [(height, contender.name) for height in (3, 1) for contender in (COMBINED, PARALLEL_TRACK)]
    means = {case: _means(found, windows, *case) for case in cases}
    fits = {case: _line(points) for case, points in means.items()}
    expected = dict(zip(cases, (2.0, 1.0, 1.0, 1.0), strict=True))
    holds = all(abs(fits[case].slope / expected[case] - 1) <= 0.1 and fits[case].r2 >= 0.99 for case in cases)
    estimate = [(window, 2 * window) for window in windows]
    labels = {case: f"{case[1]}, height {case[0]}" for case in cases}
    return Outcome(
        pa.Table.from_pylist([asdict(wait) for wait in found]),
        pa.table(
            {
                "W, s": windows,
                "estimate 2W, s": [length for _, length in estimate],
                **{f"{label}, s": [length for _, length in means[case]] for case, label in labels.items()},
            }
        ),
        (
            lines(
                {"estimate 2W": estimate, **{label: means[case] for case, label in labels.items()}},
                "window W, s",
                "length of the stage, s",
            ),
        ),
        verdict(holds),
        f"{fits[cases[0]].slope:.2f} W under the paper's purge (R² {fits[cases[0]].r2:.3f}) and "
        f"{fits[cases[2]].slope:.2f} W at height 1; {fits[cases[1]].slope:.2f} W here, where entries carry their end",
        "" if holds else "the stage is not a straight line whose slope is the expected one within 10 %",
        checked=True,
    )


def _means(found: list[_Wait], windows: list[float], height: int, contender: str) -> list[tuple[float, float]]:
    chosen = [wait for wait in found if (wait.height, wait.contender) == (height, contender)]
    return [(window, statistics.mean(wait.stage for wait in chosen if wait.window == window)) for window in windows]


@dataclass(frozen=True)
class _Fit:
    slope: float
    r2: float


def _line(points: Iterable[tuple[float, float]]) -> _Fit:
    """The straight line through points."""
    x, y = (np.array(values) for values in zip(*points, strict=True))
    slope, shift = np.polyfit(x, y, 1)
    residual, spread = np.sum((y - slope * x - shift) ** 2), np.sum((y - y.mean()) ** 2)
    return _Fit(float(slope), float(1 - residual / spread))


# Figure 10 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PausePoint:
    """The pause of Moving State in seconds, and what the paper's equations say. `speed` is in times its rates."""

    plan: str
    speed: float
    window: float
    measured: float
    estimate: float
    as_printed: float


def _fig10(settings: Settings, progress: Progress) -> Outcome:
    raised = max(1.0, (_FULL_SPEED if settings.full else _SPEED) * min(1.0, settings.scale))
    windows = windows_of(settings, 1.0, 8.0, 8, 8)
    progress.total(2 * len(windows) + 1)
    progress.step("what a comparison costs here")
    costs = Machine(settings.seed, settings.size(1_000, 1_000, least=200)).costs
    progress.advance()
    found: list[_PausePoint] = []
    for speed in (1.0, raised):
        for window in windows:
            progress.step(f"W = {window} s, {speed:g} times the paper's rates")
            setting = replace(SET_1.faster(speed, but=1), window=window)
            pause = Pause(make_streams(setting, 1.2 * window, settings.seed), window)
            found += [
                _PausePoint(
                    plan,
                    speed,
                    window,
                    pause.seconds(plan),
                    estimate_pause(setting, costs, plan),
                    estimate_pause(setting, costs, plan, as_printed=True),
                )
                for plan in (RIGHT_DEEP, _FIGURE_4)
            ]
            pause.check(RIGHT_DEEP, 0.1 * window, f"zhu-fig10, W = {window} s")
            progress.advance()
    faster = found[len(found) // 2 :]
    ratios = [point.measured / point.estimate for point in faster if point.window >= windows[len(windows) // 2]]
    degree = _degree([point for point in faster if point.plan == RIGHT_DEEP], costs.start)
    holds = degree > 1.5 and all(0.5 <= ratio <= 2.0 for ratio in ratios)
    reason = "the estimate is off by more than 2x" if degree > 1.5 else "what every transition costs hides the growth"
    return Outcome(
        pa.Table.from_pylist([asdict(point) for point in found]),
        pa.table(
            {
                "new plan": [point.plan for point in found],
                "B, C, D faster by": [point.speed for point in found],
                "W, s": [point.window for point in found],
                "measured, ms": [1e3 * point.measured for point in found],
                "equations 1-3, ms": [1e3 * point.estimate for point in found],
                "equation 8 as printed, ms": [1e3 * point.as_printed for point in found],
            }
        ),
        tuple(_pauses([point for point in faster if point.plan == plan], plan) for plan in (RIGHT_DEEP, _FIGURE_4)),
        verdict(holds),
        f"the pause grows with W to the power {degree:.1f}; it is {min(ratios):.2f} to {max(ratios):.2f} times the "
        f"estimate in the upper half, B, C and D being {raised:g} times as fast as in the paper "
        f"(T_j {1e9 * costs.compare:.0f} ns, T_s {1e9 * costs.store:.0f} ns)",
        "" if holds else reason,
        checked=True,
    )


def _degree(found: list[_PausePoint], start: float) -> float:
    """The power of W with which the pause grows over the upper half, less what every transition costs."""
    upper = found[len(found) // 2 :]
    grown = [max(1e-9, pause.measured - start) for pause in upper]
    return float(np.polyfit(np.log([pause.window for pause in upper]), np.log(grown), 1)[0])


def _pauses(found: list[_PausePoint], plan: str) -> Plot:
    series = {
        "measured": [(pause.window, 1e3 * pause.measured) for pause in found],
        "equations 1-3": [(pause.window, 1e3 * pause.estimate) for pause in found],
        "equation 8 as printed": [(pause.window, 1e3 * pause.as_printed) for pause in found],
    }
    return lines(series, "window W, s", f"pause before {plan}, ms")


ZHU_FIGURE_9 = Experiment(
    "zhu-fig9",
    "Length of the Parallel Track stage against the window",
    PAPER,
    "linear in W: 2W, and W for a plan of one join",
    _fig9,
)
ZHU_FIGURE_10 = Experiment(
    "zhu-fig10",
    "Length of the Moving State stage against the window",
    PAPER,
    "polynomial in W, as equations 1 to 3 and 8 estimate it",
    _fig10,
)
