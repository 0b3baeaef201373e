"""Schemas and event times from command-line text."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import midstream
from midstream.app.schemas import read_event_times, read_schemas, type_of
from midstream.errors import QueryError

TABLE = pa.table({"ts": pa.array([1, 2]), "name": pa.array(["a", "b"])})


def test_columns_in_the_text() -> None:
    (schema,) = read_schemas(["orders = ts timestamp, total DECIMAL(10, 2), at timestamp[ns], note varchar"]).values()
    assert schema == pa.schema(
        {"ts": pa.timestamp("us"), "total": pa.decimal128(10, 2), "at": pa.timestamp("ns"), "note": pa.string()}
    )
    (schema,) = read_schemas(
        ["o=at timestamp[us, tz=Europe/Berlin], total decimal(10, 2), ts timestamp[ms, UTC]"]
    ).values()
    assert schema == pa.schema(
        {"at": pa.timestamp("us", "Europe/Berlin"), "total": pa.decimal128(10, 2), "ts": pa.timestamp("ms", "UTC")}
    )


@pytest.mark.parametrize(
    ("file", "write"),
    [("t.parquet", parquet.write_table), ("t.feather", feather.write_feather), ("t.arrow", feather.write_feather)],
)
def test_the_schema_of_a_file(tmp_path: Path, file: str, write: object) -> None:
    assert callable(write)
    if write is feather.write_feather:
        write(TABLE, str(tmp_path / file), compression="uncompressed")
    else:
        write(TABLE, str(tmp_path / file))
    assert read_schemas([f"s={tmp_path / file}"]) == {"s": TABLE.schema}


def test_the_schema_of_a_csv_file(tmp_path: Path) -> None:
    csv.write_csv(TABLE, tmp_path / "t.csv")
    assert read_schemas([f"s={tmp_path / 't.csv'}"]) == {"s": TABLE.schema}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders", "schema: 'orders' has no '='; write name=file.parquet or name=column type, column type"),
        (
            "=ts bigint",
            "schema: '=ts bigint' is not complete; write name=file.parquet or name=column type, column type",
        ),
        ("o=nowhere.parquet", "schema: there is no file 'nowhere.parquet' for 'o'"),
        (
            "o=ts",
            "schema: 'ts' of 'o' is neither a file (.arrow, .csv, .feather, .parquet) nor a column with its type; "
            "write: ts bigint",
        ),
        (
            "o=ts number",
            "schema: unknown type 'number'; types: bigint, binary, boolean, date, double, float, int, integer, "
            "smallint, string, text, timestamp, tinyint, varchar, decimal(p, s), or Arrow's",
        ),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        read_schemas([text])
    assert str(caught.value) == message


def test_a_broken_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("not parquet")
    with pytest.raises(QueryError, match="cannot read"):
        read_schemas([f"s={tmp_path / 't.parquet'}"])


def test_types() -> None:
    assert type_of(" BIGINT ") == pa.int64()
    assert type_of("decimal(5)") == pa.decimal128(5, 0)
    assert type_of("date32") == pa.date32()


@pytest.mark.parametrize("name", ["decimal(50, 2)", "DECIMAL(39)", "decimal128(0)", "decimal(0, 0)"])
def test_decimals_that_there_are_not(name: str) -> None:
    with pytest.raises(QueryError, match=rf"impossible type '{re.escape(name)}'; a decimal has 1 to 38 digits"):
        type_of(name)
    with pytest.raises(QueryError, match=r"schema of 'a' has a column 'x' of impossible type"):
        midstream.query("SELECT a.x FROM a [ROWS 9]", {"a": {"x": name, "ts": int}}, "ts")


def test_event_times() -> None:
    assert read_event_times(["ts"]) == "ts"
    assert read_event_times(["a=x", " b = y "]) == {"a": "x", "b": "y"}
    with pytest.raises(QueryError, match="'ts' names no stream"):
        read_event_times(["ts", "a=x"])
