"""Large values in a cell: more results than Spark takes at once, and more text than an Arrow array holds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from midstream.errors import SparkError
from midstream.spark.hosts import cell as cells
from midstream.spark.hosts.cell import NONE_YET, Cell, Loading
from midstream.spark.hosts.pool import RemoteCell
from midstream.spark.hosts.server import Conversation
from midstream.spark.hosts.turn import Turn, take
from midstream.spark.parcels import packing, spool
from midstream.spark.parcels.encoding import from_stored, to_stored, to_wire
from midstream.spark.parcels.packing import make_opener
from midstream.spark.spec import JoinSpec
from midstream.state import sizes

SCHEMA = pa.schema({"k": pa.int64(), "x": pa.string(), "ts": pa.int64()})
SPEC = JoinSpec(
    "SELECT a.x AS x, b.ts AS t FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k",
    schemas={"a": SCHEMA, "b": SCHEMA},
    event_time={"a": "ts", "b": "ts"},
    cells=1,
)
LANES = {lane.name: number for number, lane in enumerate(SPEC.routing.lanes)}
OUTPUT = SPEC.query.output_schema


def rows(count: int, size: int = 10, first: int = 0) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        [pa.array([1] * count), pa.array([f"{at:010d}" * (size // 10) for at in ids]), pa.array(ids)], schema=SCHEMA
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Limits of a few kilobytes, and a folder of the executor."""
    monkeypatch.setattr(cells, "RESULT_BYTES", 500)
    monkeypatch.setattr(cells, "HELD_BYTES", 2_000)
    monkeypatch.setattr(spool, "DIRECT_BYTES", 3_000)
    monkeypatch.setattr(sizes, "PIECE_BYTES", 1_000)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    return tmp_path


def unpack(results: list[bytes]) -> pa.Table:
    """What the last operator makes of what a cell has returned."""
    count = len(results)
    batch = pa.record_batch(
        {
            "cell": pa.array([0] * count, pa.int32()),
            "batch": pa.array([0] * count, pa.int64()),
            "parcel": pa.array(results, pa.binary()),
        }
    )
    return pa.Table.from_batches(make_opener(OUTPUT)(iter([batch])), OUTPUT)


def check(found: pa.Table, left: int, right: int) -> None:
    pairs = sorted(zip(found["x"].to_pylist(), found["t"].to_pylist(), strict=True))
    assert pairs == sorted((f"{i:010d}", j) for i in range(left) for j in range(right))


def test_rows_to_route_may_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of Spark that is large by itself comes after a small one; a filter computes with its text."""
    monkeypatch.setattr(packing, "BYTES_AT_ONCE", 700)
    text = "SELECT a.x AS x FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k AND concat(a.x, 'y') <> 'y'"
    spec = JoinSpec(text, schemas={"a": SCHEMA, "b": SCHEMA}, event_time={"a": "ts", "b": "ts"}, cells=2)
    batches = [batch for count in (1, 1, 200, 1) for batch in rows(count).to_batches()]
    batches.insert(2, batches[0].slice(0, 0))
    found = list(packing.make_packer(spec, "a", SCHEMA.names)(iter(batches)))
    assert sum(sum(batch.column("home").to_pylist()) for batch in found) == 203


def test_few_results_go_through_spark(small: Path) -> None:
    spooled = spool.Spool()
    spooled.put([b"a", b"b"])
    assert spooled.close() == [b"a", b"b"]
    assert not list(small.iterdir())


def test_many_results_wait_in_a_file_that_is_gone_when_it_is_read(small: Path) -> None:
    parcels = [bytes([at]) * 1_000 for at in range(10)]
    spooled = spool.Spool()
    spooled.put(parcels[:4])
    spooled.put(parcels[4:])
    through = spooled.close()
    assert through[:-1] == parcels[:3] and len(list(small.iterdir())) == 1
    assert [bytes(parcel) for content in through for parcel in spool.parcels_behind(content)] == parcels
    assert not list(small.iterdir())
    with pytest.raises(SparkError, match="gone before it was read"):
        list(spool.parcels_behind(through[-1]))


def test_a_batch_that_is_run_again_leaves_no_file(small: Path) -> None:
    spooled = spool.Spool()
    spooled.put([b"x" * 10_000])
    assert list(small.iterdir())
    spooled.discard()
    assert not list(small.iterdir())


@pytest.fixture
def remote() -> Iterator[RemoteCell]:
    """A cell on the other side of a socket."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    answering = threading.Thread(target=Conversation().hold, args=(there,))
    answering.start()
    with RemoteCell(here) as found:
        yield found
    answering.join()
    there.close()


