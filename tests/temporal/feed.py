"""Random input: event times at and beside the borders of steps, ties, late rows, and watermarks of every kind."""

from __future__ import annotations

import dataclasses
import random

import pyarrow as pa

from ..oracle.accept import Arrival, WatermarkClock, event_time, refusal
from ..oracle.expr import Value
from ..oracle.spec import Case, Push, Row, Source, Watermark
from .queries import Draft

WATERMARKS = ("implicit", "implicit", "explicit", "explicit", "explicit", "per stream", "switch")
FAR = 400 * 86_400_000_000


class Clock:
    """Event times that move on with some disorder, often exactly at the border of a step or beside it."""

    def __init__(self, draft: Draft) -> None:
        rng = draft.rng
        self.rng = rng
        self.step = draft.step
        self.unit = draft.unit
        self.grain = {"s": 1_000_000, "ms": 1_000}.get(str(getattr(draft.time_type, "unit", "us")), 1)
        self.tick = max(self.grain, draft.unit // rng.choice([1, 1, 2, 4]) // self.grain * self.grain)
        self.pace = rng.choice([0.05, 0.2, 0.5, 1.0])
        self.disorder = rng.choice([0, 1, 3, 6])
        # A step with nothing in it costs nothing, but what never ends is there in every step.
        endless = any(relation.window.kind == "unbounded" for relation in draft.inputs)
        self.jumps = (5, 20) if endless or draft.unit == 1 else (5, 40, FAR // self.tick, 7 * FAR // self.tick)
        origins = [0, -7 * draft.step, -15 * draft.unit, 3]
        if draft.unit > 1:
            origins += [1_704_067_200_000_000, 1_704_067_200_000_000 + 12_345_678, -1_000_000_000_000_000]
        self.now = float(rng.choice(origins) // self.tick)

    def next(self) -> int:
        self.now += self.pace * self.rng.random() * 2
        return self._draw(int(self.now) - self.rng.randint(0, self.disorder))

    def older(self) -> int:
        return self._draw(int(self.now) - self.disorder - self.rng.randint(1, 12))

    def mark(self) -> int:
        """A watermark: mostly what no row in order is late for, often exactly where a step ends."""
        ahead = self.rng.choice([0] * 8 + [-1, -3, 1, 4])
        return self._draw(int(self.now) - self.disorder + ahead, beside=True)

    def jump(self) -> None:
        self.now += self.rng.choice(self.jumps)

    def _draw(self, ticks: int, beside: bool = False) -> int:
        moment = ticks * self.tick
        if self.rng.random() < (0.5 if beside else 0.3):
            moment = moment // self.step * self.step + self.rng.choice([0, 0, -1, 1])
        return moment if beside else moment // self.grain * self.grain


class Maker:
    """Draws rows and keeps their numbers."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.rng = draft.rng
        self.nulls = draft.rng.choice([0.0, 0.1, 0.1, 0.3])
        self.made = 0

    def make(self, source: Source, ts: int | None) -> Row:
        values: dict[str, Value] = {}
        for column in source.schema:
            if column.name == source.event_time:
                values[column.name] = self._event_time(ts, column.type)
            elif self.rng.random() < self.nulls:
                values[column.name] = None
            else:
                values[column.name] = self.rng.choice(self.draft.pools[source.name, column.name])
        self.made += 1
        return Row(-self.made if source.is_static else self.made, source.name, values)

    def _event_time(self, ts: int | None, type_: pa.DataType) -> int | None:
        """Nanoseconds are cut to microseconds by whoever reads them."""
        is_finer = ts is not None and pa.types.is_timestamp(type_) and type_.unit == "ns"
        return ts * 1000 + self.rng.choice([0, 1, 999]) if is_finer and ts is not None else ts


def draw_feed(draft: Draft, empty: Case, rows: int) -> Case:
    """The case with rows of its static tables, delays, and pushes."""
    rng, maker, clock = draft.rng, Maker(draft), Clock(draft)
    mode = rng.choice(WATERMARKS)
    sources = dict(empty.sources)
    for name, source in sources.items():
        if source.is_static:
            table = tuple(maker.make(source, None) for _ in range(rng.randint(0, 6)))
            sources[name] = dataclasses.replace(source, table_rows=table)
        else:
            delay = rng.choice([0, clock.disorder, clock.disorder, clock.disorder + 3]) * clock.tick + rng.choice(
                [0, 1]
            )
            sources[name] = dataclasses.replace(source, delay=delay)
    case = dataclasses.replace(empty, sources=sources)
    streams = [sources[name] for name in case.streams]
    marks = WatermarkClock(case)
    late = rng.choice([0.0, 0.0, 0.05, 0.15])
    largest = rng.choice([1, 2, 4, 10, rows])
    switch = rng.randint(1, 4)
    pushes: list[Push] = []
    made = 0
    while made < rows:
        count = min(rng.randint(0 if largest > 1 else 1, largest), rows - made)
        made += count
        drawn = []
        for _ in range(count):
            ts: int | None = clock.older() if rng.random() < late else clock.next()
            ts = None if rng.random() < 0.01 else ts
            drawn.append(maker.make(rng.choice(streams), ts))
        if rng.random() < 0.15:
            clock.jump()
        given = _draw_watermark(mode, marks, clock, len(pushes) >= switch, rng)
        push = Push(tuple(drawn), given)
        _move(case, marks, push)
        pushes.append(push)
    return case.with_pushes(pushes)


def _draw_watermark(mode: str, marks: WatermarkClock, clock: Clock, switched: bool, rng: random.Random) -> Watermark:
    """What a push gives; it never goes back."""
    if mode == "per stream":
        chosen = [name for name in marks.delays if rng.random() < 0.6]
        return {name: max(clock.mark(), marks.given.get(name, -(2**62))) for name in chosen} or None
    if mode == "explicit" or (mode == "switch" and switched):
        if rng.random() < 0.2:
            return None
        # The rows of this very push may still move the watermark on before the first one is given.
        least = [marks.current] if marks.current is not None else []
        return max([clock.mark(), *least, *marks.given.values()])
    return None


def _move(case: Case, marks: WatermarkClock, push: Push) -> None:
    """Take a push in, as far as the watermark is concerned."""
    arrivals = []
    for row in push.rows:
        ts = event_time(case, row)
        if refusal(ts, marks.current, None) is None and ts is not None:
            arrivals.append(Arrival(row, ts, 0))
    marks.after(arrivals, push.watermark)
