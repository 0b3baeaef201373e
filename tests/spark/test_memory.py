"""A memory limit on Spark: each cell has its own, tells how it keeps to it, and fails if it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark
from midstream.options import EngineOptions
from midstream.spark.checkpoint.ledger import Ledger
from midstream.spark.checkpoint.store import CellStore, open_ledger
from midstream.spark.hosts.cell import NONE_YET, Cell, Loading
from midstream.spark.parcels.encoding import from_wire
from midstream.spark.processor import CellBatch
from midstream.spark.reports.cell_report import report_of
from midstream.spark.reports.totals import Progress
from midstream.spark.routing.rules import routing_for
from midstream.spark.spec import JoinSpec

from . import streams
from .streams import SECOND, Input
from .test_cell_batches import deliver
from .test_ledger import Map

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})
TEXT = """SELECT a.v, b.v AS w, c.v AS x FROM a [RANGE 6 MILLISECONDS], b [RANGE 6 MILLISECONDS],
          c [RANGE 6 MILLISECONDS] WHERE a.k = b.k AND b.k = c.k"""


LIMIT = 1_500_000


def make_spec(limit: int | str | None, demand: str = "off") -> JoinSpec:
    options = EngineOptions(memory_limit=limit, demand=demand)
    return JoinSpec(TEXT, dict.fromkeys("abc", SCHEMA), dict.fromkeys("abc", "ts"), 1, options=options)


def draw_rows(step: int, count: int = 500, keys: int = 600) -> dict[str, pa.Table]:
    """As many rows in every millisecond, of each stream."""
    rng = np.random.default_rng(step)
    times = np.arange(1_000 * step, 1_000 * (step + 1), 1_000 // count)
    return {name: pa.table([rng.integers(0, keys, count), times, times], schema=SCHEMA) for name in "abc"}


class CellRun:
    """Batches of one cell, loaded from its store for each of them; the limit may be another every time."""

    def __init__(self) -> None:
        self.parcels = Map()
        self.stored = open_ledger(None, make_spec(None), "cell 0 of 1").to_bytes()

    def take(self, limit: int | None, step: int, rows: dict[str, pa.Table]) -> tuple[pa.Table, dict[str, Any]]:
        spec = make_spec(limit)
        store = CellStore(spec, self.parcels, Ledger.from_bytes(self.stored, "cell 0 of 1"), "cell 0 of 1")
        found, report = CellBatch(spec, store, deliver(spec, rows), max(step - 1, 0), 0).run(None)
        self.stored = store.ledger.to_bytes()
        return results(spec, found), report | {"store": 0.0, "total": 0.0}


def results(spec: JoinSpec, found: Sequence[bytes]) -> pa.Table:
    table = pa.concat_tables([spec.query.no_results, *(from_wire(content) for content in found)])
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def test_a_cell_keeps_to_the_limit_and_gives_the_same_results() -> None:
    limited, free = CellRun(), CellRun()
    given_up = 0
    for step in range(8):
        rows = draw_rows(step)
        found, report = limited.take(LIMIT, step, rows)
        assert found == free.take(None, step, rows)[0]
        assert report["bytes"] <= LIMIT == report["memory"]["limit"]
        total = Progress.of({0: report_of(0, report)}).memory
        assert total["windows"] + total["states"] + total["output"] == report["bytes"]
        assert total["evicted"] == report["memory"]["evicted"] and total["states_off"] <= 1
        given_up += total["evicted"] + total["states_off"]
    assert given_up > 0 and found.num_rows > 0


@pytest.mark.parametrize("demand", ["off", "on"])
def test_an_engine_that_stays_keeps_to_the_limit(demand: str) -> None:
    spec = make_spec(None)
    cells = {limit: Cell(make_spec(limit, demand)) for limit in (LIMIT, None)}
    for cell in cells.values():
        cell.load(Loading(None, NONE_YET, []), "0")
    for step in range(10):
        parcels = deliver(spec, draw_rows(step)).parcels
        limited, free = (cell.push(str(step), str(step + 1), 1_000 * step, parcels) for cell in cells.values())
        assert results(spec, limited.results) == results(spec, free.results)
        assert limited.report["bytes"] <= LIMIT
    assert free.report["bytes"] > LIMIT and "memory" not in free.report
    assert limited.report["memory"]["evictions"] > 0 and limited.report["memory"]["evicted"] > 0


def test_a_checkpoint_that_does_not_fit_is_an_error_with_both_figures() -> None:
    run = CellRun()
    for step in range(6):
        run.take(None, step, draw_rows(step, 1_000, 10_000))
    with pytest.raises(
        ms.SparkError,
        match=r"cell: the rows of the checkpoint do not fit: memory_limit=1,000,000 bytes, but .* take [\d,]{9} bytes",
    ):
        run.take(1_000_000, 6, draw_rows(6))
    found, _ = run.take(50_000_000, 6, draw_rows(6))
    assert found.num_rows > 0


def test_rows_that_do_not_fit_fail_the_batch_with_both_figures() -> None:
    run = CellRun()
    run.take(1_000_000, 0, draw_rows(0))
    crowd = {name: pa.table([[0] * 40_000, [0] * 40_000, [3_000] * 40_000], schema=SCHEMA) for name in "abc"}
    with pytest.raises(ms.InputError, match=r"would take about [\d,]{9,} bytes.* more than memory_limit=1,000,000;"):
        run.take(1_000_000, 1, crowd)


def test_explain_multiplies_the_limit_by_the_cells() -> None:
    query = ms.query(TEXT, dict.fromkeys("abc", SCHEMA), "ts")
    told = routing_for(query, 4).explain(1_000_000_000)
    assert told.splitlines()[0] == "4 cells of at most 1,000,000,000 bytes: 4,000,000,000 bytes in all"
    assert told.splitlines()[1:] == routing_for(query, 4).explain().splitlines()[1:]


@pytest.mark.slow
def test_a_limited_query_on_spark_and_its_restart(spark: Any, tmp_path: Path) -> None:
    """Results as without a limit, figures in the progress; a limit that is too small for the checkpoint is told."""
    windows: dict[str, int | None] = {"a": 4 * SECOND, "b": 4 * SECOND, "c": 4 * SECOND}
    rows = [[(v % 40, v, number * SECOND + v) for v in range(300 * number, 300 * number + 300)] for number in range(6)]
    given = Input(dict.fromkeys("abc", rows))
    given.write(tmp_path)

    def query(limit: str) -> Any:
        frames = {name: streams.stream(spark, tmp_path / name) for name in windows}
        return ms.spark.sql(streams.join_text(windows), frames, "ts", "0 seconds", partitions=2, memory_limit=limit)

    ran = streams.run(query("1.5MB"), tmp_path / "checkpoint")
    streams.check(ran, streams.expect(given, windows, ran.watermarks))
    memory = ms.spark.progress(ran.progress[-2]).memory
    assert memory["limit"] == 3_000_000 >= memory["windows"] + memory["states"] > 0
    crowd = [[(v, v, 6 * SECOND) for v in range(40_000)]]
    Input(dict.fromkeys("abc", crowd)).write(tmp_path, len(rows))
    with pytest.raises(Exception, match="memory_limit=1,500,000") as failed:
        streams.run(query("1.5MB"), tmp_path / "checkpoint")
    assert "the base windows would take about" in str(ms.spark.reason(failed.value))
    streams.run(query("1GB"), tmp_path / "checkpoint")
    Input({name: [[(1, 1, 6 * SECOND)]] for name in "abc"}).write(tmp_path, len(rows) + 1)
    with pytest.raises(Exception, match="memory_limit=1,000,000") as failed:
        streams.run(query("1MB"), tmp_path / "checkpoint")
    assert "the rows of the checkpoint do not fit" in str(ms.spark.reason(failed.value))
