"""Streams that are pushed as a wall clock shows their times, without a zone; the query is told which zone is meant.

The oracles never see it: they know instants. Only what goes into the engine, and the late rows that come back, are
times of a clock. An instant that the clock shows for the second time, after it was put back, cannot be said in this
way, so a stream that has one stays as it is.
"""

from __future__ import annotations

import dataclasses
import random
from zoneinfo import ZoneInfo

from .spec import EPOCH, MICROSECOND, Case, to_microseconds


def with_clocks(case: Case, rng: random.Random) -> Case:
    """The case with some of its streams as clocks, if its times have a zone."""
    if case.zone is None:
        return case
    return dataclasses.replace(
        case, clocks=tuple(stream for stream in case.streams if rng.random() < 0.5 and _fits(case, stream))
    )


def _fits(case: Case, stream: str) -> bool:
    source = case.sources[stream]
    type_ = source.schema.field(str(source.event_time)).type
    values = [row.values[str(source.event_time)] for push in case.pushes for row in push.rows if row.source == stream]
    moments = [to_microseconds(value, type_) for value in values if value is not None]
    return all(_comes_back(moment, str(case.zone)) for moment in moments if moment is not None)


def _comes_back(moment: int, zone: str) -> bool:
    try:
        there = (EPOCH + moment * MICROSECOND).astimezone(ZoneInfo(zone))
    except OverflowError:
        return False
    return there.fold == 0
