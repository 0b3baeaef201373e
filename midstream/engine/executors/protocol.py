"""What an executor is: it runs a query between two pushes.

The pipeline owns the base windows and the order of a batch; the executor says what becomes of the rows. A migration
under way is an executor too: it wraps the executors that it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from midstream.engine.joins.combos import Delta
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan.tree import Plan
from midstream.state.window import Renumbering

#: An input, and the key classes of an index on its window.
IndexUsed = tuple[int, tuple[int, ...]]


class Executor(Protocol):
    """Takes rows that have just entered the base windows and gives the results that they complete."""

    @property
    def plan(self) -> Plan:
        """The plan that runs, or that a migration leads to."""

    def process(self, deltas: Mapping[int, Delta], floor: int) -> Iterator[Combos]:
        """Results, their columns in the order of FROM; what ended before `floor` is dead."""

    def purge(self, watermark: int) -> None:
        """Forget what can never matter again; the base windows have already done so."""

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""

    def after_push(self, watermark: int) -> Executor:
        """Work between two pushes; what runs from now on, itself or what it led to."""

    @property
    def plans_at_once(self) -> int:
        """How many plans each row goes through."""

    def indexes_used(self) -> Iterator[IndexUsed]:
        """The hash indexes of base windows that its plans probe; perhaps some of them twice."""

    def state_stats(self) -> list[StateStats]:
        """The size of every join state."""
