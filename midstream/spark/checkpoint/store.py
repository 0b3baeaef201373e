"""A cell's part of the state store: its parcels and its ledger.

The state variables never change: one map of parcels, one value of bytes. The ledger tells which parcels there are, so
nothing is ever scanned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from midstream.cql.durations import duration_text
from midstream.cql.model import Input
from midstream.cql.windows import Window, window_of
from midstream.engine.snapshot.checkpoint import check_windows
from midstream.engine.snapshot.format import same_or_reason
from midstream.errors import SnapshotError, SparkError
from midstream.kernels.types import LARGEST
from midstream.spark.checkpoint.ledger import SNAPSHOT_LANE, Ledger, Parcel
from midstream.spark.parcels.encoding import column_of, concatenate, from_stored, from_wire, to_stored
from midstream.spark.routing.content import order_rows
from midstream.spark.routing.rules import find_difference
from midstream.spark.spec import STEP, JoinSpec
from midstream.state.arrow import make_contiguous, values_of
from midstream.state.indexes import Ints

#: The names of the state variables, which a checkpoint keeps.
PARCELS, LEDGER = "parcels", "ledger"


class ParcelMap(Protocol):
    """What is used of Spark's map state."""

    def getValue(self, key: tuple[int, int]) -> tuple[bytes] | None: ...
    def updateValue(self, key: tuple[int, int], value: tuple[bytes]) -> None: ...
    def removeKey(self, key: tuple[int, int]) -> None: ...


