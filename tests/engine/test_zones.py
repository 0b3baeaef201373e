"""Streams whose times have no zone beside streams whose times have one: what `assume_zone` means, against zoneinfo."""

from __future__ import annotations

import datetime
import random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql.zones import instants

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
HOUR = 3_600_000_000
#: Moments, in UTC, at which clocks are changed: by an hour, and on Lord Howe Island by half an hour.
CHANGES = {
    "Europe/Berlin": ("2026-03-29 01:00", "2026-10-25 01:00"),
    "America/New_York": ("2026-03-08 07:00", "2026-11-01 06:00"),
    "Australia/Lord_Howe": ("2026-04-04 15:00", "2026-10-03 15:30"),
}
WINDOW = HOUR // 2
TEXT = "SELECT a.k, a.ts AS at, b.n FROM a [RANGE 30 MINUTES], b [RANGE 30 MINUTES] WHERE a.k = b.k"
PLAIN = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us")})
ZONED = pa.schema({"k": pa.int64(), "n": pa.int64(), "ts": pa.timestamp("us", "UTC")})


def to_instant(shown: int, zone: str) -> int:
    """What a clock shows, in microseconds, as an instant: Python's own rules."""
    moment = (EPOCH + shown * MICROSECOND).replace(tzinfo=ZoneInfo(zone))
    return (moment - EPOCH.replace(tzinfo=UTC)) // MICROSECOND


