"""Whatever holds rows -> an Arrow table.

People have their rows in many shapes, and all of them come in here::

    pyarrow Table, RecordBatch                          as they are
    pandas frame                                        its columns; the index is left out, missing values are nulls
    polars frame, DuckDB relation, RecordBatchReader    the Arrow PyCapsule protocol, read to its end
    {"id": [1, 2], "name": ["a", "b"]}                  lists, tuples, NumPy arrays, Series, Arrow arrays
    [{"id": 1, "name": "a"}, {"id": 2}]                 a key that a row lacks is a null

Python values get the declared type of their column if converting them changes no value. Otherwise they get the type
that Arrow infers, and the code that binds the table to a stream reports why that type does not fit.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa


class ArrowStream(Protocol):
    """What exports itself as a stream of record batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """What exports itself as one record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any: ...


TableLike: TypeAlias = ArrowStream | ArrowArray | Mapping[str, Any] | Sequence[Mapping[str, Any]]

FORMS = (
    "give a pyarrow Table, a pandas or polars frame, a dict of columns, a list of dicts, "
    "or anything else that exports Arrow data (__arrow_c_stream__)"
)
#: What is taken as it is.
ARROW_TABLES = (pa.Table, pa.RecordBatch)
_FIRST_STEPS = ("toArrow", "to_table", "collect")
_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class NotATable(ValueError):
    """The value holds no rows that can be read. The message goes on after an argument's name."""


