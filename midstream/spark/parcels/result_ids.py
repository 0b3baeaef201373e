"""Names for results that stay the same when a batch is run again, for sinks that may get a batch twice.

A result is named by the batch that it comes in, its cell, a hash of its values, and its place among equal results of
that cell and batch. A batch that is replayed has the same input and watermark, so every cell gives the same results. If
their order differs, the names stay the same, because equal results can change places unnoticed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.spark.routing.content import row_codes
from midstream.state.arrow import make_contiguous
from midstream.state.indexes import Ints

COLUMN = "result_id"


class ResultIds:
    """Gives the results of one batch their names, table by table."""

    def __init__(self, batch: int):
        self._batch = batch
        self._seen: dict[int, tuple[Ints, Ints]] = {}

    def add_to(self, cell: int, table: pa.Table) -> pa.Table:
        """The table with a column of names."""
        codes = row_codes((make_contiguous(column) for column in table.columns), table.num_rows)
        places = self._places(cell, codes)
        parts = [
            pa.scalar(f"{self._batch}-{cell}"),
            pa.array(codes.view(np.uint64)).cast(pa.string()),
            pa.array(places).cast(pa.string()),
        ]
        return table.append_column(COLUMN, pc.binary_join_element_wise(*parts, "-"))

    def _places(self, cell: int, codes: Ints) -> Ints:
        """For each code how many equal ones of this cell came before it."""
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        begins = np.flatnonzero(is_first)
        counts = np.diff(np.append(begins, len(codes)))
        known, before = self._seen.get(cell, (np.empty(0, np.int64), np.empty(0, np.int64)))
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
        self._seen[cell] = merged, totals
        return places
