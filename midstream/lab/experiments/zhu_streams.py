"""The streams of paper 001: A, B, C and D arrive at random, and nested loops join them in a chain.

The engine uses an index wherever it can, so the predicates are such that it cannot: ``(A.r + B.l) % 1000 < 100``. With
values uniform in 0..999 this holds for a tenth of all pairs, whatever either row has, so a reduction factor is the
number on the right. Times between two rows of a stream are exponentially distributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lab.answers import Digest, digest_of
from midstream.state.indexes import Ints

LEFT_DEEP = "(((A B) C) D)"
RIGHT_DEEP = "(A (B (C D)))"
MICROSECONDS = 1_000_000
_VALUES = 1_000

Batch = dict[str, pa.Table]


@dataclass(frozen=True)
class Setting:
    """A column of the paper's Table 2: window and mean times between rows in seconds, and the reduction factors."""

    window: float
    gaps: tuple[float, ...]
    factors: tuple[float, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """Rows a second of each stream."""
        return tuple(1 / gap for gap in self.gaps)

    def faster(self, times: float, but: int = 0) -> Setting:
        """All streams so many times as fast, but the first ones."""
        return replace(self, gaps=(*self.gaps[:but], *(gap / times for gap in self.gaps[but:])))


#: Sets 1 to 3 of the paper's section 6.2 and the low and high setting of its section 6.3.
SET_1 = Setting(1.0, (0.1, 0.1, 0.1, 0.1), (0.1, 0.05, 0.02))
SET_2 = Setting(1.0, (0.05, 0.05, 0.05, 0.05), (0.1, 0.05, 0.02))
SET_3 = Setting(1.0, (0.1, 0.012, 0.012, 0.012), (0.1, 0.1, 0.1))
LOW = Setting(1.0, (0.1, 0.1, 0.1, 0.1), (0.1, 0.02, 0.02))
HIGH = Setting(2.0, (0.05, 0.05, 0.05, 0.05), (0.2, 0.05, 0.05))


@dataclass(frozen=True)
class Streams:
    """Rows of several streams in the order of event time, one window for all, and the predicates from each to the next.

    `oracle` are predicates with the same meaning for DuckDB to join by, where it can do better than nested loops.
    """

    tables: Mapping[str, pa.Table]
    window: int
    predicates: Sequence[str]
    oracle: Sequence[str] = ()

    @cached_property
    def query(self) -> ms.Query:
        names = list(self.tables)
        text = (
            f"SELECT {', '.join(f'{name}.v AS {name}_v' for name in names)} "
            f"FROM {', '.join(f'{name} [RANGE {self.window} MICROSECONDS]' for name in names)} "
            f"WHERE {' AND '.join(self.predicates)}"
        )
        return ms.query(text, {name: table.schema for name, table in self.tables.items()}, "ts")

    @cached_property
    def rows(self) -> int:
        return sum(int(table.num_rows) for table in self.tables.values())

    def slices(self, step: float) -> Iterator[tuple[float, Batch]]:
        """The rows of each `step` seconds, with the time at which they are all there."""
        last = max(int(table["ts"][-1].as_py()) for table in self.tables.values() if table.num_rows)
        bounds: Ints = np.round(np.arange(1, last / MICROSECONDS / step + 2) * step * MICROSECONDS).astype(np.int64)
        cuts = {name: np.searchsorted(np.asarray(table["ts"]), bounds) for name, table in self.tables.items()}
        began = dict.fromkeys(self.tables, 0)
        for place, bound in enumerate(bounds.tolist()):
            ends = {name: int(found[place]) for name, found in cuts.items()}
            batch = {name: table.slice(began[name], ends[name] - began[name]) for name, table in self.tables.items()}
            yield bound / MICROSECONDS, batch
            if bound > last:
                return
            began = ends

    def answer(self, since: float, until: float) -> Digest:
        """DuckDB's results that begin from `since` on and before `until`, in seconds."""
        import duckdb

        low, high = round(since * MICROSECONDS), round(min(until, 1e12) * MICROSECONDS)
        names = list(self.tables)
        with duckdb.connect() as database:
            database.execute("SET threads = 2")
            for name, table in self.tables.items():
                database.register(f"rows_{name}", table)
                database.execute(
                    f"CREATE TABLE {name} AS SELECT * FROM rows_{name} WHERE ts >= {low - self.window} AND ts < {high}"
                )
            # One stream after the other from the last to the first: the predicates form a chain.
            joined = names[-1]
            database.execute(
                f"CREATE TABLE found_{joined} AS SELECT *, ts AS first, ts AS last, v AS v_{joined} FROM {joined}"
            )
            for name in reversed(names[:-1]):
                database.execute(
                    f"CREATE TABLE found_{name} AS SELECT {name}.*, least(first, {name}.ts) AS first, "
                    f"greatest(last, {name}.ts) AS last, {name}.v AS v_{name}, "
                    f"{', '.join(f'v_{later}' for later in names[names.index(name) + 1 :])} "
                    f"FROM {name}, found_{joined} {joined} WHERE {self._predicate(name, joined)} "
                    f"AND {name}.ts >= last - {self.window} AND {name}.ts <= first + {self.window}"
                )
                joined = name
            found = database.sql(
                f"SELECT {', '.join(f'v_{name}' for name in names)}, last, first + {self.window} "
                f"FROM found_{names[0]} WHERE last >= {low}"
            ).to_arrow_table()
        return digest_of([found])

    def _predicate(self, left: str, right: str) -> str:
        names = list(self.tables)
        return (self.oracle or self.predicates)[names.index(left)]


def make_streams(setting: Setting, seconds: float, seed: int, names: str = "ABCD") -> Streams:
    """So many seconds of a setting's streams; with fewer names, the first ones.

    >>> two = make_streams(SET_1, 10.0, 1, "AB")
    >>> two.predicates, 150 < two.rows < 250
    (['(A.r + B.l) % 1000 < 100'], True)
    """
    tables = {
        name: _table(rate, seconds, np.random.default_rng([seed, place]))
        for place, (name, rate) in enumerate(zip(names, setting.rates, strict=False))
    }
    predicates = [
        f"({left}.r + {right}.l) % {_VALUES} < {round(_VALUES * factor)}"
        for (left, right), factor in zip(pairwise(names), setting.factors, strict=False)
    ]
    return Streams(tables, round(setting.window * MICROSECONDS), predicates)


def _table(rate: float, seconds: float, rng: np.random.Generator) -> pa.Table:
    """Rows at random moments: their number is Poisson distributed, and given it the moments are uniform."""
    times = np.sort(rng.integers(0, round(seconds * MICROSECONDS), max(1, rng.poisson(rate * seconds))))
    rows = len(times)
    return pa.table(
        {
            "ts": times,
            "l": rng.integers(0, _VALUES, rows),
            "r": rng.integers(0, _VALUES, rows),
            "v": np.arange(rows),
        }
    )
