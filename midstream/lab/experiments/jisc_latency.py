"""JISC, figure 10: from the transition to the first result, against the size of the window.

Every state of the new plan is incomplete. After the transition rows come one of each stream at a time, until a result
is there. Hash joins find partners by their key; nested loops look at every pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.jisc_streams import PAPER, Streams, get_ready
from midstream.lab.race import JISC, MOVING_STATE, Lane, Race, lanes_for

_CONTENDERS = (JISC, MOVING_STATE)
_HASH, _LOOPS = "hash joins", "nested loops"
#: A latency that does not grow may still wobble; it is small enough if it grows far slower than the window.
_FLAT = 0.25


@dataclass(frozen=True)
class _Kind:
    """A kind of join: how many joins, the windows of a default and of a full run, and how often a run is repeated.

    How many rows it takes to a result differs from seed to seed.
    """

    name: str
    joins: int
    windows: tuple[int, ...]
    full: tuple[int, ...]
    repeats: int

    def seeds(self, settings: Settings) -> range:
        return range(settings.seed, settings.seed + self.repeats * len(settings.seeds))


_KINDS = (
    _Kind(_HASH, 5, (2_000, 5_000, 10_000, 20_000), (10_000, 20_000, 50_000, 100_000), 3),
    _Kind(_LOOPS, 3, (250, 500, 1_000, 2_000), (1_000, 2_000, 5_000, 10_000), 1),
)


def run(settings: Settings, progress: Progress) -> Outcome:
    plan = {kind: settings.points(kind.full if settings.full else kind.windows) for kind in _KINDS}
    progress.total(sum(len(windows) * len(kind.seeds(settings)) for kind, windows in plan.items()))
    progress.step("getting the kernels ready")
    rows: list[dict[str, Any]] = []
    for kind, windows in plan.items():
        get_ready(_CONTENDERS, kind.name == _LOOPS)
        for number in windows:
            window = max(40, round(number * min(1.0, settings.scale)))
            for seed in kind.seeds(settings):
                progress.step(f"{kind.name}, window of {window:,} rows")
                for name, latency in _latencies(kind, window, seed, settings.executor).items():
                    rows.append(
                        {"joins": kind.name, "window": window, "seed": seed, "contender": name, "latency_s": latency}
                    )
                progress.advance()
    return _outcome(pa.Table.from_pylist(rows))


def _latencies(kind: _Kind, window: int, seed: int, executor: str) -> dict[str, float]:
    before, after = window + window // 2, 40
    streams = Streams(kind.joins, window, before + after, max(1, window // 10), seed, kind.name == _LOOPS)
    race = Race(lanes_for(_CONTENDERS, streams.query, streams.plan, executor))
    race.run(streams.batches(0, before))
    where = f"{kind.name}, window of {window:,}, seed {seed}"
    race.check(None, where)
    latencies = {lane.contender.name: _first_result(lane, streams, before) for lane in race.lanes}
    race.check(streams.answer(before, streams.rows), where)
    return latencies


def _first_result(lane: Lane, streams: Streams, before: int) -> float:
    """Seconds from the transition to the first result; the rest of the rows is pushed too, to be checked."""
    lane.seconds = 0.0
    latency: float | None = None
    lane.migrate(streams.worst_case)
    for place in range(before, streams.rows):
        lane.push({name: table.slice(place, 1) for name, table in streams.tables.items()})
        if latency is None and lane.digest.rows:
            latency = lane.seconds
    return lane.seconds if latency is None else latency


def _outcome(rows: pa.Table) -> Outcome:
    by_point: dict[tuple[str, int, str], list[float]] = {}
    for row in rows.to_pylist():
        by_point.setdefault((row["joins"], row["window"], row["contender"]), []).append(row["latency_s"])
    latency = {point: median(values) for point, values in by_point.items()}
    points = sorted({(joins, window) for joins, window, _ in latency})
    table = pa.table(
        {
            "joins": [joins for joins, _ in points],
            "window": [window for _, window in points],
            "JISC, ms": [1e3 * latency[point[0], point[1], JISC.name] for point in points],
            "Moving State, ms": [1e3 * latency[point[0], point[1], MOVING_STATE.name] for point in points],
            "Moving State / JISC": [
                latency[point[0], point[1], MOVING_STATE.name] / latency[point[0], point[1], JISC.name]
                for point in points
            ],
        }
    )
    problems, figures = [], []
    for joins in (_HASH, _LOOPS):
        windows = [window for kind, window in points if kind == joins]
        own = latency[joins, windows[-1], JISC.name] / latency[joins, windows[0], JISC.name]
        moving_state = latency[joins, windows[-1], MOVING_STATE.name] / latency[joins, windows[0], MOVING_STATE.name]
        wider = windows[-1] / windows[0]
        figures.append(
            f"{joins}: over a window {wider:.0f}x wider JISC's latency grows {own:.1f}x, "
            f"Moving State's {moving_state:.1f}x"
        )
        if own > max(1.5, _FLAT * wider):
            problems.append(f"JISC's latency grows with the window for {joins}")
        if moving_state < (wider if joins == _LOOPS else own):
            than = "the window" if joins == _LOOPS else "JISC's"
            problems.append(f"Moving State's latency does not grow faster than {than} for {joins}")

    def plot_of(joins: str) -> Any:
        def plot(axes: Any) -> None:
            windows = [window for kind, window in points if kind == joins]
            for name in (JISC.name, MOVING_STATE.name):
                axes.plot(windows, [1e3 * latency[joins, window, name] for window in windows], marker="o", label=name)
            axes.set(title=joins, xlabel="window, rows", ylabel="latency of the first result, ms", ylim=(0, None))
            axes.legend()

        return plot

    plots = (plot_of(_HASH), plot_of(_LOOPS))
    return Outcome(rows, table, plots, verdict(not problems), "; ".join(figures), "; ".join(problems), True)


FIGURE_10 = Experiment(
    "jisc-fig10",
    "Latency of the first result",
    PAPER,
    "JISC's latency does not grow with the window; Moving State's does, for nested loops explosively",
    run,
)
