"""The driver program that is killed: feeds the topics if they are empty, joins and copies them to the end.

What it did is in its folder: `fed` when the topics have all rows, `told` when the new plan was asked for, and at the
end the messages of the topic of results, as Parquet.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from midstream.app import kafka_demo
from midstream.spark import control
from midstream.spark.jobs import demo_kafka
from midstream.spark.jobs.session import local_session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--most-rows", type=int, required=True)
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    scratch = {"spark.local.dir": str(folder / "scratch"), "spark.driver.memory": "1g"}
    session = local_session(2, {"spark.jars": chosen.jars} | scratch)
    job = kafka_demo.make_job(folder, chosen.servers, chosen.most_rows)
    if not (folder / "fed").exists():
        for part in range(chosen.parts):
            demo_kafka.feed(session, job, part)
        (folder / "fed").touch()

    frame = demo_kafka.join_topics(session, job)
    join = demo_kafka.start_join(frame, job)
    copy = demo_kafka.start_copy(session, frame.schema, job)
    if not (folder / "told").exists():
        _await_batches(join, 2)
        control(job.control).migrate(kafka_demo.NEW_PLAN)
        (folder / "told").touch()
    for query in (join, copy):
        query.processAllAvailable()
        query.stop()
    demo_kafka.read_results(session, job).write.mode("overwrite").parquet(str(folder / "messages"))
    session.stop()


def _await_batches(query: Any, count: int) -> None:
    while len(query.recentProgress) < count and query.isActive:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
