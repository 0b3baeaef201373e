"""The same rows as other objects: batches, slices, chunks, other widths, dictionaries, more columns, frames, dicts.

An engine that reads buffers must get offsets, chunks and encodings right; a caller need not know.
"""

from __future__ import annotations

import datetime
import random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .carried import CARRIED, PLAIN, in_other_type
from .spec import Case, Push, Watermark, push_tables

EPOCH = datetime.datetime(1970, 1, 1)


def dress_push(case: Case, push: Push, rng: random.Random, only_arrow: bool = False) -> dict[str, Any]:
    """A push's tables in random clothes; sometimes with an empty table for a stream without rows.

    With `only_arrow` they are tables and batches of Arrow's, as Spark hands them to a worker.
    """
    tables: dict[str, Any] = {}
    for name, table in push_tables(case, push).items():
        is_plain = CARRIED not in table.column_names or table.schema.field(CARRIED).type in PLAIN
        takes_form = is_plain and not only_arrow and rng.random() < 0.15
        tables[name] = _other_form(table, rng) if takes_form else _dress(table, rng)
    for name in case.streams:
        if name not in tables and rng.random() < 0.1:
            tables[name] = case.pushed_schema(name).empty_table()
    return tables


def _dress(table: pa.Table, rng: random.Random) -> pa.Table | pa.RecordBatch:
    if rng.random() < 0.5:
        return table
    for place, field in enumerate(table.schema):
        if field.name == CARRIED:
            table = table.set_column(place, field.name, in_other_type(table.column(place), field.type, rng))
        elif rng.random() < 0.2:
            table = table.set_column(place, field.name, _other_type(table.column(place), rng))
    if rng.random() < 0.2:
        table = table.append_column("extra", pa.nulls(table.num_rows))
    if rng.random() < 0.2:
        names = table.column_names
        rng.shuffle(names)
        table = table.select(names)
    if table.num_rows > 1 and rng.random() < 0.5:
        table = _cut_into_chunks(table, rng)
    if rng.random() < 0.3:
        padded = pa.concat_tables([table.slice(0, 1), table]).combine_chunks()
        table = padded.slice(1)
    if rng.random() < 0.3:
        return table.combine_chunks().to_batches()[0] if table.num_rows else table
    return table


def _other_form(table: pa.Table, rng: random.Random) -> Any:
    """Rows as people have them who do not think of Arrow."""
    form = rng.choice(["rows", "columns", "reader", "polars", "pandas"])
    try:
        listed = table.to_pylist()
    except OverflowError:  # a time that only Arrow can tell
        return table
    if form == "rows":
        first, *others = listed or [{}]  # one row has to name all columns
        found = [first, *({name: value for name, value in row.items() if value is not None} for row in others)]
        return found if table.num_rows else []
    if form == "columns":
        return {name: table.column(name).to_pylist() for name in table.column_names}
    if form == "reader":
        return _cut_into_chunks(table, rng).to_reader()
    if form == "polars" and not any(types.is_nested(type_) for type_ in table.schema.types):
        return pl.from_arrow(table)
    has_nan = any(types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py() for column in table.columns)
    if form == "pandas" and not has_nan:  # which pandas takes for a missing value
        return table.to_pandas(integer_object_nulls=True)
    return table


def _cut_into_chunks(table: pa.Table, rng: random.Random) -> pa.Table:
    cut = rng.randint(0, table.num_rows)
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def _other_type(column: pa.ChunkedArray, rng: random.Random) -> pa.ChunkedArray:
    """Another type that casts back without loss."""
    type_ = column.type
    if type_ == pa.string():
        return rng.choice([column.cast(pa.large_string()), column.combine_chunks().dictionary_encode()])
    if type_ == pa.binary():
        return column.cast(pa.large_binary())
    if types.is_integer(type_):
        for narrow in (pa.int16(), pa.int32(), pa.int64()):
            try:
                return column.cast(narrow)
            except pa.ArrowInvalid:
                continue
    return column


def watermark_argument(case: Case, watermark: Watermark, rng: random.Random) -> object:
    """A watermark as a caller gives it: microseconds, or a datetime where event times are timestamps."""
    if watermark is None or case.time_is_int or rng.random() < 0.5:
        return watermark
    if isinstance(watermark, dict):
        return {name: _moment(case, value) for name, value in watermark.items()}
    return _moment(case, watermark)


def _moment(case: Case, microseconds: int) -> datetime.datetime:
    moment = EPOCH + datetime.timedelta(microseconds=microseconds)
    return moment if case.zone is None else moment.replace(tzinfo=datetime.timezone.utc)
