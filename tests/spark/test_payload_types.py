"""Payloads of Spark's types pass a join unchanged, in a session whose time zone has a gap and a fold."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark

from . import streams
from .conftest import ZONE
from .streams import SECOND, ZONED

pytestmark = pytest.mark.versions

#: In New York: the second one o'clock of 2024-11-03, a time that 2024-03-10 does not have, and some of other centuries.
MOMENTS = [
    datetime.datetime(2024, 11, 3, 6, 0, 0, 1),
    datetime.datetime(2024, 3, 10, 2, 30),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(1850, 1, 1, 12),
    datetime.datetime(2500, 7, 1),
]
UTC = [moment.replace(tzinfo=datetime.timezone.utc) for moment in MOMENTS]
PAYLOADS = {
    "zoned": pa.array(UTC, pa.timestamp("us", "UTC")),
    "plain": pa.array(MOMENTS, pa.timestamp("us")),
    "day": pa.array([moment.date() for moment in MOMENTS]),
    "moments": pa.array([[moment, None] for moment in UTC], pa.list_(pa.timestamp("us", "UTC"))),
    "record": pa.array(
        [{"at": moment, "text": "ä"} for moment in UTC],
        pa.struct({"at": pa.timestamp("us", "UTC"), "text": pa.string()}),
    ),
    "by_name": pa.array([[("x", moment)] for moment in UTC], pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
    "amount": pa.array([decimal.Decimal(number) / 100 for number in range(5)], pa.decimal128(20, 2)),
    "content": pa.array([b"", b"\x00\xff", None, b"a", b"b"]),
    "flag": pa.array([True, False, None, True, False]),
    "small": pa.array([-128, 127, 0, None, 1], pa.int8()),
    "ratio": pa.array([0.1, float("inf"), -0.0, None, 1e300]),
}


def table_of(shift: int) -> pa.Table:
    times = pa.array([1_700_000_000 * SECOND + shift + place for place in range(5)]).cast(ZONED)
    return pa.table({"k": pa.array(range(5)), "ts": times, **PAYLOADS})


def in_utc(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as Python has them; moments of any zone are equal if they are the same."""
    return sorted(table.to_pylist(), key=lambda row: row["zoned"])


@pytest.mark.parametrize("zone", [ZONE, pytest.param("Asia/Kathmandu", marks=pytest.mark.slow)])
def test_payloads_of_all_types(spark: Any, tmp_path: Path, zone: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    for name, shift in {"a": 0, "b": 7}.items():
        streams.write(tmp_path / name, [table_of(shift)])
    frames = {name: streams.stream(session, tmp_path / name) for name in "ab"}
    columns = ", ".join(f"a.{name} AS {name}" for name in PAYLOADS)
    text = f"SELECT {columns} FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"
    joined = ms.spark.sql(text, frames, "ts", "1 second", partitions=1)
    assert {name: joined.schema[name].dataType for name in PAYLOADS} == {
        name: frames["a"].schema[name].dataType for name in PAYLOADS
    }
    ran = streams.run(joined, tmp_path / "checkpoint")
    found = pa.concat_tables(ran.batches.values()).select(list(PAYLOADS))
    assert in_utc(found) == in_utc(table_of(0).select(list(PAYLOADS)))
    begins = pa.concat_tables(ran.batches.values())["valid_from"].cast(pa.int64()).to_pylist()
    assert sorted(begins) == [1_700_000_000 * SECOND + 7 + place for place in range(5)]
