"""A stage that can hold results back for a while, in front of the stage that they go to.

A migration that shall not mix the results of its plans has those without an old row held back. They become tables at
once, because their rows may leave the windows meanwhile. They are part of a snapshot, and `finish` releases them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from midstream.engine.joins.combos import select
from midstream.engine.operators.stage import Stage, StoredStage
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan.tree import Plan
from midstream.state.window import Renumbering


class HeldBack:
    """Keeps tables until they are released, and then until the stage is driven on."""

    def __init__(self, inner: Stage):
        self._inner = inner
        self._waiting: list[pa.Table] = []
        self._released: list[pa.Table] = []
        self._holder: object | None = None
        self._marks: dict[int, int] = {}

    def hold(self, holder: object, marks: Mapping[int, int]) -> None:
        """Hold back the results all of whose rows have these ids of their inputs or higher ones."""
        self._holder, self._marks = holder, dict(marks)

    def is_held_for(self, holder: object) -> bool:
        """Whether this holder's results are held back."""
        return self._holder is holder

    def release(self) -> None:
        """Let go of everything; nothing is held back from now on."""
        self._released += self._waiting
        self._waiting = []
        self._holder = None

    # The stage -------------------------------------------------------------------------------------------------------

    @property
    def starts_from_live_results(self) -> bool:
        return self._inner.starts_from_live_results

    def closes(self, watermark: int) -> bool:
        return self._inner.closes(watermark)

    def take(self, combos: Combos) -> Iterator[pa.Table]:
        if self._holder is None:
            yield from self._inner.take(combos)
            return
        is_new = np.ones(len(combos.starts), np.bool_)
        for number, mark in self._marks.items():
            is_new &= combos.rows[:, number] >= mark
        if not is_new.all():
            yield from self._inner.take(select(combos, np.flatnonzero(~is_new)))
        if is_new.any():
            self._waiting += self._inner.take(select(combos, np.flatnonzero(is_new)))

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        released, self._released = self._released, []
        yield from released
        yield from self._inner.advance(watermark)

    def finish(self) -> Iterator[pa.Table]:
        self.release()
        released, self._released = self._released, []
        yield from released
        yield from self._inner.finish()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        if number in self._marks:
            self._marks[number] = int(renumbering.apply(np.array([self._marks[number]]))[0])
        self._inner.renumber(number, renumbering)

    def keeps_from(self) -> int:
        return self._inner.keeps_from()

    def follow(self, plan: Plan) -> None:
        self._inner.follow(plan)

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        return self._inner.indexes_used()

    def state_stats(self) -> list[StateStats]:
        return self._inner.state_stats()

    @property
    def nbytes(self) -> int:
        size = self._inner.nbytes
        for table in (*self._released, *self._waiting):
            size += int(table.get_total_buffer_size())
        return size

    def snapshot(self) -> StoredStage:
        stored = self._inner.snapshot()
        return stored._replace(held=pa.concat_tables([stored.held, *self._released, *self._waiting]))

    def restore(self, stored: StoredStage) -> None:
        """What was held back when the snapshot was taken is free: the next push gives it out."""
        if stored.held.num_rows:
            self._released.append(stored.held)
        self._inner.restore(stored._replace(held=stored.held.slice(0, 0)))
