"""The program that is submitted: joins three streams of files, and tells where its parts ran and what they imported.

It is a file on its own, as users submit them: it imports nothing of the tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import midstream.spark

STREAMS = ("a", "b", "c")
QUERY = """
    SELECT a.v AS a_v, b.v AS b_v, c.v AS c_v
    FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS], c [RANGE 4 SECONDS]
    WHERE a.k = b.k AND b.k = c.k
"""


def whereabouts(_: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
    """The executor, the interpreter and the package of a worker."""
    import os

    from pyspark import SparkFiles

    import midstream

    executor = Path(SparkFiles.getRootDirectory()).resolve().as_posix() + f" {os.getppid()}"
    yield executor, sys.executable, str(midstream.__file__)


def main(folder: Path) -> None:
    spark = SparkSession.builder.appName("midstream cluster test").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.schema("k long, v long, ts timestamp").option("maxFilesPerTrigger", 1)
    streams = {name: reader.parquet(str(folder / "input" / name)) for name in STREAMS}
    joined = midstream.spark.sql(QUERY, streams, event_time="ts", delay="7 days", partitions=2, plan="(a b) c")
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "output"))
    query.awaitTermination()
    batches = [
        list(midstream.spark.cell_reports(progress).values())
        for progress in query.recentProgress
        if progress.numInputRows
    ]
    told = {
        "master": spark.sparkContext.master,
        "seconds": [
            progress.durationMs["triggerExecution"] / 1000 for progress in query.recentProgress if progress.numInputRows
        ],
        "places": [[report["place"] for report in reports] for reports in batches],
        "whereabouts": spark.sparkContext.parallelize(range(8), 8).mapPartitions(whereabouts).distinct().collect(),
    }
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
