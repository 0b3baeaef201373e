"""Branches of set operations -> one `Query`.

Every branch has been read in its own scope. Here their columns get common types and the names of the first branch, and
their inputs are numbered through, each with an alias of its own::

    SELECT o.id FROM orders [...] o   EXCEPT   SELECT o.id FROM orders [...] o, payments [...] p WHERE ...

    branch 0    o           ->  input 0, o
    branch 1    o, p        ->  inputs 1 and 2, o_2 and p

Types are widened as Spark does it, operation by operation from the inside out. All values are compared in the types of
the whole, so a type must not become wider in a way that makes different values equal once they have been compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate

import pyarrow as pa
import pyarrow.types as pt

from midstream.cql.expressions import Reader
from midstream.cql.functions import FunctionError
from midstream.cql.model import (
    OF_BRANCHES,
    Column,
    Combination,
    Output,
    Query,
    SetOperation,
    shift_inputs,
)
from midstream.cql.outputs import Selected
from midstream.cql.plain import plain_type
from midstream.cql.typing_rules import coerce
from midstream.cql.typing_types import common_type, family, sql_name
from midstream.errors import QueryError

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
#: Integers of so many bits are all different as floats of so many bits.
_EXACT_BITS = {16: 8, 32: 16, 64: 32}


@dataclass(frozen=True)
class Branch:
    """A branch that has been read, who has read it, and its output columns as they were written."""

    query: Query
    reader: Reader
    selected: tuple[Selected, ...]

    def error(self, place: int, what: str, right: str) -> QueryError:
        """An error about one of its columns."""
        return self.reader.source.error(self.selected[place].node, what, right)


def operations_in(combination: Combination) -> Iterator[SetOperation]:
    """All set operations, those inside before those outside."""
    if isinstance(combination, SetOperation):
        yield from operations_in(combination.left)
        yield from operations_in(combination.right)
        yield combination


def unite(text: str, branches: Sequence[Branch], combination: SetOperation) -> Query:
    """The query that combines some branches; an error if their columns do not fit."""
    _check_widths(branches, combination)
    columns = [_Widening(branches, combination, place) for place in range(len(branches[0].query.outputs))]
    aliases = iter(_make_unique([alias for branch in branches for alias in branch.query.aliases]))
    names = [output.name for output in branches[0].query.outputs]
    parts = tuple(
        _part(branch.query, names, [column.types[number] for column in columns], aliases)
        for number, branch in enumerate(branches)
    )
    firsts = accumulate((len(part.inputs) for part in parts), initial=0)
    numbered = [_numbered_from(part, first) for part, first in zip(parts, firsts, strict=False)]
    return replace(
        parts[0],
        text=text,
        inputs=tuple(relation for part in numbered for relation in part.inputs),
        key_classes=tuple(key_class for part in numbered for key_class in part.key_classes),
        bands=tuple(band for part in numbered for band in part.bands),
        thetas=tuple(theta for part in numbered for theta in part.thetas),
        outputs=tuple(
            Output(name, Column(OF_BRANCHES, str(place), column.result))
            for place, (name, column) in enumerate(zip(names, columns, strict=True))
        ),
        schemas={source: schema for part in parts for source, schema in part.schemas.items()},
        delays={source: delay for part in parts for source, delay in part.delays.items()},
        assumed_zones={source: zones for part in parts for source, zones in part.assumed_zones.items()},
        is_distinct=False,
        grouping=None,
        parts=parts,
        combination=combination,
    )


def _check_widths(branches: Sequence[Branch], combination: SetOperation) -> None:
    width = len(branches[0].query.outputs)
    for number, branch in enumerate(branches):
        own = len(branch.query.outputs)
        if own != width:
            what = f"{_name_at(combination, number)} of {_count(width)} with {_count(own)}"
            source = branch.reader.source
            raise source.error(source.first_token, what, "give all branches the same columns")


def _count(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"


def _name_at(combination: Combination, branch: int) -> str:
    """What the operation is called that a branch is the right side of, or inside of it."""
    name = "a set operation"
    while isinstance(combination, SetOperation):
        left = set(_leaves(combination.left))
        if branch not in left:
            name = combination.name
        combination = combination.left if branch in left else combination.right
    return name


def _leaves(combination: Combination) -> Iterator[int]:
    if isinstance(combination, SetOperation):
        yield from _leaves(combination.left)
        yield from _leaves(combination.right)
    else:
        yield combination


class _Widening:
    """The types of one column: `types` has those that values of each branch go through, `result` is the last one."""

    def __init__(self, branches: Sequence[Branch], combination: SetOperation, place: int) -> None:
        self._branches = branches
        self._place = place
        #: What has compared values of this column so far, the type that it compared them in, and a branch of it.
        self._compared: list[tuple[str, pa.DataType, int]] = []
        self.types: list[list[pa.DataType]] = [[] for _ in branches]
        self.result = self._of(combination)
        self._check()

    def _check(self) -> None:
        for what, type, number in self._compared:
            if not _stay_different(plain_type(type), self.result):
                branch = self._branches[number]
                name = branch.query.outputs[self._place].name
                told = f"column '{name}' is {type} in {what}, but {self.result} in the whole"
                right = (
                    f"values would become equal after they were compared: write CAST(... AS {sql_name(self.result)})"
                )
                raise branch.error(self._place, told, right)

    def _of(self, combination: Combination) -> pa.DataType:
        if not isinstance(combination, SetOperation):
            query = self._branches[combination].query
            type = query.outputs[self._place].expr.type
            if query.is_distinct:
                self._compared.append(("DISTINCT", type, combination))
            return type
        left, right = self._of(combination.left), self._of(combination.right)
        number = next(_leaves(combination.right))
        try:
            type = common_type((left, right))
        except FunctionError as error:
            branch = self._branches[number]
            what, _, hint = str(error).partition("; ")
            name = branch.query.outputs[self._place].name
            told = f"column '{name}' does not fit the other side of {combination.name}: {what}"
            raise branch.error(self._place, told, hint) from None
        if (combination.kind, combination.is_all) != ("union", True):
            self._compared.append((combination.name, type, number))
        for leaf in _leaves(combination):
            self.types[leaf].append(type)
        return type


def _stay_different(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether different values of a type are different in the wider one, too.

    >>> _stay_different(pa.int32(), pa.float64()), _stay_different(pa.int64(), pa.float64())
    (True, False)
    """
    if narrow == wide or pt.is_null(narrow):
        return True
    families = family(narrow), family(wide)
    if families == ("integer", "float"):
        return bool(narrow.bit_width <= _EXACT_BITS[wide.bit_width])
    if families == ("integer", "decimal"):
        digits = _DIGITS[narrow.bit_width] + (narrow == pa.uint64())
        return bool(digits <= wide.precision - wide.scale)
    if families == ("decimal", "decimal"):
        return bool(narrow.scale <= wide.scale and narrow.precision - narrow.scale <= wide.precision - wide.scale)
    if families in (("timestamp", "timestamp"), ("duration", "duration"), ("time", "time")):
        return bool(narrow.unit != "ns" or wide.unit == "ns")
    return families[0] == families[1] or families == ("date", "timestamp")


