"""Anything that describes columns and their types -> an Arrow schema.

A stream is declared by a pyarrow schema, by its types (`{"ts": "timestamp", "id": int}`), or by an example: anything
that `tables` reads rows from, of which only the columns and their types count. An example may well be empty.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from midstream.cql.plain import plain_type
from midstream.cql.typing_types import MAX_PRECISION
from midstream.errors import QueryError
from midstream.tables import NotATable, TableLike, as_table, first_line, is_pandas, type_name

SQL_TYPES = {
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "smallint": pa.int16(),
    "string": pa.string(),
    "text": pa.string(),
    "timestamp": pa.timestamp("us"),
    "tinyint": pa.int8(),
    "varchar": pa.string(),
}
PYTHON_TYPES = {
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
    datetime.datetime: pa.timestamp("us"),
    datetime.timedelta: pa.duration("us"),
    float: pa.float64(),
    int: pa.int64(),
    str: pa.string(),
}
_DECIMAL = re.compile(r"decimal(?:128)?\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz\s*=\s*)?([^\]]+)\]", re.IGNORECASE)
_FORMS = (
    "give a pyarrow schema, a dict of columns with their types such as {'id': 'int64', 'ts': 'timestamp[us]'}, "
    "or an example: a table, a frame, a dict of columns or a list of dicts"
)


class ArrowSchema(Protocol):
    """What exports itself as a schema."""

    def __arrow_c_schema__(self) -> object: ...


SchemaLike: TypeAlias = ArrowSchema | TableLike


def as_schema(given: Any, name: str) -> pa.Schema:
    """The schema of a stream or static table.

    >>> as_schema({"id": int, "ts": "timestamp[us]"}, "orders").names
    ['id', 'ts']
    >>> as_schema([{"id": 1, "name": "ada"}], "orders").types
    [DataType(int64), DataType(string)]
    >>> as_schema("id int64", "orders")
    Traceback (most recent call last):
    midstream.errors.QueryError: query: the schema of 'orders' is str; give a pyarrow schema, a dict of columns ...
    """
    if isinstance(given, pa.Schema):
        return given
    try:
        if _is_types(given):
            return pa.schema([pa.field(_column_name(column), _type(column, type)) for column, type in given.items()])
        return pa.schema([pa.field(field.name, plain_type(field.type)) for field in _exported(given)])
    except NotATable as problem:
        told = str(problem)
        told = f"is {type_name(given)}; {_FORMS}" if not _is_example(given) else told
        raise QueryError(f"query: the schema of {name!r} {told}") from problem.__cause__


def type_of(text: str) -> pa.DataType:
    """A type by its Arrow or SQL name.

    >>> type_of("timestamp[ns]"), type_of("DECIMAL(10, 2)"), type_of("bigint")
    (TimestampType(timestamp[ns]), Decimal128Type(decimal128(10, 2)), DataType(int64))
    >>> type_of("timestamp[us, tz=Europe/Berlin]")
    TimestampType(timestamp[us, tz=Europe/Berlin])
    """
    name = text.strip().lower()
    if name in SQL_TYPES:
        return SQL_TYPES[name]
    if sizes := _DECIMAL.fullmatch(name):
        if not 1 <= int(sizes[1]) <= MAX_PRECISION:
            raise QueryError(f"schema: impossible type '{text.strip()}'; a decimal has 1 to {MAX_PRECISION} digits")
        return pa.decimal128(int(sizes[1]), int(sizes[2] or 0))
    if zoned := _ZONED.fullmatch(text.strip()):
        return pa.timestamp(zoned[1].lower(), zoned[2].strip())
    try:
        return pa.type_for_alias(name)
    except ValueError:
        known = ", ".join(SQL_TYPES)
        raise QueryError(f"schema: unknown type '{text.strip()}'; types: {known}, decimal(p, s), or Arrow's") from None


def _exported(given: Any) -> pa.Schema:
    """The schema of anything but a dict of types. Its rows are not read where that can be avoided."""
    if isinstance(given, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return given.schema
    try:
        if hasattr(given, "__arrow_c_schema__"):
            return pa.schema(given)
        if hasattr(given, "__arrow_c_stream__") and not is_pandas(given, "DataFrame"):
            return pa.RecordBatchReader.from_stream(given).schema
    except Exception as problem:  # an export runs code of others
        raise NotATable(
            f"is {type_name(given)}, which does not export the schema of a table: {first_line(problem)}"
        ) from problem
    return as_table(given).schema


def _is_example(given: object) -> bool:
    """Whether this may hold rows, so that an error about its rows helps the user."""
    exports = ("__arrow_c_stream__", "__arrow_c_array__", "__arrow_c_schema__")
    return isinstance(given, Mapping | list | tuple) or any(hasattr(given, export) for export in exports)


def _is_types(given: object) -> bool:
    """Whether this is a dict of columns with their types, and not with their values."""
    if not isinstance(given, Mapping) or hasattr(given, "__arrow_c_schema__"):  # a polars schema is a dict, too
        return False
    return any(isinstance(value, pa.DataType | np.dtype | str | type) for value in given.values())


def _column_name(column: object) -> str:
    if not isinstance(column, str):
        raise NotATable(f"has a column called {column!r}; columns are named by text")
    return column


def _type(column: str, given: Any) -> pa.DataType:
    if isinstance(given, pa.DataType):
        return given
    if isinstance(given, type) and given in PYTHON_TYPES:
        return PYTHON_TYPES[given]
    if isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic)):
        try:
            return pa.from_numpy_dtype(given)
        except (pa.ArrowException, TypeError) as problem:
            raise NotATable(f"has {given} as the type of column {column!r}: {problem}; give Arrow's") from None
    if isinstance(given, str):
        try:
            return type_of(given)
        except QueryError as problem:
            raise NotATable(f"has a column {column!r} of {str(problem).removeprefix('schema: ')}") from None
    known = ", ".join(python_type.__name__ for python_type in PYTHON_TYPES)
    told = given.__name__ if isinstance(given, type) else type_name(given)
    raise NotATable(f"has {told} as the type of column {column!r}; give Arrow's, its name, or one of {known}")
