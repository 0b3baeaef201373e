"""What the product does not offer, for comparison: Parallel Track as the papers end it, and any other strategy."""

from __future__ import annotations

import numpy as np

import midstream as ms
from midstream.engine.executors.protocol import Executor
from midstream.engine.executors.registry import find_executor
from midstream.engine.lane import Lane
from midstream.engine.transition import Situation
from midstream.errors import EngineError
from midstream.migrate import Options, Strategy, Transition
from midstream.migrate.begin import begin_migration
from midstream.migrate.record import Recorder, Running
from midstream.migrate.strategies.parallel_track import Parallel, ParallelTrack
from midstream.plan import read_plan
from midstream.state.window import Renumbering


class CombinedTrack(ParallelTrack):
    """Parallel Track that ends as papers 001 and 002 have it, after two windows, of any kind.

    There a combined entry is purged only when both its smallest and its largest timestamp are out of the window, so one
    of an old row and a row that came just before the old one expired stays for another window. Here only the end is as
    late: what has expired is purged as everywhere else (`lab.combined_purge` keeps it, for RANGE windows). A plan of a
    single join has no combined entries.
    """

    name = "parallel-track, combined"

    def begin(self, transition: Transition) -> Executor:
        since = transition.tails()
        found = transition.situation
        kind = _CombinedMigration if len(found.query.inputs) > 2 else Parallel
        tracks = kind(found.executor, transition.fresh(since), since, list(found.windows), transition.recorder)
        if transition.options.hold:
            tracks.hold(found.held)
        return tracks.or_successor()


class _CombinedMigration(Parallel):
    _until: dict[int, int] | None = None

    def _count_left(self) -> int:
        old = super()._count_left()
        if old:
            return old
        if self._until is None:
            self._until = {number: self._windows[number].tail for number in self._since}
        return sum(max(0, mark - self._windows[number].head) for number, mark in self._until.items())

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        if self._until is not None and number in self._until:
            self._until[number] = int(renumbering.apply(np.array([self._until[number]]))[0])
        super().renumber(number, renumbering)


def migrate_by(strategy: Strategy, engine: ms.Engine, plan: str, options: Options | None = None) -> Recorder:
    """As `Engine.migrate` to the tree executor, but without its limit on the plans that run at once; the recorder.

    A race compares what strategies do by themselves, so none may give way to another.
    """
    target = read_plan(plan, engine.query)
    kind = find_executor("tree", "lab")
    recorder = Recorder(
        strategy.name, strategy.unit, Running(str(engine.plan), engine.executor), Running(str(target), kind.name)
    )

    def begin(situation: Situation) -> Lane:
        transition = Transition(situation, target, kind, options or Options(), recorder)
        refusal = strategy.reason_against(transition.proposal)
        if refusal is not None:
            raise EngineError(f"migrate: {refusal}")
        return begin_migration(strategy, transition)

    engine._pipeline.begin(begin)
    engine._migrations._recorders = [recorder]
    return recorder
