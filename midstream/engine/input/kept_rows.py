"""Rows that are kept until somebody takes them, in few tables however small the pushes are."""

from __future__ import annotations

import pyarrow as pa

from midstream.state.sizes import PIECE_BYTES


class KeptRows:
    """The first rows of one schema, up to a limit.

    >>> kept = KeptRows(limit=3)
    >>> for number in range(5):
    ...     kept.add(pa.table({"k": [number]}))
    >>> kept.table()["k"].to_pylist()
    [0, 1, 2]
    """

    def __init__(self, limit: int):
        self._room = limit
        self._tables: list[pa.Table] = []
        self.nbytes = 0

    def add(self, table: pa.Table) -> None:
        """Keep rows, as many as there is room for."""
        table = table.slice(0, self._room)
        if table.num_rows == 0:
            return
        self._room -= table.num_rows
        self._tables.append(table)
        self.nbytes += int(table.get_total_buffer_size())
        # Each table is at most half as long as the one before it, so that a row is copied a few times at most.
        while len(self._tables) > 1 and 2 * self._tables[-1].num_rows > self._tables[-2].num_rows:
            last_two = self._tables[-2:]
            before = sum(int(part.get_total_buffer_size()) for part in last_two)
            if before > PIECE_BYTES:
                return
            merged = pa.concat_tables(last_two).combine_chunks()
            self._tables[-2:] = [merged]
            self.nbytes += int(merged.get_total_buffer_size()) - before

    def table(self) -> pa.Table:
        """All of them; there has to be one."""
        return pa.concat_tables(self._tables)