class CellStore:
    """The parcels of one cell, listed in its ledger."""

    def __init__(self, spec: JoinSpec, parcels: ParcelMap, ledger: Ledger, where: str):
        self.spec = spec
        self._parcels = parcels
        self.ledger = ledger
        self._where = where

    def read(self, listed: Sequence[Parcel]) -> Iterator[tuple[int, bytes]]:
        """Stored parcels with their lanes."""
        for parcel in listed:
            yield parcel.lane, self._content(parcel)

    def _content(self, parcel: Parcel) -> bytes:
        found = self._parcels.getValue(parcel.key)
        if found is None:
            raise SparkError(
                f"{self._where}: parcel {parcel.sequence} is listed but not in the state store; "
                "restore the checkpoint from a copy"
            )
        return bytes(found[0])

    def add(self, lane: int, rows: pa.Table) -> None:
        """Store rows that have just been accepted. The bytes do not depend on the order in which the rows came."""
        for piece in order_rows(rows, self.spec.routing.lanes[lane].event_time):
            for part, content in to_stored(piece):
                self._put(lane, part.num_rows, content, self._ends(lane, part))

    def add_parcel(self, lane: int, parcel: bytes, times: Ints) -> None:
        """Store a parcel as it has come; its rows have these event times."""
        self._put(lane, len(times), parcel, self._ends_of(lane, times.max(keepdims=True)))

    def _put(self, lane: int, rows: int, content: bytes, ends: Ints | None) -> None:
        parcel = self.ledger.add(lane, rows, len(content), None if ends is None else int(ends.max()))
        self._parcels.updateValue(parcel.key, (content,))

    def rows(self, lane: int, parcels: Sequence[bytes]) -> pa.Table:
        """The rows of parcels that have come over the wire."""
        schema = self.spec.routing.cell_query.schemas[self.spec.routing.lanes[lane].name]
        return concatenate((from_wire(parcel) for parcel in parcels), schema)

    def _ends(self, lane: int, rows: pa.Table) -> Ints | None:
        """When rows leave the last of their windows; None if they never do."""
        name = self.spec.routing.lanes[lane].event_time
        return None if name is None else self._ends_of(lane, values_of(make_contiguous(rows[name]), "<i8"))

    def _ends_of(self, lane: int, times: Ints) -> Ints | None:
        return _last_ends(_windows_of(self.spec, lane), times)

    def times(self, lane: int, parcel: bytes) -> Ints:
        """The event times of a parcel's rows in microseconds."""
        name = self.spec.routing.lanes[lane].event_time
        assert name is not None
        return values_of(column_of(parcel, name), "<i8")

    def replace_snapshot(self, pieces: Sequence[bytes]) -> None:
        """Store an engine's snapshot instead of the one before."""
        self._remove([parcel for parcel in self.ledger.parcels if parcel.lane == SNAPSHOT_LANE])
        for piece in pieces:
            parcel = self.ledger.add(SNAPSHOT_LANE, 0, len(piece), None)
            self._parcels.updateValue(parcel.key, (piece,))

    def expire(self, kept_from: int) -> None:
        """Remove parcels whose rows have left all windows before a moment, in microseconds."""
        self._remove(self.ledger.expired(kept_from))

    def _remove(self, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            self._parcels.removeKey(parcel.key)
        self.ledger.drop(parcels)

    def renumber(self) -> None:
        """Store the rows of static tables again, ordered by their content: their parcels came in any order."""
        listed = list(self.ledger.parcels)
        rows = {
            lane: self._rows_of([parcel for parcel in listed if parcel.lane == lane])
            for lane in sorted({parcel.lane for parcel in listed})
        }
        self._remove(listed)
        self.ledger.next_sequence = 0
        for lane, table in rows.items():
            self.add(lane, table)

    def _rows_of(self, parcels: Sequence[Parcel]) -> pa.Table:
        """The rows of stored parcels of one lane."""
        schema = self.spec.routing.cell_query.schemas[self.spec.routing.lanes[parcels[0].lane].name]
        return concatenate((from_stored(self._content(parcel), self._where) for parcel in parcels), schema)

    def merge(self, kept_from: int) -> None:
        """Make one parcel of many small ones, without rows that have left all windows before a moment."""
        for group in self.ledger.to_merge():
            lane = group[0].lane
            rows = self._rows_of(group)
            ends = self._ends(lane, rows)
            if ends is not None and len(ends) and int(ends.min()) < kept_from:
                rows = rows.filter(pa.array(ends >= kept_from))
            self._remove(group)
            self.add(lane, rows)


def open_ledger(data: bytes | None, spec: JoinSpec, where: str) -> Ledger:
    """The ledger of a cell, checked against the query as it is now; a new one if the cell has none.

    The query goes on in the steps that the ledger tells, also if others follow from its windows now.
    """
    if data is None:
        return Ledger(spec.routing.fingerprint(), spec.described, spec.windows, spec.columns, spec.plan)
    ledger = Ledger.from_bytes(data, where)
    found = find_difference(ledger.routing, spec.routing.fingerprint())
    if found is not None:
        raise SparkError(
            f"{where}: rows would go to other cells than those in the checkpoint; {found}; "
            "restart with the former query and options (partitions, rates, hot_keys), or start with a new checkpoint"
        )
    _check_step(spec, ledger, where)
    spec = spec.going_on_in(ledger.query.get(STEP))
    reason = same_or_reason(ledger.query, spec.described)
    if reason is not None:
        raise SparkError(
            f"{where}: the checkpoint is of another query; {reason.replace('the snapshot', 'the checkpoint')}; "
            "restart with the former query, or start with a new checkpoint"
        )
    if not spec.allow_incomplete:
        _check_windows(spec, ledger, where)
    _check_columns(spec, ledger, where)
    if ledger.windows != spec.windows:
        ledger.parcels = [_with_windows_of(spec, ledger, parcel) for parcel in ledger.parcels]
    ledger.windows, ledger.columns = spec.windows, spec.columns
    return ledger


def _with_windows_of(spec: JoinSpec, ledger: Ledger, parcel: Parcel) -> Parcel:
    """A stored parcel whose end follows from the current windows."""
    if parcel.lane == SNAPSHOT_LANE:
        return parcel
    lane = spec.routing.lanes[parcel.lane]
    if lane.event_time is None:
        return replace(parcel, until=None)
    if parcel.until is None:
        newest = ledger.newest.get(lane.source, int(LARGEST))  # at least that of the parcel
    else:
        newest = min(window_of(*ledger.windows[number]).latest_time(parcel.until) for number in lane.inputs)
    ends = _last_ends(_windows_of(spec, parcel.lane), np.array([newest], np.int64))
    return replace(parcel, until=None if ends is None else int(ends[0]))


def _windows_of(spec: JoinSpec, lane: int) -> list[Window]:
    return [spec.query.inputs[number].window for number in spec.routing.lanes[lane].inputs]


def _last_ends(windows: Sequence[Window], times: Ints) -> Ints | None:
    """When rows of these event times leave the last of a lane's windows; None if time alone does not tell."""
    if not all(window.ends_by_time for window in windows):
        return None
    ends: Ints = np.max([window.intervals(times)[1] for window in windows], axis=0)
    return ends


def _check_step(spec: JoinSpec, ledger: Ledger, where: str) -> None:
    """Refuse to go from a plain join to steps or back, and to other steps: rows were kept as long as those need them.

    A step that merely follows from windows, which are smaller now, does not count: the one of the checkpoint does.
    """
    before, now = ledger.query.get(STEP), spec.query.step
    right = "restart with the former query"
    if before is None and now is None:
        return
    if before is None:
        told = "is of a plain join, and the query has DISTINCT, groups, set operations or TUMBLE windows, "
        told += "for which rows may be gone"
    elif now is None:
        told = f"is of a query with steps of {duration_text(before)}, and the query is a plain join"
    elif before != now and spec.query.step_is_given:
        told = f"has steps of {duration_text(before)}, and step= says {duration_text(now)}"
        right = f"give step={duration_text(before)!r}, or leave it out"
    elif (relation := _cut_bucket(spec, before)) is not None:
        told = f"has steps of {duration_text(before)}, which is not a multiple of [{relation.window.text}]"
        right = f"keep the former window of {relation.alias!r}"
    else:
        return
    raise SparkError(f"{where}: the checkpoint {told}; {right}, or start with a new checkpoint")


def _cut_bucket(spec: JoinSpec, step: int) -> Input | None:
    """An input whose buckets steps of this length would cut."""
    return next((relation for relation in spec.query.inputs if not relation.window.fits_into(step)), None)


def _check_windows(spec: JoinSpec, ledger: Ledger, where: str) -> None:
    try:
        check_windows(spec.query, ledger.windows)
    except SnapshotError as problem:
        told = str(problem).removeprefix("restore: ")
        raise SparkError(
            f"{where}: {told}, or accept results that lack older rows with allow_incomplete=True"
        ) from problem


def _check_columns(spec: JoinSpec, ledger: Ledger, where: str) -> None:
    for lane, columns in spec.columns.items():
        kept = ledger.columns[lane]
        for name, type in columns.items():
            if name not in kept:
                raise SparkError(
                    f"{where}: the checkpoint did not keep column {name!r} of {lane!r}; "
                    "use only columns that the query used when the checkpoint was made, or start with a new checkpoint"
                )
            if kept[name] != type:
                raise SparkError(
                    f"{where}: the checkpoint has column {name!r} of {lane!r} as {kept[name]}, the query as {type}; "
                    f"cast it to {kept[name]} before the join, or start with a new checkpoint"
                )


def drop_late(times: Ints, rows: pa.Table, watermark: int) -> tuple[pa.Table, Ints | None]:
    """The rows at or after the watermark, and where the late ones were; None if there are none."""
    if len(times) == 0 or int(times.min()) >= watermark:
        return rows, None
    late = times < watermark
    return rows.filter(pa.array(~late)), np.flatnonzero(late)
