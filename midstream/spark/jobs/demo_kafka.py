"""The Kafka demo's job on Spark: topics are joined into Parquet files, and a second query copies those to a topic.

::

    orders ──┐            exactly once              at least once
    payments ┼─ join ─────────────────▶ Parquet ─────────────────▶ topic `results`
    shipments┘                          result_id                  key = result_id

Why two queries: Spark's file sink keeps a list of the files of each batch, so a batch that is run again counts once.
Its Kafka sink has no such list. Results carry a `result_id`, which is the same when they are written again, so a reader
of the topic can drop the copies.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from midstream.errors import SparkError
from midstream.spark import control, sql
from midstream.spark.jobs.demo import Batch, Comparison, JobFolder, batch_of
from midstream.spark.parcels.result_ids import COLUMN

RESULTS = "results"
_PARTITIONS = 2
_LOOK_SECONDS = 0.1
#: Reports of the last batch come a little after it.
_REPORT_SECONDS = 30.0


@dataclass(frozen=True)
class Topic:
    """A topic of JSON objects: their fields, event time as microseconds in `ts`, and the field that is the key."""

    name: str
    schema: str
    key: str


@dataclass(frozen=True)
class Job(JobFolder):
    """A join of topics. `servers` is the broker's address."""

    servers: str
    topics: Sequence[Topic]
    text: str
    delay: str
    plan: str
    #: At most so many rows of a topic in a batch, also after a standstill.
    most_rows: int


@dataclass(frozen=True)
class PartFed:
    """A part of the input is in the topics."""

    part: int
    rows: int


@dataclass(frozen=True)
class PlanChange:
    """All cells run the new plan and miss nothing: `seconds` after the command was given."""

    seconds: float


@dataclass(frozen=True)
class CopyCounts:
    """How many messages the topic of results has, how many different results these are, and how many it lacks."""

    messages: int
    results: int
    missing: int

    @property
    def ok(self) -> bool:
        return self.missing == 0


def options(jars: Sequence[Path]) -> dict[str, str]:
    """What a session needs for Kafka."""
    return {"spark.jars": ",".join(map(str, jars))}


# The parts of the job ------------------------------------------------------------------------------------------------


def feed(session: SparkSession, job: Job, part: int) -> int:
    """Send a part of the input, a Parquet file of each stream, to its topics; the number of rows."""
    messages: DataFrame | None = None
    for topic in job.topics:
        rows = session.read.parquet(str(input_file(job, topic.name, part)))
        own = rows.select(
            F.lit(topic.name).alias("topic"),
            F.col(topic.key).cast("string").alias("key"),
            F.to_json(F.struct(*rows.columns)).alias("value"),
        )
        messages = own if messages is None else messages.union(own)
    assert messages is not None
    messages.write.format("kafka").option("kafka.bootstrap.servers", job.servers).save()
    return messages.count()


def input_file(job: Job, stream: str, part: int) -> Path:
    return job.folder / "input" / stream / f"{part:03d}.parquet"


def join_topics(session: SparkSession, job: Job) -> DataFrame:
    """The join of the topics, from their beginning."""
    frames = {
        topic.name: _rows(session.readStream, job, topic, maxOffsetsPerTrigger=job.most_rows) for topic in job.topics
    }
    frame: DataFrame = sql(
        job.text,
        frames,
        "ts",
        job.delay,
        partitions=_PARTITIONS,
        plan=job.plan,
        control=str(job.control),
        result_id=True,
    )
    return frame


def _rows(reader: Any, job: Job, topic: Topic, **more: Any) -> DataFrame:
    """The rows of a topic, read as a stream or at once."""
    reader = reader.format("kafka").option("kafka.bootstrap.servers", job.servers).option("subscribe", topic.name)
    messages: DataFrame = reader.options(startingOffsets="earliest", **more).load()
    rows = messages.select(F.from_json(F.col("value").cast("string"), topic.schema).alias("row")).select("row.*")
    return rows.withColumn("ts", F.timestamp_micros("ts"))


