"""The streams and plans of paper 003: cliques, in which each pair of streams compares columns of its own.

Values are uniform, so a row has partners in every single stream, and hardly any combination of rows has one in all. In
left-deep plans one stream draws from a hundred times as many values, as in the paper. Of every thousand rows some are
made to match, one of each stream: else most runs would have no result to compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import midstream as ms
from midstream.lab.answers import Digest, digest_of
from midstream.lab.generate import clique
from midstream.lab.workload import Workload, batches

PAPER = "Just-In-Time Processing of Continuous Queries, ICDE 2008"
BUSHY, LEFT_DEEP = "bushy", "left-deep"
#: Table II of the paper.
_BUSHY_PLANS = {
    4: "((A B) (C D))",
    5: "(((A B) (C D)) E)",
    6: "(((A B) (C D)) (E F))",
    7: "(((A B) (C D)) ((E F) G))",
    8: "(((A B) (C D)) ((E F) (G H)))",
}
_SELECTIVE_TIMES = 100
_ROWS_PER_MATCH = 1_000
_BATCH = 50
_LEAST_SCALE = 0.1

Columns = dict[str, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Setting:
    """A row of the paper's Table III: `window` in minutes, `rate` in rows a second and stream, values below `dmax`."""

    shape: str
    streams: int
    window: float
    rate: float
    dmax: int

    @property
    def plan(self) -> str:
        """The plan of Table II.

        >>> Setting(LEFT_DEEP, 5, 10, 1, 50).plan, Setting(BUSHY, 5, 20, 1, 200).plan
        ('((((A B) C) D) E)', '(((A B) (C D)) E)')
        """
        if self.shape == BUSHY:
            return _BUSHY_PLANS[self.streams]
        plan = "A"
        for name in "BCDEFGH"[: self.streams - 1]:
            plan = f"({plan} {name})"
        return plan

    @property
    def window_rows(self) -> int:
        """The rows of a stream that a window holds."""
        return round(60 * self.window * self.rate)

    @property
    def selective_stream(self) -> str | None:
        """The stream with more values than the others, if there is one."""
        if self.shape == BUSHY:
            return None
        return "C" if self.streams == 3 else "D"

    def scaled(self, scale: float) -> Setting:
        """Windows of fewer rows, down to a tenth, and as many fewer values: a row has as many partners as before."""
        factor = min(1.0, max(scale, _LEAST_SCALE))
        return replace(self, window=self.window * factor, dmax=round(self.dmax * factor))


@dataclass(frozen=True)
class Streams:
    """The rows of a setting, for so many windows."""

    setting: Setting
    windows: float
    seed: int

    @cached_property
    def workload(self) -> Workload:
        setting = self.setting
        rows = round(self.windows * setting.window_rows)
        drawn = clique(setting.streams, rows, setting.dmax, setting.rate, window=60 * setting.window, seed=self.seed)
        columns: dict[str, Columns] = {
            name: {column: table[column].to_numpy().copy() for column in table.column_names}
            for name, table in drawn.tables.items()
        }
        rng = np.random.default_rng([self.seed, rows])
        if setting.selective_stream is not None:
            for column, values in columns[setting.selective_stream].items():
                if column.startswith("to_"):
                    values[:] = rng.integers(0, _SELECTIVE_TIMES * setting.dmax, rows)
        _plant_matches(columns, setting, rng)
        return replace(drawn, tables={name: pa.table(found) for name, found in columns.items()})

    @cached_property
    def query(self) -> ms.Query:
        return ms.query(self.workload.text, self.workload.schemas, self.workload.event_time)

    def pushes(self) -> Iterator[dict[str, pa.Table]]:
        """Some rows of each stream at a time."""
        return batches(self.workload, min(_BATCH, max(1, self.setting.window_rows // 4)))

    def answer(self) -> Digest:
        """DuckDB's results."""
        import duckdb

        tables = self.workload.tables
        window = round(60e6 * self.setting.window)
        times = ", ".join(f"{name}.ts" for name in tables)
        pairs = [
            f"{left}.to_{right} = {right}.to_{left} AND abs({left}.ts - {right}.ts) <= {window}"
            for left, right in combinations(tables, 2)
        ]
        with duckdb.connect() as database:
            database.execute("SET threads = 1")
            for name, table in tables.items():
                database.register(name, table)
            found = database.sql(
                f"SELECT {', '.join(f'{name}.v' for name in tables)}, greatest({times}), least({times}) + {window} "
                f"FROM {', '.join(tables)} WHERE {' AND '.join(pairs)}"
            ).to_arrow_table()
        return digest_of([found])


def _plant_matches(columns: dict[str, Columns], setting: Setting, rng: np.random.Generator) -> None:
    """Give rows of all streams that are valid together equal values, once for every thousand rows."""
    rows = len(next(iter(columns.values()))["v"])
    for first in rng.integers(0, rows, max(1, rows * setting.streams // _ROWS_PER_MATCH)).tolist():
        last = min(rows, first + setting.window_rows)
        places = {name: int(rng.integers(first, last)) for name in columns}
        for left, right in combinations(columns, 2):
            value = rng.integers(0, setting.dmax)
            columns[left][f"to_{right}"][places[left]] = value
            columns[right][f"to_{left}"][places[right]] = value
