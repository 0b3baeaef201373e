"""Parallel Track: the old plan runs until no row that it began with is left; the new plan knows only newer rows.

The old plan gives every result with an old row, and the new plan the others; what the old plan finds of new rows alone
is dropped at its root. The old rows are counted, so that their end is seen at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from midstream.engine.executors.protocol import Executor
from midstream.engine.joins.combos import Delta
from midstream.engine.operators.held import HeldBack
from midstream.engine.transition import Proposal
from midstream.kernels.types import Combos
from midstream.migrate.options import HOLD, Options
from midstream.migrate.record import OLD_ROWS
from midstream.migrate.strategy import CostModel, Strategy, Transition
from midstream.migrate.tracks import TwoTracks, select_counted


class ParallelTrack(Strategy):
    """Run both plans until the old rows are gone."""

    name = "parallel-track"
    unit = OLD_ROWS
    cost_model = CostModel.BOTH_PLANS
    options = (HOLD,)
    runs_beside = True

    def refusal(self, proposal: Proposal) -> str | None:
        for relation in proposal.query.inputs:
            if relation.window.never_ends and not relation.is_static:
                return (
                    f"parallel-track would never end: rows of {relation.alias!r} are {relation.window.kind.name}, "
                    "so the old plan would be needed for ever"
                )
        return None

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        return (
            "parallel-track tells the results of both plans apart by their rows, old or new, and what an operator "
            "gives out has no rows: where operators below joins move, a row could come out twice at one moment"
        )

    def refusal_of_options(self, options: Options, proposal: Proposal) -> str | None:
        if options.hold and proposal.query.step is not None:
            return (
                "hold=True, but the query gives its results out step by step, whichever plan has found them; "
                "leave hold out"
            )
        return None

    def begin(self, transition: Transition) -> Executor:
        found = transition.situation
        since = transition.tails()
        tracks = Parallel(found.executor, transition.fresh(since), since, list(found.windows), transition.recorder)
        if transition.options.hold:
            tracks.hold(found.held)
        return tracks.or_successor()


class Parallel(TwoTracks):
    """Both plans at once; a result is the old one's if it has an old row."""

    _held: HeldBack | None = None

    def hold(self, held: HeldBack) -> None:
        """Hold the new plan's results back until the old plan is dropped, as the paper does.

        They are the results without an old row. Another migration on top ends that.
        """
        self._held = held
        held.hold(self, self._since)

    def or_successor(self) -> Executor:
        """The new plan alone if there is no old row."""
        if self._count_left():
            return self
        if self._held is not None:
            self._held.release()
        self.recorder.end()
        return self._new

    def _process_counted(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        for combos in self.old.process(deltas, horizon):
            is_old = np.zeros(len(combos.starts), np.bool_)
            for number, mark in self._since.items():
                is_old |= combos.rows[:, number] < mark
            counted = select_counted(combos, np.flatnonzero(is_old))
            if counted is not None:
                yield counted
        for combos in self._new.process(deltas, horizon):
            self._results_of_new += len(combos.starts)
            yield combos

    def after_push(self, horizon: int) -> Executor:
        executor = super().after_push(horizon)
        if self._held is not None and self._held.is_held_for(self) and executor is not self:
            self._held.release()
        return executor

    def _count_left(self) -> int:
        return sum(max(0, mark - self._windows[number].head) for number, mark in self._since.items())