def test_a_host_hands_results_on_while_the_batch_runs(remote: RemoteCell) -> None:
    remote.load(SPEC, Loading(None, NONE_YET, []), "")
    parcels = [(LANES["a"], to_wire(rows(40))), (LANES["b"], to_wire(rows(20)))]
    handed: list[list[bytes]] = []
    outcome = remote.push("", "next", NONE_YET, parcels, [], lambda: None, handed.append)
    assert len(handed) > 2 and all(sum(map(len, some)) < 10_000 for some in handed)
    check(unpack([parcel for some in handed for parcel in some] + outcome.results), 40, 20)
    assert remote.stamp() == "next" and outcome.report["out"] == 800


def test_a_turn_with_more_results_than_spark_takes(small: Path) -> None:
    parcels = [(LANES["a"], to_wire(rows(40))), (LANES["b"], to_wire(rows(20)))]
    turn = Turn(SPEC, None, 0, "", NONE_YET, parcels, [], lambda: Loading(None, NONE_YET, []), lambda: None)
    taken = take(turn)
    assert sum(map(len, taken.outcome.results)) < 4_000 and len(list(small.iterdir())) == 1
    check(unpack(taken.outcome.results), 40, 20)
    assert not list(small.iterdir())


def test_rows_that_are_stored_are_split_before_they_are_packed() -> None:
    table = pa.concat_tables([rows(20, 200), rows(20, 200, 20)])
    stored = list(to_stored(table, 400))
    assert len(stored) > 4 and all(len(parcel) <= 400 or part.num_rows == 1 for part, parcel in stored)
    assert pa.concat_tables([from_stored(parcel, "here") for _, parcel in stored]).to_pylist() == table.to_pylist()


def load_cell(parcels: Iterator[tuple[int, bytes]]) -> Cell:
    cell = Cell(SPEC)
    cell.load(Loading(None, NONE_YET, parcels), "")
    return cell


def test_a_cell_is_loaded_from_more_text_than_one_array_holds() -> None:
    stored = [(LANES["a"], parcel) for first in (0, 20) for _, parcel in to_stored(rows(20, 10, first))]
    outcome = load_cell(iter(stored)).push("", "next", NONE_YET, [(LANES["b"], to_wire(rows(2)))])
    check(unpack(outcome.results), 40, 2)


@pytest.mark.slow
def test_a_cell_is_loaded_from_more_than_two_gibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    count, size = 2_200, 1_000_000

    def stored() -> Iterator[tuple[int, bytes]]:
        for first in range(0, count, 8):
            for _, parcel in to_stored(rows(8, size, first)):
                yield LANES["a"], parcel

    cell = load_cell(stored())
    handed: list[Any] = []

    def take_names(parcels: list[bytes]) -> None:
        for parcel in parcels:
            names = pc.utf8_slice_codeunits(unpack([parcel])["x"], 0, 10)
            handed.extend(names.to_pylist())

    outcome = cell.push("", "next", NONE_YET, [(LANES["b"], to_wire(rows(1)))], (), take_names)
    take_names(outcome.results)
    assert sorted(handed) == [f"{at:010d}" for at in range(count)]
