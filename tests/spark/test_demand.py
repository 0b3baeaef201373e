"""Demand in cells: what waits, wakes and is dropped, what is told of it, and that a cell may be loaded at any time."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pytest

import midstream.spark
from midstream.options import EngineOptions
from midstream.spark.checkpoint.ledger import Ledger
from midstream.spark.checkpoint.store import CellStore, open_ledger
from midstream.spark.hosts.cell import NONE_YET, Cell, Loading
from midstream.spark.parcels.encoding import from_wire
from midstream.spark.processor import CellBatch
from midstream.spark.reports.cell_report import report_of
from midstream.spark.reports.totals import Progress
from midstream.spark.spec import JoinSpec

from .test_cell_batches import deliver
from .test_ledger import Map

ROW = pa.schema({"k": pa.int64(), "ts": pa.int64()})
TABLE = pa.schema({"k": pa.int64()})
CHAIN = """SELECT a.k, b.ts AS bt FROM a [RANGE 5 MILLISECONDS], b [RANGE 5 MILLISECONDS], c [RANGE 5 MILLISECONDS]
           WHERE a.k = b.k AND b.k = c.k"""
STATIC = (
    "SELECT a.k, b.ts AS bt FROM a [RANGE 5 MILLISECONDS], b [RANGE 5 MILLISECONDS], s WHERE a.k = b.k AND a.k = s.k"
)


def make_spec(demand: str, text: str = CHAIN) -> JoinSpec:
    schemas = dict.fromkeys("abc", ROW) if text == CHAIN else {"a": ROW, "b": ROW, "s": TABLE}
    streams = [name for name in schemas if name != "s"]
    return JoinSpec(text, schemas, dict.fromkeys(streams, "ts"), 1, options=EngineOptions(demand=demand))


def rows(keys: range, ts: int) -> pa.Table:
    return pa.table([list(keys), [ts] * len(keys)], schema=ROW)


def keys_of(results: list[bytes]) -> list[int]:
    return sorted(key for parcel in results for key in from_wire(parcel)["k"].to_pylist())


def total_of(report: dict[str, Any]) -> Progress:
    zeros = {"in": {}, "late": {}, "reached": {}, "dropped": 0, "rejected": 0, "stored": 0, "parcels": 0}
    told = zeros | {"watermark": None, "place": "host", "loads": 0, "store": 0.0, "total": 0.0} | report
    return Progress.of({0: report_of(0, told)})


class StayingCell:
    """Batches of a cell whose engine stays."""

    def __init__(self, spec: JoinSpec):
        self._spec = spec
        self._cell = Cell(spec)
        self._cell.load(Loading(None, NONE_YET, []), "0")
        self._batches = 0

    def push(self, data: dict[str, pa.Table], watermark: int) -> tuple[list[int], Progress]:
        before, self._batches = self._batches, self._batches + 1
        parcels = deliver(self._spec, data).parcels
        outcome = self._cell.push(str(before), str(self._batches), watermark, parcels)
        return keys_of(outcome.results), total_of(outcome.report)


def test_what_waits_is_told_and_wakes_in_a_later_batch() -> None:
    cell = StayingCell(make_spec("on"))
    found, told = cell.push({"a": rows(range(10), 1_000), "b": rows(range(5), 1_000)}, 0)
    assert found == [] and told.demand["hidden"] == told.demand["waiting"] == told.demand["saved"] == 15
    assert told.demand["hits"] == 15 <= told.demand["checks"]
    assert told.bytes_by_kind["hidden"] > 0 and sum(told.bytes_by_kind.values()) <= told.state_bytes
    found, told = cell.push({"c": rows(range(3), 2_000)}, 1_000)
    assert found == [0, 1, 2]
    assert (told.demand["hidden"], told.demand["waiting"], told.demand["woken"]) == (15, 9, 6)


def test_what_waits_expires_in_a_batch_without_rows() -> None:
    cell = StayingCell(make_spec("on"))
    cell.push({"a": rows(range(10), 1_000)}, 0)
    assert cell.push({}, 6_000)[1].demand["waiting"] == 10
    found, told = cell.push({}, 6_001)
    assert found == [] and told.demand["waiting"] == told.demand["woken"] == 0
    assert "hidden" not in told.bytes_by_kind


def test_without_demand_nothing_is_told_of_it() -> None:
    _, told = StayingCell(make_spec("off")).push({"a": rows(range(10), 1_000)}, 0)
    assert told.demand == {} and set(told.bytes_by_kind) == {"window", "join"}


class StoredCell:
    """Batches of a cell that is loaded from its store for each of them, with another demand if that is given."""

    def __init__(self, text: str, static: pa.Table | None = None):
        self._text = text
        self._parcels = Map()
        spec = make_spec("off", text)
        store = CellStore(spec, self._parcels, open_ledger(None, spec, "cell 0 of 1"), "cell 0 of 1")
        if static is not None:
            lane = next(at for at, lane in enumerate(spec.routing.lanes) if lane.event_time is None)
            store.add(lane, static)
        self._stored = store.ledger.to_bytes()

    def push(self, demand: str, data: dict[str, pa.Table], milliseconds: int) -> tuple[list[int], Progress, int]:
        """Keys of results, what is told, and how many rows are stored."""
        spec = make_spec(demand, self._text)
        store = CellStore(spec, self._parcels, Ledger.from_bytes(self._stored, "cell 0 of 1"), "cell 0 of 1")
        found, report = CellBatch(spec, store, deliver(spec, data), milliseconds, 0).run(None)
        self._stored = store.ledger.to_bytes()
        return keys_of(found), total_of(report), sum(parcel.rows for parcel in store.ledger.parcels)


@pytest.mark.parametrize("then", ["off", "on", "auto"])
def test_rows_that_waited_enter_when_the_cell_is_loaded(then: str) -> None:
    cell = StoredCell(CHAIN)
    found, told, stored = cell.push("on", {"a": rows(range(10), 1_000), "b": rows(range(5), 1_000)}, 0)
    assert found == [] and told.demand["waiting"] == 15 == stored
    found, told, stored = cell.push(then, {"c": rows(range(3, 20), 2_000)}, 1)
    assert found == [3, 4] and stored == 32
    if then != "off":
        hidden = 15 if then == "on" else 0
        assert (told.demand["hidden"], told.demand["woken"]) == (hidden, 0), "rows of c alone; all others have entered"


@pytest.mark.parametrize("then", ["off", "on", "auto"])
def test_rows_without_a_partner_in_a_table_are_dropped_and_stored(then: str) -> None:
    cell = StoredCell(STATIC, pa.table([[0, 1, 2, 2]], schema=TABLE))
    found, told, stored = cell.push("on", {"a": rows(range(10), 1_000)}, 0)
    assert found == [] and (told.demand["dropped"], told.demand["waiting"], stored) == (7, 3, 14)
    found, told, stored = cell.push(then, {"b": rows(range(10), 2_000)}, 1)
    assert found == [0, 1, 2, 2] and stored == 24
    assert told.demand.get("dropped", 0) == (0 if then == "off" else 7)
    assert cell.push(then, {}, 8)[2] == 4, "the rows of the table stay"


def test_the_default_is_that_of_an_engine() -> None:
    for function in (midstream.spark.sql, midstream.spark.explain):
        assert inspect.signature(function).parameters["demand"].default == EngineOptions().demand
