"""JISC, figure 9: normal operation of 20 joins, when all states are complete.

JISC's lane has made a transition and completed all its states; the plain pipeline has run the same plan from the start.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import pyarrow as pa

from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.jisc_streams import PAPER, Streams, get_ready
from midstream.lab.race import CACQ, JISC, PLAIN, Lane, Race

_NOISE = 0.05
_ABOUT_TWICE = 1.5
_STRETCHES = 10


def run(settings: Settings, progress: Progress) -> Outcome:
    joins = 20 if settings.scale >= 1 else 5
    window = settings.size(3_000, 10_000, least=60)
    measured = settings.size(12_000, 10_000_000 // (joins + 1), least=3 * window)
    stretch = -(-measured // _STRETCHES)
    progress.total(len(settings.seeds) * _STRETCHES)
    progress.step("getting the kernels ready")
    get_ready((JISC, PLAIN, CACQ))
    rows: list[dict[str, Any]] = []
    for seed in settings.seeds:
        before = 3 * window
        streams = Streams(joins, window, before + _STRETCHES * stretch, max(1, window // 20), seed)
        adaptive = Lane(JISC, streams.query, streams.best_case)
        race = Race([adaptive, Lane(PLAIN, streams.query, streams.plan), Lane(CACQ, streams.query, streams.plan)])
        progress.step("a transition, and on until all states are complete")
        race.run(streams.batches(0, window))
        adaptive.migrate(streams.plan)
        race.run(streams.batches(window, before))
        assert not adaptive.is_migrating
        race.check(None, f"{joins} joins, seed {seed}")
        race.start_watches()
        for number in range(_STRETCHES):
            progress.step(f"{joins} joins, window of {window:,} rows")
            begin, end = before + number * stretch, before + (number + 1) * stretch
            race.run(streams.batches(begin, end))
            race.check(streams.answer(begin, end), f"{joins} joins, seed {seed}")
            tuples = (number + 1) * stretch * (joins + 1)
            rows += [
                {"seed": seed, "tuples": tuples, "contender": name, "seconds": seconds}
                for name, seconds in race.times().items()
            ]
            progress.advance()
    return _outcome(pa.Table.from_pylist(rows), settings)


def _outcome(rows: pa.Table, settings: Settings) -> Outcome:
    seconds: dict[tuple[int, int, str], float] = {
        (row["seed"], row["tuples"], row["contender"]): row["seconds"] for row in rows.to_pylist()
    }
    points = sorted({tuples for _, tuples, _ in seconds})

    def time_of(name: str, tuples: int) -> float:
        return median(seconds[seed, tuples, name] for seed in settings.seeds)

    def relative(name: str, tuples: int) -> float:
        return median(seconds[seed, tuples, name] / seconds[seed, tuples, JISC.name] for seed in settings.seeds)

    table = pa.table(
        {
            "tuples": points,
            **{
                f"{name}, s": [time_of(name, tuples) for tuples in points]
                for name in (JISC.name, PLAIN.name, CACQ.name)
            },
            "JISC / plain": [1 / relative(PLAIN.name, tuples) for tuples in points],
            "CACQ / JISC": [relative(CACQ.name, tuples) for tuples in points],
        }
    )
    overhead, lead = 1 / relative(PLAIN.name, points[-1]) - 1, relative(CACQ.name, points[-1])
    problems = []
    if overhead > _NOISE:
        problems.append(f"JISC takes {overhead:.1%} longer than the plain pipeline, more than {_NOISE:.0%}")
    if lead < _ABOUT_TWICE:
        problems.append(
            f"CACQ takes only {lead:.2f} times as long: a batch of rows pays the way through the eddy once, not per row"
        )

    def plot(axes: Any) -> None:
        for name in (JISC.name, PLAIN.name, CACQ.name):
            axes.plot(points, [time_of(name, tuples) for tuples in points], marker="o", label=name)
        axes.set(xlabel="tuples", ylabel="processor time, s", ylim=(0, None))
        axes.legend()

    figure = (
        f"JISC's time differs by {overhead:+.1%} from the plain pipeline's; CACQ takes {lead:.2f} times as long as JISC"
    )
    return Outcome(rows, table, (plot,), verdict(not problems), figure, "; ".join(problems), True)


FIGURE_9 = Experiment(
    "jisc-fig9",
    "Normal operation",
    PAPER,
    "when no migration is under way JISC costs no more than a plain pipeline, and is about twice as fast as CACQ",
    run,
)
