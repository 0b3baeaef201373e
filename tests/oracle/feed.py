"""Random input: rows with disorder, ties, nulls and gaps, cut into pushes, with watermarks of every kind."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass

import pyarrow as pa

from .carried import CARRIED, beside, values_of
from .expr import Value
from .queries import Draft, Shape
from .spec import INT64_MIN, Push, Row, Source
from .values import EPOCH_2024, LETTERS

WATERMARKS = ("implicit", "implicit", "implicit late", "explicit", "explicit", "explicit late", "per stream", "switch")
PAYLOAD_LETTERS = ("a", "b", "ab", "A", "12", "-3", "", "é", *LETTERS[:3])
PAYLOAD_FLOATS = (0.0, -0.0, 1.5, -2.5, 0.1, float("nan"), float("inf"), 1e300, 3.75)
OUT_OF_RANGE = 20_000_000_000_000_000_000

#: Seconds at which clocks are put forward and back.
CLOCK_CHANGES = {
    "Europe/Berlin": (1_711_846_800, 1_729_990_800),
    "America/New_York": (1_710_054_000, 1_730_613_600),
    "Australia/Lord_Howe": (1_712_415_600, 1_728_142_200),
}


@dataclass(frozen=True)
class Feed:
    pushes: tuple[Push, ...]
    free: bool
    max_jump: int | None


class _Maker:
    """Draws rows; keeps the numbering."""

    def __init__(self, draft: Draft, rng: random.Random, big: bool) -> None:
        self.draft = draft
        self.rng = rng
        self.nulls = rng.choice([0.0, 0.0, 0.05, 0.2]) if not big else rng.choice([0.0, 0.02])
        self.skew = rng.random() < 0.2
        self.beside = beside(rng)
        self.values: dict[tuple[str, str], list[Value]] = {}
        for (source, column), pool in draft.pools.items():
            self.values[source, column] = pool.values(draft.sources[source].schema.field(column).type)
        self.made = 0
        self.made_static = 0

    def row(self, source: Source, ts: int | None) -> Row:
        values: dict[str, Value] = {}
        for field in source.schema:
            if field.name == source.event_time:
                values[field.name] = self._event_time(ts, field.type)
            else:
                values[field.name] = self._value(source.name, field.name)
        if source.is_static:
            self.made_static += 1
            return Row(-self.made_static, source.name, values)
        self.made += 1
        return Row(self.made - 1, source.name, values)

    def _value(self, source: str, column: str) -> Value:
        rng = self.rng
        if column == CARRIED:
            values = values_of(self.draft.sources[source].schema.field(column).type)
            return None if self.beside.random() < self.nulls else self.beside.choice(values)
        if column == "v":
            return (self.made_static + 1) * -1 if self.draft.sources[source].is_static else self.made
        if rng.random() < self.nulls:
            return None
        if column == "p":
            return rng.randrange(5)
        if column == "s":
            return rng.choice(PAYLOAD_LETTERS)
        if column == "f":
            return rng.choice(PAYLOAD_FLOATS)
        if column == "b":
            return rng.random() < 0.6
        pool = self.values[source, column]
        return rng.choice(pool[:2] if self.skew and rng.random() < 0.5 else pool)

    def _event_time(self, ts: int | None, type_: pa.DataType) -> int | None:
        if ts is None or type_ == pa.int64() or type_.unit != "ns":
            return ts
        return ts * 1000 + self.rng.choice([0, 0, 1, 500, 999])


def draw_tables(draft: Draft, rng: random.Random, rows: int, big: bool) -> None:
    """Fill the static tables."""
    maker = _Maker(draft, rng, big)
    for name, source in draft.sources.items():
        if source.is_static:
            count = rng.choice([0, rows // 4, rows // 2, rows])
            table_rows = tuple(maker.row(source, None) for _ in range(count))
            draft.sources[name] = dataclasses.replace(source, table_rows=table_rows)


def draw_feed(draft: Draft, rng: random.Random, shape: Shape, total: int, big: bool) -> Feed:
    """Rows and watermarks; sets the delays of the streams in the draft."""
    mode = shape.watermarks or rng.choice(WATERMARKS)
    spread = rng.choice([2, 3] if shape.ties else [0, 1, 3, 6])
    streams = [source for source in draft.sources.values() if not source.is_static]
    _set_delays(draft, rng, streams, mode, spread)
    streams = [draft.sources[source.name] for source in streams]
    maker = _Maker(draft, rng, big)
    clock = _Clock(draft, rng, spread)
    rejects = rng.random() < 0.12
    late = "late" in mode or (mode == "switch" and rng.random() < 0.3)
    sizes = [50, 200, 500] if big else [1, 2, 3, 5, 10, 20, 50]
    size = rng.choice(sizes)
    if shape.ties:
        size, clock.step = max(size, 20), 0.08
    switch_at = rng.randint(1, 4)
    beside_clock = beside(rng)
    is_ahead = beside_clock.random() < 0.3 if shape.ahead is None else shape.ahead
    # Only explicit watermarks are not moved on by rows that are ahead, so that no other becomes late. Cut in another
    # way, such rows could come before the first of them.
    ahead = beside_clock.choice([0.05, 0.2, 0.4]) if is_ahead and mode in ("explicit", "per stream") else 0.0
    pushes: list[Push] = []
    watermark: int | None = None
    by_stream: dict[str, int] = {}
    while maker.made < total:
        hot = rng.random() < 0.2
        rows = []
        for _ in range(min(rng.randint(0 if size > 1 else 1, size), total - maker.made)):
            stream = rng.choice([streams[0], streams[-1]] if hot else streams)
            ts: int | None = clock.next()
            if (watermark is not None or by_stream) and beside_clock.random() < ahead:
                ts = clock.ahead(beside_clock)
            if late and rng.random() < 0.15:
                ts = clock.older()
            if rejects and rng.random() < 0.08:
                ts = _reject(stream, rng)
            rows.append(maker.row(stream, ts))
        given: int | dict[str, int] | None = None
        explicit = mode.startswith("explicit") or (mode == "switch" and len(pushes) >= switch_at)
        if mode == "per stream":
            moved = streams if not by_stream else [source for source in streams if rng.random() < 0.5]
            for source in moved:
                known = by_stream.get(source.name)
                by_stream[source.name] = clock.safe(slack=False) if known is None else max(known, clock.safe())
            given = {source.name: by_stream[source.name] for source in moved} or None
        elif explicit and (watermark is None or rng.random() < 0.75):
            # The first one may not be behind the implicit watermark, so it is as far on as is safe.
            watermark = clock.safe(slack=False) if watermark is None else max(watermark, clock.safe())
            given = watermark
        pushes.append(Push(tuple(rows), given))
        if rng.random() < 0.05:
            clock.jump()
    max_jump = draft.tick * rng.choice([5, 20]) if rng.random() < 0.08 else None
    return Feed(tuple(pushes), free=not late and not ahead and max_jump is None, max_jump=max_jump)


def _set_delays(draft: Draft, rng: random.Random, streams: list[Source], mode: str, spread: int) -> None:
    enough = spread * draft.tick
    for stream in streams:
        less, more = (0, draft.tick) if "late" in mode else (enough, enough + draft.tick * 5)
        delay = rng.choice([less, less, less, more])
        draft.sources[stream.name] = dataclasses.replace(stream, delay=delay)


class _Clock:
    """Event times: a clock that moves on, less some disorder, in ticks, as microseconds."""

    def __init__(self, draft: Draft, rng: random.Random, spread: int) -> None:
        self.rng = rng
        self.spread = spread
        self.tick = draft.tick
        self.step = rng.choice([0.3, 0.6, 1.0])
        nanoseconds = any("ns" in str(field.type) for source in draft.sources.values() for field in source.schema)
        whole_hours = EPOCH_2024 // 3_600_000_000 * 3_600_000_000
        self.origin = rng.choice([0, whole_hours, whole_hours] + ([] if nanoseconds else [-30 * self.tick]))
        if draft.zone in CLOCK_CHANGES and rng.random() < 0.5:
            self.origin = rng.choice(CLOCK_CHANGES[draft.zone]) * 1_000_000 - rng.choice([0, 5, 30]) * self.tick
        self.now = 0.0

    def next(self) -> int:
        self.now += self.step * self.rng.random() * 2
        return self._at(int(self.now) - self.rng.randint(0, self.spread))

    def older(self) -> int:
        return self._at(int(self.now) - self.spread - self.rng.randint(1, 12))

    def ahead(self, rng: random.Random) -> int:
        """A time that the others reach much later: the row keeps its place while those around it die."""
        return self._at(int(self.now) + rng.choice([5, 20, 60]))

    def safe(self, slack: bool = True) -> int:
        """A watermark that makes no later row late."""
        return self._at(int(self.now) - self.spread - (self.rng.choice([0, 0, 1, 3]) if slack else 0))

    def jump(self) -> None:
        self.now += self.rng.choice([10, 40, 200])

    def _at(self, ticks: int) -> int:
        return self.origin + max(ticks, -10) * self.tick


def _reject(stream: Source, rng: random.Random) -> int | None:
    type_ = stream.schema.field(str(stream.event_time)).type
    if (type_ == pa.int64() or type_.unit == "us") and rng.random() < 0.3:
        return INT64_MIN
    if type_ != pa.int64() and type_.unit in ("s", "ms") and rng.random() < 0.3:
        return OUT_OF_RANGE * rng.choice([1, -1])
    return None
