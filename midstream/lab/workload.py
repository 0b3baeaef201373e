"""A workload: a query's text and the rows that go with it, ready to be pushed in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Workload:
    """What `midstream.query` and `Engine.push` need. `tables` holds each stream's rows in the order of arrival.

    >>> from midstream.lab.generate import common_key
    >>> workload = common_key(streams=3, rows=100, keys=10, rate=50.0)
    >>> workload.rows, workload.streams
    (300, ('A', 'B', 'C'))
    """

    text: str
    schemas: dict[str, pa.Schema]
    tables: dict[str, pa.Table]
    event_time: str

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams, in the order of FROM."""
        return tuple(self.tables)

    @cached_property
    def rows(self) -> int:
        """The rows of all streams together."""
        return sum(int(table.num_rows) for table in self.tables.values())


def batches(workload: Workload, rows_per_stream: int) -> Iterator[dict[str, pa.Table]]:
    """The rows in order, so many of every stream at a time; a stream that has ended is left out.

    >>> from midstream.lab.generate import common_key
    >>> workload = common_key(streams=2, rows=25, keys=10, rate=50.0)
    >>> [batch["A"].num_rows for batch in batches(workload, 10)]
    [10, 10, 5]
    """
    if rows_per_stream < 1:
        raise ValueError(f"rows_per_stream must be at least 1, not {rows_per_stream}")
    longest = max((table.num_rows for table in workload.tables.values()), default=0)
    for start in range(0, longest, rows_per_stream):
        yield {
            stream: table.slice(start, rows_per_stream)
            for stream, table in workload.tables.items()
            if start < table.num_rows
        }


def batches_by_time(workload: Workload, microseconds: int) -> Iterator[dict[str, pa.Table]]:
    """The rows cut at the same event times in every stream. Each stream's rows must be in the order of event time.

    >>> from midstream.lab.generate import common_key
    >>> workload = common_key(streams=2, rows=25, keys=10, rate=10.0)
    >>> [batch["A"].num_rows for batch in batches_by_time(workload, 1_000_000)]
    [10, 10, 5]
    """
    if microseconds < 1:
        raise ValueError(f"microseconds must be at least 1, not {microseconds}")
    times = {
        stream: np.asarray(table[workload.event_time].cast(pa.int64())) for stream, table in workload.tables.items()
    }
    filled = [found for found in times.values() if len(found)]
    if not filled:
        return
    cuts = np.arange(min(found[0] for found in filled), max(found[-1] for found in filled) + 1, microseconds)[1:]
    bounds = {stream: [0, *np.searchsorted(found, cuts).tolist(), len(found)] for stream, found in times.items()}
    for number in range(len(cuts) + 1):
        yield {
            stream: table.slice(bounds[stream][number], bounds[stream][number + 1] - bounds[stream][number])
            for stream, table in workload.tables.items()
        }
