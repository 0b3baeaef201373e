"""Moving State and Parallel Track by the length of their stage: `zhu-fig11` and `zhu-fig12`, after paper 001."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.zhu_plots import lines
from midstream.lab.experiments.zhu_recompute import Pause
from midstream.lab.experiments.zhu_run import run_tracks
from midstream.lab.experiments.zhu_stage import PAPER, windows_of
from midstream.lab.experiments.zhu_streams import RIGHT_DEEP, SET_2, SET_3, Setting, make_streams

#: How many times as fast as in the paper B, C and D are. In figure 11 the pause is more than what every transition
#: costs and the old plan still keeps up; in figure 12 the pause reaches a window at a fraction of a second. A stays as
#: it is: the pause does not depend on it, and the old plan's work does.
_FIG11_SPEED = 10
_FIG12_SPEED = 34
#: With more rows of B in a window, a pause is measured three times and not fifteen.
_MANY = 300


@dataclass(frozen=True)
class _Comparison:
    """The stages on one setting in seconds; those of Parallel Track on the clock and in event time."""

    window: float
    rate_b: float
    moving_state: float
    parallel_track: float
    combined: float
    parallel_track_event: float
    combined_event: float


def _compare(setting: Setting, seed: int, where: str) -> _Comparison:
    ours, combined = run_tracks(setting, seed, where)
    window = setting.window
    pause = Pause(make_streams(setting, 1.2 * window, seed), window)
    moving_state = pause.seconds(RIGHT_DEEP, times=3 if window * setting.rates[1] > _MANY else 15)
    pause.check(RIGHT_DEEP, 0.05 * window, where)
    return _Comparison(
        window,
        setting.rates[1],
        moving_state,
        ours.stage,
        combined.stage,
        ours.event_stage,
        combined.event_stage,
    )


def _fig11(settings: Settings, progress: Progress) -> Outcome:
    speed = max(1.0, _FIG11_SPEED * min(1.0, settings.scale))
    setting = SET_2.faster(speed, but=1)
    times = np.linspace(0.5, 4.0, settings.size(6, 12, least=3)).tolist()
    progress.total(len(times))
    found: list[_Comparison] = []
    for faster in times:
        gaps = (setting.gaps[0], setting.gaps[1] / faster, *setting.gaps[2:])
        progress.step(f"{1 / gaps[1]:.0f} rows of B a second")
        found.append(_compare(replace(setting, gaps=gaps), settings.seed, f"zhu-fig11, B {faster:.1f} times as fast"))
        progress.advance()
    lengths = [comparison.parallel_track for comparison in found] + [comparison.combined / 2 for comparison in found]
    spread = max(lengths) / min(lengths) - 1
    slope, shift = np.polyfit(
        [comparison.rate_b for comparison in found], [comparison.moving_state for comparison in found], 1
    )
    growth = (slope * found[-1].rate_b + shift) / (slope * found[0].rate_b + shift)
    is_flat, grows = spread <= 0.2, growth >= 1.5
    holds = is_flat and grows
    reason = "Parallel Track lags behind its input" if not is_flat else "what every transition costs hides the growth"
    return Outcome(
        pa.Table.from_pylist([asdict(comparison) for comparison in found]),
        pa.table(
            {
                "rows of B a second": [comparison.rate_b for comparison in found],
                "Moving State, ms": [1e3 * comparison.moving_state for comparison in found],
                "Parallel Track, ms": [1e3 * comparison.parallel_track for comparison in found],
                "Parallel Track, combined, ms": [1e3 * comparison.combined for comparison in found],
            }
        ),
        (
            lines(
                {
                    "Moving State": [(comparison.rate_b, 1e3 * comparison.moving_state) for comparison in found],
                    "Parallel Track": [(comparison.rate_b, 1e3 * comparison.parallel_track) for comparison in found],
                    "Parallel Track, combined": [
                        (comparison.rate_b, 1e3 * comparison.combined) for comparison in found
                    ],
                },
                "rows of B a second",
                "length of the stage, ms",
                log=True,
            ),
        ),
        verdict(holds),
        f"with {times[-1] / times[0]:.0f} times the rate of B, Moving State takes {growth:.1f} times as long, by a "
        f"straight line through all points, while Parallel Track stays within {spread:.0%}",
        "" if holds else reason,
        checked=True,
    )


def _fig12(settings: Settings, progress: Progress) -> Outcome:
    speed = max(1.0, _FIG12_SPEED * min(1.0, settings.scale))
    windows = windows_of(settings, 0.05, 0.2, 4, 10)
    progress.total(len(windows))
    found: list[_Comparison] = []
    for window in windows:
        progress.step(f"W = {window} s")
        setting = replace(SET_3.faster(speed, but=1), window=window)
        found.append(_compare(setting, settings.seed, f"zhu-fig12, W = {window} s"))
        progress.advance()
    crossed = [
        comparison.window
        for comparison in found
        if comparison.moving_state > min(comparison.parallel_track, comparison.combined)
    ]
    leads = [comparison.parallel_track / comparison.moving_state for comparison in found]
    in_event_time = next(
        (comparison.window for comparison in found if comparison.moving_state > comparison.parallel_track_event), None
    )
    holds = bool(crossed)
    said = (
        f"Parallel Track's stage is {leads[0]:.0f} times Moving State's at W = {windows[0]:g} s and {leads[-1]:.1f} "
        f"times at {windows[-1]:g} s"
    )
    event = "nowhere" if in_event_time is None else f"from W = {in_event_time:g} s on"
    return Outcome(
        pa.Table.from_pylist([asdict(comparison) for comparison in found]),
        pa.table(
            {
                "W, s": windows,
                "Moving State, s": [comparison.moving_state for comparison in found],
                "Parallel Track, s": [comparison.parallel_track for comparison in found],
                "Parallel Track, combined, s": [comparison.combined for comparison in found],
                "Parallel Track in event time, s": [comparison.parallel_track_event for comparison in found],
                "combined in event time, s": [comparison.combined_event for comparison in found],
            }
        ),
        (
            lines(
                {
                    "Moving State": [(comparison.window, comparison.moving_state) for comparison in found],
                    "Parallel Track": [(comparison.window, comparison.parallel_track) for comparison in found],
                    "Parallel Track, combined": [(comparison.window, comparison.combined) for comparison in found],
                    "Parallel Track in event time": [
                        (comparison.window, comparison.parallel_track_event) for comparison in found
                    ],
                },
                "window W, s",
                "length of the stage, s",
                log=True,
            ),
        ),
        verdict(holds),
        f"{said}; they cross {f'at W = {crossed[0]:g} s' if holds else 'nowhere'} on the clock, {event} in event time",
        ""
        if holds
        else "within one window Parallel Track's new plan makes every comparison that Moving State makes at the "
        "transition, besides the old plan's work; where Moving State takes longer than W, Parallel Track lags too",
        checked=True,
    )


ZHU_FIGURE_11 = Experiment(
    "zhu-fig11",
    "Length of both stages against the rate of B",
    PAPER,
    "Parallel Track is flat, Moving State grows",
    _fig11,
)
ZHU_FIGURE_12 = Experiment(
    "zhu-fig12",
    "Length of both stages against the window, at the high setting",
    PAPER,
    "Moving State is shorter for small windows, Parallel Track for large ones",
    _fig12,
)
