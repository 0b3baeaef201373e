"""The canonical form: how often a row is there at which instants becomes rows of output, push by push.

A step comes out in the push whose watermark reaches its end; in it, for k = 1, 2, ..., every maximal run of instants at
which a row is there at least k times is one row. What is left comes out with `finish`.
"""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..oracle.compare import Rows, canonical
from ..oracle.expr import Value

#: How often each row is there.
Snapshot = collections.Counter[tuple[Value, ...]]
MOST_ROWS = 60_000


class TooManyRows(Exception):
    """The case is larger than it was meant to be."""


@dataclass(frozen=True)
class History:
    """The snapshot at each of some instants, in order; each of them holds until the next, the last for ever."""

    instants: Sequence[int]
    snapshots: Sequence[Snapshot]


@dataclass(frozen=True)
class Stretch:
    """Instants from `start` to `end`; without an end they never stop."""

    row: tuple[Value, ...]
    start: int
    end: int | None


def find_runs(history: History) -> Iterator[Stretch]:
    """Every maximal run of instants with m >= k, for every row and k, not cut by steps."""
    begun: dict[tuple[Value, ...], list[int]] = collections.defaultdict(list)
    for instant, snapshot in zip(history.instants, history.snapshots, strict=True):
        for row in list(begun):
            # The runs of the largest k end first; they are those that began last.
            while len(begun[row]) > snapshot[row]:
                yield Stretch(row, begun[row].pop(), instant - 1)
        for row, count in snapshot.items():
            begun[row] += [instant] * (count - len(begun[row]))
    for row, starts in begun.items():
        for start in starts:
            yield Stretch(row, start, None)


def expect_rows(history: History, step: int, watermarks: Sequence[int | None], time_type: pa.DataType) -> list[Rows]:
    """What comes out of each push, and of `finish` at last; `watermarks` are those after each push."""
    reached = [-(2**80) if watermark is None else watermark for watermark in watermarks]
    open_from = None if not watermarks or watermarks[-1] is None else watermarks[-1] // step * step
    pushes: list[Rows] = [collections.Counter() for _ in range(len(reached) + 1)]
    made = 0
    for run in find_runs(history):
        for piece in _cut(run, step, open_from):
            made += 1
            if made > MOST_ROWS:
                raise TooManyRows
            closes_at = (piece.start // step + 1) * step
            push = len(reached) if piece.end is None else bisect.bisect_left(reached, closes_at)
            times = (canonical(piece.start, time_type), canonical(piece.end, time_type))
            pushes[push][(*piece.row, *times)] += 1
    return pushes


def _cut(run: Stretch, step: int, open_from: int | None) -> Iterator[Stretch]:
    """The run's part of each step; one that never ends is left whole from the oldest open step on."""
    start = run.start
    while True:
        if run.end is None and (open_from is None or start >= open_from):
            yield Stretch(run.row, start, None)
            return
        border = (start // step + 1) * step
        if run.end is not None and run.end < border:
            yield Stretch(run.row, start, run.end)
            return
        yield Stretch(run.row, start, border - 1)
        start = border
