"""Rows as parcels: tables <-> bytes.

A parcel has to be small, because its price is per byte: in the state store, and five times on the way between Spark's
workers and a cell. Integers and timestamps become differences or offsets of as few bytes as they need, and what remains
is compressed. It carries its format and a checksum. A parcel has the same bytes on the *wire* and in the *store*, so it
can be stored as it came; only on the wire it may have any size.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.errors import SparkError
from midstream.state.arrow import make_contiguous

FORMAT = 1
#: A stored parcel is split until it has at most so many bytes.
LARGEST_PARCEL = 16 << 20
_WORTH_A_TRY = 16
_MAGIC = b"MSP"
_HEAD = len(_MAGIC) + 1 + 4
_WIDTHS = (np.uint8, np.uint16, np.uint32)
_ENCODING = b"midstream"
_NOTE = b"midstream "


def note(table: pa.Table, name: str, number: int | None) -> pa.Table:
    """The table with a number that travels along in its parcels; None leaves it as it is."""
    return table if number is None else table.replace_schema_metadata({_NOTE + name.encode(): str(number).encode()})


def noted(table: pa.Table, name: str) -> int | None:
    """The number that a table was given under this name."""
    found = (table.schema.metadata or {}).get(_NOTE + name.encode())
    return None if found is None else int(found)


def to_wire(table: pa.Table | pa.RecordBatch) -> bytes:
    """A parcel that travels."""
    return _seal(_to_ipc(_narrow_table(table)))


def from_wire(parcel: bytes | memoryview) -> pa.Table:
    """What `to_wire` packed."""
    return _widen_table(pa.ipc.open_stream(memoryview(parcel)[_HEAD:]).read_all())


def column_of(parcel: bytes, name: str) -> pa.Array:
    """One column of what `to_wire` packed; the others are not touched."""
    content = memoryview(parcel)[_HEAD:]
    place = pa.ipc.read_schema(pa.py_buffer(content)).get_field_index(name)
    options = pa.ipc.IpcReadOptions(included_fields=[place])
    return make_contiguous(_widen_table(pa.ipc.open_stream(content, options=options).read_all())[name])


def to_stored(table: pa.Table, largest: int = LARGEST_PARCEL) -> Iterator[tuple[pa.Table, bytes]]:
    """Parcels that are stored, each with the rows that it holds."""
    # What is much too large is not packed as a whole first: text of more than 2 GiB cannot be.
    content = None if table.nbytes > _WORTH_A_TRY * largest else _to_ipc(_narrow_table(table))
    if table.num_rows > 1 and (content is None or len(content) + _HEAD > largest):
        half = table.num_rows // 2
        yield from to_stored(table.slice(0, half), largest)
        yield from to_stored(table.slice(half), largest)
        return
    yield table, _seal(_to_ipc(_narrow_table(table)) if content is None else content)


def from_stored(parcel: bytes, where: str) -> pa.Table:
    """What `to_stored` packed; `where` names the parcel in an error."""
    if parcel[: len(_MAGIC)] != _MAGIC or len(parcel) <= _HEAD:
        raise SparkError(f"{where}: these bytes are not a parcel of Midstream; restore the checkpoint from a copy")
    written = parcel[len(_MAGIC)]
    if written != FORMAT:
        raise SparkError(
            f"{where}: parcel of format {written}, but this Midstream reads format {FORMAT}; "
            "go on with the Midstream that wrote the checkpoint, or start with a new one"
        )
    if zlib.crc32(memoryview(parcel)[_HEAD:]) != int.from_bytes(parcel[_HEAD - 4 : _HEAD], "little"):
        raise SparkError(f"{where}: damaged parcel; restore the checkpoint from a copy")
    return from_wire(parcel)


def concatenate(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """One table of exactly this schema; further columns are left out."""
    cast = [table if table.schema.equals(schema) else table.select(schema.names).cast(schema) for table in tables]
    return pa.concat_tables(cast) if cast else schema.empty_table()


def _to_ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1), use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write(table)
    return sink.getvalue()


def _seal(content: pa.Buffer) -> bytes:
    return b"".join([_MAGIC, bytes([FORMAT]), zlib.crc32(content).to_bytes(4, "little"), content])


# Fewer bytes for integers --------------------------------------------------------------------------------------------


def _narrow_table(table: pa.Table | pa.RecordBatch) -> pa.Table:
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        values = make_contiguous(column)
        narrow = _narrow(values)
        if narrow is None:
            columns.append(values)
            fields.append(field.remove_metadata())
        else:
            array, how = narrow
            columns.append(array)
            fields.append(pa.field(field.name, array.type, metadata={_ENCODING: json.dumps(how)}))
    return pa.table(columns, schema=pa.schema(fields, metadata=_notes(table)))


def _notes(table: pa.Table | pa.RecordBatch) -> dict[bytes, bytes] | None:
    """What a table tells of itself by `note`; what others have written there does not travel."""
    return {key: value for key, value in (table.schema.metadata or {}).items() if key.startswith(_NOTE)} or None


def _narrow(values: pa.Array) -> tuple[pa.Array, dict[str, Any]] | None:
    """The same values in fewer bytes, and how: offsets from the smallest, or differences of neighbours."""
    is_integer = pat.is_int64(values.type) or pat.is_timestamp(values.type)
    if not is_integer or len(values) == 0 or values.null_count:
        return None
    numbers = values.view(pa.int64()).to_numpy()
    steps = np.diff(numbers)
    offset_width = _width(numbers)
    step_width = _width(steps) if len(steps) else None
    unit = values.type.unit if pat.is_timestamp(values.type) else None
    how = {"unit": unit, "zone": values.type.tz if unit else None}
    if step_width is not None and (offset_width is None or step_width().nbytes < offset_width().nbytes):
        smallest = int(steps.min())
        narrow = pa.array((steps - smallest).astype(step_width))
        first = pa.array(np.zeros(1, step_width))
        return pa.concat_arrays([first, narrow]), how | {"from": int(numbers[0]), "step": smallest}
    if offset_width is None:
        return None
    smallest = int(numbers.min())
    return pa.array((numbers - smallest).astype(offset_width)), how | {"from": smallest}


def _width(numbers: NDArray[np.int64]) -> Any | None:
    """The smallest type that holds all distances from the smallest number; None if that saves nothing."""
    span = int(numbers.max()) - int(numbers.min())
    return next((width for width in _WIDTHS if span <= np.iinfo(width).max), None)


def _widen_table(table: pa.Table) -> pa.Table:
    columns, names = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        how = (field.metadata or {}).get(_ENCODING)
        columns.append(column if how is None else _widen(make_contiguous(column), json.loads(how)))
        names.append(field.name)
    return pa.table(columns, names=names, metadata=_notes(table))


def _widen(values: pa.Array, how: dict[str, Any]) -> pa.Array:
    numbers = values.to_numpy().astype(np.int64)
    if "step" in how:
        numbers[1:] += how["step"]
        numbers[0] = how["from"]
        np.cumsum(numbers, out=numbers)
    else:
        numbers += how["from"]
    array = pa.array(numbers)
    return array if how["unit"] is None else array.view(pa.timestamp(how["unit"], how["zone"]))
