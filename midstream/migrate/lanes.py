"""Two lanes, one after the other: before a split time the old plan with its stage gives out steps, then the new one.

    watermark below T     rows -> old executor -> old stage -> tables
                          rows -> new executor -> new stage, which begins at T
    watermark from T on   rows -> new executor -> new stage -> tables

T is the start of a step, and no row that was there before is valid at T or later. So the new lane, which has seen every
row since, knows all that is valid from T on, and what was valid before is the old one's alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.executors.protocol import Executor, IndexUsed
from midstream.engine.joins.combos import Delta
from midstream.engine.lane import Lane, SingleLane
from midstream.engine.operators.held import HeldBack
from midstream.engine.stats import StateStats
from midstream.migrate.record import Recorder
from midstream.state.window import Renumbering


def find_split(latest_end: int, query: Query) -> int:
    """The start of the first step after a moment."""
    assert query.step is not None
    return (latest_end // query.step + 1) * query.step


class TwoLanes:
    """The old lane until the watermark reaches `split`, and the new one beside it; `start` is where the way begins."""

    def __init__(self, old: Lane, new: SingleLane, recorder: Recorder, split: int, start: int):
        self.old, self._new = old, new
        self.recorder = recorder
        self._split, self._watermark = split, start
        self._rows = 0
        recorder.begin(self._count_left())

    def _count_left(self) -> int:
        return max(0, self._split - self._watermark)

    @property
    def _is_over(self) -> bool:
        return self._watermark >= self._split

    @property
    def executor(self) -> Executor:
        return self._new.executor

    @property
    def held(self) -> HeldBack:
        return self._new.held if self._is_over else self.old.held

    def executors(self) -> Iterator[Executor]:
        yield from self.old.executors()
        yield from self._new.executors()

    @property
    def is_moving(self) -> bool:
        return True

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[pa.Table]:
        began = time.perf_counter()
        self._rows += sum(len(delta) for delta in deltas.values())
        if not self._is_over:
            yield from self.old.process(deltas, horizon)
        yield from self._new.process(deltas, horizon)
        self.recorder.spend(began)

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        if not self._is_over:
            yield from self.old.advance(min(watermark, self._split))
        self._watermark = max(self._watermark, watermark)
        yield from self._new.advance(max(watermark, self._split))

    def finish(self) -> Iterator[pa.Table]:
        """The old plan knows all rows, also those that are valid from the split time on."""
        return self._new.finish() if self._is_over else self.old.finish()

    def purge(self, horizon: int) -> None:
        self.old.purge(horizon)
        self._new.purge(horizon)

    def keeps_from(self) -> int:
        return self._new.keeps_from() if self._is_over else self.old.keeps_from()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        self.old.renumber(number, renumbering)
        self._new.renumber(number, renumbering)

    def after_push(self, horizon: int) -> Lane:
        self.old = self.old.after_push(horizon)
        self._new = self._new.after_push(horizon)
        self.recorder.count_push(self._count_left(), self._rows, self._new.results, self.old.nbytes)
        if not self._is_over:
            return self
        self.recorder.end()
        return self._new

    def catch_up_some(self) -> None:
        self.old.catch_up_some()
        self._new.catch_up_some()

    @property
    def is_catching_up(self) -> bool:
        return self.old.is_catching_up or self._new.is_catching_up

    def run(self, executor: Executor) -> Lane:
        raise AssertionError("while operators move, another migration moves them again")

    @property
    def plans_at_once(self) -> int:
        return self.old.plans_at_once + self._new.plans_at_once

    def migrations(self) -> Iterator[object]:
        yield self.recorder
        yield from self.old.migrations()

    def indexes_used(self) -> Iterator[IndexUsed]:
        yield from self.old.indexes_used()
        yield from self._new.indexes_used()

    @property
    def nbytes(self) -> int:
        return self.old.nbytes + self._new.nbytes

    @property
    def output_bytes(self) -> int:
        return self.old.output_bytes + self._new.output_bytes

    def state_stats(self) -> list[StateStats]:
        return self.old.state_stats() + self._new.state_stats()
