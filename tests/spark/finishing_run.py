"""What Spark does behind the stateful operator for a query with steps, without Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from midstream.spark.parcels.finishing import make_last_round, make_round, make_splitter
from midstream.spark.routing.cell_numbers import spark_hash
from midstream.spark.spec import JoinSpec


def put_together(
    spec: JoinSpec, output: Sequence[tuple[int, bytes]], rng: random.Random, with_ids: bool = False
) -> list[pa.RecordBatch]:
    """The results of a batch whose cells gave out these parcels; partitions and the order of parcels are random."""
    schema = spec.query.output_schema
    if with_ids:
        schema = schema.append(pa.field("result_id", pa.string()))
    counts = [rng.randrange(1, 4) if current.together else 1 for current in spec.rounds]
    columns = list(zip(*output, strict=True)) or [(), ()]
    arrays = [pa.array(column, type) for column, type in zip(columns, (pa.int32(), pa.binary()), strict=True)]
    results = pa.record_batch(arrays, ["cell", "parcel"])
    batches = list(make_splitter(spec.rounds[0], counts[0])(iter([results])))
    for place, current in enumerate(spec.rounds):
        last = place + 1 == len(spec.rounds)
        if last:
            work = make_last_round(current, schema, with_ids)
        else:
            work = make_round(current, spec.rounds[place + 1], counts[place + 1])
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
