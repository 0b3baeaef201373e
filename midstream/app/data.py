"""Rows given on a command line: ``orders=orders.parquet``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, feather, parquet

from midstream.errors import QueryError


def read_tables(given: Sequence[str], schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
    """The tables of several ``name=file`` arguments; a schema of the same name gives the types of a CSV file.

    >>> read_tables(["orders"], {})
    Traceback (most recent call last):
    midstream.errors.QueryError: data: 'orders' is not name=file; write orders=orders.parquet
    """
    tables: dict[str, pa.Table] = {}
    for text in given:
        name, _, file = (part.strip() for part in text.partition("="))
        if not name or not file:
            raise QueryError(f"data: '{text}' is not name=file; write {name or 'orders'}={name or 'orders'}.parquet")
        tables[name] = read_table(Path(file), schemas.get(name), f" for '{name}'")
    return tables


def read_table(path: Path, schema: pa.Schema | None = None, purpose: str = "") -> pa.Table:
    """The rows of a file, or of a folder of Parquet files; a schema gives the types of a CSV file."""
    read = _read_parquet if path.is_dir() else _READERS.get(path.suffix.lower())
    if read is None:
        raise QueryError(f"data: '{path}'{purpose} has no known ending; endings: {', '.join(_READERS)}")
    try:
        return read(path, schema)
    except (OSError, pa.ArrowException) as error:
        raise QueryError(f"data: cannot read '{path}'{purpose}: {error}") from error


def _read_arrow(path: Path, schema: pa.Schema | None) -> pa.Table:
    return feather.read_table(path)


def _read_csv(path: Path, schema: pa.Schema | None) -> pa.Table:
    types = {} if schema is None else {field.name: field.type for field in schema}
    return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))


def _read_parquet(path: Path, schema: pa.Schema | None) -> pa.Table:
    return parquet.read_table(path)


_READERS: dict[str, Callable[[Path, pa.Schema | None], pa.Table]] = {
    ".arrow": _read_arrow,
    ".csv": _read_csv,
    ".feather": _read_arrow,
    ".parquet": _read_parquet,
}
