"""Text that is not UTF-8: refused where the query computes with it, else bytes like any other."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyarrow import parquet

import midstream as ms

SCHEMA = pa.schema({"s": pa.string(), "k": pa.int64(), "ts": pa.int64()})
OCTETS = [b"ok", None, b"\xff\xfe", b"fine"]

COMPUTED = [
    "SELECT upper(a.s) AS v FROM a [ROWS 9]",
    "SELECT lower(coalesce(a.s, 'x')) AS v FROM a [ROWS 9]",
    "SELECT trim(CASE WHEN a.k > 0 THEN a.s END) AS v FROM a [ROWS 9]",
    "SELECT substring(a.s, 1, 1) AS v FROM a [ROWS 9]",
    "SELECT replace(a.s, 'o', 'x') AS v FROM a [ROWS 9]",
    "SELECT length(a.s) AS v FROM a [ROWS 9]",
    "SELECT a.s || 'x' AS v FROM a [ROWS 9]",
    "SELECT CAST(a.s AS INT) AS v FROM a [ROWS 9]",
    "SELECT a.k FROM a [ROWS 9] WHERE a.s ILIKE '%K'",
    "SELECT a.k FROM a [ROWS 9], b [ROWS 9] WHERE upper(a.s) = b.s",
    "SELECT a.k FROM a [ROWS 9], b [ROWS 9] WHERE length(a.s) < b.k + 2 AND length(a.s) > b.k",
    "SELECT a.k FROM a [ROWS 9], b [ROWS 9] WHERE a.s || b.s <> 'x'",
    "SELECT upper(a.s) AS v, count(*) AS n FROM a [TUMBLE 1 SECOND] GROUP BY a.s",
    "SELECT upper(max(a.s)) AS v FROM a [TUMBLE 1 SECOND]",
    "SELECT sum(a.s) AS v FROM a [TUMBLE 1 SECOND]",
    "SELECT a.k, count(*) AS n FROM a [TUMBLE 1 SECOND] GROUP BY a.k HAVING trim(min(a.s)) > 'a'",
    "SELECT b.s FROM b [TUMBLE 1 SECOND] EXCEPT SELECT lower(a.s) AS s FROM a [TUMBLE 1 SECOND]",
]
PASSED_ON = [
    "SELECT a.s FROM a [ROWS 9] WHERE a.s <> 'x'",
    "SELECT a.s FROM a [ROWS 9] WHERE a.s IN ('fine', 'x') OR a.s IS NULL OR a.k = 1",
    "SELECT coalesce(a.s, a.s) AS s, greatest(a.s, 'a') AS g FROM a [ROWS 9]",
    "SELECT a.s FROM a [ROWS 9], b [ROWS 9] WHERE a.s = b.s",
    "SELECT DISTINCT a.s FROM a [TUMBLE 1 SECOND]",
    "SELECT a.s, min(a.s) AS low, max(a.k) AS k FROM a [TUMBLE 1 SECOND] GROUP BY a.s",
    "SELECT a.s FROM a [TUMBLE 1 SECOND] EXCEPT SELECT upper(b.s) AS s FROM b [TUMBLE 1 SECOND]",
]


def rows(octets: list[bytes | None]) -> pa.Table:
    text = pa.Array.from_buffers(pa.string(), len(octets), pa.array(octets).buffers())
    return pa.table({"s": text, "k": [1] * len(octets), "ts": [1] * len(octets)}, schema=SCHEMA)


def start(text: str) -> ms.Engine:
    return ms.Engine(ms.query(text, dict.fromkeys("ab", SCHEMA), "ts"))


def through_parquet(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    parquet.write_table(table, file)
    return parquet.read_table(file)


@pytest.mark.parametrize("make", [lambda table: table, lambda table: table.slice(1), through_parquet])
@pytest.mark.parametrize("text", COMPUTED)
def test_computing_with_text_that_is_not_utf8_is_refused(text: str, make: Callable[[pa.Table], pa.Table]) -> None:
    engine = start(text)
    bad = make(rows(OCTETS))
    told = rf"column 's' of 'a' is text that is not UTF-8: b'.xff.xfe' in row {bad.num_rows - 2};"
    beside = {"b": rows([b"b"])} if " b " in text else {}
    with pytest.raises(ms.InputError, match=told):
        engine.push({**beside, "a": bad})
    assert engine.stats().watermark is None
    engine.push({"a": rows([b"ok", None, b"fine"])})


@pytest.mark.parametrize("text", PASSED_ON)
def test_text_that_is_not_computed_with_is_bytes(text: str) -> None:
    engine = start(text)
    beside = {"b": rows([b"ok", b"\xff\xfe"] if " = b.s" in text else [b"ok"])} if " b " in text else {}
    found = pa.concat_tables([engine.push({**beside, "a": rows(OCTETS)}), engine.finish()])
    assert b"\xff\xfe" in found["s"].cast(pa.binary()).to_pylist()


def test_bytes_below_a_null_do_not_count() -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [pa.py_buffer(b"\0"), *pa.array([b"\xff"]).buffers()[1:]])
    engine = start(COMPUTED[0])
    assert engine.push({"a": pa.table({"s": text, "k": [1], "ts": [1]})})["v"].to_pylist() == [None]


def test_a_static_table_that_is_computed_with() -> None:
    query = ms.query("SELECT upper(b.s) AS v FROM a [ROWS 9], b WHERE a.k = b.k", dict.fromkeys("ab", SCHEMA), "ts")
    with pytest.raises(ms.InputError, match="'s' of 'b' is text that is not UTF-8"):
        ms.Engine(query, tables={"b": rows(OCTETS)})
