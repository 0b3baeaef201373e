"""The oracle's random queries through real Spark, batch by batch, and other sources than files."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark
from tests.oracle.accept import Acceptance
from tests.oracle.cases import make_case
from tests.oracle.compare import difference, multiset, rows_of
from tests.oracle.duck import duck_join
from tests.oracle.run import expect as expect_case
from tests.oracle.spec import Case, Push, Row, push_tables

from . import streams
from .streams import LONG, SECOND, Input, StreamRun

NONE_YET = -(2**62)


def spark_case(seed: int, **shape: Any) -> Case:
    """A random case in types that Spark has: its timestamps count microseconds."""
    time = shape.pop("time", random.Random(seed).choice(["us", "us", "int64"]))
    case = dataclasses.replace(make_case(seed, time=time, carried="none", **shape), max_jump=None, clocks=())
    sources = {}
    for name, source in case.sources.items():
        fields = [pa.field(field.name, spark_type(field.type)) for field in source.schema]
        sources[name] = dataclasses.replace(source, schema=pa.schema(fields))
    case = dataclasses.replace(case, sources=sources)
    return case.with_pushes([dataclasses.replace(push, rows=_within(case, push.rows)) for push in case.pushes])


def _within(case: Case, rows: Sequence[Any]) -> tuple[Any, ...]:
    """Without moments that microseconds do not reach; a random case may have them in seconds."""
    stamps = {
        name: {field.name for field in source.schema if pa.types.is_timestamp(field.type)}
        for name, source in case.sources.items()
    }
    return tuple(
        dataclasses.replace(
            row,
            values={
                name: None if name in stamps[row.source] and value is not None and abs(value) >= 2**63 else value
                for name, value in row.values.items()
            },
        )
        for row in rows
    )


def spark_type(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC" if type_.tz else None) if pa.types.is_timestamp(type_) else type_


def in_batches(case: Case, count: int) -> Case:
    """The same rows in the same order in about so many batches."""
    rows = [row for push in case.pushes for row in push.rows]
    size = -(-len(rows) // count)
    return case.with_pushes(Push(tuple(rows[at : at + size])) for at in range(0, len(rows), size))


def without_ties(case: Case) -> Case:
    """Without rows of one stream, batch and moment but the first: ROWS windows count them in an order of their own.

    It follows from their values, because Spark delivers the rows of a batch in any order.
    """
    return case.with_pushes(Push(tuple(_first_of_moments(case, push)), push.watermark) for push in case.pushes)


def _first_of_moments(case: Case, push: Push) -> Iterator[Row]:
    seen = set()
    for row in push.rows:
        moment = row.values[str(case.sources[row.source].event_time)]
        if moment is None or (row.source, moment) not in seen:
            seen.add((row.source, moment))
            yield row


def frames_of(spark: Any, case: Case, folder: Path) -> dict[str, Any]:
    """A file of each stream a batch, also where it has no rows, and static tables in one file each."""
    for name in case.streams:
        empty = case.sources[name].schema.empty_table()
        streams.write(folder / name, [push_tables(case, push).get(name, empty) for push in case.pushes])
    frames = {name: streams.stream(spark, folder / name) for name in case.streams}
    for name, table in case.tables().items():
        streams.write(folder / name, [table])
        frames[name] = spark.read.parquet(str(folder / name))
    return frames


def join_case(spark: Any, case: Case, folder: Path, enough_delay: bool, partitions: int, **options: Any) -> Any:
    delays = {name: LONG if enough_delay else f"{case.sources[name].delay} microseconds" for name in case.streams}
    return ms.spark.sql(
        case.text,
        streams=frames_of(spark, case, folder),
        event_time={name: str(case.sources[name].event_time) for name in case.streams},
        delay=delays,
        partitions=partitions,
        **options,
    )


def check(case: Case, ran: StreamRun, enough_delay: bool, label: str) -> Acceptance:
    """Each batch against the naive join over the watermarks that Spark had, all of it against DuckDB."""
    given = [NONE_YET if mark is None else mark for mark in ran.watermarks]
    replayed = case.with_pushes(Push(push.rows, given[min(at, len(given) - 1)]) for at, push in enumerate(case.pushes))
    expected = expect_case(replayed)
    names = [output.name for output in case.outputs] + ["valid_from", "valid_to"]
    label = f"{label}\n{case.text}\nwatermarks {ran.watermarks}"
    if enough_delay:
        assert not expected.acceptance.counts(reason_is_late=True), label
    found = [rows_of(ran.batches[number]) for number in sorted(ran.batches)]
    for number, rows in enumerate(expected.by_push(replayed)):
        different = difference(rows, multiset(found[number]), names)
        assert different is None, f"batch {number} of {label}: {different}"
    assert not any(found[len(case.pushes) :]), label
    everything = multiset(row for rows in found for row in rows)
    different = difference(duck_join(replayed, expected.acceptance), everything, names)
    assert different is None, f"DuckDB, {label}: {different}"
    check_counters(replayed, ran, expected.acceptance, label)
    return expected.acceptance


def check_counters(case: Case, ran: StreamRun, acceptance: Acceptance, label: str) -> None:
    """Every row is counted once: in, dropped (by a filter or a null key) or rejected; late ones are among the first."""
    rejected = sum(sum(counts.values()) for counts in acceptance.counts(reason_is_late=False).values())
    late = sum(sum(counts.values()) for counts in acceptance.counts(reason_is_late=True).values())
    rows = sum(len(push.rows) for push in case.pushes)
    assert ran.total("in") + ran.total("dropped") + ran.total("rejected") == rows, label
    assert ran.total("rejected") == rejected, label
    assert ran.total("out") == sum(table.num_rows for table in ran.batches.values()), label
    assert late - ran.total("dropped") <= ran.total("late") <= late, label


def check_seeds(spark: Any, folder: Path, seeds: range, batches: int, **shape: Any) -> None:
    """Several cases at the same time, each with its own number of partitions, plan, delay and demand."""
    cases = {str(seed): in_batches(spark_case(seed, **shape), batches) for seed in seeds}
    cases = {name: without_ties(case) if case.has_rows_windows else case for name, case in cases.items()}
    enough = {name: place % 2 == 1 for place, name in enumerate(cases)}
    frames, demands = {}, {}
    for name, case in cases.items():
        rng = random.Random(case.seed)
        partitions = 1 if case.has_rows_windows else rng.choice([1, 2, 3])
        plan = rng.choice([None, *case.plans])
        demands[name] = rng.choice(["off", "on", "auto"])
        frame = join_case(spark, case, folder / name, enough[name], partitions, plan=plan, demand=demands[name])
        frames[name] = frame, folder / name / "checkpoint"
    for name, ran in streams.run_all(frames).items():
        told = f"seed {name}, {batches} batches, demand {demands[name]}, {shape}"
        check(cases[name], ran, enough[name], told)


@pytest.mark.versions
def test_random_queries(spark: Any, tmp_path: Path) -> None:
    check_seeds(spark, tmp_path, range(70_000, 70_004), batches=3, windows="range")


@pytest.mark.versions
def test_unbounded_windows_and_self_joins(spark: Any, tmp_path: Path) -> None:
    check_seeds(spark, tmp_path, range(71_000, 71_003), batches=3, windows="mixed", self_join=True)


@pytest.mark.versions
def test_rows_windows_on_one_partition(spark: Any, tmp_path: Path) -> None:
    check_seeds(spark, tmp_path, range(72_001, 72_003), batches=4, windows="rows")


@pytest.mark.versions
def test_many_batches(spark: Any, tmp_path: Path) -> None:
    check_seeds(spark, tmp_path, range(73_000, 73_001), batches=9, windows="range", watermarks="implicit late")


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_queries(spark: Any, tmp_path: Path, block: int) -> None:
    first = 74_000 + 4 * block
    windows = ["range", "mixed", "range", "rows", "range"][block // 2]
    check_seeds(spark, tmp_path, range(first, first + 4), batches=[1, 2, 3, 5, 12][block % 5], windows=windows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(75_000, 75_003))
def test_larger_input(spark: Any, tmp_path: Path, seed: int) -> None:
    check_seeds(spark, tmp_path, range(seed, seed + 1), batches=4, windows="range", big=True)


# Other sources -------------------------------------------------------------------------------------------------------


WINDOWS: dict[str, int | None] = {"a": 3 * SECOND, "b": 5 * SECOND, "c": 4 * SECOND}


def run_until(frame: Any, checkpoint: Path, batches: int) -> StreamRun:
    """Run a query without end until so many batches are out."""
    ran, done = StreamRun(), threading.Event()
    take = streams.collector(ran)

    def collect(rows: Any, number: int) -> None:
        if number < batches:
            take(rows, number)
        else:  # the progress of the batch before is there by now
            done.set()
            rows.write.format("noop").mode("append").save()  # Spark fails a batch whose state nobody has computed

    query = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint)).start()
    try:
        while not done.wait(1) and query.isActive:
            pass
        problem = query.exception()  # to stop a batch half-way makes one too
        ran.progress = [progress for progress in query.recentProgress if progress.batchId < batches]
    finally:
        query.stop()
    assert problem is None
    return ran


@pytest.mark.versions
def test_rate_micro_batch_source(spark: Any, tmp_path: Path) -> None:
    """Numbers of batches and rows are fixed; event times are in disorder, so that some rows are late."""
    per_batch, batches, begin = 40, 3, 1_700_000_000_000
    frames, rows = {}, {}
    for place, name in enumerate(WINDOWS):
        source = spark.readStream.format("rate-micro-batch")
        options = {
            "rowsPerBatch": per_batch,
            "numPartitions": 2,
            "startTimestamp": begin,
            "advanceMillisPerBatch": 4000,
        }
        loaded = source.options(**options).load()
        frames[name] = loaded.selectExpr(
            f"(value * 7 + {place}) % 11 AS k",
            "value AS v",
            f"timestamp - make_dt_interval(0, 0, 0, (value * {place + 3}) % 13) AS ts",
        )
        rows[name] = [
            [
                ((v * 7 + place) % 11, v, (begin + 4000 * number) * 1000 - (v * (place + 3)) % 13 * SECOND)
                for v in range(number * per_batch, (number + 1) * per_batch)
            ]
            for number in range(batches)
        ]
    frame = ms.spark.sql(streams.join_text(WINDOWS), frames, "ts", "2 seconds", partitions=2)
    ran = run_until(frame, tmp_path / "checkpoint", batches)
    expected = streams.expect(Input(rows), WINDOWS, ran.watermarks)
    streams.check(ran, expected)
    assert ran.total("late") == expected.late > 0
    assert len(expected.rows) > 100


@pytest.mark.versions
@pytest.mark.slow
def test_python_data_source(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    batches = 3

    class Numbers(DataSource):
        """Twenty numbers a batch, in two partitions."""

        @classmethod
        def name(cls) -> str:
            return "midstream_numbers"

        def schema(self) -> str:
            return "k bigint, v bigint, ts bigint"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            step = int(self.options["step"])

            class Reader(DataSourceStreamReader):
                at = 0

                def initialOffset(self) -> dict[str, int]:
                    return {"at": 0}

                def latestOffset(self) -> dict[str, int]:
                    self.at += 20
                    return {"at": self.at}

                def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
                    middle = (start["at"] + end["at"]) // 2
                    return [InputPartition((start["at"], middle)), InputPartition((middle, end["at"]))]

                def read(self, partition: Any) -> Any:
                    for v in range(*partition.value):
                        yield v * step % 7, v, v * step * 250_000

            return Reader()

    spark.dataSource.register(Numbers)
    steps = {"a": 1, "b": 2, "c": 3}
    frames = {
        name: spark.readStream.format("midstream_numbers").option("step", step).load() for name, step in steps.items()
    }
    rows = {
        name: [
            [(v * step % 7, v, v * step * 250_000) for v in range(20 * number, 20 * number + 20)]
            for number in range(batches)
        ]
        for name, step in steps.items()
    }
    frame = ms.spark.sql(streams.join_text(WINDOWS), frames, "ts", "1 second", partitions=2)
    ran = run_until(frame, tmp_path / "checkpoint", batches)
    expected = streams.expect(Input(rows, streams.NUMBER), WINDOWS, ran.watermarks)
    streams.check(ran, expected)
    assert ran.total("late") == expected.late
    assert expected.rows
