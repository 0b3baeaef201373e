"""An output stage: what becomes of the results behind the topmost join, up to Arrow.

    executor --combinations--> stage --tables--> whoever pushed

A combination is a row id of every input and the interval on which the result is valid. The stage may turn it into a row
of a table at once (`results`), wait with it (`held`), or keep it and give out something else once the watermark has
moved on. The pipeline knows nothing more of a stage than what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from midstream.cql.model import Query
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan.tree import Plan
from midstream.state.window import BaseWindow, Renumbering


class StoredStage(NamedTuple):
    """What a snapshot keeps of a stage: results that the next push may give out, and tables of its own by name.

    Row ids do not survive a restore: what needs them is stored as values.
    """

    held: pa.Table
    tables: dict[str, pa.Table]


class Stage(Protocol):
    """Takes the results of the joins and gives out tables with the query's output columns."""

    @property
    def starts_from_live_results(self) -> bool:
        """Whether a stage that goes on where a snapshot was taken first takes all results that are alive then."""

    def take(self, combos: Combos) -> Iterator[pa.Table]:
        """Take results, each once, their columns in the order of FROM. They are views: valid until the next call.

        The iterator is taken to its end before anything else happens.
        """

    def closes(self, watermark: int) -> bool:
        """Whether, to advance to this watermark, it has to have taken every result that begins before."""

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        """No row that comes from now on is before `watermark`, which never goes back and may be the same again.

        So no result begins before it, but for those of a TUMBLE window, which begin with their bucket.

        It is called after the rows of every chunk, before anything is purged, and once more at the end of a push.
        """

    def finish(self) -> Iterator[pa.Table]:
        """The end of input: give out everything that waits."""

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""

    def keeps_from(self) -> int:
        """A moment: nothing that is valid then or later is purged, neither rows nor entries; `LARGEST` if all may go.

        It never goes back. Rows of ROWS windows, which leave by their number and not by time, are not kept by it: of
        these a stage copies what it needs later.
        """

    def follow(self, plan: Plan) -> None:
        """Another plan runs from now on, in which operators stand in the same places."""

    def indexes_used(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The hash indexes of base windows that it probes: an input and key classes each."""

    def state_stats(self) -> list[StateStats]:
        """The size of what it keeps because of operators below joins."""

    @property
    def nbytes(self) -> int:
        """The memory that it takes beside that."""

    def snapshot(self) -> StoredStage:
        """What `restore` needs."""

    def restore(self, stored: StoredStage) -> None:
        """Go on, in a new stage, where a snapshot was taken."""


#: Makes the stage of a query over its base windows, for a plan.
MakeStage: TypeAlias = Callable[[Query, Sequence[BaseWindow], Plan], Stage]
