"""DISTINCT, groups, set operations and TUMBLE on Spark: rows of several cells form one result, when its step closes.

The same rows, with the watermarks that Spark had, go through an embedded engine, which is compared with DuckDB
elsewhere. Random set operations are compared with the oracle itself.
"""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark
from midstream.spark.hosts import pool
from midstream.spark.parcels.result_ids import COLUMN
from tests.oracle.compare import difference, multiset
from tests.oracle.compare import rows_of as oracle_rows
from tests.oracle.spec import Push, push_tables
from tests.temporal.cases import expect as expect_case
from tests.temporal.cases import make_case
from tests.temporal.spec import TemporalCase
from tests.temporal.values import FULL, MONEY, WIDE

from . import streams
from .streams import SECOND, Input, Rows, rows_of
from .test_stream_exact import NONE_YET

JOINED = "FROM a [RANGE 6 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
GROUPS = f"SELECT a.v % 3 AS g, count(*) AS n, sum(b.v) AS s, max(a.v) AS m {JOINED} GROUP BY a.v % 3 HAVING n > 1"
BUCKETS = "SELECT count(*) AS n FROM a [TUMBLE 4 SECONDS], b [TUMBLE 8 SECONDS] WHERE a.k = b.k GROUP BY a.k, a.v % 2"
DIFFERENCE = f"""
    SELECT k, v % 2 AS w FROM a [RANGE 9 SECONDS]
    EXCEPT SELECT a.k, b.v % 2 {JOINED} AND a.v % 4 = 1
    EXCEPT SELECT k, w FROM s"""
STREAMS = {"groups": GROUPS, "buckets": BUCKETS, "difference": DIFFERENCE}
#: After a restart, with a smaller window, from which other steps would follow.
LATER = {
    "groups": GROUPS.replace("9 SECONDS", "7 SECONDS"),
    "buckets": BUCKETS,
    "difference": DIFFERENCE.replace("9 SECONDS", "7 SECONDS"),
}
TEXTS = {
    "groups": GROUPS,
    "untold groups": f"SELECT DISTINCT count(*) AS n {JOINED} GROUP BY a.v % 7, b.v % 2",
    "one group": f"SELECT count(*) AS n, avg(b.v) AS m, count(DISTINCT a.v) AS d {JOINED}",
    "for ever": "SELECT DISTINCT a.k FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k",
    "sets": f"SELECT a.k, count(*) AS n {JOINED} GROUP BY a.k "
    f"EXCEPT ALL (SELECT k, 10 FROM b [TUMBLE 3 SECONDS] UNION ALL SELECT a.k, b.v % 30 {JOINED})",
    "at once": f"SELECT a.k, b.v {JOINED} UNION ALL SELECT v, k FROM b [RANGE 2 SECONDS]",
}
#: One key has most rows, which are spread over cells.
HOT = {"b.k": [1]}
SIZE, BATCHES = 20, 6


def some_batches(shift: int) -> list[list[tuple[Any, Any, int | None]]]:
    """Five seconds a batch, with ties."""
    return [
        [((1, 2, 1, 3, None)[(v + shift) % 5], v, (5 * at + v % 6) * SECOND) for v in range(at * SIZE, (at + 1) * SIZE)]
        for at in range(BATCHES)
    ]


GIVEN = Input({name: some_batches(place) for place, name in enumerate("ab")})


STATIC = pa.table({"k": pa.array([2], pa.int64()), "w": pa.array([1], pa.int64())})


def make_engine(text: str, step: str | None = None) -> ms.Engine:
    schemas = {name: GIVEN.table([]).schema for name in "ab"} | {"s": STATIC.schema}
    return ms.Engine(ms.query(text, schemas, "ts", step=step), tables={"s": STATIC} if "FROM s" in text else {})


def step_of(kind: str) -> str | None:
    return "10 seconds" if kind == "for ever" else None


def without_names(table: pa.Table, has_steps: bool = True) -> Rows:
    """The rows of a result; each has a name of its own."""
    names = table[COLUMN].to_pylist()
    assert len(set(names)) == len(names) and (not has_steps or all(len(name) == 32 for name in names))
    return rows_of(table.drop([COLUMN]))


