"""Cells' parts of results -> results: the functions behind the stateful operator for a query with steps.

::

    cells: parts as parcels -> split by key -> shuffle -> first round -> results
                                                             |
                                                             split by row -> shuffle -> second round -> results

All cells close a step in the same batch, so a batch has all parts of its steps, and nothing has to be kept from one
batch to the next. Parts travel as parcels, which Spark's shuffle carries as a few rows of bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from midstream.engine.operators.rounds import PartsToSpread, Round
from midstream.spark.parcels.encoding import from_wire, note, noted, to_wire
from midstream.spark.parcels.packing import Mapper, gather, open_results
from midstream.spark.parcels.result_ids import name_rows
from midstream.spark.routing.cell_numbers import cell_number
from midstream.spark.routing.content import make_plain, row_codes
from midstream.spark.spec import STEP
from midstream.spark.task import settle

#: Parcels are small enough that as many of them as Spark hands over at once stay below the 2 GiB of an Arrow array.
PART_BYTES = 128 << 10
PARTS = pa.schema({"partition": pa.int32(), "parcel": pa.binary()})
PARTS_DDL = "partition int, parcel binary"

Tables = Iterable[pa.Table]


def make_splitter(following: Round, partitions: int) -> Mapper:
    """The function for `mapInArrow` that splits the operator's output for the first round."""

    def split_results(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        yield from _split((table for _, table in open_results(batches)), following, partitions)

    return split_results


def make_round(current: Round, following: Round, partitions: int) -> Mapper:
    """The function for `mapInArrow` that runs a round and splits its rows for the next one."""
    return _over_parts(lambda parts: _split(_finish(current, parts), following, partitions))


def make_last_round(current: Round, schema: pa.Schema, with_ids: bool) -> Mapper:
    """The function for `mapInArrow` that runs the last round: results of this schema, with ids on request."""

    def finish(parts: Tables) -> Iterator[pa.RecordBatch]:
        results = (table.replace_schema_metadata() for table in _finish(current, parts))
        for table in _with_names(results) if with_ids else results:
            yield from (table if table.schema.equals(schema) else table.cast(schema)).to_batches()

    return _over_parts(finish)


def _finish(current: Round, parts: Tables) -> Iterator[pa.Table]:
    """The rows of a round, in the steps that the parts were found in; cells tell them if the query does not know."""
    given = iter(parts)
    first = next(given, None)
    if first is None:
        return
    step = noted(first, STEP)
    current = current if step is None else current.in_steps_of(step)
    for table in current.finish(itertools.chain([first], given)):
        yield note(table, STEP, step)


def _with_names(results: Tables) -> Iterator[pa.Table]:
    tables = list(results)
    return name_rows(tables) if tables else iter(())


def _over_parts(work: Callable[[Tables], Iterator[pa.RecordBatch]]) -> Mapper:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        parcels = (parcel for batch in batches for parcel in batch.column("parcel"))
        yield from work(gather(from_wire(memoryview(parcel.as_buffer())) for parcel in parcels))

    return run


def _split(tables: Tables, following: Round, partitions: int) -> Iterator[pa.RecordBatch]:
    """Rows as parcels for partitions: what has to come together goes to one."""
    numbers = [cell_number(partition) for partition in range(partitions)]
    for parts in (parts for table in gather(tables) for parts in following.spread(table)):
        table = parts.table
        places = find_partitions(parts, partitions)
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(partitions + 1))
        ordered = table.take(pa.array(order))
        rows = max(1, int(table.num_rows * PART_BYTES / max(table.nbytes, 1)))
        parcels = [
            (numbers[partition], to_wire(ordered.slice(begin, min(rows, bounds[partition + 1] - begin))))
            for partition in range(partitions)
            for begin in range(bounds[partition], bounds[partition + 1], rows)
        ]
        yield pa.record_batch([list(column) for column in zip(*parcels, strict=True)], schema=PARTS)


def find_partitions(parts: PartsToSpread, partitions: int) -> np.ndarray:
    """The partition of each part: the same for parts whose columns are equal, as those of groups are."""
    length = parts.table.num_rows
    if partitions == 1:
        return np.zeros(length, np.uint16)
    columns = [make_plain(column) for column in parts.columns]
    return (row_codes(columns, length).view(np.uint64) % np.uint64(partitions)).astype(np.uint32)