def draw_moments(zone: str, dice: random.Random, count: int, spread: int = 2 * HOUR) -> list[int]:
    """Moments, in microseconds, around the changes of a zone's clocks, as clocks there show them."""
    changes = [(datetime.datetime.fromisoformat(text) - EPOCH) // MICROSECOND for text in CHANGES[zone]]
    offset = to_instant(0, zone)
    return [
        dice.choice(changes) - offset + dice.randint(-spread, spread) // 60_000_000 * 60_000_000 for _ in range(count)
    ]


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_clock_is_read_as_python_reads_it(zone: str, unit: str) -> None:
    shown = [*draw_moments(zone, random.Random(zone), 400), 0, -(10**15), 2 * 10**15]
    read = instants(pa.array(shown, pa.timestamp("us")).cast(pa.timestamp(unit)), zone)
    assert read.type == pa.timestamp(unit, zone)
    expected = [to_instant(moment, zone) for moment in shown]
    assert read.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist() == expected
    assert len({moment - other for moment, other in zip(shown, expected, strict=True)}) > 1, (
        "clocks are changed in between"
    )


def test_what_is_out_of_range_in_the_zone_is_null() -> None:
    shown = pa.array([-(2**63), 2**63 - 1, 0, None], pa.timestamp("us"))
    assert instants(shown, "America/New_York").is_valid().to_pylist() == [False, False, True, False]


def make_query(zone: str | None, **given: Any) -> ms.Query:
    return ms.query(TEXT, **{"schemas": {"a": PLAIN, "b": ZONED}, "event_time": "ts", "assume_zone": zone, **given})


def draw_tables(zone: str, seed: int, count: int = 40) -> tuple[pa.Table, pa.Table]:
    dice = random.Random(f"{zone} {seed}")
    shown = draw_moments(zone, dice, count)
    real = [to_instant(moment, zone) + dice.randint(-90, 90) * 60_000_000 for moment in dice.sample(shown, count)]
    a = pa.table({"k": [dice.randrange(3) for _ in shown], "ts": pa.array(shown, pa.timestamp("us"))}, schema=PLAIN)
    times = pa.array(real, pa.timestamp("us", "UTC"))
    b = pa.table({"k": [dice.randrange(3) for _ in real], "n": range(count), "ts": times}, schema=ZONED)
    return a, b


def sort_as_numbers(table: pa.Table) -> list[tuple[int, ...]]:
    columns = [table.column(name) for name in table.column_names]
    plain = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    return sorted(zip(*(column.to_pylist() for column in plain), strict=True))


def find_expected(zone: str, a: pa.Table, b: pa.Table) -> list[tuple[int, ...]]:
    found = []
    for key, shown in zip(a["k"].to_pylist(), a["ts"].cast(pa.int64()).to_pylist(), strict=True):
        at = to_instant(shown, zone)
        for other, number, moment in zip(
            *(b[name].cast(pa.int64()).to_pylist() for name in ("k", "n", "ts")), strict=True
        ):
            if key == other and abs(at - moment) <= WINDOW:
                found.append((key, at, number, max(at, moment), min(at, moment) + WINDOW))
    return sorted(found)


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("seed", range(3))
def test_a_join_of_a_clock_with_instants(zone: str, seed: int) -> None:
    a, b = draw_tables(zone, seed)
    query = make_query(zone, delay="900 days")
    engine, found = ms.Engine(query), []
    for cut in np.array_split(np.arange(len(a)), 4):
        found += sort_as_numbers(engine.push({"a": a.take(pa.array(cut)), "b": b.take(pa.array(cut))}))
        engine = ms.Engine.restore(query, engine.snapshot().to_bytes())
    assert sorted(found) == find_expected(zone, a, b)
    assert found


def test_results_are_in_the_first_streams_zone() -> None:
    zone = "Europe/Berlin"
    assert make_query(zone).output_schema.types[1:] == [
        pa.timestamp("us", zone),
        pa.int64(),
        *[pa.timestamp("us", zone)] * 2,
    ]
    turned = make_query(zone).text.replace("a [RANGE 30 MINUTES], b [RANGE 30 MINUTES]", "b [UNBOUNDED], a [UNBOUNDED]")
    assert ms.query(turned, {"a": PLAIN, "b": ZONED}, "ts", assume_zone=zone).time_type == pa.timestamp("us", "UTC")


def test_without_a_word_a_mixture_is_refused() -> None:
    with pytest.raises(ms.QueryError, match=r"event time of 'a' has no time zone, but that of 'b' has \(UTC\)"):
        make_query(None)


def test_predicates_compare_instants() -> None:
    text = TEXT.replace("a.k = b.k", "a.k = b.k AND a.ts = b.ts")
    query = ms.query(text, {"a": PLAIN, "b": ZONED}, "ts", assume_zone="America/New_York")
    clock, moment = datetime.datetime(2026, 7, 1, 8), datetime.datetime(2026, 7, 1, 12, tzinfo=UTC)
    rows = {"a": [{"k": 1, "ts": clock}], "b": [{"k": 1, "n": 2, "ts": moment}]}
    assert ms.Engine(query).push(rows).num_rows == 1


def test_a_watermark_without_a_zone_is_in_the_assumed_one() -> None:
    engine = ms.Engine(make_query("America/New_York"))
    engine.push({}, watermark=datetime.datetime(2026, 7, 1, 8))
    assert engine.stats().watermark == (datetime.datetime(2026, 7, 1, 12) - EPOCH) // MICROSECOND
    engine.push(
        {}, watermark={"a": datetime.datetime(2026, 7, 1, 8, 30), "b": datetime.datetime(2026, 7, 1, 13, tzinfo=UTC)}
    )
    assert engine.stats().watermark == (datetime.datetime(2026, 7, 1, 12, 30) - EPOCH) // MICROSECOND


def test_late_rows_come_back_as_they_were_pushed() -> None:
    engine = ms.Engine(make_query("Europe/Berlin"), late="keep")
    engine.push({}, watermark=datetime.datetime(2026, 7, 1, 12, tzinfo=UTC))
    clock = datetime.datetime(2026, 7, 1, 13, 59)
    engine.push({"a": [{"k": 1, "ts": clock}, {"k": 2, "ts": datetime.datetime(2026, 7, 1, 14)}]})
    late = engine.take_late()["a"]
    assert late.to_pylist() == [{"k": 1, "ts": clock, "reason": "late"}]
    assert late.schema.field("ts").type == pa.timestamp("us")


def test_a_clock_that_was_declared_takes_no_instants() -> None:
    with pytest.raises(ms.InputError, match="does not cast"):
        ms.Engine(make_query("Europe/Berlin")).push({"a": draw_tables("Europe/Berlin", 0)[1].drop_columns("n")})


@pytest.mark.parametrize("other", ["Europe/Paris", "America/New_York"])
def test_a_snapshot_is_of_its_zone(other: str) -> None:
    turned = TEXT.replace("a [RANGE 30 MINUTES], b [RANGE 30 MINUTES]", "b [RANGE 1 HOUR], a [RANGE 1 HOUR]")
    schemas = {"a": PLAIN, "b": ZONED}
    before, after = (ms.query(turned, schemas, "ts", assume_zone=zone) for zone in ("Europe/Berlin", other))
    snapshot = ms.Engine(before).snapshot()
    with pytest.raises(
        ms.SnapshotError,
        match=rf"of 'a' .* in Europe/Berlin and would be read in {other}; give assume_zone='Europe/Berlin'",
    ):
        ms.Engine.restore(after, snapshot)
    ms.Engine.restore(before, snapshot)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "utc+1", 1, b"UTC", ["UTC"]])
def test_a_zone_that_there_is_not(zone: Any) -> None:
    with pytest.raises(ms.QueryError, match=r"assume_zone=.* is no time zone"):
        make_query(zone)
