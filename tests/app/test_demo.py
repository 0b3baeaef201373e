"""The demo and its judge: a judge that never says no is worth nothing."""

from __future__ import annotations

import io
import sys

import duckdb
import pyarrow as pa
import pytest
from rich.console import Console

from midstream.app import check, demo
from midstream.app.check import Comparison, compare
from midstream.lab.shop import shop

WORKLOAD = shop(orders=3_000, rate=50.0, seed=5)


@pytest.fixture(scope="module")
def right() -> pa.Table:
    with duckdb.connect() as database:
        for stream, table in WORKLOAD.tables.items():
            database.register(stream, table)
        return database.sql(check.EXPECTED).to_arrow_table()


def test_the_right_results_in_any_order_are_exact(right: pa.Table) -> None:
    assert right.num_rows > 100
    assert compare(WORKLOAD, right.take(list(reversed(range(right.num_rows))))) == Comparison(right.num_rows, 0, 0)


def test_the_shop_has_matches_that_come_too_late_for_their_window(right: pa.Table) -> None:
    with duckdb.connect() as database:
        for stream, table in WORKLOAD.tables.items():
            database.register(stream, table)
        sql = check.EXPECTED.replace("WHERE valid_from <= valid_to", "")
        assert database.sql(sql).to_arrow_table().num_rows > right.num_rows


def test_a_missing_a_doubled_and_a_changed_result_are_found(right: pa.Table) -> None:
    rows = right.num_rows
    assert compare(WORKLOAD, right.slice(1)) == Comparison(rows, 1, 0)
    assert compare(WORKLOAD, pa.concat_tables([right, right.slice(0, 1)])) == Comparison(rows, 0, 1)
    later = [right["valid_to"][0].as_py().replace(year=2027), *right["valid_to"].slice(1).to_pylist()]
    changed = right.set_column(
        right.schema.get_field_index("valid_to"), "valid_to", pa.array(later, pa.timestamp("us"))
    )
    assert compare(WORKLOAD, changed) == Comparison(rows, 1, 1)


def run(console: Console) -> bool:
    return demo.run(orders=20_000, seed=1, console=console)


def test_the_demo_ends_with_exact() -> None:
    out = io.StringIO()
    assert run(Console(file=out, width=200))
    assert "exact: DuckDB computes the same" in out.getvalue()
    assert "100%" in out.getvalue()


def test_the_demo_notices_a_wrong_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "compare", lambda workload, results: compare(workload, results.slice(1)))
    out = io.StringIO()
    assert not run(Console(file=out, width=200))
    assert "1 are missing" in out.getvalue()


def test_without_duckdb_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(check.DuckDBMissing, match=r"pip install 'midstream\[demo\]'"):
        run(Console(file=io.StringIO()))
