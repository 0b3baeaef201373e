"""The way of a push: its rows are checked, go through the pipeline, and move the watermark and the counters on.

::

    data, watermark -> receive -> Checked -> take -> result tables
                                               |
                                               watermark, rows in and out, refused rows

`receive` changes nothing. What `take` has begun has to be taken to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.input.event_time import LATE
from midstream.engine.input.intake import Intake, Receiver, WatermarkLike
from midstream.engine.input.kept_rows import KeptRows
from midstream.engine.input.watermark import NONE_YET, Watermark
from midstream.engine.memory.shedding import Admission
from midstream.engine.pipeline import Pipeline
from midstream.engine.routing.rates import MatchRates
from midstream.engine.stats import EngineStats
from midstream.plan import Plan
from midstream.tables import TableLike

#: In the metadata of a result's schema: how many rows were shed so far, if any were.
SHED_KEY = b"midstream.shed"


class Checked(NamedTuple):
    """A push that was checked: what was given, and how its rows may enter."""

    intake: Intake
    admission: Admission


class PushLoop:
    """Pipeline, watermark and counters of one query. `late_limit` refused rows of each stream are kept."""

    def __init__(
        self,
        query: Query,
        plan: Plan,
        kind: ExecutorKind,
        *,
        longest_jump: int | None = None,
        late_limit: int = 0,
        rates: MatchRates | None = None,
        demand: str = "off",
        may_shed: bool = False,
    ):
        self._late_rows: dict[str, KeptRows] = {}
        self.pipeline = Pipeline(
            query, plan, kind, late_bytes=self._late_bytes, rates=rates, demand=demand, may_shed=may_shed
        )
        self.watermark = Watermark({stream: query.delays.get(stream, 0) for stream in query.streams}, query.time_type)
        self._receiver = Receiver(query, self.pipeline.readers, longest_jump, late_limit > 0)
        self._late_limit = late_limit
        self._rows_in = dict.fromkeys(query.streams, 0)
        self._rows_out = 0
        self._refused: dict[str, dict[str, int]] = {stream: {} for stream in query.streams}

    def receive(
        self,
        data: Mapping[str, TableLike],
        watermark: WatermarkLike | Mapping[str, WatermarkLike] | None = None,
    ) -> Checked:
        """Check a push; an error if it cannot be understood, or does not fit into the memory there is."""
        intake = self._receiver.receive(data, watermark, self.watermark)

        def find_watermark() -> int:
            return self.watermark.after(intake.maxima, intake.watermark).current

        return Checked(intake, self.pipeline.memory.admit(intake.accepted, find_watermark))

    def take(self, checked: Checked) -> Iterator[pa.Table]:
        """Take in a checked push; yields result tables."""
        intake = checked.intake
        moved = self.watermark.after(intake.maxima, intake.watermark)
        for table in self.pipeline.take(checked.admission, moved.current):
            self._rows_out += table.num_rows
            yield self.note_shed(table)
        self._count(intake)
        self.watermark = moved
        if intake.refused_rows:
            self.pipeline.memory.hold()

    def note_shed(self, table: pa.Table) -> pa.Table:
        """A result table, whose schema tells that it is not complete if rows were shed."""
        shed = self.pipeline.count_shed()
        return table.replace_schema_metadata({**(table.schema.metadata or {}), SHED_KEY: str(shed)}) if shed else table

    def _count(self, intake: Intake) -> None:
        for stream, rows in intake.accepted.items():
            self._rows_in[stream] += len(rows)
        for stream, reasons in intake.refused.items():
            counters = self._refused[stream]
            for reason, count in reasons.items():
                counters[reason] = counters.get(reason, 0) + count
        for stream, table in intake.refused_rows.items():
            if table.num_rows:
                self._late_rows.setdefault(stream, KeptRows(self._late_limit)).add(table)

    def _late_bytes(self) -> int:
        return sum(kept.nbytes for kept in self._late_rows.values())

    def take_late(self) -> dict[str, pa.Table]:
        """The refused rows that were kept since the last call."""
        taken = {stream: kept.table() for stream, kept in self._late_rows.items()}
        self._late_rows = {}
        return taken

    def finish(self) -> pa.Table:
        """Free all state; the results that were held back."""
        released = self.pipeline.release()
        self._rows_out += released.num_rows
        self.pipeline.clear()
        return self.note_shed(released)

    def stats(self) -> EngineStats:
        """Counters, and the size of every state."""
        states = tuple(self.pipeline.stats())
        watermark = self.watermark.current
        return EngineStats(
            rows_in=dict(self._rows_in),
            rows_out=self._rows_out,
            late={stream: counters.get(LATE, 0) for stream, counters in self._refused.items()},
            rejected={
                stream: {reason: count for reason, count in counters.items() if reason != LATE}
                for stream, counters in self._refused.items()
            },
            dropped=self.pipeline.dropped(),
            watermark=None if watermark == NONE_YET else watermark,
            held_back_by=self.watermark.held_back_by(),
            state_bytes=self.pipeline.memory.count().total,
            states=states,
            work=self.pipeline.work(),
            memory=self.pipeline.memory.stats(),
            demand=self.pipeline.demand_stats(),
        )

    # Going on --------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """What a snapshot keeps of the watermark and the counters."""
        return {
            "watermark": self.watermark.to_json(),
            "rows_in": self._rows_in,
            "rows_out": self._rows_out,
            "refused": self._refused,
        }

    def from_json(self, stored: Mapping[str, Any]) -> None:
        """Go on from what a snapshot kept."""
        self.watermark.from_json(stored["watermark"])
        self._rows_in, self._rows_out = dict(stored["rows_in"]), stored["rows_out"]
        self._refused = {stream: dict(reasons) for stream, reasons in stored["refused"].items()}

    def go_on_from(self, rows: Mapping[str, TableLike], watermark: WatermarkLike) -> None:
        """Go on after rows whose results are out already, from a watermark that is explicit from now on."""
        known = self.receive(rows).intake
        self.watermark.advance(known.maxima, self._receiver.moment(watermark, "resume"))
        self.pipeline.go_on_from(known.accepted, self.watermark.current)
