"""UNION, EXCEPT and INTERSECT, each also ALL: how often a row is there follows from how often each branch has it.

    values of branch 0  --\
    values of branch 1  ---+->  row ids  ->  changes by row and time, each with its branch  ->  runs
    groups of branch 2  --/

All branches share the ids of rows, so that equal rows of several branches meet, and one pass over the changes of a row
evaluates all set operations at once. The rows of a branch with groups are known only when a step closes; then they come
as changes of that step.

Where the results of several places are combined later, branches stay as they are: their rows tell their branch, and
none of two branches are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from midstream.cql.model import Combination, Query, SetOperation
from midstream.engine.operators.distinct import runs_of
from midstream.engine.operators.grouped import Grouped
from midstream.engine.operators.interner import Interner
from midstream.engine.operators.lifetimes import RECORD, Lifetimes, make_records
from midstream.engine.operators.runs import Runs
from midstream.kernels import sets as kernels
from midstream.state.indexes import Ints
from midstream.state.meter import Meter

#: Takes values that are valid from a moment up to another, `LARGEST` if for ever.
Adder: TypeAlias = Callable[[Sequence[pa.Array], Ints, Ints], None]

_WORDS = {
    ("union", True): kernels.UNION_ALL,
    ("union", False): kernels.UNION,
    ("except", True): kernels.EXCEPT_ALL,
    ("except", False): kernels.EXCEPT,
    ("intersect", True): kernels.INTERSECT_ALL,
    ("intersect", False): kernels.INTERSECT,
}


class Combined:
    """The set operations of a query, and what each of its branches has."""

    def __init__(self, query: Query, meter: Meter | None = None):
        assert query.step is not None and query.combination is not None
        self._rows = Interner([output.expr.type for output in query.outputs])
        self._lifetimes = Lifetimes(query.step, 1, meter)
        self._counts: Ints = np.zeros((0, len(query.parts)), np.int64)
        self._query = query
        self.reorder(query.combination)
        self._groups = {
            number: Grouped(part, meter) for number, part in enumerate(query.parts) if part.grouping is not None
        }
        #: What takes the values of each branch.
        self.adders: list[Adder] = [
            self._groups[number].add if number in self._groups else partial(self._add, number)
            for number in range(len(query.parts))
        ]

    def reorder(self, combination: Combination) -> None:
        """Evaluate the set operations in another order from now on; what each branch has stays as it is."""
        parts = self._query.parts
        program = _uncombined(parts) if self._query.is_uncut else _program(combination, parts)
        self._program = np.array(list(program), np.int64)

    def _add(self, branch: int, columns: Sequence[pa.Array], starts: Ints, ends: Ints) -> None:
        ids = self._rows.intern(columns, len(starts))
        records = make_records(ids, starts, ends, 1)
        records[:, RECORD] = branch
        self._lifetimes.add(records, len(self._rows))

    def close(self, begin: int, end: int) -> Iterator[Runs]:
        for branch, groups in self._groups.items():
            for runs in groups.close(begin, end):
                for values, firsts, lasts in runs.pieces():
                    self._add(branch, values, firsts, lasts)
        changes = self._lifetimes.changes(begin, end)
        self._make_room()
        words = changes.records[:, RECORD]
        branches = words[changes.places] if len(words) else np.zeros(0, np.int64)
        whose, firsts, lasts = kernels.find_runs(
            (changes.offsets, changes.times, changes.signs), branches, self._counts, self._program, begin, end
        )
        yield runs_of(self._rows, whose, firsts, lasts)
        kept = self._lifetimes.forget(self._rows.nbytes)
        if kept is not None:
            self._rows.keep(kept)
            self._counts = self._counts[kept]

    def _make_room(self) -> None:
        """Have counts for everyone who is known, and for some more."""
        have = len(self._counts)
        if len(self._rows) > have:
            more = np.zeros((max(len(self._rows), 2 * have) - have, self._counts.shape[1]), np.int64)
            self._counts = np.concatenate((self._counts, more))

    @property
    def nbytes(self) -> int:
        grouped: int = sum(groups.nbytes for groups in self._groups.values())
        return self._rows.nbytes + self._lifetimes.nbytes + self._counts.nbytes + grouped


def _program(combination: Combination, parts: Sequence[Query]) -> Iterator[int]:
    """Set operations and the DISTINCT of their branches, in postfix notation."""
    if isinstance(combination, SetOperation):
        yield from _program(combination.left, parts)
        yield from _program(combination.right, parts)
        yield _WORDS[combination.kind, combination.is_all]
        return
    yield combination
    if parts[combination].is_distinct and parts[combination].grouping is None:
        yield kernels.DISTINCT


def _uncombined(parts: Sequence[Query]) -> Iterator[int]:
    """All rows of all branches, in postfix notation."""
    for branch in range(len(parts)):
        yield from _program(branch, parts)
        if branch:
            yield kernels.UNION_ALL
