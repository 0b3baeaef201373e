"""Streams of files for real Spark: a file of each stream a batch, results and watermarks of every batch, and an oracle.

A test writes tables, which become the batches of a stream, runs a query to the end of them, and compares each batch
with a join computed from scratch by the definition, given the watermarks that Spark had.
"""

from __future__ import annotations

import collections
import concurrent.futures
import datetime
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

import midstream as ms
import midstream.spark

SECOND = 1_000_000
ZONED, PLAIN, NUMBER = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int64()
#: Enough for any disorder in these tests: no row is late.
LONG = "7 days"

Result = tuple[Any, ...]
Rows = collections.Counter[Result]


# Input ---------------------------------------------------------------------------------------------------------------


def write(folder: Path, tables: Iterable[pa.Table], first: int = 0) -> None:
    """Each table as a file; Spark takes files by the time at which they were changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, first):
        path = folder / f"{number:05d}.parquet"
        pa.parquet.write_table(table, path)
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def stream(spark: Any, folder: Path, files: int = 1) -> Any:
    """A streaming DataFrame of a folder, so many files a batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


@dataclass(frozen=True)
class Input:
    """Streams as lists of batches; a batch is a list of rows `(k, v, ts)`, the event time in microseconds or None."""

    batches: Mapping[str, Sequence[Sequence[tuple[Any, Any, int | None]]]]
    time: pa.DataType = ZONED
    key: pa.DataType = field(default_factory=pa.int64)

    def table(self, rows: Sequence[tuple[Any, Any, int | None]]) -> pa.Table:
        keys, values, times = zip(*rows, strict=True) if rows else ((), (), ())
        columns = [pa.array(keys, self.key), pa.array(values, pa.int64()), pa.array(times, pa.int64()).cast(self.time)]
        return pa.table(columns, names=["k", "v", "ts"])

    def write(self, folder: Path, first: int = 0) -> None:
        for name, batches in self.batches.items():
            write(folder / name, [self.table(rows) for rows in batches], first)

    def frames(self, spark: Any, folder: Path, files: int = 1) -> dict[str, Any]:
        """Writes the rows and reads them as streams."""
        self.write(folder)
        return {name: stream(spark, folder / name, files) for name in self.batches}


# Output --------------------------------------------------------------------------------------------------------------


@dataclass
class StreamRun:
    """What a run gave, batch by batch, and its progress."""

    batches: dict[int, pa.Table] = field(default_factory=dict)
    progress: list[Any] = field(default_factory=list)

    @property
    def rows(self) -> Rows:
        """The results of all batches."""
        return sum((rows_of(table) for table in self.batches.values()), collections.Counter())

    def rows_by_batch(self) -> list[Rows]:
        return [rows_of(self.batches[number]) for number in sorted(self.batches)]

    @property
    def watermarks(self) -> list[int | None]:
        """The watermark that each batch had, in microseconds; None before the first."""
        return [watermark_of(progress) for progress in self.progress]

    def reports(self) -> list[dict[int, dict[str, Any]]]:
        """The cells' reports of each batch."""
        return [ms.spark.cell_reports(progress) for progress in self.progress]

    def total(self, name: str) -> int:
        """A counter, over all cells and batches."""
        return sum(total_of(report[name]) for reports in self.reports() for report in reports.values())


def total_of(value: Any) -> int:
    return sum(value.values()) if isinstance(value, dict) else int(value)


def watermark_of(progress: Any) -> int | None:
    event_time = progress["eventTime"] if isinstance(progress, Mapping) else progress.eventTime
    text = event_time.get("watermark")
    if text is None:
        return None
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return to_microseconds(moment) or None


def to_microseconds(moment: datetime.datetime) -> int:
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)


def rows_of(table: pa.Table) -> Rows:
    """Rows as tuples, timestamps as microseconds."""
    columns = [column.cast(_in_microseconds(column.type)) for column in table.columns]
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    return collections.Counter(zip(*(column.to_pylist() for column in columns), strict=True))


