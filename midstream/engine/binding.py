"""A pushed table -> the columns that the query reads, in the types that its schema says, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from midstream.errors import InputError, did_you_mean
from midstream.state.arrow import single


def value_type(type: pa.DataType) -> pa.DataType:
    """The type of the values: dictionary encoding does not count."""
    return type.value_type if pat.is_dictionary(type) else type


class TableBinding:
    """Finds the needed columns of a stream's or table's pushes; remembers where for the last schema seen."""

    def __init__(self, name: str, schema: pa.Schema, needed: Sequence[str]):
        self._name = name
        self._needed = tuple(needed)
        self._types = {column: value_type(schema.field(column).type) for column in needed}
        self._seen: pa.Schema | None = None
        self._places: dict[str, int] = {}

    def columns(self, table: pa.Table | pa.RecordBatch) -> dict[str, pa.Array]:
        """The needed columns, each one contiguous array of the declared type."""
        if not isinstance(table, pa.Table | pa.RecordBatch):
            raise InputError(f"push: {self._name!r} got {type(table).__name__}; give a pyarrow Table or RecordBatch")
        if self._seen is None or (table.schema is not self._seen and not table.schema.equals(self._seen)):
            self._places = {column: self._place(table.schema, column) for column in self._needed}
            self._seen = table.schema
        return {column: self._cast(column, single(table.column(place))) for column, place in self._places.items()}

    def _place(self, schema: pa.Schema, column: str) -> int:
        places = schema.get_all_field_indices(column)
        if not places:
            places = [at for at, name in enumerate(schema.names) if name.lower() == column.lower()]
        if len(places) == 1:
            return int(places[0])
        problem = "has no column" if not places else "has more than one column"
        hint = "" if places else did_you_mean(column, schema.names)
        raise InputError(f"push: {self._name!r} {problem} {column!r}; {hint}columns given: {', '.join(schema.names)}")

    def _cast(self, column: str, values: pa.Array) -> pa.Array:
        wanted = self._types[column]
        if values.type == wanted:
            return values
        try:
            return cast_without_loss(values, wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as problem:
            raise InputError(
                f"push: column {column!r} of {self._name!r} is {values.type} and does not cast to {wanted} "
                f"without loss ({problem}); the schema given to the query says {wanted}"
            ) from None


_FAMILIES = (
    lambda type: pat.is_integer(type) or pat.is_floating(type) or pat.is_decimal(type),
    lambda type: pat.is_string(type) or pat.is_large_string(type) or pat.is_string_view(type),
    lambda type: (
        pat.is_binary(type) or pat.is_large_binary(type) or pat.is_fixed_size_binary(type) or pat.is_binary_view(type)
    ),
    lambda type: pat.is_timestamp(type) and type.tz is None,
    lambda type: pat.is_timestamp(type) and type.tz is not None,
    pat.is_date,
    pat.is_time,
    pat.is_duration,
    pat.is_nested,
)


def cast_without_loss(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values in another type of the same family, or an Arrow error if one of them would change."""
    if pat.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == wanted:
        return values
    if not pat.is_null(values.type) and not any(member(values.type) and member(wanted) for member in _FAMILIES):
        raise pa.ArrowTypeError("another kind of value")
    cast = values.cast(wanted)
    if pat.is_floating(wanted) and not pat.is_null(values.type):
        back = cast.cast(values.type)
        kept = pc.equal(back, values) if not pat.is_floating(values.type) else _same_floats(back, values)
        if not pc.all(pc.fill_null(kept, True)).as_py():
            raise pa.ArrowInvalid("a value would be rounded")
    return cast


def _same_floats(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
