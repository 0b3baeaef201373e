"""What steps cost: DISTINCT and a grouping over a join, beside the join alone.

All run in one process on one core, in turns, over the same rows in the same batches by the same plan, and all their
results become Arrow tables; the better of two runs counts. Every answer is compared with DuckDB's. What is given out
depends on the step, so answers are compared as integrals over time: how long each row was there, in total.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.lab.bench.one_core import use_one_core

_STREAMS = ("a", "b", "c")
_SCHEMA = pa.schema({"k": pa.int64(), "g": pa.int64(), "x": pa.int64(), "ts": pa.int64()})
_GAP = 1_000  # microseconds between two rows of a stream
_LEAST_SHARE = 1 / 3
_MOST_GROWTH = 1.15


@dataclass(frozen=True)
class Contender:
    """A query over the join, and the integral over time of what it gives out, in SQL over the join's `results`."""

    name: str
    select: str
    group: str
    integral: str


JOIN = Contender("join alone", "a.g, b.x", "", "SELECT sum(length * x) FROM results")
GROUPED = Contender(
    "count, sum",
    "a.g, count(*) AS n, sum(b.x) AS t",
    " GROUP BY a.g",
    "SELECT sum(length * (1 + x)) FROM results",
)
# A group is there from one of its rows on for as long as that lasts, or until its next row comes.
DISTINCT = Contender(
    "DISTINCT",
    "DISTINCT a.g",
    "",
    "SELECT sum(least(length, coalesce(following - ts, length))) FROM"
    " (SELECT *, lead(ts) OVER (PARTITION BY g ORDER BY ts) AS following FROM results)",
)


@dataclass(frozen=True)
class Rows:
    """Rows of three streams: each key comes once in each, at the same time, and belongs to one of the groups."""

    rows: int
    window: int
    groups: int
    batch: int = 50_000

    def query(self, contender: Contender) -> ms.Query:
        window = f"[RANGE {self.window * _GAP // 1000} MILLISECONDS]"
        streams = ", ".join(f"{stream} {window}" for stream in _STREAMS)
        text = f"SELECT {contender.select} FROM {streams} WHERE a.k = b.k AND b.k = c.k{contender.group}"
        return ms.query(text, dict.fromkeys(_STREAMS, _SCHEMA), "ts")

    def batches(self) -> Iterator[dict[str, pa.Table]]:
        for begin in range(0, self.rows, self.batch):
            table = self.table(begin, min(begin + self.batch, self.rows))
            yield dict.fromkeys(_STREAMS, table)

    def table(self, begin: int, end: int) -> pa.Table:
        numbers = np.arange(begin, end)
        return pa.table([numbers, numbers * 7919 % self.groups, numbers % 1000, numbers * _GAP], schema=_SCHEMA)

    def answer(self, contender: Contender) -> int:
        """How long all rows that a contender gives out are there in total, each weighed by its numbers."""
        import duckdb

        connection = duckdb.connect()
        connection.register("given", self.table(0, self.rows))
        connection.execute(
            f"CREATE VIEW results AS SELECT a.ts, a.g, b.x, {self.window * _GAP + 1} AS length"
            " FROM given a JOIN given b USING (k) JOIN given c USING (k)"
        )
        found = connection.execute(contender.integral).fetchone()
        assert found is not None
        return int(found[0])


@dataclass(frozen=True)
class Measurement:
    """Rows a second, what was given out, the integral of it, and what was counted per row after the first window."""

    rate: float
    results: int
    integral: int
    visited: float