def _in_microseconds(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else type_


def collector(ran: StreamRun) -> Callable[[Any, int], None]:
    """For `foreachBatch`: a batch that is run again replaces what it gave before."""

    def take(frame: Any, number: int) -> None:
        ran.batches[number] = frame.toArrow()

    return take


def run(frame: Any, checkpoint: Path) -> StreamRun:
    """Run a streaming DataFrame to the end of what there is."""
    ran = StreamRun()
    query = start(frame, checkpoint, ran)
    query.awaitTermination()
    ran.progress = list(query.recentProgress)
    return ran


def start(frame: Any, checkpoint: Path, ran: StreamRun) -> Any:
    writer = frame.writeStream.foreachBatch(collector(ran)).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def run_all(frames: Mapping[str, tuple[Any, Path]]) -> dict[str, StreamRun]:
    """Run several queries, two at a time, which takes less time than one after the other."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = {name: pool.submit(run, frame, checkpoint) for name, (frame, checkpoint) in frames.items()}
    return {name: running.result() for name, running in runs.items()}


def failure(frame: Any, checkpoint: Path) -> str:
    """What a query that fails says; it must fail before any output."""
    from pyspark.errors import StreamingQueryException

    ran = StreamRun()
    query = start(frame, checkpoint, ran)
    try:
        query.awaitTermination()
    except StreamingQueryException as problem:
        assert not ran.batches, "there was output before the failure"
        return str(problem)
    raise AssertionError("the query did not fail")


# The oracle ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expectation:
    """What the definition gives for every batch, and how many rows were late or without event time."""

    by_batch: list[Rows]
    late: int
    rejected: int

    @property
    def rows(self) -> Rows:
        return sum(self.by_batch, collections.Counter())


def expect(given: Input, windows: Mapping[str, int | None], watermarks: Sequence[int | None] = ()) -> Expectation:
    """The equi-join on `k` of all streams, each batch judged by the watermark of the one before.

    Results are `(v of each, from, to)`. A window of None is unbounded.
    """
    count = max(len(batches) for batches in given.batches.values())
    accepted: dict[str, list[tuple[int, Any, Any, int]]] = {name: [] for name in given.batches}
    late = rejected = 0
    for number in range(count):
        watermark = watermarks[number - 1] if 0 < number <= len(watermarks) else None
        for name, batches in given.batches.items():
            for k, v, ts in batches[number] if number < len(batches) else ():
                if ts is None:
                    rejected += 1
                elif watermark is not None and ts < watermark:
                    late += 1
                else:
                    accepted[name].append((number, k, v, ts))
    results: list[list[Result]] = [[] for _ in range(count)]
    by_key: dict[Any, dict[str, list[tuple[int, Any, Any, int]]]] = {}
    for name, rows in accepted.items():
        for row in rows:
            if row[1] is not None:
                by_key.setdefault(row[1], {}).setdefault(name, []).append(row)
    for own in by_key.values():
        if len(own) < len(accepted):
            continue
        for combination in itertools.product(*(own[name] for name in accepted)):
            begin = max(row[3] for row in combination)
            ends = [
                row[3] + w
                for row, w in zip(combination, map(windows.__getitem__, accepted), strict=True)
                if w is not None
            ]
            end = min(ends) if ends else None
            if end is None or begin <= end:
                results[max(row[0] for row in combination)].append((*(row[2] for row in combination), begin, end))
    return Expectation([collections.Counter(in_batch) for in_batch in results], late, rejected)


def check(ran: StreamRun, expected: Expectation) -> None:
    """Every batch gave exactly what the definition says; batches after the input gave nothing."""
    found = ran.rows_by_batch()
    for number, rows in enumerate(itertools.zip_longest(expected.by_batch, found, fillvalue=collections.Counter())):
        missing, more = rows[0] - rows[1], rows[1] - rows[0]
        assert not missing and not more, f"batch {number}: missing {few(missing)}, too much {few(more)}"


def few(rows: Rows) -> str:
    return f"{sum(rows.values())}: {list(rows.items())[:5]}"


def join_text(windows: Mapping[str, int | None]) -> str:
    """The query that `expect` computes; windows are in microseconds."""
    names = list(windows)
    outputs = ", ".join(f"{name}.v AS {name}_v" for name in names)
    inputs = ", ".join(
        f"{name} " + ("[UNBOUNDED]" if size is None else f"[RANGE {size} MICROSECONDS]")
        for name, size in windows.items()
    )
    keys = " AND ".join(f"{left}.k = {right}.k" for left, right in itertools.pairwise(names))
    return f"SELECT {outputs} FROM {inputs} WHERE {keys}"
