"""The types of a snapshot's columns against those of the query that goes on with it.

What predicates and event times read has been worked on already: rows were filtered and keys became codes by the types
of that time, so these types may not change. A column that only results read may become wider, if every value of the
one type is a value of the other. Types count in their plain form. Anything else is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.types as pat

from midstream.cql.model import Query, columns_of
from midstream.cql.plain import plain_type
from midstream.errors import SnapshotError


def types_as_json(query: Query) -> dict[str, str]:
    """The columns that each input reads, with their types, by alias, to compare with later."""
    return {relation.alias: _schema_text(_read_columns(query, number)) for number, relation in enumerate(query.inputs)}


def check_types(query: Query, stored: Mapping[str, str]) -> None:
    """Refuse a column whose values, as they were stored, are not those of the query's type."""
    for number, relation in enumerate(query.inputs):
        before = _schema(stored[relation.alias]) if relation.alias in stored else pa.schema([])
        fixed = _fixed_columns(query, number)
        for field in _read_columns(query, number):
            if field.name not in before.names or before.field(field.name).type == field.type:
                continue
            was = before.field(field.name).type
            reason = "its type may not change, because event times and predicates were read by it"
            if field.name not in fixed:
                if is_wider(was, field.type):
                    continue
                reason = "not every value of the one type is a value of the other"
            raise SnapshotError(
                f"restore: column {field.name!r} of {relation.alias!r} is {was} in the snapshot and {field.type} in "
                f"the query, and {reason}; keep {was} in its schema: rows of other types are cast when they are pushed"
            )


def is_wider(before: pa.DataType, now: pa.DataType) -> bool:
    """Whether every value of a type is one of another, which Arrow's cast makes of it.

    >>> is_wider(pa.int32(), pa.int64()), is_wider(pa.int64(), pa.float64()), is_wider(pa.uint32(), pa.int32())
    (True, False, False)
    """
    if pat.is_integer(before) and pat.is_integer(now):
        if pat.is_signed_integer(before) == pat.is_signed_integer(now):
            return bool(before.bit_width <= now.bit_width)
        return bool(pat.is_unsigned_integer(before) and before.bit_width < now.bit_width)
    if pat.is_floating(before) and pat.is_floating(now):
        return bool(before.bit_width <= now.bit_width)
    if pat.is_decimal(before) and pat.is_decimal(now):
        whole_digits = before.precision - before.scale, now.precision - now.scale
        return bool(before.scale <= now.scale and whole_digits[0] <= whole_digits[1])
    return any(before in family and now in family for family in _SAME_VALUES)


_SAME_VALUES = ((pa.string(), pa.large_string()), (pa.binary(), pa.large_binary()))


def in_type(values: pa.ChunkedArray, type: pa.DataType, alias: str, name: str) -> pa.ChunkedArray:
    """Stored values in the type that `check_types` has found to be wider."""
    try:
        return values if values.type == type else values.cast(type)
    except pa.ArrowException as problem:
        raise SnapshotError(
            f"restore: column {name!r} of {alias!r} is {values.type} in the snapshot and {type} in the query, "
            f"and does not cast ({problem}); keep {values.type} in its schema"
        ) from problem


def _fixed_columns(query: Query, number: int) -> set[str | None]:
    """The event time of an input and the columns that predicates read of it."""
    keys = [expr for key_class in query.key_classes for _, expr in key_class.keys]
    bands = [side for band in query.bands for side in (band.left, band.right)]
    thetas = [theta.expr for theta in query.thetas]
    read = [column for expr in (*query.inputs[number].filters, *keys, *bands, *thetas) for column in columns_of(expr)]
    return {query.inputs[number].event_time, *(column.name for column in read if column.input == number)}


def _read_columns(query: Query, number: int) -> pa.Schema:
    """All columns of an input that the query reads."""
    relation = query.inputs[number]
    given = query.schemas[relation.source]
    read = {*relation.columns, *_fixed_columns(query, number)}
    return pa.schema([pa.field(name, plain_type(given.field(name).type)) for name in given.names if name in read])


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
