"""A pushed table -> the columns that the query reads, in the types that its schema says, or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pat

from midstream.cql.model import without_zones
from midstream.cql.plain import has_encoded, plain_type
from midstream.cql.zones import instants
from midstream.engine.input.casting import CAST_ERRORS, cast_without_loss, find_first_failure
from midstream.errors import InputError
from midstream.state import sizes
from midstream.state.arrow import chunks_of
from midstream.state.sizes import can_be_large, wide_type
from midstream.tables import ARROW_TABLES

_SHOWN = 80


class TableBinding:
    """Finds the needed columns of a stream's or table's pushes; remembers where for the last schema seen.

    Those of `computed_text` are text that the query computes with, which has to be UTF-8.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        needed: Sequence[str],
        assumed_zones: Mapping[str, str] | None = None,
        computed_text: Collection[str] = (),
    ):
        self._name = name
        self._needed = tuple(needed)
        self._zones = {column: zone for column, zone in (assumed_zones or {}).items() if column in needed}
        self._computed_text = tuple(column for column in needed if column in computed_text)
        schema = without_zones(schema, self._zones)
        self._types = {column: plain_type(schema.field(column).type) for column in needed}
        #: The types of the columns whose values can be large.
        self.large = {column: type for column, type in self._types.items() if can_be_large(type)}
        self._seen: pa.Schema | None = None
        #: Each needed column with its place in that schema, and whether its type there is the wanted one.
        self._places: tuple[tuple[str, int, bool], ...] = ()

    def columns(self, table: pa.Table | pa.RecordBatch) -> dict[str, pa.Array]:
        """The needed columns, each one contiguous array of its plain type, or of the wide one where it is too long."""
        if not isinstance(table, ARROW_TABLES):
            raise InputError(f"push: {self._name!r} got {type(table).__name__}; give a pyarrow Table or RecordBatch")
        schema = table.schema
        if self._seen is None or not schema.equals(self._seen):
            self._places = tuple(self._locate(schema, column) for column in self._needed)
            self._seen = schema
        found = {}
        for column, place, is_wanted in self._places:
            chunks = chunks_of(table.column(place))
            found[column] = chunks[0] if is_wanted and len(chunks) == 1 else self._unite(column, chunks)
        for column in self._computed_text:
            self._check_text(column, found[column])
        for column, zone in self._zones.items():
            found[column] = instants(found[column], zone)
        return found

    def _locate(self, schema: pa.Schema, column: str) -> tuple[str, int, bool]:
        place = self._place(schema, column)
        return column, place, schema.field(place).type == self._types[column]

    def _place(self, schema: pa.Schema, column: str) -> int:
        places = schema.get_all_field_indices(column)
        if not places:
            places = [at for at, name in enumerate(schema.names) if name.casefold() == column.casefold()]
        if len(places) == 1:
            return int(places[0])
        if not schema.names:
            raise InputError(f"push: {self._name!r} has no columns; if it has no rows now, leave it out of this push")
        problem = "has no column" if not places else "has more than one column"
        raise InputError(f"push: {self._name!r} {problem} {column!r}; columns given: {', '.join(schema.names)}")

    def _unite(self, column: str, chunks: list[pa.Array]) -> pa.Array:
        wanted = self._types[column]
        if column in self.large and not _fit(chunks):
            wanted = wide_type(wanted)
        parts = [self._cast(column, chunk, wanted) for chunk in chunks]
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays(parts) if parts else pa.array([], wanted)

    def _cast(self, column: str, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        if values.type == wanted:
            return values
        try:
            return cast_without_loss(values, wanted)
        except CAST_ERRORS as problem:
            declared = self._types[column]
            raise InputError(
                f"push: column {column!r} of {self._name!r} is {values.type} and does not cast to {declared} "
                f"without loss ({problem}{_find_example(values, wanted)}); "
                f"the schema given to the query says {declared}"
            ) from None

    def _check_text(self, column: str, values: pa.Array) -> None:
        """Refuse text that is not UTF-8, as some writers of Parquet leave it."""
        try:
            _validate(values)
        except pa.ArrowInvalid:
            place = find_first_failure(values, _validate)
            raw = pa.large_binary() if pat.is_large_string(values.type) else pa.binary()
            octets = values.slice(place, 1).cast(raw)[0]
            raise InputError(
                f"push: column {column!r} of {self._name!r} is text that is not UTF-8: {_shorten(str(octets))} in row "
                f"{place}; the query computes with it, so repair it, or declare bytes: CAST(... AS STRING) gives null"
            ) from None


def _validate(text: pa.Array) -> None:
    text.validate(full=True)


def _fit(chunks: list[pa.Array]) -> bool:
    """Whether values surely fit into one array; how large encoded ones are shows when they are decoded."""
    if chunks and has_encoded(chunks[0].type):
        return False
    return bool(sum(chunk.nbytes for chunk in chunks) <= sizes.PIECE_BYTES)


def _find_example(values: pa.Array, wanted: pa.DataType) -> str:
    """The first value that does not cast, for a message."""
    if len(values) == 0:
        return ""
    place = find_first_failure(values, lambda part: cast_without_loss(part, wanted))
    try:
        shown = str(values[place])
    except (OverflowError, ValueError):  # Python has no such moment
        shown = " ".join(values.slice(place, 1).to_string().split())
    return f": {_shorten(shown)} in row {place}"


def _shorten(shown: str) -> str:
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
