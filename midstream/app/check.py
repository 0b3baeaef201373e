"""DuckDB computes the shop's join again, from scratch and without our code; both results are compared row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from midstream.errors import MidstreamError
from midstream.lab.workload import Workload

if TYPE_CHECKING:
    import duckdb

# A row of a stream is valid on [ts, ts + window]; a result is valid where all four of its rows are.
EXPECTED = """
SELECT * FROM (
    SELECT o.id, o.customer, p.amount, s.carrier, r.stars,
           greatest(o.ts, p.ts, s.ts, r.ts) AS valid_from,
           least(o.ts + INTERVAL 60 SECONDS, p.ts + INTERVAL 45 SECONDS,
                 s.ts + INTERVAL 30 SECONDS, r.ts + INTERVAL 30 SECONDS) AS valid_to
    FROM orders o
    JOIN payments p ON o.id = p.order_id
    JOIN shipments s ON o.id = s.order_id
    JOIN reviews r ON o.id = r.order_id
    WHERE p.amount >= 10
) WHERE valid_from <= valid_to
"""


class DuckDBMissing(MidstreamError):
    """The check needs DuckDB, which is not installed."""


@dataclass(frozen=True)
class Comparison:
    """How many results are expected, how many of them are missing, and how many were found in excess."""

    expected: int
    missing: int
    extra: int

    @property
    def ok(self) -> bool:
        return self.missing == 0 and self.extra == 0


def require_duckdb(command: str) -> None:
    """Raise an error that says what to install if DuckDB is missing; called before the work starts."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        raise DuckDBMissing(
            f"{command}: DuckDB checks the result and is not installed; run: pip install 'midstream[demo]'"
        ) from None


def compare(workload: Workload, results: pa.Table) -> Comparison:
    """The results against DuckDB's as multisets, `valid_from` and `valid_to` included.

    >>> from midstream.lab.shop import shop
    >>> compare(shop(orders=0), pa.table({name: [] for name in "abcdefg"}))
    Comparison(expected=0, missing=0, extra=0)
    """
    import duckdb

    with duckdb.connect() as database:
        for stream, table in workload.tables.items():
            # A copy: over Arrow itself, some versions of DuckDB push filters down and lose NaN on the way.
            database.register(f"arrow_{stream}", table)
            database.execute(f"CREATE TABLE {stream} AS FROM arrow_{stream}")
        database.register("results", results)
        database.execute(f"CREATE TABLE expected AS {EXPECTED}")
        database.execute("CREATE TABLE found AS SELECT * FROM results")
        return compare_tables(database)


def compare_tables(database: duckdb.DuckDBPyConnection) -> Comparison:
    """The tables `expected` and `found` of a database as multisets."""

    def count(sql: str) -> int:
        row = database.execute(f"SELECT count(*) FROM ({sql})").fetchone()
        assert row is not None
        return int(row[0])

    return Comparison(
        expected=count("FROM expected"),
        missing=count("FROM expected EXCEPT ALL FROM found"),
        extra=count("FROM found EXCEPT ALL FROM expected"),
    )