def _make_unique(aliases: Sequence[str]) -> Iterator[str]:
    """The aliases, the second and later ones of a name with a number.

    >>> list(_make_unique(["o", "p", "O", "o_2", "o"]))
    ['o', 'p', 'O_3', 'o_2', 'o_4']
    """
    written = {alias.casefold() for alias in aliases}
    taken: set[str] = set()
    for alias in aliases:
        name, number = alias, 2
        while name.casefold() in taken or (name != alias and name.casefold() in written):
            name, number = f"{alias}_{number}", number + 1
        taken.add(name.casefold())
        yield name


def _part(query: Query, names: Sequence[str], types: Sequence[Sequence[pa.DataType]], aliases: Iterator[str]) -> Query:
    """A branch with the columns of the whole."""
    outputs = zip(query.outputs, names, types, strict=True)
    return replace(
        query,
        inputs=tuple(replace(relation, alias=next(aliases)) for relation in query.inputs),
        outputs=tuple(Output(name, reduce(coerce, passed, output.expr)) for output, name, passed in outputs),
    )


def _numbered_from(part: Query, by: int) -> Query:
    """A branch whose inputs have the numbers from `by` on."""
    return replace(
        part,
        inputs=tuple(
            replace(relation, filters=tuple(shift_inputs(expr, by) for expr in relation.filters))
            for relation in part.inputs
        ),
        key_classes=tuple(
            replace(key_class, keys=tuple((number + by, shift_inputs(expr, by)) for number, expr in key_class.keys))
            for key_class in part.key_classes
        ),
        bands=tuple(
            replace(
                band,
                left_input=band.left_input + by,
                left=shift_inputs(band.left, by),
                right_input=band.right_input + by,
                right=shift_inputs(band.right, by),
            )
            for band in part.bands
        ),
        thetas=tuple(
            replace(
                theta,
                expr=shift_inputs(theta.expr, by),
                inputs=frozenset(number + by for number in theta.inputs),
            )
            for theta in part.thetas
        ),
    )
