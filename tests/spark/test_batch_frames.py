"""Batch DataFrames: one batch, the same results, for the oracle's random queries."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark
from tests.oracle.compare import difference, multiset, rows_of
from tests.oracle.duck import duck_join
from tests.oracle.run import expect as expect_case
from tests.oracle.spec import Push, push_tables

from . import streams
from .streams import NUMBER, PLAIN, SECOND, ZONED, Input
from .test_stream_exact import NONE_YET, spark_case

WINDOWS: dict[str, int | None] = {"a": 3 * SECOND, "b": 4 * SECOND, "c": None}


def frame_of(spark: Any, folder: Path, table: pa.Table) -> Any:
    """By way of a file, because `createDataFrame` takes times without a zone as those of the session."""
    streams.write(folder, [table])
    return spark.read.parquet(str(folder))


def check_seed(spark: Any, folder: Path, seed: int, **shape: Any) -> None:
    case = spark_case(seed, **shape)
    rows = tuple(row for push in case.pushes for row in push.rows)
    case = dataclasses.replace(case.with_pushes([Push(rows, NONE_YET)]), plans=case.plans)
    rng = random.Random(seed)
    tables = push_tables(case, case.pushes[0])
    frames = {
        name: frame_of(spark, folder / f"{seed}-{name}", tables.get(name, case.sources[name].schema.empty_table()))
        for name in case.streams
    }
    joined = ms.spark.sql(
        case.text,
        frames,
        {name: str(case.sources[name].event_time) for name in case.streams},
        partitions=rng.choice([1, 2, 3]),
        plan=rng.choice([None, *case.plans]),
    )
    assert not joined.isStreaming
    expected = expect_case(case)
    found = multiset(rows_of(joined.toArrow()))
    names = [output.name for output in case.outputs] + ["valid_from", "valid_to"]
    assert joined.columns == names
    for oracle in (multiset(result.values for result in expected.results), duck_join(case, expected.acceptance)):
        different = difference(oracle, found, names)
        assert different is None, f"seed {seed}, {shape}: {different}\n{case.text}"


@pytest.mark.versions
def test_random_queries(spark: Any, tmp_path: Path) -> None:
    for seed in range(80_000, 80_006):
        check_seed(spark, tmp_path, seed, windows="range")
    for seed in range(81_000, 81_002):
        check_seed(spark, tmp_path, seed, windows="mixed", self_join=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_many_random_queries(spark: Any, tmp_path: Path, block: int) -> None:
    for seed in range(82_000 + 10 * block, 82_010 + 10 * block):
        check_seed(spark, tmp_path, seed, windows=["range", "mixed"][block % 2])


@pytest.mark.parametrize("time", [ZONED, PLAIN, NUMBER], ids=["zoned", "without zone", "number"])
def test_times_before_1970_are_not_late(spark: Any, tmp_path: Path, time: pa.DataType) -> None:
    rows = [(k % 3, k, (k - 10) * SECOND) for k in range(20)]
    given = Input({"a": [rows], "b": [rows[::-1]], "c": [[*rows[:9], (None, 5, 0), (1, 6, None)]]}, time)
    frames = {name: frame_of(spark, tmp_path / name, given.table(rows)) for name, (rows,) in given.batches.items()}
    joined = ms.spark.sql(streams.join_text(WINDOWS), frames, "ts", partitions=2)
    assert streams.rows_of(joined.toArrow()) == streams.expect(given, WINDOWS).rows


def test_no_rows(spark: Any) -> None:
    empty = spark.createDataFrame(Input({}).table([]))
    some = spark.createDataFrame(Input({}).table([(1, 1, 1)]))
    for frames in ({"a": empty, "b": empty, "c": empty}, {"a": some, "b": some, "c": empty}):
        joined = ms.spark.sql(streams.join_text(WINDOWS), frames, "ts", partitions=2)
        assert joined.count() == 0 and joined.columns[-2:] == ["valid_from", "valid_to"]


def test_hot_keys_of_a_stream_that_is_joined_with_itself(spark: Any) -> None:
    """Aliases of one stream share a lane, unless one of them is spread."""
    rows = [(k % 2, k, k * SECOND) for k in range(30)]
    text = "SELECT x.v AS x_v, y.v AS y_v FROM a [RANGE 3 SECONDS] x, a [RANGE 4 SECONDS] y WHERE x.k = y.k"
    given = Input({"x": [rows], "y": [rows]})
    frame = spark.createDataFrame(given.table(rows))
    joined = ms.spark.sql(text, {"a": frame}, "ts", partitions=4, hot_keys={"x.k": [0]})
    assert streams.rows_of(joined.toArrow()) == streams.expect(given, {"x": 3 * SECOND, "y": 4 * SECOND}).rows
