"""The contenders of `midstream bench spark`. Each runs in a process of its own, with a JVM of its own::

    python -m midstream.lab.bench.spark_contenders NAME CASE_FOLDER WORK_FOLDER

It reads the files linked in WORK_FOLDER/in, one of each stream a batch, and ends when all are read. While it runs it
prints how many batches are done; at the end it prints each batch's progress as a line of JSON. Asking Spark for more in
between would take time. Run again on the same folder, it goes on where it stopped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.lab.bench.spark_files import WINDOW, Case
from midstream.spark.settings import ANY_BYTES, ARROW_BYTES

CORES = 2
#: All contenders have so much memory in their JVM.
MEMORY = "6g"

_STORE = "spark.sql.streaming.stateStore"
_STATE = "org.apache.spark.sql.execution.streaming.state"

Frames = Mapping[str, Any]


@dataclass(frozen=True)
class Contender:
    """How results are made of streaming DataFrames, and the settings that belong to it."""

    name: str
    title: str
    build: Callable[[Case, Frames], Any]
    settings: Mapping[str, str] = field(default_factory=dict)
    sink: str = "parquet"
    #: Whether Spark writes its event log, which tells how long stages take and makes them longer.
    is_traced: bool = False


def _midstream(case: Case, frames: Frames) -> Any:
    import midstream.spark

    return midstream.spark.sql(case.text, streams=frames, event_time="ts")


def _chain(case: Case, frames: Frames) -> Any:
    """Spark's own joins, two streams at a time in the order of FROM.

    Spark allows one event time per stream, so a join keeps that of the first stream; the others become numbers.
    """
    session = next(iter(frames.values())).sparkSession
    for stream, frame in frames.items():
        names = [f"{name} AS {stream}_{name}" for name in frame.columns]
        frame.withWatermark("ts", "0 seconds").selectExpr(*names).createOrReplaceTempView(stream)
    first, *others = case.streams
    near, joined = f"INTERVAL {WINDOW} MICROSECONDS", first
    earlier: list[str] = []
    for number, stream in enumerate(others):
        own = f"{stream}_ts"
        on = [f"l.{left}_{column} = r.{right}_{key}" for left, column, right, key in case.keys if right == stream]
        on += [f"r.{own} >= l.{first}_ts - {near}", f"r.{own} <= l.{first}_ts + {near}"]
        on += [f"abs(unix_micros(r.{own}) - l.{name}_micros) <= {WINDOW}" for name in earlier]
        columns = f"l.*, r.* EXCEPT ({own}), unix_micros(r.{own}) AS {stream}_micros"
        frame = session.sql(f"SELECT {columns} FROM {joined} l JOIN {stream} r ON {' AND '.join(on)}")
        joined = f"joined_{number}"
        frame.createOrReplaceTempView(joined)
        earlier.append(stream)
    moments = ", ".join([f"unix_micros({first}_ts)", *(f"{stream}_micros" for stream in others)])
    outputs = [f"{stream}_v" for stream in case.streams]
    outputs.append(f"timestamp_micros(greatest({moments})) AS valid_from")
    outputs.append(f"timestamp_micros(least({moments}) + {WINDOW}) AS valid_to")
    return session.table(joined).selectExpr(*outputs)


def _read(case: Case, frames: Frames) -> Any:
    rows = None
    for frame in frames.values():
        rows = frame if rows is None else rows.unionAll(frame)
    return rows


def _hand_over(case: Case, frames: Frames) -> Any:
    return _read(case, {name: frame.mapInArrow(_drop, "nothing int") for name, frame in frames.items()})


def _drop(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        pass
    return iter(())


#: The settings that a join makes for columns of numbers, so that floors run under the same ones.
_AS_A_JOIN = {ARROW_BYTES: ANY_BYTES}
_TWO_PARTITIONS = {"spark.sql.shuffle.partitions": str(CORES)}
CONTENDERS = (
    Contender("midstream", "Midstream", _midstream),
    Contender("midstream-traced", "Midstream, with Spark's event log", _midstream, is_traced=True),
    Contender(
        "chain-memory",
        "Spark's chain, in memory",
        _chain,
        _TWO_PARTITIONS | {f"{_STORE}.providerClass": f"{_STATE}.HDFSBackedStateStoreProvider"},
    ),
    Contender(
        "chain-rocksdb",
        "Spark's chain, RocksDB",
        _chain,
        _TWO_PARTITIONS | {f"{_STORE}.providerClass": f"{_STATE}.RocksDBStateStoreProvider"},
    ),
    Contender(
        "chain-rocksdb-changelog",
        "Spark's chain, RocksDB with changelog checkpointing",
        _chain,
        _TWO_PARTITIONS
        | {
            f"{_STORE}.providerClass": f"{_STATE}.RocksDBStateStoreProvider",
            f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        },
    ),
    Contender("floor-read", "floor: read Parquet only", _read, sink="noop", is_traced=True),
    Contender(
        "floor-hand-over",
        "floor: read Parquet, hand to mapInArrow",
        _hand_over,
        _AS_A_JOIN,
        sink="noop",
        is_traced=True,
    ),
)


def find_contender(name: str) -> Contender:
    """The contender of that name."""
    return next(contender for contender in CONTENDERS if contender.name == name)


def main(name: str, case_folder: str, work_folder: str) -> None:
    """Run one contender over the files that are there."""
    from midstream.spark.jobs.session import local_session

    chosen, case, work = find_contender(name), Case.load(Path(case_folder)), Path(work_folder)
    log = work / "events"
    log.mkdir(exist_ok=True)
    session = local_session(
        CORES,
        {
            "spark.driver.memory": MEMORY,
            "spark.eventLog.enabled": str(chosen.is_traced).lower(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": log.as_uri(),
            "spark.local.dir": str(work / "local"),
            **chosen.settings,
        },
    )
    frames = {}
    for stream in case.streams:
        schema = session.read.parquet(str(case.path(stream, 0))).schema
        source = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frames[stream] = source.parquet(str(work / "in" / stream))
    results = chosen.build(case, frames)
    began = time.time()
    writer = results.writeStream.format(chosen.sink).option("checkpointLocation", str(work / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    query = writer.start(str(work / "out")) if chosen.sink == "parquet" else writer.start()
    while not query.awaitTermination(1):
        print(len(list((work / "checkpoint" / "commits").glob("[0-9]*"))), flush=True)
    for progress in query.recentProgress:
        print(json.dumps({"began": began, **json.loads(progress.json)}), flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
