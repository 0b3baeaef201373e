"""Event times of a push -> microseconds, and which rows can be taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.kernels.types import EARLIEST, LARGEST
from midstream.state.arrow import validity_of, values_of
from midstream.state.indexes import Ints

LATE = "late"
NULL_TIME = "null event time"
OUT_OF_RANGE = "event time out of range"
TOO_FAR_AHEAD = "too far ahead"

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Judgement:
    """The event times of a push's rows in microseconds, which rows are taken (None: all), and why others are not."""

    times: Ints
    taken: NDArray[np.bool_] | None
    refused: dict[str, NDArray[np.bool_]]


def judge(column: pa.Array, watermark: int, max_jump: int | None, newest: int | None) -> Judgement:
    """Event times in microseconds; null, unrepresentable, late and far-away ones are refused.

    `newest` is the largest event time of the stream so far; a row may be at most `max_jump` beyond it. The rows of
    one push are not compared with each other, so that their order does not matter.
    """
    times, out_of_range = _to_microseconds(column)
    lowest = int(times.min()) if len(times) else int(LARGEST)
    if lowest < EARLIEST:
        # The smallest int64 is no time: it is the end of entries that were evicted.
        too_early = times < EARLIEST
        out_of_range = too_early if out_of_range is None else out_of_range | too_early
    valid = validity_of(column)
    refused: dict[str, NDArray[np.bool_]] = {}
    taken: NDArray[np.bool_] | None = None
    if valid is not None:
        refused[NULL_TIME] = ~valid
        taken = valid
    if out_of_range is not None:
        refused[OUT_OF_RANGE] = out_of_range if taken is None else out_of_range & taken
        taken = ~out_of_range if taken is None else taken & ~out_of_range
    if lowest < watermark:
        late = times < watermark if taken is None else (times < watermark) & taken
        refused[LATE] = late
        taken = ~late if taken is None else taken & ~late
    if max_jump is not None and newest is not None and newest <= LARGEST - max_jump:
        ahead = times > newest + max_jump if taken is None else (times > newest + max_jump) & taken
        refused[TOO_FAR_AHEAD] = ahead
        taken = ~ahead if taken is None else taken & ~ahead
    refused = {reason: rows for reason, rows in refused.items() if rows.any()}
    return Judgement(times, taken if refused else None, refused)


def _to_microseconds(column: pa.Array) -> tuple[Ints, NDArray[np.bool_] | None]:
    """Microseconds, and which of them do not fit into 64 bits, if any."""
    values = values_of(column, "<i8")
    if not pat.is_timestamp(column.type) or column.type.unit == "us":
        return values, None
    if column.type.unit == "ns":
        return values // 1000, None
    factor = _MICROSECONDS[column.type.unit]
    beyond = (values > LARGEST // factor) | (values < -(LARGEST // factor))
    valid = validity_of(column)
    if valid is not None:
        beyond &= valid
    return values * factor, beyond if beyond.any() else None
