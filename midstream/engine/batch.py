"""A push, checked and taken apart: accepted rows per stream, in chunks that fit the cache.

Everything here is pure: nothing of the engine changes until every check of a push has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from midstream.kernels.types import LARGEST
from midstream.state.indexes import Ints

#: Rows of all streams together that are taken through the plan at once.
CHUNK_ROWS = 1 << 17
_SAMPLED = 64


@dataclass
class Accepted:
    """Accepted rows of one stream: event times, needed columns, and arrival numbers if the query has ROWS windows."""

    times: Ints
    columns: dict[str, pa.Array]
    arrivals: Ints | None = None

    def __len__(self) -> int:
        return len(self.times)

    def taken(self, places: Ints) -> Accepted:
        """The rows at these places, in this order."""
        chosen = pa.array(places)
        return Accepted(
            self.times[places],
            {name: values.take(chosen) for name, values in self.columns.items()},
            None if self.arrivals is None else self.arrivals[places],
        )

    def part(self, begin: int, end: int) -> Accepted:
        return Accepted(
            self.times[begin:end],
            {name: values.slice(begin, end - begin) for name, values in self.columns.items()},
            None if self.arrivals is None else self.arrivals[begin:end],
        )


@dataclass(frozen=True)
class Chunk:
    """Rows that go through the plan together; no row of a later chunk is older than `unprocessed_from`."""

    rows: dict[str, Accepted]
    unprocessed_from: int = field(default=int(LARGEST))


def in_order(accepted: Accepted) -> Accepted:
    """Rows by event time, ties by position."""
    times = accepted.times
    if len(times) < 2 or bool((times[1:] >= times[:-1]).all()):
        return accepted
    return accepted.taken(np.argsort(times, kind="stable"))


def number_arrivals(accepted: dict[str, Accepted], first: int) -> None:
    """Number rows, given in order per stream, by event time; ties go by the order of the streams."""
    streams = list(accepted.values())
    times = np.concatenate([one.times for one in streams])
    numbers = np.empty(len(times), np.int64)
    numbers[np.argsort(times, kind="stable")] = np.arange(first, first + len(times))
    begin = 0
    for one in streams:
        one.arrivals = numbers[begin : begin + len(one)]
        begin += len(one)


def chunks(accepted: dict[str, Accepted]) -> Iterator[Chunk]:
    """Cut a push by event time into chunks of about `CHUNK_ROWS` rows; a small one is one chunk."""
    total = sum(len(one) for one in accepted.values())
    if total <= CHUNK_ROWS + CHUNK_ROWS // 2:
        yield Chunk(accepted)
        return
    ordered = {stream: in_order(one) for stream, one in accepted.items()}
    sample = np.sort(np.concatenate([one.times[::_SAMPLED] for one in ordered.values()]))
    pieces = max(1, round(total / CHUNK_ROWS))
    bounds = np.unique(sample[np.arange(1, pieces) * len(sample) // pieces])
    begins = dict.fromkeys(ordered, 0)
    for bound in [*bounds.tolist(), None]:
        rows = {}
        for stream, one in ordered.items():
            end = len(one) if bound is None else int(np.searchsorted(one.times, bound, side="right"))
            rows[stream] = one.part(begins[stream], end)
            begins[stream] = end
        left = [int(one.times[begins[stream]]) for stream, one in ordered.items() if begins[stream] < len(one)]
        yield Chunk(rows, min(left, default=int(LARGEST)))
