"""The examples that `help` shows for joins on Spark run, one after the other, as a user would try them."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms

from .streams import SECOND, ZONED, stream, write

FUNCTIONS = (
    ms.spark.explain,
    ms.spark.hot_keys,
    ms.spark.join,
    ms.spark.sql,
    ms.spark.control,
    ms.spark.Control.migrate,
    ms.spark.Control.answer,
    ms.spark.Control.status,
    ms.spark.Control.progress,
    ms.spark.progress,
    ms.spark.cell_reports,
)
BLOCK = re.compile(r"::\n\n((?: {4}.*\n|\n)+)")


def example(function: Any) -> str:
    found = BLOCK.search((inspect.getdoc(function) or "") + "\n")
    assert found is not None, function.__qualname__
    return textwrap.dedent(found.group(1))


def rows(column: str, values: list[Any]) -> pa.Table:
    times = pa.array([place * SECOND for place in range(len(values))]).cast(ZONED)
    return pa.table({"ts": times, "id": pa.array(range(len(values))), column: pa.array(values)})


@pytest.mark.slow
def test_examples_of_help_run(spark: Any, tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"ms": ms, "spark": spark, "folder": str(tmp_path)}
    columns = {
        "orders": ("customer", ["ada", "bob"]),
        "payments": ("amount", [2.5, 9.0]),
        "shipments": ("carrier", ["X"]),
    }
    for name, (column, values) in columns.items():
        write(tmp_path / name, [rows(column, values)])
        namespace[name] = stream(spark, tmp_path / name)
    for function in FUNCTIONS:
        exec(compile(example(function), function.__qualname__, "exec"), namespace)
        if function is ms.spark.sql:
            namespace["query"].processAllAvailable()
    namespace["query"].stop()
    results = spark.read.parquet(f"{tmp_path}/results").collect()
    assert [(row.customer, row.amount, row.carrier) for row in results] == [("ada", 2.5, "X")]
    assert namespace["joined"].columns == ["customer", "amount", "carrier", "valid_from", "valid_to"]
