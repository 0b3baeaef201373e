"""The job of the soak: a four-way join over growing folders of files, made to be killed and started again.

``python -m midstream.spark.jobs.soak FOLDER`` goes on from where the checkpoint in the folder stands. After every batch
it writes a line of JSON to a journal. It ends when a file called `stop` is in the folder and all input is processed, or
when the process that started it is gone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from midstream.errors import SparkError
from midstream.spark import Progress, cell_reports, sql
from midstream.spark.jobs.session import local_session

STREAMS = ("a", "b", "c", "d")
WINDOW_SECONDS = 10
DELAY_SECONDS = 8
CELLS = 2
TEXT = f"""\
SELECT a.v AS a, b.v AS b, c.v AS c, d.v AS d
FROM a [RANGE {WINDOW_SECONDS} SECONDS], b [RANGE {WINDOW_SECONDS} SECONDS],
     c [RANGE {WINDOW_SECONDS} SECONDS], d [RANGE {WINDOW_SECONDS} SECONDS]
WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"""
PLAN = "(((a b) c) d)"
_SCHEMA = "k long, v long, ts timestamp"
_LOOK_SECONDS = 0.5


def journal_entry(progress: Any) -> dict[str, Any]:
    """What the journal keeps of a batch; `files` are the numbers of the first and last file of each stream."""
    reports = cell_reports(progress)
    totals = Progress.of(reports)
    return {
        "batch": progress.batchId,
        "rows": progress.numInputRows,
        "out": totals.rows_out,
        "late": sum(totals.late.values()),
        "rejected": totals.rejected,
        "seconds": progress.durationMs["triggerExecution"] / 1000,
        "engine_seconds": totals.seconds["engine"],
        "state": totals.state_bytes,
        "stored": totals.stored_bytes,
        "plans": {str(cell): plan for cell, plan in totals.plans.items()},
        "places": [report["place"] for report in reports.values()],
        "files": _files(progress),
    }


def _files(progress: Any) -> dict[str, tuple[int, int]]:
    """The files of a batch: a file is an entry of the source's log, because a trigger takes one."""
    found = {}
    for source in progress.sources:
        name = source.description.rstrip("]").rpartition("/")[2]
        if name in STREAMS:
            first, last = _entry(source.startOffset) + 1, _entry(source.endOffset)
            if last >= first:
                found[name] = (first, last)
    return found


def _entry(offset: str | Mapping[str, Any] | None) -> int:
    if not offset or offset == "null":
        return -1
    return int((json.loads(offset) if isinstance(offset, str) else offset)["logOffset"])


def journal_of(path: Path) -> Any:
    """A listener that writes every batch down as soon as Spark tells of it."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Journal(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            with path.open("a") as file:
                file.write(json.dumps({"at": time.time()} | journal_entry(event.progress)) + "\n")

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Journal()


def main(folder: Path) -> None:
    """Run the job until it is told to stop."""
    starter = os.getppid()
    scratch = folder / "scratch"
    spark = local_session(
        CELLS,
        {
            "spark.master": f"local[{CELLS},4]",  # a task is tried again when its worker was killed
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        },
    )
    spark.streams.addListener(journal_of(folder / "journal.jsonl"))
    reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    frames = {name: reader.parquet(str(folder / "input" / name)) for name in STREAMS}
    joined = sql(
        TEXT, frames, "ts", f"{DELAY_SECONDS} seconds", partitions=CELLS, plan=PLAN, control=str(folder / "control")
    )
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="500 milliseconds").start(str(folder / "output"))
    while not query.awaitTermination(_LOOK_SECONDS):
        if os.getppid() != starter:
            raise SparkError("soak: whoever started the job is gone")
        if (folder / "stop").exists():
            query.processAllAvailable()
            query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
