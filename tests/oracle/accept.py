"""Which rows the engine must accept, straight from the definition: lateness, watermarks, rejects, arrival numbers."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field

from .spec import INT64_MAX, INT64_MIN, Case, Push, Row, Watermark, to_microseconds

LATE = "late"
NULL_TIME = "null event time"
OUT_OF_RANGE = "event time out of range"
TOO_FAR = "too far ahead"


@dataclass(frozen=True)
class Arrival:
    """An accepted row with its event time in microseconds and its place among all accepted rows."""

    row: Row
    ts: int
    number: int


@dataclass
class Acceptance:
    """What became of every row. `watermarks[i]` is the query's watermark before push i; the last is the final one."""

    arrivals: list[Arrival] = field(default_factory=list)
    refused: list[tuple[Row, str]] = field(default_factory=list)
    watermarks: list[int | None] = field(default_factory=list)

    def counts(self, reason_is_late: bool) -> dict[str, collections.Counter[str]]:
        """Per stream, how many rows were late, or were rejected for which reason."""
        counts: dict[str, collections.Counter[str]] = {}
        for row, reason in self.refused:
            if (reason == LATE) == reason_is_late:
                counts.setdefault(row.source, collections.Counter())[reason] += 1
        return counts


class WatermarkClock:
    """The query's watermark: the smallest of its streams' own watermarks.

    That of a stream is its largest event time less its delay, or a watermark given for it, if that is larger.
    Once a watermark was given for the whole query, only given ones count.
    """

    def __init__(self, case: Case) -> None:
        self.delays = {name: case.sources[name].delay for name in case.streams}
        self.maxima: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.explicit = False
        self.current: int | None = None

    def after(self, arrivals: list[Arrival], given: Watermark) -> int | None:
        for arrival in arrivals:
            self.maxima[arrival.row.source] = max(arrival.ts, self.maxima.get(arrival.row.source, arrival.ts))
        if isinstance(given, dict):
            self.given.update(given)
        elif given is not None:
            self.explicit = True
            self.given = {name: max(given, self.given.get(name, given)) for name in self.delays}
        watermarks = [self._stream_watermark(name) for name in self.delays]
        known = [watermark for watermark in watermarks if watermark is not None]
        if len(known) == len(watermarks):
            smallest = min(known)
            self.current = smallest if self.current is None else max(self.current, smallest)
        return self.current

    def limit(self, name: str, max_jump: int | None) -> int | None:
        """The largest event time that is not too far ahead: so much beyond the largest that the stream has had.

        A stream without rows is measured by the others.
        """
        if max_jump is None or not self.maxima:
            return None
        return self.maxima.get(name, max(self.maxima.values())) + max_jump

    def _stream_watermark(self, name: str) -> int | None:
        marks = [self.given[name]] if name in self.given else []
        if not self.explicit and name in self.maxima:
            marks.append(self.maxima[name] - self.delays[name])
        return max(marks, default=None)


def refusal(ts: int | None, watermark: int | None, limit: int | None) -> str | None:
    """Why a row is not accepted, or None; `limit` is the largest event time that is not too far ahead."""
    if ts is None:
        return NULL_TIME
    if not INT64_MIN < ts <= INT64_MAX:
        return OUT_OF_RANGE
    if watermark is not None and ts < watermark:
        return LATE
    if limit is not None and ts > limit:
        return TOO_FAR
    return None


def accept(case: Case) -> Acceptance:
    """Take every push in turn; inside a push rows arrive by event time, ties by the order in FROM, then by position."""
    result = Acceptance()
    clock = WatermarkClock(case)
    for push in case.pushes:
        result.watermarks.append(clock.current)
        arrivals = _accept_push(case, push, clock, result)
        clock.after(arrivals, push.watermark)
    result.watermarks.append(clock.current)
    return result


def _accept_push(case: Case, push: Push, clock: WatermarkClock, result: Acceptance) -> list[Arrival]:
    accepted: list[tuple[int, int, int, Row]] = []
    order = {name: place for place, name in enumerate(case.streams)}
    limits = {name: clock.limit(name, case.max_jump) for name in case.streams}
    for position, row in enumerate(push.rows):
        ts = event_time(case, row)
        reason = refusal(ts, clock.current, limits[row.source])
        if reason is None and ts is not None:
            accepted.append((ts, order[row.source], position, row))
        else:
            result.refused.append((row, reason or ""))
    accepted.sort(key=lambda entry: entry[:3])
    first = len(result.arrivals)
    arrivals = [Arrival(row, ts, first + offset) for offset, (ts, _, _, row) in enumerate(accepted)]
    result.arrivals += arrivals
    return arrivals


def event_time(case: Case, row: Row) -> int | None:
    source = case.sources[row.source]
    name = str(source.event_time)
    return to_microseconds(row.values[name], source.schema.field(name).type)