@pytest.mark.versions
def test_batch_frames(spark: Any, tmp_path: Path) -> None:
    """All steps are closed, and what never ends has no end. Names are those of the result alone."""
    GIVEN.write(tmp_path)
    frames = {name: spark.read.parquet(str(tmp_path / name)) for name in "ab"}
    joins = {
        kind: ms.spark.sql(text, frames, "ts", partitions=3, step=step_of(kind), hot_keys=HOT, result_id=True)
        for kind, text in TEXTS.items()
    }
    joins["again"] = ms.spark.sql(GROUPS, frames, "ts", partitions=1, result_id=True)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        found = dict(zip(joins, threads.map(lambda joined: joined.toArrow(), joins.values()), strict=True))
    everything = {
        name: GIVEN.table([row for rows in batches for row in rows]) for name, batches in GIVEN.batches.items()
    }
    for kind, text in TEXTS.items():
        engine = make_engine(text, step_of(kind))
        wanted = rows_of(engine.push(everything, watermark=-SECOND)) + rows_of(engine.finish())
        assert without_names(found[kind], kind != "at once") == wanted and wanted, kind
    assert found["for ever"]["valid_to"].null_count == found["for ever"].num_rows == 3
    assert set(found["again"][COLUMN].to_pylist()) == set(found["groups"][COLUMN].to_pylist())


def expect(kind: str, watermarks: Sequence[int | None], given: Input, restart: int) -> list[Rows]:
    """What the batches give that had these watermarks, with a restart before one of them; no row is late."""
    engine = make_engine(STREAMS[kind])
    found = []
    for number, watermark in enumerate(watermarks):
        if number == restart:
            engine = ms.Engine.restore(make_engine(LATER[kind]).query, engine.snapshot())
        rows = {name: given.table(batches[number]) for name, batches in given.batches.items() if number < len(batches)}
        found.append(rows_of(engine.push(rows, watermark=-SECOND if watermark is None else watermark)))
    return found