def as_table(given: TableLike, declared: pa.Schema | None = None) -> pa.Table | pa.RecordBatch:
    """The rows as an Arrow table, their columns in the declared types where that changes no value.

    >>> as_table([{"id": 1, "name": "a"}, {"id": 2}]).to_pylist()
    [{'id': 1, 'name': 'a'}, {'id': 2, 'name': None}]
    >>> as_table({"id": [1, 2]}, pa.schema({"id": pa.int16()})).schema.field("id").type
    DataType(int16)
    >>> as_table([1, 2])
    Traceback (most recent call last):
    midstream.tables.NotATable: is a list whose item 0 is int; in a list of rows every row is a dict
    """
    if isinstance(given, ARROW_TABLES):
        return given
    if is_pandas(given, "DataFrame"):
        return _from_pandas(given, declared)
    if isinstance(given, Mapping):
        return _from_columns(_name_columns(given), declared)
    if isinstance(given, list | tuple):
        return _from_rows(given, declared)
    try:
        if hasattr(given, "__arrow_c_array__"):
            return pa.record_batch(given)
        if hasattr(given, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(given).read_all()
    except Exception as problem:  # an export runs code of others
        raise NotATable(f"is {type_name(given)}, which cannot be read as a table: {first_line(problem)}") from problem
    raise NotATable(f"is {type_name(given)}; {_hint(given)}")


def type_name(given: object) -> str:
    """What a value is, as an error tells it.

    >>> type_name(3), type_name(None), type_name(pa.array([1]))
    ('int', 'None', 'pyarrow.Int64Array')
    """
    kind = type(given)
    package = kind.__module__.partition(".")[0]
    return "None" if given is None else kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"


def first_line(problem: Exception) -> str:
    """What went wrong, without the stack that Arrow puts behind it."""
    return str(problem).partition("\n")[0].partition(". Detail: ")[0]


def _hint(given: object) -> str:
    return next((f"call its {method}() first" for method in _FIRST_STEPS if hasattr(given, method)), FORMS)


def is_pandas(given: object, *kinds: str) -> bool:
    """Whether this is an object of pandas. If pandas is not imported, it cannot be."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, tuple(getattr(pandas, kind) for kind in kinds))


def _name_columns(columns: Mapping[Any, Any]) -> dict[str, Any]:
    for name in columns:
        if not isinstance(name, str):
            raise NotATable(f"has a column called {name!r}; columns are named by text")
    return dict(columns)


def _from_pandas(frame: Any, declared: pa.Schema | None) -> pa.Table:
    names = [str(name) for name in frame.columns]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise NotATable(f"has two columns called {doubled!r}; rename one of them")
    table = _from_columns({name: frame.iloc[:, place] for place, name in enumerate(names)}, declared, len(frame))
    known = {name.casefold() for name in names}
    for index in frame.index.names:
        if (
            declared is not None
            and index is not None
            and _find_spellings(str(index), declared)
            and index.casefold() not in known
        ):
            raise NotATable(f"has {index!r} as its index, which is left out; make it a column with reset_index()")
    return table


def _from_rows(rows: Sequence[Any], declared: pa.Schema | None) -> pa.Table:
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            kind = f"a {type(rows).__name__} whose item {place} is {type_name(row)}"
            raise NotATable(f"is {kind}; in a list of rows every row is a dict")
    if not rows:
        if declared is None:
            raise NotATable("is an empty list, which tells no columns; give a pyarrow schema, or a dict of types")
        return declared.empty_table()
    names = dict.fromkeys(name for row in rows for name in row)
    return _from_columns(_name_columns({name: [row.get(name) for row in rows] for name in names}), declared)


def _from_columns(columns: Mapping[str, Any], declared: pa.Schema | None, length: int | None = None) -> pa.Table:
    """Columns as a table. Columns that are not declared are not read: they become nulls."""
    arrays: dict[str, pa.Array | pa.ChunkedArray | None] = {}
    first: str | None = None
    for name, values in columns.items():
        if declared is not None and not _find_spellings(name, declared):
            arrays[name] = None
            continue
        try:
            array = arrays[name] = _column(
                values, None if declared is None else _find_spellings(name, declared)[0].type
            )
        except NotATable as problem:
            raise NotATable(f"has a column {name!r} that {problem}") from problem.__cause__
        if length is not None and len(array) != length:
            raise NotATable(
                f"has {length} values in column {first!r} but {len(array)} in {name!r}; give as many in all"
            )
        first, length = first or name, len(array)
    filled = [pa.nulls(length or 0) if array is None else array for array in arrays.values()]
    return pa.Table.from_arrays(filled, names=list(arrays))


def _find_spellings(name: str, declared: pa.Schema) -> list[pa.Field]:
    """The declared columns of this name: the one spelled so, or else those that differ in case."""
    exact = [field for field in declared if field.name == name]
    return exact or [field for field in declared if field.name.casefold() == name.casefold()]


def _column(values: Any, declared: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    wanted = declared.value_type if declared is not None and pa.types.is_dictionary(declared) else declared
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if is_pandas(values, "Series", "Index"):
            if values.dtype == object:
                return _of_objects(values.tolist(), wanted, nan_is_missing=True)
            return pa.array(values, from_pandas=True)
        if isinstance(values, np.ndarray):
            return _of_objects(values.tolist(), wanted) if values.dtype == object else pa.array(values)
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_array__"):
            return pa.array(values)
    except _REFUSALS as problem:
        raise NotATable(f"cannot be read as one type: {problem}") from problem
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview):
        return _of_objects(list(values), wanted)
    raise NotATable(f"is {type_name(values)}; give a list of values, an array or a Series")


def _of_objects(values: list[Any], wanted: pa.DataType | None, nan_is_missing: bool = False) -> pa.Array:
    """Objects of Python as an array of the wanted type if they all read back equal, else of the type they have."""
    if len({value.tzinfo is None for value in values if isinstance(value, datetime.datetime)}) > 1:
        raise NotATable("mixes datetimes with and without a time zone; give all of them one or none")
    found: pa.Array | None = None
    problem: Exception | None = None
    for missing in [True] if nan_is_missing else [False, True]:  # NaT and NA of pandas count as missing
        try:
            found = pa.array(values, from_pandas=missing)
            break
        except _REFUSALS as refusal:
            problem = problem or refusal
    if wanted is not None and (found is None or found.type != wanted):
        try:
            nan_fits = pa.types.is_floating(wanted) or pa.types.is_nested(wanted)
            built = pa.array(values, type=wanted, from_pandas=nan_is_missing or not nan_fits)
            if all(map(_reads_back, built.to_pylist(), values)):
                return built
        except _REFUSALS:
            pass
    if found is None:
        said = "" if wanted is None else f"; its declared type is {wanted}"
        raise NotATable(f"cannot be read as one type: {problem}{said}") from problem
    return found


def _reads_back(stored: Any, given: Any) -> bool:
    if stored is None:
        return True
    return bool(stored == given) or (isinstance(given, Mapping) and _same_entries(stored, given))


def _same_entries(stored: Any, given: Mapping[Any, Any]) -> bool:
    """Whether a struct or a map holds what a dict does; fields that the dict lacks are null."""
    entries = stored if isinstance(stored, dict) else dict(stored)
    return set(given) <= set(entries) and all(_reads_back(entries[key], given.get(key)) for key in entries)
