"""What an experiment is: a claim of a paper, and a run that says whether it holds here.

::

    Experiment.run(Settings, Progress) -> Outcome
                                          rows     raw measurements, written to a file
                                          table    what is printed
                                          plots    what is drawn
                                          verdict  "holds" or "does not hold", with the figure and the reason

An experiment compares its output with an oracle and breaks off with `WrongAnswer` where they differ: no figure is worth
anything if the results behind it are wrong. Adding an experiment is one file and one entry in `lab.experiments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

from midstream.engine.executors.registry import find_executor
from midstream.errors import EngineError, MidstreamError

#: Draws one picture into the axes of matplotlib that it is given.
Plot = Callable[[Any], None]
Verdict = Literal["holds", "does not hold"]


class LabError(MidstreamError):
    """The lab was asked for something that it does not have."""


class WrongAnswer(LabError):
    """A contender's output is not the oracle's."""


@dataclass(frozen=True)
class Settings:
    """How to run an experiment. `executor` is what runs before a transition; `scale` shrinks the sizes, for tests.

    >>> Settings().size(10_000, 1_000_000), Settings(full=True).size(10_000, 1_000_000)
    (10000, 1000000)
    >>> Settings(scale=0.01).size(10_000, 1_000_000), Settings(scale=0.0001).size(10_000, 1_000_000, least=50)
    (100, 50)
    """

    full: bool = False
    seed: int = 1
    out: Path = Path("out/lab")
    executor: str = "tree"
    scale: float = 1.0

    def __post_init__(self) -> None:
        try:
            find_executor(self.executor, "lab")
        except EngineError as problem:
            raise LabError(str(problem)) from None
        if self.scale <= 0:
            raise LabError(f"lab: scale={self.scale}; it must be above 0")

    def size(self, default: int, full: int, least: int = 1) -> int:
        """A number of rows: the paper's in a full run, else the default, scaled and never below `least`."""
        return max(least, round((full if self.full else default) * self.scale))

    def points(self, values: Sequence[int]) -> tuple[int, ...]:
        """The points of an axis; a run that is scaled down takes the first two."""
        return tuple(values) if self.scale >= 1 else tuple(values[:2])

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of repetitions, whose median counts; a run that is scaled down has one."""
        return tuple(range(self.seed, self.seed + (3 if self.scale >= 1 else 1)))


class Progress(Protocol):
    """Receives how far an experiment is."""

    def total(self, steps: int) -> None:
        """There are so many steps in all; called once, before the first."""

    def step(self, text: str) -> None:
        """What is being done now."""

    def advance(self, steps: int = 1) -> None:
        """So many steps are done."""


class SilentProgress:
    """A progress that shows nothing."""

    def total(self, steps: int) -> None: ...

    def step(self, text: str) -> None: ...

    def advance(self, steps: int = 1) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    `figure` is one line with the number that decides, `reason` says why a claim does not hold, and `checked` whether
    all output was compared with an oracle.

    >>> Outcome(pa.table({"x": [1]}), pa.table({"x": [1]}), (), "does not hold", "1x")
    Traceback (most recent call last):
    midstream.lab.definition.LabError: lab: a claim that does not hold needs a reason
    """

    rows: pa.Table
    table: pa.Table
    plots: tuple[Plot, ...]
    verdict: Verdict
    figure: str
    reason: str = ""
    checked: bool = False

    def __post_init__(self) -> None:
        if self.verdict != "holds" and not self.reason:
            raise LabError("lab: a claim that does not hold needs a reason")

    @property
    def holds(self) -> bool:
        return self.verdict == "holds"


def verdict(holds: bool) -> Verdict:
    """The verdict in words."""
    return "holds" if holds else "does not hold"


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper. `claim` is what it should show, in one sentence."""

    id: str
    title: str
    paper: str
    claim: str
    run: Callable[[Settings, Progress], Outcome] = field(repr=False)
