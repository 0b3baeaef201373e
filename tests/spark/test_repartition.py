"""A stopped query goes on with more or fewer partitions: whole cells move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.errors import SparkError

from .conftest import since
from .streams import LONG, SECOND, Input, expect, join_text, run

pytestmark = pytest.mark.versions

WINDOWS = {"a": 30 * SECOND, "b": 30 * SECOND, "c": 30 * SECOND}
ROWS = {
    name: [
        [((7 * at + batch) % 9, 100 * batch + at, (10 * batch + at) * SECOND) for at in range(8)] for batch in range(6)
    ]
    for name in WINDOWS
}


@since("4.2")
def test_two_partitions_become_four_and_two_again(spark: Any, tmp_path: Path) -> None:
    total: Any = None
    frames: dict[str, Any] = {}
    reports = []
    for at, (partitions, demand) in enumerate([(2, "on"), (4, "auto"), (2, "on")]):
        part = Input({name: batches[2 * at : 2 * at + 2] for name, batches in ROWS.items()})
        if at == 0:
            frames = part.frames(spark, tmp_path)
        else:
            part.write(tmp_path, first=2 * at)
            ms.spark.repartition(str(tmp_path / "checkpoint"), partitions)
        joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=partitions, cells=4, demand=demand)
        ran = run(joined, tmp_path / "checkpoint")
        total = ran.rows if total is None else total + ran.rows
        reports.append(ran.reports())
        assert all("dem" in report for batch in reports[-1] for report in batch.values())
    expected = expect(Input(ROWS), WINDOWS)
    assert total == expected.rows
    assert sum(expected.rows.values()) > 300
    assert {cell for run_ in reports for batch in run_ for cell in batch} == {0, 1, 2, 3}
    # Nothing was lost on the way: after each move engines were loaded from what had been stored.
    assert all(any(report["loads"] and report.get("mig") for report in run_[0].values()) for run_ in reports[1:])


def test_cells_have_to_be_a_multiple(spark: Any, tmp_path: Path) -> None:
    frames = Input({name: batches[:1] for name, batches in ROWS.items()}).frames(spark, tmp_path)
    with pytest.raises(SparkError, match="cells: 3 is not a multiple of 2 partitions; give one, such as 2"):
        ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=2, cells=3)
    with pytest.raises(SparkError, match="repartition: 0 is not a number of partitions"):
        ms.spark.repartition(str(tmp_path), 0)
