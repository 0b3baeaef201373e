"""Parts of rows on their way into a window: some of them, or several parts as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from midstream.kernels.types import LARGEST
from midstream.state.arrow import chunks_of, take_values
from midstream.state.indexes import Ints
from midstream.state.window import WindowRows


def select_rows(rows: WindowRows, places: Ints) -> WindowRows:
    """The rows at these places, which are in order; what is known of the whole stream stays."""
    if len(places) == len(rows):
        return rows
    return WindowRows(
        rows.starts[places],
        rows.ends[places],
        {number: codes[places] for number, codes in rows.codes.items()},
        {number: codes[places] for number, codes in rows.band_codes.items()},
        {name: take_values(values, places) for name, values in rows.payload.items()},
        _select(rows.arrivals, places),
        _select(rows.ordinals, places),
        rows.stream_arrivals,
        rows.first_ordinal,
        _select(rows.arrival_ends, places),
    )


def _select(numbers: Ints | None, places: Ints) -> Ints | None:
    return None if numbers is None else numbers[places]


def join_rows(first: WindowRows, then: WindowRows) -> WindowRows:
    """The rows of both, with what the second knows of the whole stream."""
    if len(first) == 0:
        return then
    return replace(
        then,
        starts=np.concatenate((first.starts, then.starts)),
        ends=np.concatenate((first.ends, then.ends)),
        codes={number: np.concatenate((first.codes[number], codes)) for number, codes in then.codes.items()},
        band_codes={
            number: np.concatenate((first.band_codes[number], codes)) for number, codes in then.band_codes.items()
        },
        payload={
            name: pa.chunked_array([*chunks_of(first.payload[name]), *chunks_of(values)], values.type)
            for name, values in then.payload.items()
        },
        arrivals=_join(first.arrivals, then.arrivals),
        ordinals=_join(first.ordinals, then.ordinals),
        arrival_ends=_join(first.arrival_ends, _ends_of(then)),
    )


def _join(first: Ints | None, then: Ints | None) -> Ints | None:
    return None if first is None or then is None else np.concatenate((first, then))


def _ends_of(rows: WindowRows) -> Ints:
    """The arrival numbers up to which rows are valid; what just arrived has not found out."""
    return np.full(len(rows), LARGEST) if rows.arrival_ends is None else rows.arrival_ends
