"""What Spark does behind the stateful operator for a query with steps, without Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.operators.parts import rounds_of
from midstream.spark.parcels.finishing import make_last_round, make_round, make_splitter
from midstream.spark.parcels.packing import make_opener
from midstream.spark.routing.cell_numbers import spark_hash


def put_together(
    query: Query, output: Sequence[tuple[int, bytes]], rng: random.Random, with_ids: bool = False
) -> list[pa.RecordBatch]:
    """The results of a batch whose cells gave out these parcels; partitions and the order of parcels are random."""
    schema = query.output_schema
    if with_ids:
        schema = schema.append(pa.field("result_id", pa.string()))
    columns = list(zip(*output, strict=True)) or [(), ()]
    cells, parcels = (pa.array(column, type) for column, type in zip(columns, (pa.int32(), pa.binary()), strict=True))
    results = pa.record_batch([cells, pa.array([0] * len(cells), pa.int64()), parcels], ["cell", "batch", "parcel"])
    if query.step is None:
        return list(make_opener(schema, with_ids)(iter([results])))
    rounds = rounds_of(query)
    counts = [1 if current.is_in_one_place else rng.randrange(1, 4) for current in rounds]
    batches = list(make_splitter(rounds[0], counts[0])(iter([results])))
    for place, current in enumerate(rounds):
        last = place + 1 == len(rounds)
        if last:
            work = make_last_round(current, schema, with_ids)
        else:
            work = make_round(current, rounds[place + 1], counts[place + 1])
        batches = [
            batch for part in _shuffle(batches, counts[place], rng) for batch in work(iter(part)) if batch.num_rows
        ]
    return batches


def _shuffle(batches: list[pa.RecordBatch], partitions: int, rng: random.Random) -> list[list[pa.RecordBatch]]:
    found: list[list[pa.RecordBatch]] = [[] for _ in range(partitions)]
    for batch in rng.sample(batches, len(batches)):
        for place in rng.sample(range(batch.num_rows), batch.num_rows):
            found[spark_hash(batch.column(0)[place].as_py()) % partitions].append(batch.slice(place, 1))
    return found
