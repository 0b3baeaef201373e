"""GenMig: a split time T after which no row of the old plan is valid; before it the old plan answers, after it the new.

T is the largest end of any live row plus one. Every result that contains an old row ends before T, so from T on the new
plan, which has seen all rows since the start of the migration, knows everything. The migration ends when the watermark
reaches T. Both variants treat a plan as a black box: rows with intervals go in, row numbers with intervals come out.

`genmig` cuts at T what it gives to the plans, and joins the two halves of a result by its row numbers.
`genmig-reference-point` cuts nothing: a result belongs to the plan on whose side of T it begins.

Where operators below joins move, each plan has a stage of its own, and T is rounded up to a step: steps before T are
closed by the stage of the old plan, those from T on by that of the new one. Results are cut where a step ends anyway,
so no halves have to be joined; `genmig` alone can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from midstream.engine.executors.protocol import Executor, PlanExecutor
from midstream.engine.input.watermark import NONE_YET
from midstream.engine.joins.backlog import is_static
from midstream.engine.joins.combos import Delta, select
from midstream.engine.lane import Lane, SingleLane
from midstream.engine.transition import Proposal, Situation
from midstream.kernels.types import LARGEST, Combos
from midstream.migrate.lanes import TwoLanes, find_split
from midstream.migrate.record import MICROSECONDS, Recorder
from midstream.migrate.strategy import CostModel, Strategy, Transition
from midstream.migrate.tracks import TwoTracks, select_counted
from midstream.state import rings
from midstream.state.indexes import Ints
from midstream.state.window import BaseWindow


class GenMig(Strategy):
    """Split and coalesce."""

    name = "genmig"
    unit = MICROSECONDS
    cost_model = CostModel.SPLIT_TIME
    runs_beside = True

    def refusal(self, proposal: Proposal) -> str | None:
        return _refusal(self.name, proposal)

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        if find_split(proposal.latest_end(), proposal.query) > LARGEST:
            return f"{self.name} needs a step that begins after every old row, and one of them ends in the last step"
        return None

    def begin(self, transition: Transition) -> Executor:
        return _begin(transition, _Coalesced)

    def begin_moving(self, transition: Transition) -> Lane:
        found, since = transition.situation, transition.tails()
        has_old_rows = any(mark > found.windows[number].head for number, mark in since.items())
        split = found.lane.keeps_from()
        if has_old_rows:
            split = max(split, find_split(found.latest_end(), found.query))
        executor = transition.fresh(since)
        tables = [inputs for inputs in transition.plan.fragment_inputs if is_static(found.query, inputs)]
        stage, catch_up = found.begin_stage(transition.plan, split, tables)
        new = SingleLane(executor, stage, catch_up)
        if has_old_rows:
            return TwoLanes(found.lane, new, transition.recorder, split, _find_start(found))
        transition.recorder.begin(0)
        transition.recorder.end()
        return new


class GenMigReferencePoint(Strategy):
    """Decide by where a result begins."""

    name = "genmig-reference-point"
    unit = MICROSECONDS
    cost_model = CostModel.BOTH_PLANS
    runs_beside = True

    def refusal(self, proposal: Proposal) -> str | None:
        return _refusal(self.name, proposal)

    def refusal_to_move(self, proposal: Proposal) -> str | None:
        return (
            f"{self.name} decides by where a result begins, and what an operator gives out begins and ends where its "
            "snapshot changes, not where rows do: where operators below joins move, what lasts beyond the split time "
            "would come out wrong"
        )

    def begin(self, transition: Transition) -> Executor:
        return _begin(transition, _ByReferencePoint)


def _refusal(name: str, proposal: Proposal) -> str | None:
    for relation in proposal.query.inputs:
        if not (relation.is_static or relation.window.ends_by_time):
            return (
                f"{name} needs a time at which every old row has ended, and rows of {relation.alias!r} under "
                f"{relation.window.kind.name} have none"
            )
    if proposal.latest_end() >= LARGEST:
        return f"{name} needs a time after every old row, and one of them ends at the largest time there is"
    return None


def _begin(transition: Transition, kind: type[_Split]) -> Executor:
    found, since = transition.situation, transition.tails()
    if all(mark == found.windows[number].head for number, mark in since.items()):
        transition.recorder.begin(0)
        transition.recorder.end()
        return transition.fresh(since)
    split = found.latest_end() + 1
    new = transition.fresh(since)
    return kind(found.executor, new, since, found.windows, transition.recorder, split, _find_start(found))


def _find_start(situation: Situation) -> int:
    """Where the way to the split time begins: at the horizon, or at the oldest row if there is none yet."""
    if situation.horizon != NONE_YET:
        return situation.horizon
    inputs = zip(situation.query.inputs, situation.windows, strict=True)
    return min(
        int(rings.read(window.starts, window.head, window.tail).min())
        for relation, window in inputs
        if not relation.is_static and len(window)
    )


class _Split(TwoTracks):
    def __init__(
        self,
        old: Executor,
        new: PlanExecutor,
        since: dict[int, int],
        windows: Sequence[BaseWindow],
        recorder: Recorder,
        split: int,
        horizon: int,
    ):
        self._split = split
        self._horizon = horizon
        super().__init__(old, new, since, list(windows), recorder)

    def _count_left(self) -> int:
        return max(0, self._split - self._horizon)

    def after_push(self, horizon: int) -> Executor:
        self._horizon = max(self._horizon, horizon)
        return super().after_push(horizon)


class _ByReferencePoint(_Split):
    def _process_counted(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        for combos in self.old.process(deltas, horizon):
            counted = select_counted(combos, np.flatnonzero(combos.starts < self._split))
            if counted is not None:
                yield counted
        for combos in self._new.process(deltas, horizon):
            counted = select_counted(combos, np.flatnonzero(combos.starts >= self._split))
            if counted is not None:
                self._results_of_new += len(counted.starts)
                yield counted


class _Coalesced(_Split):
    def _process_counted(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        """Halves that meet at T are one result; they are found in one push, because their last row is the same."""
        waiting: list[Combos] = []
        for combos in self.old.process(self._before(deltas), horizon):
            meets = combos.ends == self._split - 1
            whole = select_counted(combos, np.flatnonzero(~meets))
            if whole is not None:
                yield whole
            if meets.any():
                waiting.append(_copy(select(combos, np.flatnonzero(meets))))
        halves = _concatenate(waiting, len(self._windows))
        for combos in self._new.process(self._after(deltas), horizon):
            self._results_of_new += len(combos.starts)
            halves, joined = _coalesce(halves, combos)
            yield joined
        if len(halves.starts):
            yield halves

    def _before(self, deltas: Mapping[int, Delta]) -> dict[int, Delta]:
        """What the old plan gets: rows that begin before T, cut to end before it."""
        return _cut_deltas(
            deltas, lambda c: c.starts < self._split, lambda c: (c.starts, np.minimum(c.ends, self._split - 1))
        )

    def _after(self, deltas: Mapping[int, Delta]) -> dict[int, Delta]:
        """What the new plan gets: rows that end at T or later, cut to begin at T."""
        return _cut_deltas(
            deltas, lambda c: c.ends >= self._split, lambda c: (np.maximum(c.starts, self._split), c.ends)
        )


def _cut_deltas(
    deltas: Mapping[int, Delta],
    is_given: Callable[[Combos], NDArray[np.bool_]],
    interval: Callable[[Combos], tuple[Ints, Ints]],
) -> dict[int, Delta]:
    cut = {}
    for number, delta in deltas.items():
        given = np.flatnonzero(is_given(delta.combos))
        if len(given):
            combos = select(delta.combos, given)
            cut[number] = delta.with_combos(Combos(combos.rows, *interval(combos)))
    return cut


def _copy(combos: Combos) -> Combos:
    return Combos(*(np.array(array) for array in combos))


def _concatenate(parts: list[Combos], width: int) -> Combos:
    nothing = Combos(np.empty((0, width), np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    return Combos(*(np.concatenate(arrays) for arrays in zip(nothing, *parts, strict=True)))


def _coalesce(halves: Combos, combos: Combos) -> tuple[Combos, Combos]:
    """The first halves that stay without a partner, and the results, begun where their first half begins, if any."""
    count = len(halves.starts)
    _, group = np.unique(np.concatenate((halves.rows, combos.rows)), axis=0, return_inverse=True)
    half_of = np.full(count + len(combos.starts), -1)
    half_of[group[:count]] = np.arange(count)
    partner = half_of[group[count:]]
    has_half = partner >= 0
    starts = np.where(has_half, halves.starts[partner] if count else combos.starts, combos.starts)
    alone = np.ones(count, np.bool_)
    alone[partner[has_half]] = False
    return select(halves, np.flatnonzero(alone)), Combos(combos.rows, starts, combos.ends)
