"""The demo's job on Spark: a session that keeps quiet, the join batch by batch, and the same join by Spark SQL.

The application shows the results: it gives folders of Parquet files to this module and gets plain records back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from midstream.errors import SparkError
from midstream.spark import Progress, cell_reports, compat, control, sql
from midstream.spark.jobs.session import quiet_interrupts

#: With more cores than this, batches of the demo's size would be all overhead.
MOST_CORES = 4
_TRIGGER = "1 second"
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Batch:
    """A batch that is done. `seconds` is all that Spark needed for it; `migrations` are of this batch, by cell."""

    number: int
    rows_in: int
    rows_out: int
    late: int
    seconds: float
    engine_seconds: float
    state_bytes: int
    plans: Mapping[int, str]
    migrations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows_in / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Comparison:
    """How many results the batch join has, how many of them the streaming join lacks, and how many it has in excess."""

    expected: int
    missing: int
    extra: int

    @property
    def ok(self) -> bool:
        return self.missing == 0 and self.extra == 0


@dataclass(frozen=True)
class JobFolder:
    """The folder of everything that a job writes."""

    folder: Path

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def control(self) -> Path:
        """The folder through which the running join gets commands."""
        return self.folder / "control"


@dataclass(frozen=True)
class Job(JobFolder):
    """A join over Parquet files, one file of each stream a batch."""

    streams: Sequence[str]
    text: str
    event_time: str
    delay: str
    plan: str
    batches: int


@contextlib.contextmanager
def quiet_session(folder: Path, log: IO[bytes], options: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A local session whose JVM and workers write to a log, and whose files are in a folder.

    A process has at most one JVM: where there is a session already, it is used and left as it is.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it tells of every connection that an interrupt cuts
    if compat.has_jvm():
        yield SparkSession.builder.getOrCreate().newSession()
        return
    cores = max(1, min(os.cpu_count() or 1, MOST_CORES))
    conf = SparkConf().setMaster(f"local[{cores}]").setAppName("Midstream demo")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    conf.setAll(list((settings | dict(options or {})).items()))
    gateway = compat.start_jvm(conf, log)
    try:
        with quiet_interrupts():
            context = SparkContext(conf=conf, gateway=gateway)
        context.setLogLevel("ERROR")
        yield SparkSession(context)
    finally:
        compat.end_jvm(gateway)


def run(session: SparkSession, job: Job) -> Iterator[Batch | None]:
    """Run the job to the end of its files; every batch when it is done, and None now and then in between."""
    frames = {}
    for stream in job.streams:
        path = str(job.folder / stream)
        schema = session.read.parquet(path).schema
        frames[stream] = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)
    joined = sql(job.text, frames, job.event_time, job.delay, plan=job.plan, control=str(job.control))
    query = (
        joined.writeStream.format("parquet")
        .option("checkpointLocation", str(job.folder / "checkpoint"))
        .trigger(processingTime=_TRIGGER)
        .start(str(job.results))
    )
    try:
        seen, done = -1, 0
        while done < job.batches:
            is_running = query.isActive
            for progress in query.recentProgress:
                if progress.batchId > seen:
                    seen = progress.batchId
                    if progress.numInputRows:
                        done += 1
                        yield batch_of(progress)
            yield None
            problem = query.exception()
            if problem is not None:
                raise SparkError(f"demo: the streaming query failed: {_first_line(str(problem))}")
            if not is_running and done < job.batches:
                raise SparkError(f"demo: the streaming query ended after {done} of {job.batches} batches")
            time.sleep(_LOOK_SECONDS)
        query.processAllAvailable()  # a batch without rows may follow for the watermark; let it end in peace
    finally:
        with contextlib.suppress(Exception):  # the session ends it otherwise
            query.stop()


def migrate(job: Job, plan: str) -> str:
    """Tell the running join to change to a plan. Returns the command that does the same in a terminal."""
    control(job.control).migrate(plan, wait=False)
    return f"midstream control {job.control} migrate {shlex.quote(plan)}"


def batch_of(progress: Any) -> Batch:
    """A batch, from Spark's progress of it."""
    reports = cell_reports(progress)
    told = Progress.of(reports)
    return Batch(
        number=progress.batchId,
        rows_in=progress.numInputRows,
        rows_out=told.rows_out,
        late=sum(told.late.values()),
        seconds=progress.durationMs["triggerExecution"] / 1000,
        engine_seconds=told.seconds["engine"],
        state_bytes=told.state_bytes,
        plans=told.plans,
        migrations=told.migrations,
    )


def compare(session: SparkSession, job: Job, batch_sql: str) -> Comparison:
    """The results of the job against those of a batch join, as multisets."""
    session = session.newSession()
    # The intermediate results of Spark SQL need more partitions than there are cells.
    session.conf.set("spark.sql.shuffle.partitions", "8")
    for stream in job.streams:
        session.read.parquet(str(job.folder / stream)).createOrReplaceTempView(stream)
    found = session.read.parquet(str(job.results))
    path = str(job.folder / "expected")
    session.sql(batch_sql).write.parquet(path)
    expected = session.read.parquet(path)
    return Comparison(expected.count(), expected.exceptAll(found).count(), found.exceptAll(expected).count())


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
