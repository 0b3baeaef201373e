"""Two sets of results, compared as what they say about every moment: the first moment and row in which they differ.

A result says that a row is there from `valid_from` to `valid_to`. Two runs may cut the same truth differently: at other
steps, in other batches. So what is compared is how often each row is there at each moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from midstream.app.data import read_table
from midstream.cql.moments import moment_text
from midstream.engine.operators.interner import Interner
from midstream.errors import InputError
from midstream.kernels.types import LARGEST
from midstream.state.arrow import make_contiguous
from midstream.state.indexes import Ints

FROM, TO = "valid_from", "valid_to"
_NOT_COMPARED = frozenset({FROM, TO, "result_id"})


@dataclass(frozen=True)
class Difference:
    """The first moment at which two sets of results differ, the row, and how often each of them has it then.

    `rows` is how many different rows differ at some moment.
    """

    moment: int
    time_type: pa.DataType
    row: dict[str, object]
    left: int
    right: int
    rows: int

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.row.items()) or "the row without columns"
        return f"at {moment_text(self.moment, self.time_type)}: {values}"


def read_results(path: Path) -> pa.Table:
    """Results from a file, or from a folder of Parquet files."""
    table = read_table(path)
    for name in (FROM, TO):
        if name not in table.column_names:
            columns = ", ".join(table.column_names)
            raise InputError(f"diff: '{path}' has no column {name!r}; columns: {columns}; give results of Midstream")
    return table


def find_difference(left: pa.Table, right: pa.Table) -> Difference | None:
    """The first difference of two tables of results, or None if they say the same about every moment.

    >>> one = pa.table({"k": [1], "valid_from": [0], "valid_to": [9]})
    >>> cut = pa.table({"k": [1, 1], "valid_from": [0, 5], "valid_to": [4, 9]})
    >>> find_difference(one, cut) is None
    True
    >>> print(find_difference(one, cut.slice(0, 1)))
    at 5: k=1
    """
    names = _common_columns(left, right)
    time_type = left.schema.field(FROM).type
    interner = Interner([left.schema.field(name).type for name in names])
    sides = [_changes(table, names, interner) for table in (left, right)]
    whose, times = (np.concatenate([side[place] for side in sides]) for place in (0, 1))
    counts = np.zeros((len(whose), 2), np.int64)
    counts[: len(sides[0][0]), 0], counts[len(sides[0][0]) :, 1] = sides[0][2], sides[1][2]
    order = np.lexsort((times, whose))
    whose, times, counts = whose[order], times[order], np.cumsum(counts[order], axis=0)
    is_last = np.append((np.diff(whose) != 0) | (np.diff(times) != 0), True)[: len(whose)]
    begins = np.flatnonzero(np.append(True, np.diff(whose) != 0)[: len(whose)])
    before = np.zeros((len(begins), 2), np.int64)
    before[1:] = counts[begins[1:] - 1]
    there = counts - np.repeat(before, np.diff(np.append(begins, len(whose))), axis=0)
    differs = np.flatnonzero(is_last & (there[:, 0] != there[:, 1]))
    if len(differs) == 0:
        return None
    first = differs[np.lexsort((whose[differs], times[differs]))[0]]
    row = {name: interner.take(place, whose[[first]])[0].as_py() for place, name in enumerate(names)}
    in_left, in_right = there[first].tolist()
    return Difference(int(times[first]), time_type, row, in_left, in_right, len(np.unique(whose[differs])))


def _common_columns(left: pa.Table, right: pa.Table) -> list[str]:
    """The columns to compare; both tables have them, in any order."""
    names = [name for name in left.column_names if name not in _NOT_COMPARED]
    others = [name for name in right.column_names if name not in _NOT_COMPARED]
    if sorted(names) != sorted(others):
        raise InputError(f"diff: A has the columns {', '.join(names)}, B has {', '.join(others)}; compare equal ones")
    for name in (*names, FROM, TO):
        types = [table.schema.field(name).type for table in (left, right)]
        if types[0] != types[1] and not any(pat.is_null(type) for type in types):
            raise InputError(f"diff: column {name!r} is {types[0]} in A and {types[1]} in B; cast one of them")
    return names


def _changes(table: pa.Table, names: Sequence[str], interner: Interner) -> tuple[Ints, Ints, Ints]:
    """Whose count changes, when, and by how much."""
    columns = [make_contiguous(table[name].cast(type)) for name, type in zip(names, interner.types, strict=True)]
    whose = interner.intern(columns, table.num_rows)
    firsts, lasts = _moments(table[FROM], 0), _moments(table[TO], int(LARGEST))
    ends = np.flatnonzero(lasts != LARGEST)
    signs = np.repeat(np.array([1, -1]), [len(whose), len(ends)])
    return np.concatenate((whose, whose[ends])), np.concatenate((firsts, lasts[ends] + 1)), signs


def _moments(column: pa.ChunkedArray, instead: int) -> Ints:
    """Times in microseconds; `instead` of nulls."""
    values = make_contiguous(column)
    if pat.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return np.array(pc.fill_null(values.cast(pa.int64()), instead).to_numpy(zero_copy_only=False), np.int64)
