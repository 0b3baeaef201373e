"""Two tracks: what ran goes on, the new plan runs beside it on the rows that come, and each result counts once.

What ran may itself be two tracks; an executor is a black box that takes rows and gives results.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from midstream.engine.executors.protocol import Evicting, Executor, ExecutorKind, HandedOver, IndexUsed, PlanExecutor
from midstream.engine.joins.combos import Delta
from midstream.engine.routing.report import RoutingReport
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.migrate.record import Recorder
from midstream.plan.tree import Plan
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow, Renumbering


class TwoTracks(abc.ABC):
    """The old executor and the new plan. Subclasses say what each of them gets, what counts, and when it is over."""

    def __init__(
        self, old: Executor, new: PlanExecutor, since: dict[int, int], windows: list[BaseWindow], recorder: Recorder
    ):
        self.old, self._new = old, new
        self._since = since
        self._windows = windows
        self.recorder = recorder
        self._results_of_new = 0
        recorder.begin(self._count_left())

    @property
    def kind(self) -> ExecutorKind:
        return self._new.kind

    @property
    def plan(self) -> Plan:
        return self._new.plan

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        began = time.perf_counter()
        yield from self._process_counted(deltas, horizon)
        self.recorder.spend(began)

    @abc.abstractmethod
    def _process_counted(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        """The results that count."""

    @abc.abstractmethod
    def _count_left(self) -> int:
        """What still has to go away; 0 if the old executor is not needed any more."""

    def purge(self, horizon: int) -> None:
        self.old.purge(horizon)
        self._new.purge(horizon)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        if number in self._since:
            self._since[number] = int(renumbering.apply(np.array([self._since[number]]))[0])
        self.old.renumber(number, renumbering)
        self._new.renumber(number, renumbering)

    def after_push(self, horizon: int) -> Executor:
        self.old = self.old.after_push(horizon)
        left = self._count_left()
        rows = sum(max(0, self._windows[number].tail - mark) for number, mark in self._since.items())
        self.recorder.count_push(left, rows, self._results_of_new, self.old.nbytes)
        if left:
            return self
        self.recorder.end()
        return self._new

    @property
    def plans_at_once(self) -> int:
        return self.old.plans_at_once + 1

    def migrations(self) -> Iterator[object]:
        yield self.recorder
        yield from self.old.migrations()

    @property
    def knows_all_rows(self) -> bool:
        return self.old.knows_all_rows

    def refusal(self, plan: Plan, strategy: str | None) -> str | None:
        return self._new.refusal(plan, strategy)

    def evicting(self) -> Iterator[Evicting]:
        yield from self.old.evicting()
        yield from self._new.evicting()

    def routing_report(self) -> RoutingReport | None:
        return self._new.routing_report()

    def hand_over(self) -> Sequence[HandedOver]:
        """Nothing: the states of the new plan know only later rows, and those of the old one may be cut."""
        return ()

    @property
    def nbytes(self) -> int:
        return self.old.nbytes + self._new.nbytes

    def indexes_used(self) -> Iterator[IndexUsed]:
        yield from self.old.indexes_used()
        yield from self._new.indexes_used()

    def state_stats(self) -> list[StateStats]:
        return self.old.state_stats() + self._new.state_stats()


def select_counted(combos: Combos, places: Ints) -> Combos | None:
    """The results at these places, or None if there are none."""
    if len(places) == len(combos.starts):
        return combos
    return Combos(*(array[places] for array in combos)) if len(places) else None