def run(window: int = 1_000_000, groups: int = 100_000, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all answers were right and all targets reached."""
    console = console or Console()
    use_one_core()
    console.print(
        f"DISTINCT and a grouping over a 3-way join, one match a row, {window:,} rows in a window, {groups:,} groups."
    )
    is_right, measured = _compare(Rows(2 * window, window, groups), console)
    alone = measured[JOIN].rate
    table = Table("query", "rows/s", "of the join alone", "rows given out")
    for contender, measurement in measured.items():
        share = f"{measurement.rate / alone:.0%}"
        table.add_row(contender.name, f"{measurement.rate:,.0f}", share, f"{measurement.results:,}")
    console.print(table)
    verdicts = [
        (f"{contender.name}: {measured[contender].rate / alone:.0%} of the join alone, at least a third",
         measured[contender].rate >= _LEAST_SHARE * alone)
        for contender in (DISTINCT, GROUPED)
    ]  # fmt: skip
    growth_right, growth = _check_growth(window, console)
    for text, holds in (*verdicts, *growth):
        console.print(f"{'[green]holds[/]' if holds else '[red]does not hold[/]'}  {text}")
    return is_right and growth_right and all(holds for _, holds in (*verdicts, *growth))


def _compare(rows: Rows, console: Console) -> tuple[bool, dict[Contender, Measurement]]:
    """Each contender twice, in turns, and whether their answers are DuckDB's."""
    best: dict[Contender, Measurement] = {}
    for _ in range(2):
        for contender in (JOIN, DISTINCT, GROUPED):
            with console.status(f"{contender.name}, {rows.window:,} rows in a window"):
                measurement = _measure(rows, contender)
            known = best.setdefault(contender, measurement)
            if (measurement.results, measurement.integral) != (known.results, known.integral):
                raise AssertionError(f"{contender.name}: two runs on the same rows differ")
            best[contender] = max(known, measurement, key=lambda measured: measured.rate)
    return all(_is_right(rows, contender, best[contender], console) for contender in best), best


def _is_right(rows: Rows, contender: Contender, measurement: Measurement, console: Console) -> bool:
    wanted = rows.answer(contender)
    if measurement.integral != wanted:
        console.print(f"[red]{contender.name}: wrong answer[/] {measurement.integral}, DuckDB has {wanted}")
    return measurement.integral == wanted


def _measure(rows: Rows, contender: Contender) -> Measurement:
    engine = ms.Engine(rows.query(contender), plan="((a b) c)")
    tables: list[pa.Table] = []
    before, seconds, seen = engine.stats().work.slots_visited, 0.0, 0
    for data in rows.batches():
        if seen <= rows.window < seen + rows.batch:
            before, timed_from = engine.stats().work.slots_visited, seen
        began = time.perf_counter()
        tables.extend(engine.push_batches(data))
        seconds += time.perf_counter() - began
        seen += rows.batch
    visited = engine.stats().work.slots_visited - before
    tables.append(engine.finish())
    integral = sum(_integrate(table) for table in tables)
    results = sum(table.num_rows for table in tables)
    total = len(_STREAMS) * rows.rows
    return Measurement(total / seconds, results, integral, visited / (len(_STREAMS) * (rows.rows - timed_from)))


def _integrate(table: pa.Table) -> int:
    lengths = pc.add(pc.subtract(table["valid_to"], table["valid_from"]), 1)
    weights: Any = None
    for name in ("n", "t", "x"):
        if name in table.column_names:
            weights = table[name] if weights is None else pc.add(weights, table[name])
    return int(pc.sum(lengths if weights is None else pc.multiply(lengths, weights)).as_py() or 0)


def _check_growth(largest: int, console: Console) -> tuple[bool, list[tuple[str, bool]]]:
    """What is counted per row from small windows to the largest, with ten rows a group."""
    sizes = [size for size in (10_000, 100_000) if size < largest] + [largest]
    counted: dict[Contender, list[float]] = {DISTINCT: [], GROUPED: []}
    is_right = True
    for size in sizes:
        # Twenty batches a window, so that every step closes by itself.
        rows = Rows(size + max(size, 200_000), size, max(1, size // 10), max(1, size // 20))
        for contender, found in counted.items():
            with console.status(f"{contender.name}, {size:,} rows in a window"):
                measurement = _measure(rows, contender)
            is_right &= _is_right(rows, contender, measurement, console)
            found.append(measurement.visited)
    return is_right, [
        (
            f"{contender.name}: counted work a row {' '.join(f'{value:.2f}' for value in found)} for windows of "
            f"{' '.join(f'{size:,}' for size in sizes)} rows, at most +15 %",
            max(found) <= _MOST_GROWTH * found[0],
        )
        for contender, found in counted.items()
    ]
