"""The streams and plans of JISC's experiments: ROWS windows, one join attribute, plans that share much or nothing.

Values are uniform: every stretch of `window` rows of a stream has each value once, in random order. A row so has one
partner in every other window on average, at every level of a plan, and twenty joins neither explode nor run dry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lab.answers import Digest, compute_rows_join, digest_of
from midstream.lab.race import Contender, Race, lanes_for

PAPER = "JISC: Adaptive Stream Processing Using Just-In-Time State Completion, EDBT 2014"
#: What two equal contenders may differ by in one run.
NOISE = 0.03
#: Above all values, so that numbers which are equal modulo it are equal. No index answers that.
_MODULUS = 1_000_003
SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64()})


@dataclass(frozen=True)
class Streams:
    """So many joins over streams with windows of `window` rows; `rows` of each stream, pushed `batch` at a time.

    With `is_theta` the predicate is one that only nested loops can answer. It stands between all pairs of streams, as
    equality does by being transitive, so that no plan has a cross product.
    """

    joins: int
    window: int
    rows: int
    batch: int
    seed: int
    is_theta: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"S{number}" for number in range(self.joins + 1))

    @cached_property
    def query(self) -> ms.Query:
        select = ", ".join(f"{name}.v AS {name}_v" for name in self.names)
        streams = ", ".join(f"{name} [ROWS {self.window}]" for name in self.names)
        if self.is_theta:
            pairs = combinations(self.names, 2)
            where = " AND ".join(f"({left}.k - {right}.k) % {_MODULUS} = 0" for left, right in pairs)
        else:
            where = " AND ".join(f"{self.names[0]}.k = {other}.k" for other in self.names[1:])
        schemas = dict.fromkeys(self.names, SCHEMA)
        return ms.query(f"SELECT {select} FROM {streams} WHERE {where}", schemas=schemas, event_time="ts")

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        return {name: self._table(number) for number, name in enumerate(self.names)}

    def _table(self, number: int) -> pa.Table:
        rng = np.random.default_rng([self.seed, number])
        rounds = [rng.permutation(self.window) for _ in range(-(-self.rows // self.window))]
        place = np.arange(self.rows, dtype=np.int64)
        keys = np.concatenate(rounds)[: self.rows].astype(np.int64)
        return pa.table({"ts": place * len(self.names) + number, "k": keys, "v": place}, schema=SCHEMA)

    def batches(self, first: int = 0, last: int | None = None) -> Iterator[dict[str, pa.Table]]:
        """Rows from `first` on and before `last` of every stream, in batches."""
        end = self.rows if last is None else min(last, self.rows)
        for start in range(first, end, self.batch):
            yield {name: table.slice(start, min(self.batch, end - start)) for name, table in self.tables.items()}

    def answer(self, first: int, last: int) -> Digest:
        """DuckDB's results that are completed by rows from `first` on and before `last` of a stream."""
        begin = max(0, first - self.window)
        tables = {name: table.slice(begin, last - begin) for name, table in self.tables.items()}
        return digest_of([compute_rows_join(tables, self.window, "r.k = s.k", first * len(self.names))])

    # Plans -----------------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> str:
        return left_deep(self.names)

    @property
    def best_case(self) -> str:
        """A plan that has all states of `plan` but one, just below the root."""
        *first, last, top = self.names
        return left_deep((*first, top, last))

    @property
    def worst_case(self) -> str:
        """A plan that has no state of `plan`."""
        bottom, *middle, top = self.names
        return left_deep((top, *middle, bottom))


def get_ready(contenders: Sequence[Contender], is_theta: bool = False) -> None:
    """Take every contender through a small transition, so that compiling kernels is not measured."""
    small = Streams(joins=3, window=64, rows=256, batch=16, seed=0, is_theta=is_theta)
    for plan in (small.best_case, small.worst_case):
        race = Race(lanes_for(contenders, small.query, small.plan))
        race.run(small.batches(0, 96))
        race.migrate(plan)
        race.run(small.batches(96))


def not_behind(name: str, leads: Mapping[int, float], what: str) -> list[str]:
    """Where a contender is not behind JISC, in words; `leads` are its times relative to JISC's, by the point measured.

    >>> not_behind("CACQ", {4: 0.8, 8: 1.01, 12: 2.0}, "joins")
    ['CACQ is faster than JISC at 4 joins, up to 1.25x', 'CACQ is level with JISC at 8 joins']
    """
    faster = [point for point, lead in leads.items() if lead < 1 - NOISE]
    level = [point for point, lead in leads.items() if abs(lead - 1) <= NOISE]
    found = []
    if faster:
        found.append(f"{name} is faster than JISC at {_listed(faster)} {what}, up to {1 / min(leads.values()):.2f}x")
    if level:
        found.append(f"{name} is level with JISC at {_listed(level)} {what}")
    return found


def _listed(points: Sequence[int]) -> str:
    return ", ".join(str(point) for point in points)


def left_deep(names: tuple[str, ...]) -> str:
    """The plan that joins streams one after the other.

    >>> left_deep(("A", "B", "C"))
    '((A B) C)'
    """
    text = names[0]
    for name in names[1:]:
        text = f"({text} {name})"
    return text