def start_join(frame: DataFrame, job: Job) -> Any:
    """Start writing the results to Parquet files."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(job.folder / "checkpoint"))
    return writer.start(str(job.results))


def start_copy(session: SparkSession, schema: Any, job: Job) -> Any:
    """Start copying the Parquet files to a topic. The join has to be started before: it makes the list of its files."""
    job.results.mkdir(parents=True, exist_ok=True)
    rows = session.readStream.schema(schema).parquet(str(job.results))
    messages = rows.select(F.col(COLUMN).alias("key"), F.to_json(F.struct(*rows.columns)).alias("value"))
    writer = messages.writeStream.format("kafka").option("kafka.bootstrap.servers", job.servers)
    return writer.option("topic", RESULTS).option("checkpointLocation", str(job.folder / "checkpoint-copy")).start()


# The whole of it -----------------------------------------------------------------------------------------------------


def run(
    session: SparkSession, job: Job, parts: int, change_at: int, plan: str
) -> Iterator[PartFed | Batch | PlanChange | None]:
    """Feed the topics part by part while they are joined, and change the plan after one of them.

    Yields what happens, and None now and then. A change completes only while new rows come, because they push the
    older rows out of the windows. So it is an error if the input ends first.
    """
    assert 0 < change_at < parts
    sent = last = feed(session, job, 0)  # topics have to be there when a query over them starts
    taken = 0
    yield PartFed(0, sent)
    frame = join_topics(session, job)
    queries = [start_join(frame, job)]
    seen = -1
    change: _Task | None = None
    is_told = False
    deadline = math.inf
    try:
        queries.append(start_copy(session, frame.schema, job))
        rest: _Task | None = None
        part = 1
        while rest is None or rest.is_alive() or not is_told:
            if part < parts and sent - taken <= last:  # at most one part waits, so that the change is half-way
                last = feed(session, job, part)
                sent += last
                yield PartFed(part, last)
                if part == change_at:
                    change = _Task(lambda: control(job.control).migrate(plan, until_complete=True))
                part += 1
            elif part == parts and rest is None:
                rest = _Task(lambda: [query.processAllAvailable() for query in queries])
            else:
                time.sleep(_LOOK_SECONDS)
            for query in queries:
                if (problem := query.exception()) is not None:
                    raise SparkError(f"demo: a streaming query failed: {str(problem).strip().splitlines()[0]}")
            for progress in queries[0].recentProgress:
                if progress.batchId > seen:
                    seen = progress.batchId
                    taken += progress.numInputRows
                    if progress.numInputRows:
                        yield batch_of(progress)
            if change is not None and not is_told and not change.is_alive():
                is_told = True
                yield PlanChange(change.result())
            if rest is None or rest.is_alive():
                deadline = time.monotonic() + _REPORT_SECONDS
            elif not is_told and time.monotonic() > deadline:
                raise SparkError("demo: the input ended before all cells had completed the new plan")
            yield None
        rest.result()
    finally:
        for query in queries:
            with contextlib.suppress(Exception):  # the session ends it otherwise
                query.stop()


class _Task(threading.Thread):
    """A background thread for a call that waits; the loop that shows what happens goes on, and never joins it."""

    def __init__(self, work: Callable[[], object]):
        super().__init__(daemon=True)
        self._work = work
        self._problem: Exception | None = None
        self._began = time.monotonic()
        self._seconds = 0.0
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except Exception as problem:
            self._problem = problem
        self._seconds = time.monotonic() - self._began

    def result(self) -> float:
        """The seconds that it took."""
        if self._problem is not None:
            raise self._problem
        return self._seconds


# Checks --------------------------------------------------------------------------------------------------------------


def compare(session: SparkSession, job: Job, batch_sql: str) -> Comparison:
    """The Parquet files against a batch join of everything in the topics, as multisets."""
    session = session.newSession()
    for topic in job.topics:
        _rows(session.read, job, topic).createOrReplaceTempView(topic.name)
    found = session.read.parquet(str(job.results)).drop(COLUMN)
    expected = session.sql(batch_sql).cache()
    return Comparison(expected.count(), expected.exceptAll(found).count(), found.exceptAll(expected).count())


def read_results(session: SparkSession, job: Job) -> DataFrame:
    """The keys and values in the topic of results."""
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", job.servers).option("subscribe", RESULTS)
    return reader.load().selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")


def count_copies(session: SparkSession, job: Job) -> CopyCounts:
    """The topic of results against the Parquet files."""
    sent = read_results(session, job).select("key").cache()
    ids = session.read.parquet(str(job.results)).select(COLUMN)
    return CopyCounts(sent.count(), sent.distinct().count(), ids.exceptAll(sent.distinct()).count())


def last_plans(job: Job) -> Mapping[int, str]:
    """The plan of each cell, as of its last report."""
    return {cell: status.plan for cell, status in control(job.control).status().items()}
