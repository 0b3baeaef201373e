"""DISTINCT below a join on Spark: as the plan of a query, after a change of plan from outside, and a plan refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.errors import PlanError

from .streams import Input, rows_of, run, stream
from .test_steps import GIVEN, HOT, JOINED, make_engine

TEXT = f"SELECT DISTINCT a.k, b.v % 4 AS w {JOINED}"


def test_distinct_below_a_join_and_out_of_there(spark: Any, tmp_path: Path) -> None:
    """Equal values of several cells are made one behind the cells, whatever plans these run."""

    def joined() -> Any:
        frames = {name: stream(spark, tmp_path / name) for name in "ab"}
        options: dict[str, Any] = {"plan": "distinct(a) b", "control": str(tmp_path / "control"), "hot_keys": HOT}
        return ms.spark.sql(TEXT, frames, "ts", "1 second", partitions=2, step="2 seconds", **options)

    def plans() -> set[str]:
        return {status.plan for status in ms.spark.control(tmp_path / "control").status().values()}

    Input({name: rows[:3] for name, rows in GIVEN.batches.items()}).write(tmp_path)
    frames = {name: stream(spark, tmp_path / name) for name in "ab"}
    with pytest.raises(PlanError, match=r"distinct\(a\): distinct below a join: the query is no SELECT DISTINCT"):
        ms.spark.sql(TEXT.replace("DISTINCT ", ""), frames, "ts", "1 second", plan="distinct(a) b")
    begun = run(joined(), tmp_path / "checkpoint")
    assert plans() == {"(distinct(a) b)"}
    ms.spark.control(tmp_path / "control").migrate("(a distinct(b))", "genmig", wait=False)
    Input({name: rows[3:] for name, rows in GIVEN.batches.items()}).write(tmp_path, 3)
    ended = run(joined(), tmp_path / "checkpoint")
    assert plans() == {"(a distinct(b))"}
    everything = {name: GIVEN.table([row for rows in batch for row in rows]) for name, batch in GIVEN.batches.items()}
    last = max(mark for mark in ended.watermarks if mark is not None)
    wanted = rows_of(make_engine(TEXT, "2 seconds").push(everything, watermark=last))
    assert begun.rows + ended.rows == wanted and len(wanted) > 20
