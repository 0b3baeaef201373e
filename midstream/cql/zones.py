"""Times of a wall clock -> instants, by the rules of a time zone.

A time that the clock shows twice, when it is put back, means the earlier instant. A time that it never shows, when it
is put forward, is moved on by as much as the clock was: with half past two missing in Berlin, it means half past three.
Python (`fold=0`), Java and Spark read such times in the same way. Arrow knows the changes of clocks up to 2037;
later times keep the zone's standard time.
"""

from __future__ import annotations

import functools
import zoneinfo

import pyarrow as pa
import pyarrow.compute as pc

from midstream.errors import QueryError, did_you_mean, shown

#: No zone is further from UTC than this, in seconds.
_FURTHEST = 24 * 60 * 60
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def check_zone(zone: object) -> str:
    """Check that a zone exists, such as ``Europe/Berlin``, ``UTC`` or ``+01:00``.

    >>> check_zone("Europe/Berln")
    Traceback (most recent call last):
    midstream.errors.QueryError: query: assume_zone='Europe/Berln' is no time zone; did you mean 'Europe/Berlin'? ...
    """
    if isinstance(zone, str):
        try:
            instants(pa.array([0], pa.timestamp("us")), zone)
            return str(zone)
        except pa.ArrowException:
            pass
    hint = did_you_mean(zone, _zones())
    right = "give a name of the time zone database, such as 'Europe/Berlin', or an offset such as '+01:00'"
    raise QueryError(f"query: assume_zone={shown(zone)} is no time zone; {hint}{right}")


@functools.cache
def _zones() -> frozenset[str]:
    """The names of all zones: a search through many files."""
    return frozenset(zoneinfo.available_timezones())


def instants(times: pa.Array, zone: str) -> pa.Array:
    """Timestamps without a zone, as a clock in a zone shows them, with that zone; null if out of range.

    >>> clock = pa.array(["2026-03-29 02:30:00", "2026-10-25 02:30:00"]).cast(pa.timestamp("s"))
    >>> instants(clock, "Europe/Berlin").cast(pa.timestamp("s", "UTC")).cast(pa.string()).to_pylist()
    ['2026-03-29 01:30:00Z', '2026-10-25 00:30:00Z']
    """
    unit = times.type.unit
    margin = pa.scalar(_FURTHEST * _UNITS[unit], pa.int64())
    shown_time = times.cast(pa.int64())
    extreme = pc.or_(
        pc.less(shown_time, pc.add(_SMALLEST, margin)), pc.greater(shown_time, pc.subtract(_LARGEST, margin))
    )
    if pc.any(extreme).as_py():
        shown_time = pc.if_else(extreme, pa.scalar(None, pa.int64()), shown_time)
        times = shown_time.cast(times.type)
    # In a gap Arrow gives the last instant before it, whose offset from UTC holds for the whole gap.
    before = pc.assume_timezone(times, zone, ambiguous="earliest", nonexistent="earliest")
    offset = pc.subtract(pc.local_timestamp(before).cast(pa.int64()), before.cast(pa.int64()))
    return pc.subtract(shown_time, offset).cast(pa.timestamp(unit, zone))


_SMALLEST, _LARGEST = pa.scalar(-(2**63), pa.int64()), pa.scalar(2**63 - 1, pa.int64())
