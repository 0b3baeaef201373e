"""Parallel Track under the purge rule of paper 001, section 2, which is where its 2W come from.

There an entry carries the smallest and the largest timestamp of its rows, and is purged once its *largest* is more than
W behind the row that purges it. An entry of an old row and one that came just before the old one expired has long
stopped matching anything, but stays for nearly another W, and the old plan with it. The engine's entries carry their
end, which is the smallest timestamp plus W, and leave with their oldest row.

Here the old plan's states are purged by the paper's rule from the transition on, so that both the length of the
migration and the memory are what they were there. When the last old row has left its window, no entry with an old row
can be made any more: the states are searched once for the last one that there is, and the migration ends when its time
has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from midstream.engine.executors.protocol import Executor
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.filling import store
from midstream.engine.joins.nodes import JoinNode
from midstream.engine.transition import Proposal, Situation
from midstream.migrate import Transition
from midstream.migrate.strategies.parallel_track import Parallel, ParallelTrack
from midstream.state import rings
from midstream.state.join_state import Access, JoinState, Signature


class CombinedPurge(ParallelTrack):
    """Parallel Track whose old plan forgets an entry by its largest timestamp."""

    name = "parallel-track, combined purge"
    unit = "old rows, then microseconds"

    def refusal(self, proposal: Proposal) -> str | None:
        windows = {relation.window for relation in proposal.query.inputs}
        if len(windows) > 1 or not all(window.slides for window in windows):
            return "the combined purge is defined for one RANGE window that all streams have. Use parallel-track"
        if proposal.is_migrating or proposal.old_kind is not TreeExecutor.kind:
            return "the combined purge starts from a plan that runs alone on the tree executor. Use parallel-track"
        return super().refusal(proposal)

    def begin(self, transition: Transition) -> Executor:
        found, since = transition.situation, transition.tails()
        old = cast(TreeExecutor, found.executor)
        window = found.query.inputs[0].window.size
        for node in old.joins():
            _keep_longer(node, window, found)
        tracks = _CombinedPurge(old, transition.fresh(since), since, list(found.windows), transition.recorder)
        if transition.options.hold:
            tracks.hold(found.held)
        return tracks.for_window(window).or_successor()


def _keep_longer(node: JoinNode, window: int, situation: Situation) -> None:
    """Give a join a state with the same entries that is purged by the paper's rule."""
    if node.state is not None and node.path is not None:
        entries = node.state.entries(node.inputs)
        missing = node.state.missing
        node.state = _KeptState(node.inputs, {node.path.signature: node.path.access}, window)
        node.state.missing = missing
        store(node, Delta(node.inputs, entries, situation.windows))


class _KeptState(JoinState):
    """Keeps an entry for a window after the last of its rows. Entries stand in that order, but for a few."""

    def __init__(self, inputs: tuple[int, ...], ways: Mapping[Signature, Access], window: int):
        super().__init__(inputs, ways)
        self._window = window

    def purge(self, watermark: int, heads: Mapping[int, int]) -> None:
        self.missing.forget(heads)
        stays = rings.read(self._starts, self._head, self._tail) + self._window >= watermark
        self._head = self._head + int(stays.argmax()) if stays.any() else self._tail
        self._forget_below_head()

    def last_with_a_row_before(self, marks: Mapping[int, int]) -> int | None:
        """The largest timestamp of the entries that have a row below its input's mark."""
        entries = self.entries(self.inputs)
        is_old = np.zeros(len(entries.starts), np.bool_)
        for column, number in enumerate(self.inputs):
            is_old |= entries.rows[:, column] < marks[number]
        return int(entries.starts[is_old].max()) if is_old.any() else None


class _CombinedPurge(Parallel):
    _window = 0
    _watermark = 0
    _ends_at: int | None = None

    def for_window(self, window: int) -> _CombinedPurge:
        self._window = window
        return self

    def after_push(self, watermark: int) -> Executor:
        self._watermark = watermark
        return super().after_push(watermark)

    def _count_left(self) -> int:
        """Old rows; when there are none, microseconds until the last entry with an old row may go."""
        rows = super()._count_left()
        if rows:
            return rows
        if self._ends_at is None:
            self._ends_at = self._last_entry()
        return max(0, self._ends_at - self._watermark)

    def _last_entry(self) -> int:
        """When the watermark has come here, no entry with an old row is left."""
        states = (node.state for node in cast(TreeExecutor, self.old).joins())
        found = [state.last_with_a_row_before(self._since) for state in states if isinstance(state, _KeptState)]
        return max((last + self._window + 1 for last in found if last is not None), default=0)
