"""JIT, figures 10 to 17: processor time and memory with demand and without it, over the axes of the paper.

Figures 10 to 13 have bushy plans, 14 to 17 left-deep ones with more partners for a row. Each varies one of window,
rate, number of streams and number of values; the others stay in the middle of the paper's Table III. The paper joins by
nested loops, so its claim is judged by them; hash joins, which the product has, stand beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from midstream.lab.definition import Experiment, Outcome, Plot, Progress, Settings, verdict
from midstream.lab.experiments.jit_run import COUNTED, DEMANDS, HASH, LOOPS, OFF, ON, Measurement, get_ready, measure
from midstream.lab.experiments.jit_streams import BUSHY, LEFT_DEEP, PAPER, Setting
from midstream.lab.experiments.zhu_plots import lines

#: The middle of the paper's Table III.
_MIDDLE = {BUSHY: Setting(BUSHY, 6, 20.0, 1.0, 200), LEFT_DEEP: Setting(LEFT_DEEP, 4, 10.0, 1.0, 50)}
_TIMES, _SAVED = 10.0, 0.62

Taken = Mapping[tuple[float, str, str], Measurement]


@dataclass(frozen=True)
class Axis:
    """What a figure varies: a field of `Setting`, its values, and the one at which the paper's factor is judged.

    `label` stands at the axis of a plot, `phrase` names a value in a sentence.
    """

    field: str
    label: str
    phrase: str
    values: tuple[float, ...]
    judged: float

    @property
    def where(self) -> str:
        """Where it is judged, in words."""
        return self.phrase.format(self.judged)

    def points(self, settings: Settings) -> tuple[float, ...]:
        """All values; two of them in a run that is scaled down."""
        others = [value for value in self.values if value != self.judged]
        return self.values if settings.scale >= 1 else (others[0], self.judged)

    def setting_at(self, shape: str, value: float, scale: float) -> Setting:
        kind = type(getattr(_MIDDLE[shape], self.field))
        return replace(_MIDDLE[shape], **{self.field: kind(value)}).scaled(scale)


def _run(shape: str, axis: Axis, settings: Settings, progress: Progress) -> Outcome:
    points = axis.points(settings)
    progress.total(2 * len(points))
    progress.step("getting the kernels ready")
    get_ready(_MIDDLE[shape])
    taken: dict[tuple[float, str, str], Measurement] = {}
    for value in points:
        setting = axis.setting_at(shape, value, settings.scale)
        for joins in (HASH, LOOPS):
            progress.step(f"{axis.phrase.format(value)}, {joins}")
            for found in measure(setting, joins, settings):
                taken[value, found.joins, found.demand] = found
            progress.advance()
    problems = _judge_bushy(taken, axis, points) if shape == BUSHY else _judge_lead(taken, axis, points)
    return Outcome(
        pa.Table.from_pylist([{axis.field: float(value), **asdict(found)} for (value, _, _), found in taken.items()]),
        _table(taken, axis, points),
        _plots(taken, axis, points),
        verdict(not problems),
        _figure(taken, axis, points),
        "; ".join(problems),
        checked=True,
    )


# What it says ---------------------------------------------------------------------------------------------------------


def _lead(taken: Taken, value: float, joins: str, measure: Callable[[Measurement], float]) -> float:
    """How many times as much it takes without demand."""
    return measure(taken[value, joins, OFF]) / max(1e-9, measure(taken[value, joins, ON]))


def _part(taken: Taken, value: float, measure: Callable[[Measurement], float]) -> float:
    """How many times as much it takes with demand, by hash joins."""
    return measure(taken[value, HASH, ON]) / max(1e-9, measure(taken[value, HASH, OFF]))


def _seconds(found: Measurement) -> float:
    return found.seconds


def _pairs(found: Measurement) -> float:
    return found.pairs


def _made(found: Measurement) -> float:
    return found.made


def _entries(found: Measurement) -> float:
    return found.most_entries


def _bytes(found: Measurement) -> float:
    return found.most_bytes


def _judge_bushy(taken: Taken, axis: Axis, points: Sequence[float]) -> list[str]:
    problems = _judge_lead(taken, axis, points)
    lead = _lead(taken, axis.judged, LOOPS, _seconds)
    if lead < _TIMES:
        problems.append(f"nested loops without demand take only {lead:.1f} times as long at {axis.where}")
    least = min(_part(taken, value, _bytes) for value in points)
    if least > 1 - _SAVED:
        problems.append(f"memory is at best {least:.2f} times what it is without, not {1 - _SAVED:.2f} times")
        problems.append(_explain_memory(taken[axis.judged, HASH, OFF], taken[axis.judged, HASH, ON], axis))
    return problems


def _judge_lead(taken: Taken, axis: Axis, points: Sequence[float]) -> list[str]:
    """Where demand is not ahead."""
    slower = [value for value in points if _lead(taken, value, LOOPS, _seconds) <= 1]
    larger = [value for value in points if _part(taken, value, _bytes) >= 1]
    return [
        f"demand does not lower {what} at {', '.join(axis.phrase.format(value) for value in values)}"
        for what, values in (("the time of nested loops", slower), ("memory", larger))
        if values
    ]


def _explain_memory(off: Measurement, on: Measurement, axis: Axis) -> str:
    return (
        f"at {axis.where} join states take {on.join_bytes / 1e6:.1f} MB instead of {off.join_bytes / 1e6:.1f}, with an "
        f"index for every set of columns that checks compare, which the paper does without; windows, whose room is a "
        f"power of two, {on.window_bytes / 1e6:.1f} MB instead of {off.window_bytes / 1e6:.1f}; what waits "
        f"{on.waiting_bytes / 1e6:.1f} MB"
    )


def _figure(taken: Taken, axis: Axis, points: Sequence[float]) -> str:
    at = axis.judged
    counted = taken[at, COUNTED, ON]
    sizes = [_part(taken, value, _bytes) for value in points]
    return (
        f"at {axis.where} nested loops take {_lead(taken, at, LOOPS, _seconds):.1f} times as long without demand, over "
        f"{_lead(taken, at, LOOPS, _pairs):.1f} times the pairs, and hash joins {_lead(taken, at, HASH, _seconds):.2f} "
        f"times; with demand {_part(taken, at, _made):.1%} of the combinations are stored and "
        f"{_part(taken, at, _entries):.1%} of the entries held; memory is {min(sizes):.2f} to {max(sizes):.2f} times "
        f"what it is without. Left out: "
        f"mark-result would save at most {counted.without_partner / max(1, counted.made):.1%} of what is stored, "
        f"mid-life suspension {counted.outlived / max(1, counted.entries_seen):.1%} of the entries"
    )


def _table(taken: Taken, axis: Axis, points: Sequence[float]) -> pa.Table:
    columns: dict[str, list[float]] = {axis.label: list(points)}
    for joins, name in ((LOOPS, "loops"), (HASH, "hash")):
        for demand in DEMANDS:
            columns[f"{name} {demand}, s"] = [taken[value, joins, demand].seconds for value in points]
    columns["pairs off/on"] = [_lead(taken, value, LOOPS, _pairs) for value in points]
    columns["entries on/off"] = [_part(taken, value, _entries) for value in points]
    for demand in DEMANDS:
        columns[f"MB {demand}"] = [taken[value, HASH, demand].most_bytes / 1e6 for value in points]
    return pa.table(columns)


def _plots(taken: Taken, axis: Axis, points: Sequence[float]) -> tuple[Plot, ...]:
    def draw(what: str, measure: Callable[[Measurement], float], joins: Sequence[str], log: bool) -> Plot:
        series = {
            f"demand {demand}, {kind}": [(value, measure(taken[value, kind, demand])) for value in points]
            for kind in joins
            for demand in DEMANDS
        }
        return lines(series, axis.label, what, log=log)

    return (
        draw("processor time of a window of rows, s", _seconds, (LOOPS, HASH), True),
        draw("peak memory, MB", lambda found: found.most_bytes / 1e6, (HASH,), False),
    )


# The figures ----------------------------------------------------------------------------------------------------------

_WINDOW = ("window", "window, minutes", "a window of {:g} minutes")
_RATE = ("rate", "rows a second", "{:g} rows a second")
_STREAMS = ("streams", "streams", "{:g} streams")
_VALUES = ("dmax", "dmax", "dmax {:g}")
_AXES = {
    10: (BUSHY, Axis(*_WINDOW, (10, 15, 20, 25, 30), judged=30)),
    11: (BUSHY, Axis(*_RATE, (0.4, 0.7, 1.0, 1.3, 1.6), judged=1.6)),
    12: (BUSHY, Axis(*_STREAMS, (4, 5, 6, 7, 8), judged=8)),
    13: (BUSHY, Axis(*_VALUES, (100, 150, 200, 250, 300), judged=200)),
    14: (LEFT_DEEP, Axis(*_WINDOW, (5, 7.5, 10, 12.5, 15), judged=15)),
    15: (LEFT_DEEP, Axis(*_RATE, (0.4, 0.7, 1.0, 1.3, 1.6), judged=1.6)),
    16: (LEFT_DEEP, Axis(*_STREAMS, (3, 4, 5, 6), judged=6)),
    17: (LEFT_DEEP, Axis(*_VALUES, (30, 40, 50, 60, 70), judged=30)),
}


def _make_experiment(number: int, shape: str, axis: Axis) -> Experiment:
    if shape == BUSHY:
        claim = (
            f"feedback makes bushy plans more than ten times as fast at {axis.where}, and lowers memory by up to "
            f"{_SAVED:.0%}"
        )
    else:
        claim = "feedback lowers time and memory of left-deep plans at every point, too, though rows have more partners"
    return Experiment(
        f"jit-fig{number}",
        f"Demand in {shape} plans: {axis.label}",
        PAPER,
        claim,
        lambda settings, progress: _run(shape, axis, settings, progress),
    )


JIT_FIGURES: tuple[Experiment, ...] = tuple(
    _make_experiment(number, shape, axis) for number, (shape, axis) in _AXES.items()
)
