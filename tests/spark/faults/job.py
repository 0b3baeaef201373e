"""The driver program that is killed: joins three streams of files into a Parquet file sink.

It tells what happens as lines of JSON in a file. It runs until all input is processed (`--trigger now`), or until a
file called `stop` appears in its folder (`--trigger "200 milliseconds"`).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

STREAMS = ("a", "b", "c")
QUERY = """
    SELECT a.k, a.v AS av, b.v AS bv, c.v AS cv
    FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS], c [RANGE 4 SECONDS]
    WHERE a.k = b.k AND b.k = c.k
"""
SCHEMA = "k long, ts timestamp, v long"


class Journal:
    """What happened, one JSON line each; every line is on disk before the program goes on."""

    def __init__(self, path: Path):
        self._path = path

    def write(self, event: str, **told: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"event": event, "at": time.time(), "pid": os.getpid()} | told) + "\n")


def session(master: str, scratch: Path, more: list[str]) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
        "spark.executor.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch),
        "spark.sql.shuffle.partitions": "2",
        "spark.python.authenticate.socketTimeout": "5min",
    } | dict(setting.split("=", 1) for setting in more)
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def listener_of(journal: Journal) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    import midstream.spark

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            journal.write("query", run=str(event.runId))

        def onQueryProgress(self, event: Any) -> None:
            reports = midstream.spark.cell_reports(event.progress)
            told = {
                cell: {name: report[name] for name in ("place", "loads", "host")} for cell, report in reports.items()
            }
            journal.write("batch", batch=event.progress.batchId, cells=told, rows=event.progress.numInputRows)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            journal.write("ended", failed=event.exception is not None)

    return Listener()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="has input/, and gets checkpoint/ and output/")
    parser.add_argument("--master", required=True)
    parser.add_argument("--trigger", default="now")
    parser.add_argument("--files", type=int, default=1, help="files of each stream in a batch")
    parser.add_argument("--queries", type=int, default=1, help="how many write the same results, each into its folder")
    parser.add_argument("--ending", choices=("exit", "stop-query", "stop-session"), default="exit")
    parser.add_argument("--demand", default="off", help="whether rows without a partner wait")
    parser.add_argument("--set", action="append", default=[], help="a setting of the session, as NAME=VALUE")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    journal = Journal(folder / "journal.jsonl")
    journal.write("begin")

    import midstream.spark

    spark = session(chosen.master, folder / "scratch", chosen.set)
    spark.streams.addListener(listener_of(journal))
    streams = {
        name: spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", chosen.files)
        .parquet(str(folder / "input" / name))
        for name in STREAMS
    }
    results = midstream.spark.sql(
        QUERY, streams=streams, event_time="ts", delay="1 second", partitions=2, demand=chosen.demand
    )
    trigger = {"availableNow": True} if chosen.trigger == "now" else {"processingTime": chosen.trigger}
    queries = []
    for number in range(chosen.queries):
        writer = results.writeStream.format("parquet").trigger(**trigger)
        writer = writer.option("checkpointLocation", str(folder / f"checkpoint{number or ''}"))
        queries.append(writer.start(str(folder / f"output{number or ''}")))
    for query in queries:
        if chosen.trigger == "now":
            query.awaitTermination()
        else:
            while not (folder / "stop").exists() and not query.awaitTermination(0.1):
                pass
    if chosen.ending == "stop-query":
        for query in queries:
            query.stop()
    elif chosen.ending == "stop-session":
        spark.stop()
    journal.write("done")
    while chosen.ending != "exit" and not (folder / "leave").exists():
        time.sleep(0.05)


if __name__ == "__main__":
    main()
