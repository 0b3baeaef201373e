"""Chunks that are cut while they are taken, to a size that is told for each when its turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from midstream.engine.input.batch import Chunk, sort_by_time


def cut_to_size(chunks: Iterable[Chunk], next_rows: Callable[[], int], least: int) -> Iterator[Chunk]:
    """Cut chunks into such that have at most `next_rows()` rows, the oldest first; it is asked before each of them.

    It is not asked for what has no more than `least` rows.
    """
    for chunk in chunks:
        size = chunk.size if chunk.size <= least else next_rows()
        if chunk.size <= size:
            yield chunk
        else:
            yield from _cut(chunk, size, next_rows)


def _cut(chunk: Chunk, size: int, next_rows: Callable[[], int]) -> Iterator[Chunk]:
    ordered = {stream: sort_by_time(rows) for stream, rows in chunk.rows.items()}
    times = np.concatenate([rows.times for rows in ordered.values()])
    # By event time, ties by the order of the streams and then by position: as rows of ROWS windows are numbered.
    order = np.argsort(times, kind="stable")
    stream_of = np.repeat(np.arange(len(ordered)), [len(rows) for rows in ordered.values()])[order]
    begins = np.zeros(len(ordered), np.int64)
    done, total = 0, chunk.size
    while done < total:
        end = min(done + size, total)
        ends = begins + np.bincount(stream_of[done:end], minlength=len(ordered))
        bounds = zip(begins.tolist(), ends.tolist(), strict=True)
        rows = {stream: rows.cut(*bound) for (stream, rows), bound in zip(ordered.items(), bounds, strict=True)}
        unprocessed = chunk.unprocessed_from
        yield Chunk(rows, unprocessed if end == total else min(unprocessed, int(times[order[end]])))
        begins, done, size = ends, end, next_rows()
