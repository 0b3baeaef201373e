"""The answer that a benchmark's run must give, from DuckDB: how many results, and sums over all their columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from midstream.lab.workload import Workload


@dataclass(frozen=True)
class Answer:
    """The number of results and the sum of every result column, by name."""

    results: int
    sums: tuple[tuple[str, int], ...]


class Tally:
    """Adds up result tables."""

    def __init__(self) -> None:
        self._results = 0
        self._sums: dict[str, int] = {}

    def add(self, table: pa.Table) -> None:
        self._results += table.num_rows
        for name, column in zip(table.column_names, table.columns, strict=True):
            self._sums[name] = self._sums.get(name, 0) + (pc.sum(column).as_py() or 0)

    def answer(self) -> Answer:
        return Answer(self._results, tuple(sorted(self._sums.items())))


def compute_answer(workload: Workload, outputs: dict[str, str], predicates: list[str], window: int) -> Answer:
    """The answer to a workload whose streams all have one window; `outputs` maps result columns to SQL."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for stream, table in workload.tables.items():
        connection.register(f"rows_{stream}", table)
        connection.execute(f"CREATE TABLE {stream} AS SELECT * FROM rows_{stream}")
    times = [f"{stream}.{workload.event_time}" for stream in workload.streams]
    columns = {
        **outputs,
        "valid_from": f"greatest({', '.join(times)})",
        "valid_to": f"least({', '.join(times)}) + {window}",
    }
    # Pairs that are too far apart go early; with one window for all streams that is the whole condition.
    near = [f"abs({time} - {earlier}) <= {window}" for place, time in enumerate(times) for earlier in times[:place]]
    sums = ", ".join(f"sum({text})::HUGEINT" for text in columns.values())
    row = connection.execute(
        f"SELECT count(*), {sums} FROM {', '.join(workload.streams)} WHERE {' AND '.join([*predicates, *near])}"
    ).fetchone()
    assert row is not None
    found = {name: int(value or 0) for name, value in zip(columns, row[1:], strict=True)}
    return Answer(row[0], tuple(sorted(found.items())))
