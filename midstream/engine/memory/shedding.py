"""Which rows stay out of the windows where there is no memory for all of them, if dropping them is allowed.

Each row has a number below `ALL`: a hash of its event time and the codes of its keys. Rows whose number is below a
threshold are kept, all others are shed. The hash has no seed, and the threshold follows from what is in the snapshot:
from the rows that are alive, hidden or not (`forecast`), and from how many were shed. So a push that is taken again
loses the same rows.

Before every push the threshold is chosen anew. Of all rows that the windows would hold if nothing had been shed, it
keeps the share for which there is room, so that it stays about the same as long as rows keep coming at the same rate.
If the windows are too full for that share of the push, it is lower. A row is dropped as a filter would drop it: it
moves the watermark, and counts for windows of ROWS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from midstream.cql.model import Query
from midstream.cql.windows import Window
from midstream.engine.input.arrivals import InputReader, Reading
from midstream.engine.input.batch import CHUNK_ROWS, Chunk, StreamRows, cut_by_bytes
from midstream.engine.memory.forecast import TRIES, Outlook
from midstream.kernels import hashing
from midstream.kernels.types import LARGEST
from midstream.state.indexes import Ints

#: As many numbers as rows may have; as threshold, it keeps all of them.
ALL = 1 << 32
#: In so many parts of a window rows are counted that were shed.
_PARTS = 32
_MOST_RECORDS = 1 << 10


@dataclass(frozen=True)
class Admission:
    """The rows of a push, marked where only some may enter windows, the size of its chunks, and the new threshold."""

    accepted: dict[str, StreamRows]
    chunk_rows: int = CHUNK_ROWS
    threshold: int = ALL


class Absent:
    """How many rows of each input were shed that would still be in its window, by when they would leave it."""

    def __init__(self, inputs: int):
        self._records: list[list[tuple[int, int]]] = [[] for _ in range(inputs)]

    def __bool__(self) -> bool:
        return any(self._records)

    def counts(self, horizon: int) -> list[int]:
        """How many rows of each input would have been there at a time."""
        return [sum(rows for end, rows in records if end >= horizon) for records in self._records]

    def add(self, number: int, ends: Ints, horizon: int) -> None:
        """Rows of an input were shed that would leave at these ends, each of which stands for those before it."""
        counts = {end: rows for end, rows in self._records[number] if end >= horizon}
        for end, rows in zip(*(found.tolist() for found in np.unique(ends, return_counts=True)), strict=True):
            counts[end] = counts.get(end, 0) + rows
        records = sorted(counts.items())
        if len(records) > _MOST_RECORDS:
            rest = sum(rows for _, rows in records[_MOST_RECORDS - 1 :])
            records = [*records[: _MOST_RECORDS - 1], (records[-1][0], rest)]
        self._records[number] = records

    def to_json(self) -> list[list[tuple[int, int]]]:
        """What a snapshot keeps."""
        return self._records

    def from_json(self, stored: Sequence[Sequence[Sequence[int]]]) -> None:
        """Go on from what a snapshot kept."""
        self._records = [[(end, rows) for end, rows in records] for records in stored]


class Shedder:
    """Chooses the rows of one query that are shed."""

    def __init__(self, query: Query, readers: Sequence[InputReader]):
        self._query, self._readers = query, readers
        self._absent = Absent(len(query.inputs))
        #: Rows whose number is below it were kept in the last push.
        self.threshold = ALL

    def admit(self, accepted: dict[str, StreamRows], outlook: Outlook) -> Admission:
        """Mark as many rows as fit. Nothing changes."""
        highest = ALL
        if self._absent:
            highest = int(ALL * outlook.find_share(accepted, self._count_all(accepted, outlook)))
        numbers: dict[str, Ints] = {}

        def mark(threshold: int) -> dict[str, StreamRows]:
            if threshold == ALL:
                return accepted
            for stream, rows in accepted.items():
                if stream not in numbers:
                    numbers[stream] = number_rows(self._query, self._readers, stream, rows)
            return {stream: replace(rows, kept=numbers[stream] < threshold) for stream, rows in accepted.items()}

        chunk_rows = outlook.forecast(mark(highest)).chunk_rows
        if chunk_rows is not None:
            return Admission(mark(highest), chunk_rows, highest)
        # What keeps no row has to do, whether it fits or not; in which chunks nothing enters does not matter then.
        lowest, chunk_rows = 0, outlook.forecast(mark(0)).chunk_rows or CHUNK_ROWS
        for _ in range(TRIES):
            middle = (lowest + highest) // 2
            found = outlook.forecast(mark(middle)).chunk_rows
            if found is None:
                highest = middle
            else:
                lowest, chunk_rows = middle, found
        return Admission(mark(lowest), chunk_rows, lowest)

    def _count_all(self, accepted: Mapping[str, StreamRows], outlook: Outlook) -> list[int]:
        """How many rows each window would have after this push if none had been shed."""
        absent = self._absent.counts(outlook.horizon_at(outlook.watermark))
        counts = [there + missing for there, missing in zip(outlook.count_after(accepted), absent, strict=True)]
        return [
            min(count, relation.window.size) if relation.window.counts_rows else count
            for count, relation in zip(counts, self._query.inputs, strict=True)
        ]

    def note_shed(self, number: int, rows: StreamRows, reading: Reading, horizon: int) -> None:
        """An input has read these rows of its stream."""
        if reading.count_shed():
            ends = _find_ends(self._query.inputs[number].window, rows.times[reading.find_shed()])
            self._absent.add(number, ends, horizon)

    def to_json(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {"threshold": self.threshold, "absent": self._absent.to_json()}

    def from_json(self, stored: Mapping[str, Any]) -> None:
        """Go on from what a snapshot kept."""
        self.threshold = stored["threshold"]
        self._absent.from_json(stored["absent"])


def _find_ends(window: Window, times: Ints) -> Ints:
    """When rows leave, up to a part of their window later: how a push is cut into chunks does not change it."""
    ends = window.intervals(times)[1]
    part = max(1, window.size // _PARTS) if window.ends_by_time else 1
    return np.minimum(ends, LARGEST - part) // part * part + part - 1 if part > 1 else ends


def number_rows(query: Query, readers: Sequence[InputReader], stream: str, rows: StreamRows) -> Ints:
    """The number of each row, by its event time and the codes of its keys under all aliases of its stream."""
    own = [reader for relation, reader in zip(query.inputs, readers, strict=True) if relation.source == stream]
    parts = [_number(piece.rows[stream], own) for piece in cut_by_bytes(Chunk({stream: rows}))]
    return np.concatenate(parts)


def _number(rows: StreamRows, readers: Sequence[InputReader]) -> Ints:
    hashes = rows.times.copy()
    hashing.combine(hashes, np.zeros(len(rows), np.int64))
    for reader in readers:
        for codes in reader.find_key_codes(rows.columns, len(rows)):
            hashing.combine(hashes, codes)
    return hashes >> 32 & ALL - 1
