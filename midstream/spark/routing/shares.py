"""Query, number of cells, rates -> shares: how the cells are laid out so that few rows have to be copied.

The cells form a grid (HyperCube). Every key class of the query is a dimension: the hash of a row's key is its
coordinate. An input that no key ties is given a dimension of its own, in which its rows are spread. In all other
dimensions a row is copied to every coordinate. A result has one coordinate in every dimension, that of its key or of
its one spread row, so it is found in exactly one cell, whatever the plan::

    a.x = b.x AND b.y = c.y, 2 x 2 cells      a goes to 2 cells (any y), b to 1, c to 2 (any x)

Every branch of a set operation has a grid of its own over the same cells. Its results have no coordinates in the grids
of others: in one grid for all branches a row would be copied along the dimensions of the others, and each result would
be found several times.

The product of the shares is the number of cells. Of all ways to factor it the one is taken that sends the fewest rows,
then the one whose heaviest input weighs least; ties go to key classes, and to earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational, Real

from midstream.cql.model import Query
from midstream.cql.names import find_spellings, list_names
from midstream.errors import QueryError, did_you_mean

Rates = Mapping[str, float]


@dataclass(frozen=True)
class Dimension:
    """One dimension of the grid. Rows of `inputs` have one coordinate in it, rows of all others are copied.

    `key_class` is the number of the key class whose hash is the coordinate, or None where the one input is spread.
    """

    key_class: int | None
    inputs: frozenset[int]
    share: int


@dataclass(frozen=True)
class Shares:
    """The grid of cells of a branch: key classes first, then spread inputs, each in the query's order."""

    cells: int
    dimensions: tuple[Dimension, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shares of the dimensions; their product is the number of cells."""
        return tuple(dimension.share for dimension in self.dimensions)

    def copies(self, number: int) -> int:
        """How many cells a row of an input goes to (other than by hot keys)."""
        return math.prod(dimension.share for dimension in self.dimensions if number not in dimension.inputs)


def shares_for(query: Query, cells: int, rates: Rates | None = None, branch: int = 0) -> Shares:
    """The grid of so many cells that copies the rows of a branch least.

    `rates` gives inputs (by alias or stream) relative rates, else 1.

    >>> import midstream as ms, pyarrow as pa
    >>> schema = pa.schema({"x": pa.int64(), "y": pa.int64(), "ts": pa.int64()})
    >>> text = "SELECT a.ts FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] WHERE a.x = b.x AND b.y = c.y"
    >>> query = ms.query(text, schemas=dict.fromkeys("abc", schema), event_time="ts")
    >>> shares_for(query, 4).sizes, shares_for(query, 4, {"a": 10}).sizes
    ((2, 2), (4, 1))
    """
    check_cells(query, cells)
    weights = rates_of(query, rates)
    own = query.branch_inputs[branch]
    fixed = [
        (number, key_class.inputs)
        for number, key_class in enumerate(query.key_classes)
        if key_class.inputs <= frozenset(own)
    ]
    keyed = frozenset[int]().union(*(inputs for _, inputs in fixed))
    spread = [(None, frozenset([number])) for number in own if number not in keyed]

    def grid(sizes: tuple[int, ...]) -> Shares:
        places = zip([*fixed, *spread], sizes, strict=True)
        return Shares(cells, tuple(Dimension(key_class, inputs, share) for (key_class, inputs), share in places))

    def cost(shares: Shares) -> tuple[Fraction, Fraction, tuple[int, ...]]:
        sent = [weights[number] * shares.copies(number) for number in own]
        return sum(sent, Fraction(0)), max(sent), tuple(-share for share in shares.sizes)

    return min(map(grid, _factorisations(cells, len(fixed) + len(spread))), key=cost)


def check_cells(query: Query, cells: int) -> None:
    """Refuse a number of cells that is none, or that the query cannot run on."""
    if not isinstance(cells, int) or isinstance(cells, bool) or not 1 <= cells < 2**31:
        raise QueryError(f"partitions: {cells!r} is not a number of partitions; give a whole number from 1 on")
    counted = next((relation for relation in query.inputs if relation.window.counts_rows), None)
    if counted is not None and cells > 1:
        raise QueryError(
            f"partitions: the window [{counted.window.text}] of {counted.alias!r} needs all rows in one order and "
            f"cannot run on {cells} partitions; give partitions=1, run the query embedded (ms.Engine), "
            "or use a RANGE window"
        )


def rates_of(query: Query, rates: Rates | None) -> tuple[Fraction, ...]:
    """The relative rate of every input. A name is an alias, or a stream and then all its aliases."""
    found = [Fraction(1)] * len(query.inputs)
    by_alias = {}
    for name, rate in (rates or {}).items():
        value = _rate(name, rate)
        if find_spellings(name, query.aliases):
            by_alias[query.aliases.index(find_spellings(name, query.aliases)[0])] = value
            continue
        numbers = [number for number, relation in enumerate(query.inputs) if find_spellings(name, [relation.source])]
        if not numbers:
            hint = did_you_mean(name, query.aliases)
            raise QueryError(f"rates: unknown stream {name!r}; {hint}aliases in FROM: {list_names(query.aliases)}")
        for number in numbers:
            found[number] = value
    for number, value in by_alias.items():
        found[number] = value
    return tuple(found)


def _rate(name: str, rate: object) -> Fraction:
    if isinstance(rate, Real) and not isinstance(rate, bool) and math.isfinite(rate) and float(rate) > 0:
        return Fraction(rate) if isinstance(rate, Rational) else Fraction(float(rate))
    raise QueryError(f"rates: {rate!r} is not a rate for {name!r}; give a positive number, relative to the others")


def _factorisations(product: int, factors: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product of so many factors."""
    if factors == 1:
        yield (product,)
        return
    small = [divisor for divisor in range(1, math.isqrt(product) + 1) if product % divisor == 0]
    for first in {*small, *(product // divisor for divisor in small)}:
        for rest in _factorisations(product // first, factors - 1):
            yield (first, *rest)
