"""The input of the soak, file by file, and what a batch join of it gives.

Every file has two seconds of event time. Some rows are out of order, by less than the watermark waits; some, marked in
the file, are an hour old, so that they are late in whichever batch they come. The latter have the keys of their time of
arrival: a join that took them would find them partners. Keys drift, so that each lives for a few windows only and a
batch join over everything stays affordable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from midstream.app.check import Comparison, compare_tables
from midstream.errors import SparkError
from midstream.spark.jobs.soak import STREAMS, WINDOW_SECONDS

_SECOND = 1_000_000
_FILE_SECONDS = 2
_EPOCH = 1_767_225_600 * _SECOND
_FIRST_WRITTEN = 1_767_225_600
_DISORDERED, _LATE = 0.1, 0.01
_LONGEST_DISORDER = 6 * _SECOND
_HOUR = 3_600 * _SECOND
#: There is a watermark from the second batch on, which judges the third: rows of later files are late for certain.
_FIRST_WITH_LATE = 3
_FILES_OF_A_KEY = 15


class Feed:
    """Writes the files of all streams, one number after the other, and knows how many late rows each has."""

    def __init__(self, folder: Path, rows: int, seed: int):
        self._folder = folder
        self._rows = rows
        self._rng = np.random.default_rng(seed)
        self.late: list[dict[str, int]] = []
        for name in STREAMS:
            (folder / name).mkdir(parents=True)

    @property
    def written(self) -> int:
        """How many files each stream has."""
        return len(self.late)

    @property
    def total_rows(self) -> int:
        return self.written * self._rows * len(STREAMS)

    def write_next(self) -> None:
        number = self.written
        tables = {name: self._table(number) for name in STREAMS}
        self.late.append({name: int(np.count_nonzero(table["is_late"])) for name, table in tables.items()})
        for name, table in tables.items():
            hidden = self._folder / name / f".{number:06}.parquet"
            parquet.write_table(table, hidden)
            # Spark takes files by the time at which they were changed.
            os.utime(hidden, (_FIRST_WRITTEN + number,) * 2)
            hidden.rename(self._folder / name / f"{number:06}.parquet")

    def _table(self, number: int) -> pa.Table:
        rng, rows = self._rng, self._rows
        begin = _EPOCH + number * _FILE_SECONDS * _SECOND
        times = begin + rng.integers(0, _FILE_SECONDS * _SECOND, rows)
        times -= np.where(rng.random(rows) < _DISORDERED, rng.integers(0, _LONGEST_DISORDER, rows), 0)
        times = np.maximum(times, _EPOCH)
        is_late = rng.random(rows) < (_LATE if number >= _FIRST_WITH_LATE else 0.0)
        return pa.table(
            {
                "k": number * rows + rng.integers(0, _FILES_OF_A_KEY * rows, rows),
                "v": number * rows + np.arange(rows),
                "ts": pa.array(times - np.where(is_late, _HOUR, 0), pa.timestamp("us", "UTC")),
                "is_late": is_late,
            }
        )


def compare(folder: Path) -> Comparison:
    """The output of the job against a batch join of all rows that were not late, as multisets, by DuckDB."""
    try:
        import duckdb
    except ModuleNotFoundError as problem:
        raise SparkError("soak: the comparison needs DuckDB; run: pip install 'midstream[demo]'") from problem
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in STREAMS:
        files = f"{folder}/input/{name}/*.parquet"
        connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{files}') WHERE NOT is_late")
    window = f"INTERVAL {WINDOW_SECONDS} SECONDS"
    connection.execute(
        f"""
        CREATE TABLE expected AS
        SELECT a.v AS a, b.v AS b, c.v AS c, d.v AS d, greatest(a.ts, b.ts, c.ts, d.ts) AS valid_from,
               least(a.ts, b.ts, c.ts, d.ts) + {window} AS valid_to
        FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k JOIN d ON a.k = d.k
        WHERE greatest(a.ts, b.ts, c.ts, d.ts) <= least(a.ts, b.ts, c.ts, d.ts) + {window}
        """
    )
    connection.execute("CREATE TABLE found AS FROM read_parquet($files)", {"files": sink_files(folder / "output")})
    return compare_tables(connection)


def sink_files(folder: Path) -> Sequence[str]:
    """The files that a file sink has committed; attempts that failed leave others behind."""
    paths: set[str] = set()
    for log in (folder / "_spark_metadata").iterdir():
        if log.name.removesuffix(".compact").isdigit():
            entries = log.read_text().splitlines()[1:]
            paths |= {json.loads(entry)["path"].removeprefix("file://") for entry in entries}
    return sorted(paths)
