"""Rows of Spark <-> parcels: the two functions around the stateful operator.

Before it, each stream's record batches are split by cell and leave as a few large rows, one parcel each: Spark then
shuffles and hands over parcels instead of rows. After it, results are taken out of their parcels again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from midstream.spark.parcels.encoding import from_wire, to_wire
from midstream.spark.parcels.result_ids import ResultIds
from midstream.spark.parcels.spool import parcels_behind
from midstream.spark.routing.cell_numbers import cell_number, spark_hash
from midstream.spark.routing.router import Router
from midstream.spark.spec import JoinSpec
from midstream.spark.task import is_first_task, settle

#: Rows are split and packed as soon as so many rows, or so many bytes of rows, have come.
ROWS_AT_ONCE = 1 << 18
BYTES_AT_ONCE = 64 << 20
#: Parcels travel in batches of so many, or of so many bytes.
PARCELS_AT_ONCE = 64
PACKED = pa.schema(
    {
        "cell": pa.int32(),
        "lane": pa.int32(),
        "home": pa.int64(),
        "dropped": pa.int64(),
        "rejected": pa.int64(),
        "parcel": pa.binary(),
    }
)
PACKED_DDL = "cell int, lane int, home bigint, dropped bigint, rejected bigint, parcel binary"
#: The lane of a packed row without rows of a stream; it may have the newest event time of the stream instead.
NO_LANE = -2
#: What the operator gives out: parcels of results with the number of their batch, and one report for each cell.
RESULT_DDL = "cell int, batch bigint, parcel binary, report string"


@dataclass(frozen=True)
class NewestTime:
    """The latest event time that a source's task has seen, in microseconds; None if it has seen none."""

    source: str
    newest: int | None

    def to_bytes(self) -> bytes:
        return json.dumps([self.source, self.newest]).encode()

    @classmethod
    def from_bytes(cls, parcel: bytes) -> NewestTime:
        return cls(*json.loads(parcel))


#: As `PACKED`, with the number of the cell.
PackedRow = tuple[int, int, int, int, int, bytes]


def pack_rows(rows: Sequence[PackedRow]) -> pa.RecordBatch:
    cells, *others = zip(*rows, strict=True)
    columns = [[cell_number(cell) for cell in cells], *others]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, PACKED, strict=True)], schema=PACKED
    )


def call_cells(cells: int) -> Iterator[pa.RecordBatch]:
    """An empty row for every cell, from the first packing task of a batch, so that Spark calls every cell.

    So each cell knows the watermark of the batch before, and a checkpoint which was made with another routing is
    noticed before any output, even if the cells that get rows are new.
    """
    if is_first_task():
        yield pack_rows([(cell, NO_LANE, 0, 0, 0, b"") for cell in range(cells)])


Mapper = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def make_packer(spec: JoinSpec, source: str, names: Sequence[str]) -> Mapper:
    """The function for `mapInArrow` that packs the rows of a source, whose columns have these names."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = _router(spec, source)
        settle()
        yield from call_cells(spec.cells)
        for table in gather(batches):
            split = router.split(table.rename_columns(names))
            yield from pack_in_batches(
                (part.cell, part.lane, part.home, 0, 0, to_wire(part.rows)) for part in split.parts
            )
            if split.newest is not None or split.rejected or split.dropped:
                newest = NewestTime(source, split.newest).to_bytes()
                yield pack_rows([(0, NO_LANE, 0, split.dropped, split.rejected, newest)])

    return pack


def pack_in_batches(rows: Iterable[PackedRow]) -> Iterator[pa.RecordBatch]:
    """Rows in batches of a few, or of one if it is large: the copies of a parcel for all cells may not fit into one."""
    held: list[PackedRow] = []
    size = 0
    for row in rows:
        parcel = row[-1]
        if held and (len(held) == PARCELS_AT_ONCE or size + len(parcel) > BYTES_AT_ONCE):
            yield pack_rows(held)
            held, size = [], 0
        held.append(row)
        size += len(parcel)
    if held:
        yield pack_rows(held)


_routers: dict[tuple[str, str], Router] = {}


def _router(spec: JoinSpec, source: str) -> Router:
    """The router of a source. It is kept, because a worker lives for many tasks."""
    key = (spec.identity, source)
    if key not in _routers:
        if len(_routers) >= 64:
            _routers.clear()
        _routers[key] = Router(spec.routing, source)
    return _routers[key]


def gather(pieces: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[pa.Table]:
    """Small record batches or tables in larger tables; a large one becomes a table by itself.

    So large ones are not copied, and the columns of several together always fit into one array.
    """
    held: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        if piece.num_rows == 0:
            continue
        if held and (rows >= ROWS_AT_ONCE or size + piece.nbytes > BYTES_AT_ONCE):
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
        held.append(piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece]))
        rows += piece.num_rows
        size += piece.nbytes
    if held:
        yield pa.concat_tables(held)


def make_opener(schema: pa.Schema, with_ids: bool = False) -> Mapper:
    """The function for `mapInArrow` that unpacks the operator's output: results of this schema, with ids on request."""

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        ids = ResultIds() if with_ids else None
        for origin, table in open_results(batches):
            table = table if ids is None else ids.add_to(*origin, table)
            yield from (table if table.schema.equals(schema) else table.cast(schema)).to_batches()

    return unpack


class Origin(NamedTuple):
    """Where a result comes from: the cell, and which of the cell's batches it was."""

    cell: int
    batch: int


def open_results(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Origin, pa.Table]]:
    """The tables in the operator's output, each with its origin."""
    for batch in batches:
        for row, parcel in enumerate(batch.column("parcel")):
            if parcel.is_valid:
                origin = Origin(spark_hash(batch.column("cell")[row].as_py()), batch.column("batch")[row].as_py())
                for content in parcels_behind(memoryview(parcel.as_buffer())):
                    yield origin, from_wire(content)
