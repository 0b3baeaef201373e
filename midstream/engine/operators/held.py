"""Results that are known but held back for a while. They are part of a snapshot, and `finish` releases them."""

from __future__ import annotations

import pyarrow as pa

from midstream.engine.operators.results import ResultBuilder
from midstream.kernels.types import Combos


class HeldBack:
    """Keeps result tables until they are released, and then until they are taken."""

    def __init__(self, builder: ResultBuilder):
        self._builder = builder
        self._waiting: list[pa.Table] = []
        self._released: list[pa.Table] = []
        self._holder: object | None = None

    def hold_for(self, holder: object) -> None:
        """Hold back what this holder puts here, until everything is released."""
        self._holder = holder

    def is_held_for(self, holder: object) -> bool:
        """Whether this holder's results are held back."""
        return self._holder is holder

    def put(self, combos: Combos) -> None:
        """Hold results back."""
        self._waiting += self._builder.tables(combos)

    def put_table(self, table: pa.Table) -> None:
        """Hold back what was held back when a snapshot was taken; the next push releases it."""
        if table.num_rows:
            self._released.append(table)

    def release(self) -> None:
        """Let go of everything; nothing is held back from now on."""
        self._released += self._waiting
        self._waiting = []
        self._holder = None

    def take(self) -> list[pa.Table]:
        """What has been released since the last call."""
        taken, self._released = self._released, []
        return taken

    def all(self) -> pa.Table:
        """Everything that has not been taken, as one table."""
        return pa.concat_tables([self._builder.empty(), *self._released, *self._waiting])
