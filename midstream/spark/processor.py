"""The stateful operator: Spark calls it for every cell that has parcels or whose timer has fired.

Only the parcels of the windows and the ledger are durable. The engine, with everything that is derived from them, is on
the cell's host. A batch writes a new random stamp into the ledger and onto the host. In the next batch the host is in
place only if both stamps are equal.

Spark's state store may mix the files of two attempts at one batch. There a batch writes the same bytes for the same
rows, in whatever order and parcels they were delivered. Only the stamp differs, and perhaps the plan, if the strategy
of a command depends on the content of the engine's states, or the routing, which goes by samples of the rows as they
came. That does no harm: all attempts store the same rows, so the engine of any stamp has these rows too, and any plan
and any routing are right. All three are in the ledger, one value, and so of one attempt. Where the store keeps attempts
apart, large parcels are stored as they came, which costs less.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from midstream.errors import SparkError
from midstream.spark.checkpoint.start import choose_start
from midstream.spark.checkpoint.store import LEDGER, PARCELS, CellStore, drop_late, open_ledger
from midstream.spark.commands.messages import COMMAND_LANE, refuse_early
from midstream.spark.hosts.cell import NONE_YET, Loading
from midstream.spark.hosts.turn import Turn, take
from midstream.spark.parcels.encoding import LARGEST_PARCEL, to_wire
from midstream.spark.parcels.packing import NO_LANE, NewestTime
from midstream.spark.reports.cell_report import report_of, write_report
from midstream.spark.routing.cell_numbers import spark_hash
from midstream.spark.routing.content import order_rows
from midstream.spark.settings import ARROW_ROWS
from midstream.spark.spec import STEP, JoinSpec
from midstream.spark.task import current_run, settle, tells_attempts_apart

#: Smaller parcels of a batch are stored together instead of as they have come.
SMALLEST_KEPT = 64 << 10


@dataclass
class Delivery:
    """What a batch has for a cell: parcels with their lanes and numbers of home rows, and what was counted before."""

    parcels: list[tuple[int, bytes]] = field(default_factory=list)
    homes: list[int] = field(default_factory=list)
    commands: list[bytes] = field(default_factory=list)
    newest: list[NewestTime] = field(default_factory=list)
    dropped: int = 0
    rejected: int = 0

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Delivery:
        delivery = cls()
        for row in rows:
            delivery.dropped += row.dropped
            delivery.rejected += row.rejected
            if row.lane == COMMAND_LANE:
                delivery.commands.append(bytes(row.parcel))
            elif row.lane == NO_LANE:
                delivery.newest += [NewestTime.from_bytes(bytes(row.parcel))] if row.parcel else []
            else:
                delivery.parcels.append((row.lane, bytes(row.parcel)))
                delivery.homes.append(row.home)
        return delivery


class JoinProcessor(StatefulProcessor):
    """Runs the cells of one partition."""

    def __init__(self, spec: JoinSpec):
        self._spec = spec
        self._by_step: dict[int | None, JoinSpec] = {}

    def init(self, handle: StatefulProcessorHandle) -> None:
        settle()
        self._handle = handle
        self._called: set[int] = set()
        self._parcels = handle.getMapState(PARCELS, "sequence bigint, lane int", "parcel binary")
        self._ledger = handle.getValueState(LEDGER, "ledger binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        if key[0] in self._called and self._counts_batches:
            # Beside an initial state Spark hands over a key's rows piece by piece, and each would be taken for a batch.
            raise SparkError(
                f"cell {spark_hash(key[0])} of {self._spec.cells}: more parcels have come than Spark hands over at a "
                f"time; raise {ARROW_ROWS}"
            )
        self._called.add(key[0])
        return self._take(key, Delivery.of(rows), timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        return self._take(key, Delivery(), timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        """Rows of a static table, in the first batch."""
        store = self._store(key)
        if initialState.lane != NO_LANE:
            store.add(initialState.lane, store.rows(initialState.lane, [bytes(initialState.parcel)]))
        self._ledger.update((store.ledger.to_bytes(),))

    def close(self) -> None:
        pass

    @property
    def _counts_batches(self) -> bool:
        """Whether it matters which rows come in one batch: of a plain join it does not."""
        return self._spec.query.step is not None or self._spec.needs_snapshots

    def _store(self, key: Any) -> CellStore:
        where = f"cell {spark_hash(key[0])} of {self._spec.cells}"
        value = self._ledger.get()
        ledger = open_ledger(None if value is None else bytes(value[0]), self._spec, where)
        return CellStore(self._going_on_in(ledger.query.get(STEP)), self._parcels, ledger, where)

    def _going_on_in(self, step: int | None) -> JoinSpec:
        """The join in the steps of the checkpoint, which are those of all cells."""
        if step not in self._by_step:
            self._by_step[step] = self._spec.going_on_in(step)
        return self._by_step[step]

    def _take(self, key: Any, delivery: Delivery, timers: Any, fired: int | None = None) -> Iterator[Row]:
        began = time.perf_counter()
        number = key[0]
        cell, store = spark_hash(number), self._store(key)
        batch = CellBatch(store.spec, store, delivery, max(timers.getCurrentWatermarkInMs(), 0), cell)
        if not store.ledger.stamp:
            store.renumber()
            delivery.commands = [refuse_early(command) for command in delivery.commands]
        count = store.ledger.batches
        # The join of a batch query has one batch, after which nobody would ask for its hosts.
        results, report = batch.run(None if self._spec.is_bounded else current_run())
        self._set_timer(store, fired)
        began_saving = time.perf_counter()
        self._ledger.update((store.ledger.to_bytes(),))
        batch.store_seconds += time.perf_counter() - began_saving
        report |= {"store": batch.store_seconds, "total": time.perf_counter() - began}
        for result in results:
            yield Row(cell=number, batch=count, parcel=result, report=None)
        yield Row(cell=number, batch=count, parcel=None, report=write_report(report_of(cell, report)))

    def _set_timer(self, store: CellStore, fired: int | None) -> None:
        """Set a timer that fires at any later watermark; Spark removes a timer that has fired.

        So a cell is called in every batch whose watermark has changed, even without rows, and the ledger always has
        the watermark of the batch before.
        """
        ledger = store.ledger
        pending = None if ledger.timer == fired else ledger.timer
        wanted = ledger.watermark + 1
        if wanted != pending:
            if pending is not None:
                self._handle.deleteTimer(pending)
            self._handle.registerTimer(wanted)
        ledger.timer = wanted


class CellBatch:
    """One batch of one cell, from the delivery to results and a changed ledger.

    The watermark of the batch before decides which rows are late; this batch's watermark decides what has expired. With
    steps that is whatever was valid only before the oldest open step: the steps that are open have to be computed again
    from what is stored.
    """

    def __init__(self, spec: JoinSpec, store: CellStore, delivery: Delivery, milliseconds: int, cell: int):
        self._spec = spec
        self._store = store
        self._delivery = delivery
        self._milliseconds = max(milliseconds, store.ledger.watermark)
        self._watermark = _in_microseconds(self._milliseconds)
        self._before = _in_microseconds(store.ledger.watermark)
        self._cell = cell
        self._rows_in: dict[int, int] = {}
        self._late: dict[int, int] = {}
        self._stores_as_come = tells_attempts_apart()
        self.store_seconds = 0.0

    def run(self, run: str | None) -> tuple[list[bytes], dict[str, Any]]:
        """Results as parcels, and what there is to report."""
        ledger = self._store.ledger
        listed = list(ledger.parcels)
        start = choose_start(ledger, self._spec, self._cell)
        turn = Turn(
            spec=self._spec,
            run=run,
            cell=self._cell,
            stamp=ledger.stamp,
            watermark=self._watermark,
            parcels=self._pushed(),
            commands=self._delivery.commands,
            stored=lambda: Loading(start.plan, self._before, self._store.read(listed), start.routing),
            meanwhile=self._keep,
        )
        taken = take(turn)
        began = time.perf_counter()
        if self._spec.needs_snapshots:
            self._store.replace_snapshot(taken.outcome.snapshot)
        kept_from = self._spec.kept_from(self._watermark)
        self._store.expire(kept_from)
        self._store.merge(kept_from)
        ledger.stamp, ledger.watermark = taken.stamp, self._milliseconds
        ledger.batches += 1
        ledger.plan, ledger.router = taken.outcome.report["plan"], taken.outcome.router
        self.store_seconds += time.perf_counter() - began
        lanes = self._spec.routing.lanes
        streams = [name for name in self._spec.query.streams if name not in self._spec.aggregated]
        return taken.outcome.results, taken.outcome.report | {
            "in": {lanes[lane].name: count for lane, count in self._rows_in.items()},
            "late": {lanes[lane].name: count for lane, count in self._late.items()},
            "dropped": self._delivery.dropped,
            "rejected": self._delivery.rejected,
            "stored": ledger.stored_bytes,
            "parcels": len(ledger.parcels),
            "reached": {name: self._stream_watermark(name) for name in streams},
            "watermark": self._milliseconds or None,
            "place": taken.place,
            "loads": taken.loads,
            "step": self._spec.stored_step,
        }

    def _stream_watermark(self, stream: str) -> int | None:
        """The latest watermark that a stream allows, in microseconds; None before its first row."""
        newest = self._store.ledger.newest.get(stream)
        return None if newest is None else newest - self._spec.delays.get(stream, 0)

    def _note_newest(self, source: str, event_time: int) -> None:
        newest = self._store.ledger.newest
        newest[source] = max(event_time, newest.get(source, event_time))

    def _pushed(self) -> list[tuple[int, bytes]]:
        """The parcels for the engine. With ROWS windows the order of rows counts, so they are ordered by content."""
        if not self._spec.needs_snapshots:
            return self._delivery.parcels
        parcels: dict[int, list[bytes]] = {}
        for lane, parcel in self._delivery.parcels:
            parcels.setdefault(lane, []).append(parcel)
        return [
            (lane, to_wire(piece))
            for lane, parts in sorted(parcels.items())
            for piece in order_rows(self._store.rows(lane, parts), self._spec.routing.lanes[lane].event_time)
        ]

    def _keep(self) -> None:
        """Count what has come, and store what is not late."""
        began = time.perf_counter()
        lanes = self._spec.routing.lanes
        kept: dict[int, list[pa.Table]] = {}
        for note in self._delivery.newest:
            if note.newest is not None:
                self._note_newest(note.source, note.newest)
        for (lane, parcel), home in zip(self._delivery.parcels, self._delivery.homes, strict=True):
            times = self._store.times(lane, parcel)
            self._rows_in[lane] = self._rows_in.get(lane, 0) + home
            if len(times) == 0:
                continue
            self._note_newest(lanes[lane].source, int(times.max()))
            is_on_time = int(times.min()) >= self._before and not self._spec.needs_snapshots
            if self._stores_as_come and is_on_time and SMALLEST_KEPT <= len(parcel) <= LARGEST_PARCEL:
                self._store.add_parcel(lane, parcel, times)
                continue
            rows, late = drop_late(times, self._store.rows(lane, [parcel]), self._before)
            kept.setdefault(lane, []).append(rows)
            if late is not None:
                self._late[lane] = self._late.get(lane, 0) + int((late < home).sum())
        for lane, tables in sorted(({} if self._spec.needs_snapshots else kept).items()):
            self._store.add(lane, pa.concat_tables(tables))
        self.store_seconds += time.perf_counter() - began


def _in_microseconds(milliseconds: int) -> int:
    """Spark's watermark in microseconds; 0 means that there is none yet."""
    return milliseconds * 1000 if milliseconds else NONE_YET
