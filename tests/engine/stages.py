"""Output stages that are no part of the product; they show what a stage can do through the protocol alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.input.watermark import NONE_YET
from midstream.engine.joins.combos import select
from midstream.engine.operators.results import ResultBuilder
from midstream.engine.operators.stage import StoredStage
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan import Plan
from midstream.state.window import BaseWindow, Renumbering


class ByStep:
    """Gives a result out when the watermark has passed the step in which it begins, and makes its row only then.

    Until then it keeps row ids; so the rows have to stay although the watermark may have passed their end.
    """

    step = 1000
    starts_from_live_results = False

    def __init__(self, query: Query, windows: Sequence[BaseWindow], plan: Plan):
        self._builder = ResultBuilder(query, windows)
        self._schema = query.output_schema
        nothing = np.empty(0, np.int64)
        self._waiting = Combos(np.empty((0, len(windows)), np.int64), nothing, nothing)
        self._stored: list[tuple[int, pa.Table]] = []
        self._open_from = NONE_YET
        self.longest_wait = 0

    def take(self, combos: Combos) -> Iterator[pa.Table]:
        pairs = zip(self._waiting, combos, strict=True)
        self._waiting = Combos(*(np.concatenate(pair) for pair in pairs))  # copies: the given ones are views
        return iter(())

    def closes(self, watermark: int) -> bool:
        return False

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        assert watermark >= self._open_from, "the watermark went back"
        self._open_from = watermark // self.step * self.step
        yield from self._given_out(self._waiting.starts < self._open_from)
        yield from (table for begin, table in self._stored if begin < self._open_from)
        self._stored = [(begin, table) for begin, table in self._stored if begin >= self._open_from]
        self.longest_wait = max(self.longest_wait, int((self._waiting.ends < watermark).sum()))

    def finish(self) -> Iterator[pa.Table]:
        yield from self._given_out(np.ones(len(self._waiting.starts), np.bool_))
        yield from (table for _, table in self._stored)
        self._stored = []

    def _given_out(self, goes: np.ndarray) -> Iterator[pa.Table]:
        leaving, self._waiting = (select(self._waiting, np.flatnonzero(chosen)) for chosen in (goes, ~goes))
        if len(leaving.starts):
            yield from self._builder.take(leaving)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        self._waiting.rows[:, number] = renumbering.apply(self._waiting.rows[:, number])

    def keeps_from(self) -> int:
        return self._open_from

    def follow(self, plan: Plan) -> None:
        pass

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        return iter(())

    def state_stats(self) -> list[StateStats]:
        return []

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._waiting) + sum(int(table.nbytes) for _, table in self._stored)

    def snapshot(self) -> StoredStage:
        tables = {f"{place} {begin}": table for place, (begin, table) in enumerate(self._stored)}
        for place, begin in enumerate(self._waiting.starts.tolist()):
            result = select(self._waiting, np.array([place]))
            tables[f"{len(self._stored) + place} {begin}"] = pa.concat_tables(self._builder.take(result))
        return StoredStage(self._schema.empty_table(), tables)

    def restore(self, stored: StoredStage) -> None:
        assert not stored.held.num_rows
        self._stored = [(int(name.split()[1]), table) for name, table in stored.tables.items()]


class Counting(ResultBuilder):
    """Gives results out at once and counts them, also across restores."""

    counted = 0

    def __init__(self, query: Query, windows: Sequence[BaseWindow], plan: Plan):
        super().__init__(query, windows)

    def take(self, results: Combos) -> Iterator[pa.Table]:
        self.counted += len(results.starts)
        yield from super().take(results)

    @property
    def nbytes(self) -> int:
        return 8

    def snapshot(self) -> StoredStage:
        return super().snapshot()._replace(tables={"counted": pa.table({"results": [self.counted]})})

    def restore(self, stored: StoredStage) -> None:
        self.counted = stored.tables["counted"]["results"][0].as_py()
