"""Event times of a push -> microseconds, and which rows can be taken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.kernels import times as kernels
from midstream.kernels.types import EARLIEST, LARGEST
from midstream.state.arrow import validity_of, values_of
from midstream.state.indexes import Ints

LATE = "late"
NULL_TIME = "null event time"
OUT_OF_RANGE = "event time out of range"
TOO_FAR_AHEAD = "too far ahead"

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


class Judgement(NamedTuple):
    """The event times of a push's rows in microseconds, which rows are taken (None: all), and why others are not.

    `newest` is the largest event time of those that are taken, None if there are none.
    """

    times: Ints
    taken: NDArray[np.bool_] | None
    refused: dict[str, NDArray[np.bool_]]
    newest: int | None


def judge(column: pa.Array, watermark: int, latest: int | None = None) -> Judgement:
    """Event times in microseconds; null, unrepresentable and late ones, and those after `latest`, are refused."""
    times, out_of_range = _to_microseconds(column)
    lowest, highest = kernels.find_bounds(times)
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
    if latest is not None and highest > latest:
        ahead = times > latest if taken is None else (times > latest) & taken
        refused[TOO_FAR_AHEAD] = ahead
        taken = ~ahead if taken is None else taken & ~ahead
    if taken is not None:
        refused = {reason: rows for reason, rows in refused.items() if rows.any()}
    if not refused:
        return Judgement(times, None, {}, highest if len(times) else None)
    accepted = times[taken]
    return Judgement(times, taken, refused, int(accepted.max()) if len(accepted) else None)


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
