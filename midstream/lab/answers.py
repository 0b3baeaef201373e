"""Whether contenders give the right results: digests of result tables, and DuckDB's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.lab.definition import WrongAnswer

Words = npt.NDArray[np.uint64]
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@dataclass(frozen=True)
class Digest:
    """A multiset of rows: how many there are, and the sum of a hash of each, whatever their order.

    >>> a, b = pa.table({"x": [1, 2], "y": [3, 4]}), pa.table({"x": [2, 1], "y": [4, 3]})
    >>> digest_of([a]) == digest_of([b]), digest_of([a]) == digest_of([pa.table({"x": [1, 2], "y": [4, 3]})])
    (True, False)
    """

    rows: int = 0
    total: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, (self.total + other.total) & (2**64 - 1))


def digest_of(tables: Sequence[pa.Table]) -> Digest:
    """The digest of result tables of integers or timestamps."""
    found = Digest()
    for table in tables:
        if table.num_rows:
            hashes = np.full(table.num_rows, _ODD)
            for column in table.columns:
                hashes = _mix(hashes ^ _mix(_integers(column)))
            found += Digest(table.num_rows, int(hashes.sum(dtype=np.uint64)))
    return found


def _integers(column: pa.ChunkedArray) -> Words:
    values = column.cast(pa.int64()).fill_null(-1).to_numpy()
    return np.ascontiguousarray(values, np.int64).view(np.uint64)


def _mix(words: Words) -> Words:
    words = (words + _ODD) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> _SHIFT)) * np.uint64(0x94D049BB133111EB)
    mixed: Words = words ^ (words >> np.uint64(32))
    return mixed


def compute_rows_join(tables: Mapping[str, pa.Table], window: int, condition: str, since: int) -> pa.Table:
    """DuckDB's answer to a join of streams with `[ROWS window]` each, computed from scratch.

    `tables` have columns `ts`, `v` and what `condition` reads: SQL between a row `r` of the streams joined so far, with
    the columns of the first stream, and the next stream's row `s`. Rows arrive by `ts`. The answer has `v` of every
    stream, then `valid_from` and `valid_to`, for the results whose last row arrived at `since` or later.
    """
    import duckdb

    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        names = list(tables)
        for name, table in tables.items():
            database.register(f"rows_{name}", table)
        database.execute(
            "CREATE TABLE arrivals AS SELECT *, row_number() OVER (ORDER BY ts, place) AS number FROM ("
            + " UNION ALL ".join(f"SELECT {at} AS place, * FROM rows_{name}" for at, name in enumerate(names))
            + ")"
        )
        database.execute(
            f"CREATE TABLE valid AS SELECT *, coalesce(lead(number, {window}) "
            "OVER (PARTITION BY place ORDER BY number) - 1, 9223372036854775807) AS last FROM arrivals"
        )
        database.execute(f"CREATE TABLE found AS SELECT *, v AS v_{names[0]} FROM valid WHERE place = 0")
        for at, name in enumerate(names[1:], 1):
            database.execute(
                f"CREATE TABLE more AS SELECT r.* REPLACE (greatest(r.number, s.number) AS number, "
                f"least(r.last, s.last) AS last, greatest(r.ts, s.ts) AS ts), s.v AS v_{name} "
                f"FROM found r JOIN valid s ON {condition} AND s.place = {at} "
                "AND r.number <= s.last AND s.number <= r.last"
            )
            database.execute("DROP TABLE found; ALTER TABLE more RENAME TO found")
        chosen = ", ".join(f"v_{name}" for name in names)
        answer: pa.Table = database.sql(
            f"SELECT {chosen}, ts AS valid_from, NULL::BIGINT AS valid_to FROM found WHERE ts >= {since}"
        ).to_arrow_table()
        return answer


def compute_finite_join(tables: Mapping[str, pa.Table], outputs: Mapping[str, str], condition: str) -> pa.Table:
    """DuckDB's answer to a join of relations that are `[UNBOUNDED]`, with event times in a column `ts`.

    It has `outputs`, result columns with the SQL of each, then `valid_from` and `valid_to`, in the order of arrival.
    """
    import duckdb

    with duckdb.connect() as database:
        database.execute("SET threads = 2; SET enable_progress_bar = false")
        for name, table in tables.items():
            database.register(name, table)
        columns = ", ".join(f"{text} AS {name}" for name, text in outputs.items())
        arrived = ", ".join(f"{name}.ts" for name in tables)
        answer: pa.Table = database.sql(
            f"SELECT {columns}, greatest({arrived}) AS valid_from, NULL::BIGINT AS valid_to "
            f"FROM {', '.join(tables)} WHERE {condition} ORDER BY valid_from"
        ).to_arrow_table()
        return answer


def require_same(found: Mapping[str, Digest], expected: Digest, where: str) -> None:
    """Raise `WrongAnswer` unless every contender's results are those expected."""
    for name, digest in found.items():
        if digest != expected:
            what = f"{digest.rows:,} results" if digest.rows != expected.rows else "as many results, but others"
            raise WrongAnswer(f"{where}: {name} gives {what}; expected are {expected.rows:,}")