@pytest.mark.slow
@pytest.mark.versions
def test_streams_with_a_restart_and_lost_hosts(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each step comes in the batch that closes it, also in one without rows, from engines that go on or are loaded.

    After the restart the steps of the checkpoint go on, although a window is smaller.
    """
    first, second = (
        Input({name: rows[part] for name, rows in GIVEN.batches.items()}) for part in (slice(0, 3), slice(3, None))
    )
    first.write(tmp_path)
    results: dict[str, list[Rows]] = collections.defaultdict(list)
    marks: dict[str, list[int | None]] = collections.defaultdict(list)
    places: collections.Counter[str] = collections.Counter()
    for number, part in enumerate((first, second)):
        if number:
            part.write(tmp_path, 3)
        queries = {}
        for kind, text in (LATER if number else STREAMS).items():
            frames = {name: streams.stream(spark, tmp_path / name) for name in "ab"}
            frames["s"] = spark.createDataFrame(STATIC)
            joined = ms.spark.sql(text, frames, "ts", "1 second", partitions=2, hot_keys=HOT, result_id=True)
            queries[kind] = joined, tmp_path / kind
        if number:
            assert not any("steps of its checkpoint" in record.getMessage() for record in caplog.records)
            restarts = {kind: len(watermarks) for kind, watermarks in marks.items()}
        for kind, ran in run_and_kill(queries).items():
            results[kind] += [without_names(ran.batches[at]) for at in sorted(ran.batches)]
            marks[kind] += ran.watermarks
            places.update(report["place"] for reports in ran.reports() for report in reports.values())
    for kind in STREAMS:
        # A run ends with a batch without rows, which closes what the last rows' watermark reached.
        wanted = expect(kind, marks[kind], with_pauses(marks[kind]), restarts[kind])
        assert results[kind] == wanted, kind
        assert sum(map(bool, wanted)) >= 3
    said = [record.getMessage() for record in caplog.records if "steps of its checkpoint" in record.getMessage()]
    # Once for each query whose windows have become smaller.
    assert len(said) == sum(LATER[kind] != text for kind, text in STREAMS.items()) == 2
    assert all("of 900 milliseconds, and not" in text for text in said)
    assert places["loaded"] > 2 * 2 * len(STREAMS) and places["host"] > 0
    told = streams.failure(
        ms.spark.sql(
            BUCKETS,
            {name: streams.stream(spark, tmp_path / name) for name in "ab"},
            "ts",
            "1 second",
            partitions=2,
            hot_keys=HOT,
            step="16 seconds",
        ),
        tmp_path / "buckets",
    )
    assert (
        "the checkpoint has steps of 8 seconds, and step= says 16 seconds; give step='8 seconds', or leave it out"
        in told
    )


def with_pauses(watermarks: Sequence[int | None]) -> Input:
    """The batches as they came in two runs of three, each with a batch without rows at its end, if there was one."""
    pauses = len(watermarks) - BATCHES
    places = [*range(3), *([None] * (pauses - pauses // 2)), *range(3, BATCHES), *([None] * (pauses // 2))]
    return Input({name: [[] if at is None else rows[at] for at in places] for name, rows in GIVEN.batches.items()})


def run_and_kill(queries: dict[str, tuple[Any, Path]]) -> dict[str, streams.StreamRun]:
    """Run queries at once to the end of what there is; after every second batch their hosts are killed."""
    runs = {kind: streams.StreamRun() for kind in queries}
    started = {}
    for kind, (frame, checkpoint) in queries.items():
        take = collect_and_kill(runs[kind], frame.sparkSession)
        writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True).queryName(kind)
        started[kind] = writer.option("checkpointLocation", str(checkpoint)).start()
    for kind, query in started.items():
        query.awaitTermination()
        runs[kind].progress = list(query.recentProgress)
    return runs


def collect_and_kill(ran: streams.StreamRun, session: Any) -> Callable[[Any, int], None]:
    take = streams.collector(ran)

    def take_and_kill(results: Any, number: int) -> None:
        take(results, number)
        if len(ran.batches) % 2:
            return
        run = session.sparkContext.getLocalProperty("spark.jobGroup.id")
        for path in pool.host_folder().glob(f"{run}-*.sock"):
            host = pool.connect(path)
            if host is not None:
                with host:
                    os.kill(host.process(), signal.SIGKILL)

    return take_and_kill


#: What Spark has of the types that random cases are made of.
SPARK_TYPES = {
    *(
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.date32(),
        pa.binary(),
    ),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC"), MONEY, WIDE, FULL),
}


def test_random_set_operations_against_the_oracle(spark: Any, tmp_path: Path) -> None:
    """As batch DataFrames, whose steps are all closed."""
    cases = list(itertools.islice(filter(runs_on_spark, (make_case(seed, "sets") for seed in itertools.count())), 4))
    joins = []
    for number, case in enumerate(map(in_one_push, cases)):
        tables = push_tables(case.join, case.join.pushes[0]) | case.join.tables()
        for name, source in case.join.sources.items():
            streams.write(tmp_path / f"{number}-{name}", [tables.get(name, source.schema.empty_table())])
        frames = {name: spark.read.parquet(str(tmp_path / f"{number}-{name}")) for name in case.join.sources}
        given = case.query_arguments()
        joins.append(ms.spark.sql(case.join.text, frames, given["event_time"], partitions=3, step=given.get("step")))
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda joined: joined.toArrow(), joins))
    for case, table in zip(map(in_one_push, cases), found, strict=True):
        expected = sum(expect_case(case).rows, collections.Counter())
        different = difference(expected, multiset(oracle_rows(table)), case.column_names)
        assert different is None and expected, f"seed {case.seed}: {different}\n{case.join.text}"


def runs_on_spark(case: TemporalCase) -> bool:
    types = {field.type for source in case.join.sources.values() for field in source.schema}
    return types <= SPARK_TYPES


def in_one_push(case: TemporalCase) -> TemporalCase:
    """The rows of all pushes in one, so that none is late."""
    rows = tuple(row for push in case.join.pushes for row in push.rows)
    return case.with_join(case.join.with_pushes([Push(rows, NONE_YET)]))
