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
import pyarrow.types as pat

from midstream.app.data import read_table
from midstream.cql.moments import moment_text
from midstream.cql.plain import plain_type
from midstream.cql.typing_types import family
from midstream.engine.input.casting import CAST_ERRORS
from midstream.engine.operators.interner import Interner
from midstream.engine.operators.results import moments_of
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
    if not path.exists():
        raise InputError(f"diff: there is no '{path}'")
    if path.is_dir() and not any(path.rglob("*.parquet")):
        raise InputError(f"diff: the folder '{path}' has no Parquet files")
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
    types = _common_types(left, right)
    names = list(types)
    time_type = left.schema.field(FROM).type
    time_type = pa.timestamp("us", time_type.tz) if pat.is_timestamp(time_type) else time_type
    interner = Interner(list(types.values()))
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


def _common_types(left: pa.Table, right: pa.Table) -> dict[str, pa.DataType]:
    """The columns to compare, with a type that has the values of both tables; they may be in any order."""
    names = [name for name in left.column_names if name not in _NOT_COMPARED]
    others = [name for name in right.column_names if name not in _NOT_COMPARED]
    if sorted(names) != sorted(others):
        raise InputError(f"diff: A has the columns {', '.join(names)}, B has {', '.join(others)}; compare equal ones")
    types = {}
    for name in names:
        own, other = (plain_type(table.schema.field(name).type) for table in (left, right))
        common = _common_type(own, other)
        if common is not None and family(common) == "other":
            raise InputError(f"diff: column {name!r} is {common}, which cannot be compared; leave it out of both")
        if common is None:
            raise InputError(f"diff: column {name!r} is {own} in A and {other} in B; write both with one type")
        types[name] = common
    return types


def _common_type(own: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Files differ in how they write the same values: units and zones of times, widths of numbers."""
    if own == other or pat.is_null(other):
        return own
    if pat.is_null(own):
        return other
    for is_kind, common in (
        (pat.is_timestamp, pa.timestamp("us", "UTC")),
        (pat.is_signed_integer, pa.int64()),
        (pat.is_floating, pa.float64()),
        (_is_text, pa.large_string()),
        (_is_binary, pa.large_binary()),
    ):
        if is_kind(own) and is_kind(other):
            return common
    return None


def _is_text(type: pa.DataType) -> bool:
    return bool(pat.is_string(type) or pat.is_large_string(type))


def _is_binary(type: pa.DataType) -> bool:
    return bool(pat.is_binary(type) or pat.is_large_binary(type))


def _changes(table: pa.Table, names: Sequence[str], interner: Interner) -> tuple[Ints, Ints, Ints]:
    """Whose count changes, when, and by how much."""
    columns = [_cast(table[name], type, name) for name, type in zip(names, interner.types, strict=True)]
    whose = interner.intern(columns, table.num_rows)
    firsts, lasts = _moments(table, FROM), _moments(table, TO)
    ends = np.flatnonzero(lasts != LARGEST)
    signs = np.repeat(np.array([1, -1]), [len(whose), len(ends)])
    return np.concatenate((whose, whose[ends])), np.concatenate((firsts, lasts[ends] + 1)), signs


def _cast(column: pa.ChunkedArray, type: pa.DataType, name: str) -> pa.Array:
    try:
        return make_contiguous(column.cast(type))
    except CAST_ERRORS as problem:
        raise InputError(f"diff: column {name!r} cannot be compared as {type}: {problem}") from None


def _moments(table: pa.Table, name: str) -> Ints:
    """A column of times in microseconds, in which null is never."""
    type = table.schema.field(name).type
    return moments_of(_cast(table[name], pa.timestamp("us", type.tz) if pat.is_timestamp(type) else pa.int64(), name))
