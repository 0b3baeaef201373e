"""A push, checked and taken apart: accepted rows per stream, in chunks that fit the cache.

Everything here is pure: nothing of the engine changes until every check of a push has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from midstream.engine.input.casting import cast_without_loss
from midstream.kernels.types import LARGEST
from midstream.state import sizes
from midstream.state.indexes import Ints

#: Rows of all streams together that are taken through the plan at once.
CHUNK_ROWS = 1 << 17
_SAMPLED = 64


@dataclass
class StreamRows:
    """Accepted rows of one stream: event times, needed columns, and arrival numbers if the query has ROWS windows.

    `large` has the types of the columns whose values can be large. Where they are more than one array of that type
    holds, the column has the type's wide form, until `cut_into_chunks` has cut it. `kept` tells which rows may enter a
    window, where memory is too small for all of them (None: all).
    """

    times: Ints
    columns: dict[str, pa.Array]
    large: Mapping[str, pa.DataType] = field(default_factory=dict)
    arrivals: Ints | None = None
    kept: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.times)

    def take(self, places: Ints) -> StreamRows:
        """The rows at these places, in this order."""
        chosen = pa.array(places)
        return StreamRows(
            self.times[places],
            {name: values.take(chosen) for name, values in self.columns.items()},
            self.large,
            None if self.arrivals is None else self.arrivals[places],
            None if self.kept is None else self.kept[places],
        )

    def cut(self, begin: int, end: int) -> StreamRows:
        return StreamRows(
            self.times[begin:end],
            {name: values.slice(begin, end - begin) for name, values in self.columns.items()},
            self.large,
            None if self.arrivals is None else self.arrivals[begin:end],
            None if self.kept is None else self.kept[begin:end],
        )

    def large_bytes(self) -> int:
        """The bytes of the values that can be large."""
        return sum(self.columns[name].nbytes for name in self.large)

    def cast_to_declared(self) -> StreamRows:
        """The same rows, all columns in their own types, for which they are few enough."""
        for name, type in self.large.items():
            if self.columns[name].type != type:
                self.columns[name] = cast_without_loss(self.columns[name], type)
        return self


@dataclass(frozen=True)
class Chunk:
    """Rows that go through the plan together; no row of a later chunk is older than `unprocessed_from`."""

    rows: dict[str, StreamRows]
    unprocessed_from: int = field(default=int(LARGEST))

    @cached_property
    def size(self) -> int:
        """How many rows it has."""
        return sum(map(len, self.rows.values()))


def sort_by_time(accepted: StreamRows) -> StreamRows:
    """Rows by event time, ties by position."""
    times = accepted.times
    if len(times) < 2 or bool((times[1:] >= times[:-1]).all()):
        return accepted
    return accepted.take(np.argsort(times, kind="stable"))


def number_arrivals(accepted: dict[str, StreamRows], first: int) -> None:
    """Number rows, given in order per stream, by event time; ties go by the order of the streams."""
    streams = list(accepted.values())
    times = np.concatenate([stream_rows.times for stream_rows in streams])
    numbers = np.empty(len(times), np.int64)
    numbers[np.argsort(times, kind="stable")] = np.arange(first, first + len(times))
    begin = 0
    for stream_rows in streams:
        stream_rows.arrivals = numbers[begin : begin + len(stream_rows)]
        begin += len(stream_rows)


def cut_into_chunks(accepted: dict[str, StreamRows]) -> Iterator[Chunk]:
    """Cut a push into chunks of about `CHUNK_ROWS` rows and at most about `sizes.PIECE_BYTES`; a small one is one."""
    for chunk in _cut_by_time(accepted):
        if any(rows.large for rows in chunk.rows.values()):
            yield from cut_by_bytes(chunk)
        else:
            yield chunk


def cut_by_bytes(chunk: Chunk) -> Iterator[Chunk]:
    """Cut a chunk whose values are many bytes; all columns have their own types afterwards."""
    rows = chunk.rows
    total = sum(len(stream_rows) for stream_rows in rows.values())
    if total < 2 or sum(stream_rows.large_bytes() for stream_rows in rows.values()) <= sizes.PIECE_BYTES:
        yield Chunk(
            {stream: stream_rows.cast_to_declared() for stream, stream_rows in rows.items()}, chunk.unprocessed_from
        )
        return
    ends = _find_middle(rows, total // 2)
    rest = {stream: stream_rows.cut(ends[stream], len(stream_rows)) for stream, stream_rows in rows.items()}
    oldest = min(int(stream_rows.times.min()) for stream_rows in rest.values() if len(stream_rows))
    first = {stream: stream_rows.cut(0, ends[stream]) for stream, stream_rows in rows.items()}
    yield from cut_by_bytes(Chunk(first, min(oldest, chunk.unprocessed_from)))
    yield from cut_by_bytes(Chunk(rest, chunk.unprocessed_from))


def _find_middle(rows: dict[str, StreamRows], size: int) -> dict[str, int]:
    """How many rows of each stream are among the first `size`: by arrival where that counts, else stream by stream."""
    numbers = [stream_rows.arrivals for stream_rows in rows.values() if stream_rows.arrivals is not None]
    if numbers:
        bound = np.sort(np.concatenate(numbers))[size]
        return {stream: int(np.searchsorted(stream_rows.arrivals, bound)) for stream, stream_rows in rows.items()}  # type: ignore[arg-type]
    ends = {}
    for stream, stream_rows in rows.items():
        ends[stream] = min(len(stream_rows), size)
        size -= ends[stream]
    return ends


def _cut_by_time(accepted: dict[str, StreamRows]) -> Iterator[Chunk]:
    total = sum(len(stream_rows) for stream_rows in accepted.values())
    if total <= CHUNK_ROWS + CHUNK_ROWS // 2:
        yield Chunk(accepted)
        return
    ordered = {stream: sort_by_time(stream_rows) for stream, stream_rows in accepted.items()}
    sample = np.sort(np.concatenate([stream_rows.times[::_SAMPLED] for stream_rows in ordered.values()]))
    pieces = max(1, round(total / CHUNK_ROWS))
    bounds = np.unique(sample[np.arange(1, pieces) * len(sample) // pieces])
    begins = dict.fromkeys(ordered, 0)
    for bound in [*bounds.tolist(), None]:
        rows = {}
        for stream, stream_rows in ordered.items():
            end = len(stream_rows) if bound is None else int(np.searchsorted(stream_rows.times, bound, side="right"))
            rows[stream] = stream_rows.cut(begins[stream], end)
            begins[stream] = end
        left = [
            int(stream_rows.times[begins[stream]])
            for stream, stream_rows in ordered.items()
            if begins[stream] < len(stream_rows)
        ]
        yield Chunk(rows, min(left, default=int(LARGEST)))
