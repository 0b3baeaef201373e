"""Names for results that stay the same when a batch is run again, for sinks that may get a batch twice.

A result of a join is named by the batch that it comes in, its cell, a hash of its values, and its place among equal
results of that cell and batch. Each cell counts its batches, because a thread that asks for results may not know the
number that Spark gave them. A batch that is replayed has the same input and watermark, so every cell gives the same
results. If their order differs, the names stay the same, because equal results can change places unnoticed.

A result of a query with steps is named by what it is: 128 bits of its values, of `valid_from`, and of its place among
those that are equal in both, the longest first. So the name depends on nothing but the query's result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.engine.operators.results import moments_of
from midstream.kernels import hashing
from midstream.spark.routing.content import make_plain, row_codes
from midstream.state.arrow import make_contiguous
from midstream.state.indexes import Ints

COLUMN = "result_id"
#: The seeds of the two halves of a name.
_HALVES = (0x5A, 0xA5)


class ResultIds:
    """Gives results their names, table by table."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], tuple[Ints, Ints]] = {}

    def add_to(self, cell: int, batch: int, table: pa.Table) -> pa.Table:
        """The table with a column of names."""
        codes = row_codes((make_contiguous(column) for column in table.columns), table.num_rows)
        places = self._places((cell, batch), codes)
        parts = [
            pa.scalar(f"{batch}-{cell}"),
            pa.array(codes.view(np.uint64)).cast(pa.string()),
            pa.array(places).cast(pa.string()),
        ]
        return table.append_column(COLUMN, pc.binary_join_element_wise(*parts, "-"))

    def _places(self, origin: tuple[int, int], codes: Ints) -> Ints:
        """For each code how many equal ones of this cell and batch came before it."""
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        begins = np.flatnonzero(is_first)
        counts = np.diff(np.append(begins, len(codes)))
        known, before = self._seen.get(origin, (np.empty(0, np.int64), np.empty(0, np.int64)))
        at = np.searchsorted(known, ordered[begins])
        found = np.zeros(len(begins), np.bool_)
        inside = at < len(known)
        found[inside] = known[at[inside]] == ordered[begins[inside]]
        earlier = np.zeros(len(begins), np.int64)
        earlier[found] = before[at[found]]
        places = np.empty(len(codes), np.int64)
        places[order] = np.arange(len(codes)) - np.repeat(begins, counts) + np.repeat(earlier, counts)
        both = np.concatenate([known, ordered[begins]])
        merged, where = np.unique(both, return_inverse=True)
        totals = np.zeros(len(merged), np.int64)
        np.add.at(totals, where, np.concatenate([before, counts]))
        self._seen[origin] = merged, totals
        return places


def name_rows(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """All results of some steps, or all that are equal to any of these, with a column of names."""
    codes = [np.concatenate(halves) for halves in zip(*(_codes_of(table) for table in tables), strict=True)]
    ends = np.concatenate([moments_of(make_contiguous(table.columns[-1])) for table in tables])
    order = np.lexsort((-ends, *codes))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any([half[order[1:]] != half[order[:-1]] for half in codes], axis=0)
    begins = np.flatnonzero(is_first)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    for half in codes:
        hashing.combine(half, places)
    names = _in_hexadecimal(codes)
    begin = 0
    for table in tables:
        yield table.append_column(COLUMN, names.slice(begin, table.num_rows))
        begin += table.num_rows


def _codes_of(table: pa.Table) -> tuple[Ints, Ints]:
    """Two codes of each row but for `valid_to`, its last column."""
    columns = [make_plain(column) for column in table.columns[:-1]]
    first, second = (row_codes(columns, table.num_rows, seed) for seed in _HALVES)
    return first, second


def _in_hexadecimal(halves: Sequence[Ints]) -> pa.Array:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    content = np.stack(halves, axis=1).astype(">i8").view(np.uint8)
    text = np.stack((digits[content >> 4], digits[content & 15]), axis=2).reshape(len(content), -1)
    offsets = np.arange(len(text) + 1, dtype=np.int32) * text.shape[1]
    return pa.Array.from_buffers(pa.string(), len(text), [None, pa.py_buffer(offsets), pa.py_buffer(text.tobytes())])
