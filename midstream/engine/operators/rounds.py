"""A round: parts of results that were found in several places, and have come together -> rows.

A part is a row of values with the interval on which it is valid, as a place has found it. A round runs an operator over
all parts of some steps, from nothing, and knows nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import pyarrow as pa

from midstream.cql.model import Grouping, Query
from midstream.engine.operators.results import moments_of
from midstream.engine.operators.stepped import make_operator
from midstream.kernels.types import EARLIEST, LARGEST
from midstream.state.arrow import make_contiguous
from midstream.state.indexes import Ints
from midstream.state.meter import Meter

#: The columns of times that follow the values of a part.
_TIMES = 2
#: The step of operators in a round: all steps are closed at once, so that they need not be told apart.
ALL_STEPS = int(LARGEST)


class PartsToSpread(NamedTuple):
    """Parts of one kind, and the columns of them that tell which parts have to come to one place."""

    table: pa.Table
    columns: Sequence[pa.ChunkedArray]


class Round(Protocol):
    """One operator, or one for each branch, over parts of results."""

    @property
    def groupings(self) -> Mapping[int, Grouping]:
        """What it groups by, for each branch that it groups."""

    @property
    def is_in_one_place(self) -> bool:
        """Whether all parts have to come to one place."""

    def spread(self, table: pa.Table) -> Iterator[PartsToSpread]:
        """The parts that it takes, with what they come together by; parts of two kinds never have to."""

    def in_steps_of(self, step: int) -> Round:
        """The same round for parts that were found in steps of another length, in microseconds."""

    def finish(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The rows of steps of which these are all parts; nothing is known afterwards."""


class Values(NamedTuple):
    """What an operator takes: columns, and the interval on which each row of them is valid."""

    columns: list[pa.Array]
    starts: Ints
    ends: Ints


def values_in(table: pa.Table, first: int = 0) -> Values:
    """The values of parts, from a column on."""
    columns = [make_contiguous(column) for column in table.columns[first:]]
    starts, ends = map(moments_of, columns[-_TIMES:])
    return Values(columns[:-_TIMES], starts, ends)


@dataclass(frozen=True)
class OperatorRound:
    """The operator of a query without set operations, whose rows it gives out.

    Parts that are equal in the first `together` columns have to come to one place.
    """

    query: Query
    together: int

    @property
    def groupings(self) -> Mapping[int, Grouping]:
        return {} if self.query.grouping is None else {0: self.query.grouping}

    @property
    def is_in_one_place(self) -> bool:
        return self.together == 0

    def spread(self, table: pa.Table) -> Iterator[PartsToSpread]:
        yield PartsToSpread(table, table.columns[: self.together])

    def in_steps_of(self, step: int) -> Round:
        return replace(self, query=self.query.with_step(step))

    def finish(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        operator = None
        for table in parts:
            operator = operator or make_operator(replace(self.query, step=ALL_STEPS), Meter())
            operator.add(*values_in(table))
        if operator is not None:
            for runs in operator.close(int(EARLIEST), int(LARGEST)):
                yield from runs.tables(self.query)
