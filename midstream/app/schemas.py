"""Schemas given on a command line: ``orders=orders.parquet`` or ``orders=ts timestamp, id bigint``.

After the equals sign stands either a file whose schema is read (Parquet, Arrow IPC or Feather, CSV) or the columns
themselves, each a name and a type. A type is Arrow's name (`int64`, `timestamp[us]`) or SQL's (`bigint`, `timestamp`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from midstream.cql.names import find_spellings
from midstream.cql.schemas import type_of
from midstream.cql.sources import source_names
from midstream.errors import QueryError, did_you_mean

_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\)|[^\[]*\])")


def read_schemas(given: Sequence[str]) -> dict[str, pa.Schema]:
    """The schemas of several ``name=...`` arguments.

    >>> read_schemas(["orders=ts timestamp, id bigint, total decimal(10, 2)"])["orders"].names
    ['ts', 'id', 'total']
    >>> read_schemas(["orders"])
    Traceback (most recent call last):
    midstream.errors.QueryError: schema: 'orders' has no '='; write name=file.parquet or name=column type, column type
    """
    schemas: dict[str, pa.Schema] = {}
    for text in given:
        name, equals, what = (part.strip() for part in text.partition("="))
        if not equals or not name or not what:
            lack = "has no '='" if not equals else "is not complete"
            raise QueryError(f"schema: '{text}' {lack}; write name=file.parquet or name=column type, column type")
        schemas[name] = (
            _from_file(name, Path(what)) if Path(what).suffix.lower() in _READERS else _from_columns(name, what)
        )
    return schemas


def check_given(schemas: Mapping[str, pa.Schema], text: str) -> Mapping[str, pa.Schema]:
    """The schemas, if every name in the query's FROM has one; else an error that says how to give it.

    >>> check_given({}, "SELECT o.id FROM orders [ROWS 5] o")
    Traceback (most recent call last):
    midstream.errors.QueryError: explain: the columns of 'orders' are not known; give them with --schema 'orders=...
    """
    for name in source_names(text):
        if not find_spellings(name, schemas):
            hint = did_you_mean(name, schemas)
            raise QueryError(
                f"explain: the columns of '{name}' are not known; {hint}give them with "
                f"--schema '{name}=ts timestamp, id bigint' or --schema {name}={name}.parquet"
            )
    return schemas


def read_event_times(given: Sequence[str]) -> str | dict[str, str]:
    """One column for all streams, or ``stream=column`` for each.

    >>> read_event_times(["ts"])
    'ts'
    >>> read_event_times(["orders=ordered_at", "payments=paid_at"])
    {'orders': 'ordered_at', 'payments': 'paid_at'}
    """
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    found: dict[str, str] = {}
    for text in given:
        stream, equals, column = (part.strip() for part in text.partition("="))
        if not equals:
            raise QueryError(
                f"event time: '{text}' names no stream; write one column for all, or stream=column for each"
            )
        found[stream] = column
    return found


def _from_columns(name: str, what: str) -> pa.Schema:
    fields = []
    for piece in _OUTSIDE_BRACKETS.split(what):
        column, _, type_text = piece.strip().partition(" ")
        if not type_text:
            raise QueryError(
                f"schema: '{column}' of '{name}' is neither a file ({', '.join(_READERS)}) nor a column with its type; "
                f"write: {column} bigint"
            )
        fields.append(pa.field(column, type_of(type_text)))
    return pa.schema(fields)


def _from_file(name: str, path: Path) -> pa.Schema:
    if not path.exists():
        raise QueryError(f"schema: there is no file '{path}' for '{name}'")
    try:
        return _READERS[path.suffix.lower()](path)
    except (OSError, pa.ArrowException) as error:
        raise QueryError(f"schema: cannot read '{path}' for '{name}': {error}") from error


def _read_ipc(path: Path) -> pa.Schema:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).schema


def _read_csv(path: Path) -> pa.Schema:
    with csv.open_csv(path) as reader:
        return reader.schema


_READERS: dict[str, Callable[[Path], pa.Schema]] = {
    ".arrow": _read_ipc,
    ".csv": _read_csv,
    ".feather": _read_ipc,
    ".parquet": parquet.read_schema,
}
