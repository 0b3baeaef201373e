"""What a soak measured: whether it stayed flat, and a picture of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.app.soak_processes import KINDS

#: What comes before is warming up: windows fill, and the JVM compiles.
_WARM_SHARE = 0.2
#: The levels of the two halves after that may differ by so much.
TOLERANCE = 1.25
#: Memory and state go up and down with restarts and plans, so their upper level is compared; batch time by its median,
#: because the first batch after a restart is always long.
_RANKS = {"time of a batch": 0.5}
_UPPER = 0.9


@dataclass
class Measurements:
    """Memory over time by kind of process, the batches in the job's journal, and the times of kills and migrations."""

    began: float
    memory: list[tuple[float, Mapping[str, int]]] = field(default_factory=list)
    batches: list[Mapping[str, Any]] = field(default_factory=list)
    kills: list[tuple[float, str]] = field(default_factory=list)
    migrations: list[tuple[float, str]] = field(default_factory=list)

    def series(self) -> dict[str, list[tuple[float, float]]]:
        """The series that must stay flat, as pairs of seconds and value; samples without workers are left out.

        While a job starts again it has less memory, which would hide what grows.
        """
        whole = [(at, memory) for at, memory in self.memory if memory["workers"]]
        working = [batch for batch in self.batches if batch["files"]]
        return {
            "memory of all processes": [(at - self.began, float(sum(memory.values()))) for at, memory in whole],
            "memory of hosts": [(at - self.began, float(memory["hosts"])) for at, memory in whole],
            "state of engines": [(batch["at"] - self.began, float(batch["state"])) for batch in working],
            "rows kept in Spark's state": [(batch["at"] - self.began, float(batch["stored"])) for batch in working],
            "time of a batch": [(batch["at"] - self.began, batch["seconds"]) for batch in working],
        }


@dataclass(frozen=True)
class Halves:
    """The levels of the first and second half of a series, after warming up."""

    first: float
    second: float

    @property
    def growth(self) -> float:
        return self.second / self.first if self.first else 1.0

    @property
    def is_flat(self) -> bool:
        return self.growth <= TOLERANCE


def rank_of(name: str) -> float:
    """The rank, from 0 to 1, of the sample that counts as the level of a series."""
    return _RANKS.get(name, _UPPER)


def compare_halves(points: Sequence[tuple[float, float]], rank: float = 0.5) -> Halves | None:
    """How the second half of a series compares with the first; None if it is too short to tell.

    >>> compare_halves([(float(second), 5.0) for second in range(100)])
    Halves(first=5.0, second=5.0)
    """
    if not points:
        return None
    begin = _WARM_SHARE * points[-1][0]
    middle = (begin + points[-1][0]) / 2
    first = sorted(value for at, value in points if begin <= at < middle)
    second = sorted(value for at, value in points if at >= middle)
    if min(len(first), len(second)) < 3:
        return None
    return Halves(*(values[int(rank * (len(values) - 1))] for values in (first, second)))


def draw(measured: Measurements, path: Path) -> bool:
    """Memory, state and batch time over minutes, with kills and migrations; False if matplotlib is not there."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    figure = Figure(figsize=(10, 9), layout="constrained")
    FigureCanvasAgg(figure)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    minutes = [(at - measured.began) / 60 for at, _ in measured.memory]
    for kind in reversed(KINDS):
        top.plot(minutes, [memory[kind] / 2**20 for _, memory in measured.memory], label=kind, linewidth=1)
    top.set_ylabel("memory, MiB")
    top.legend(loc="upper left", ncols=len(KINDS))
    series = measured.series()
    for name in ("state of engines", "rows kept in Spark's state"):
        middle.plot(*_axes(series[name], 2**20), label=name, linewidth=1)
    middle.set_ylabel("state, MiB")
    middle.legend(loc="upper left")
    bottom.plot(*_axes(series["time of a batch"], 1), ".", markersize=3)
    bottom.set_ylabel("time of a batch, s")
    bottom.set_xlabel("minutes; grey: a migration, red: a kill")
    for axes in (top, middle, bottom):
        axes.set_ylim(bottom=0)
        for at, _ in measured.migrations:
            axes.axvline((at - measured.began) / 60, color="lightgrey", linewidth=0.8, zorder=0)
        for at, _ in measured.kills:
            axes.axvline((at - measured.began) / 60, color="red", linewidth=0.8, alpha=0.6, zorder=0)
    figure.savefig(path, dpi=110)
    return True


def _axes(points: Sequence[tuple[float, float]], unit: float) -> tuple[list[float], list[float]]:
    return [at / 60 for at, _ in points], [value / unit for _, value in points]
