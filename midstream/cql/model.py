"""What a query is once its text has been understood: frozen descriptions, no execution.

An *input* is one entry of FROM: a stream under an alias with its window, or a static table. Inputs are numbered in
the order of FROM and everything else refers to them by that number. WHERE has been taken apart:

* what concerns one input is a *filter* of that input and is applied where its rows arrive;
* equalities are *key classes*: at most one key expression per input, all of one comparison type, all equal in a result;
* a *band* says that ``left - right`` lies between two bounds, and lets a sorted index find candidates;
* everything else is a *theta*: a boolean expression over two or more inputs.

What stands above the joins is told apart from them: DISTINCT, a *grouping* with its aggregates, and the *step* in which
their results are given out.

A set operation combines *branches*: each is a query of its own, with its inputs numbered from 0 on. The query that they
make up has the inputs of all of them, one branch after the other, and everything that windows and joins are about is
there under these numbers. What stands above the joins is told by the branches alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal as OneOf

import pyarrow as pa

from midstream.cql.windows import Window

_LONGEST_TEXT = 120

#: In place of an input's number: a column is a key of the grouping, an aggregate, or an output of every branch, and its
#: name is its place there.
OF_KEYS, OF_AGGREGATES, OF_BRANCHES = -1, -2, -3


@dataclass(frozen=True)
class Column:
    """A column of an input, spelled as in the schema."""

    input: int
    name: str
    type: pa.DataType


@dataclass(frozen=True)
class Literal:
    """A constant; `value` is a Python value that `pa.scalar(value, type)` takes, or None.

    >>> Literal(0.0, pa.float64()) == Literal(-0.0, pa.float64())
    False
    """

    value: object
    type: pa.DataType

    # Python takes 0.0 and -0.0 for equal, and of equal expressions one is computed.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        value = self.value
        return self.type, value, isinstance(value, float) and math.copysign(1, value) < 0


#: Arrow arrays of the arguments, all of one length -> an Arrow array of the results.
Compute = Callable[..., pa.Array]


@dataclass(frozen=True)
class Call:
    """A function or operator of `cql.functions` applied to arguments; `type` is what it gives.

    `compute` is how a function that came with the query does it; the engine knows the others by their name.
    """

    function: str
    args: tuple[Expr, ...]
    type: pa.DataType
    compute: Compute | None = None


@dataclass(frozen=True)
class Cast:
    """A conversion; a value that does not convert gives null."""

    operand: Expr
    type: pa.DataType


Expr = Column | Literal | Call | Cast


def columns_of(expr: Expr) -> tuple[Column, ...]:
    """The distinct columns that an expression reads, in the order of their first use."""
    found: dict[Column, None] = {}

    def walk(node: Expr) -> None:
        if isinstance(node, Column):
            found[node] = None
        elif isinstance(node, Call):
            for arg in node.args:
                walk(arg)
        elif isinstance(node, Cast):
            walk(node.operand)

    walk(expr)
    return tuple(found)


def inputs_of(expr: Expr) -> frozenset[int]:
    """The numbers of the inputs that an expression reads."""
    return frozenset(column.input for column in columns_of(expr))


def shift_inputs(expr: Expr, by: int) -> Expr:
    """The expression over inputs whose numbers are higher by so much.

    >>> shift_inputs(Cast(Column(0, "x", pa.int32()), pa.int64()), 2).operand.input
    2
    """
    if isinstance(expr, Column):
        return expr if expr.input < 0 else replace(expr, input=expr.input + by)
    if isinstance(expr, Call):
        return replace(expr, args=tuple(shift_inputs(arg, by) for arg in expr.args))
    return replace(expr, operand=shift_inputs(expr.operand, by)) if isinstance(expr, Cast) else expr


@dataclass(frozen=True)
class Input:
    """One entry of FROM. `columns` are those still needed after arrival: for output, thetas and verifying keys."""

    alias: str
    source: str
    window: Window
    event_time: str | None
    filters: tuple[Expr, ...]
    columns: tuple[str, ...]

    @property
    def is_static(self) -> bool:
        return self.window.is_static


@dataclass(frozen=True)
class KeyClass:
    """Expressions of different inputs that are equal in every result, cast to one comparison type.

    `keys` maps an input's number to its expression, as pairs in the order of FROM; at least two.
    """

    type: pa.DataType
    keys: tuple[tuple[int, Expr], ...]

    @cached_property
    def by_input(self) -> dict[int, Expr]:
        return dict(self.keys)

    @cached_property
    def inputs(self) -> frozenset[int]:
        return frozenset(number for number, _ in self.keys)


@dataclass(frozen=True)
class Rounding:
    """How far arithmetic with floats may lie from the exact values: after so many additions of constants this large.

    `constants` is the sum of their sizes. A comparison of ``x + 1e9`` with ``y + 1e9`` rounds as if x and y were
    billions, however small they are and although the constants cancel out.
    """

    additions: int = 0
    constants: float = 0.0


@dataclass(frozen=True)
class Band:
    """``low <= left - right <= high`` between expressions of two inputs; a bound may be missing, not both.

    `type` is int64 (integers, dates, timestamps and durations in microseconds) or float64, and both expressions are
    cast to it. If `exact`, the band is the whole predicate. Otherwise it is a superset, good for finding candidates,
    and the predicate itself is also among the query's thetas; a band of floats becomes a superset only by a search that
    is wider by what `rounding` may have done.
    """

    type: pa.DataType
    left_input: int
    left: Expr
    right_input: int
    right: Expr
    low: int | float | None
    high: int | float | None
    exact: bool
    rounding: Rounding = Rounding()


@dataclass(frozen=True)
class Theta:
    """A boolean expression over two or more inputs, tested at the lowest join that has them all."""

    expr: Expr
    inputs: frozenset[int]
    text: str


@dataclass(frozen=True)
class Output:
    name: str
    expr: Expr


@dataclass(frozen=True)
class Aggregate:
    """What is computed of all join results of a group; `argument` is None for ``count(*)``.

    `function` is count, count_distinct, sum, avg, min or max. What is summed up has been cast to int64, float64 or a
    decimal.
    """

    function: str
    argument: Expr | None
    type: pa.DataType


@dataclass(frozen=True)
class Grouping:
    """GROUP BY and what is computed of each group; without keys all join results are one group.

    `having` reads keys and aggregates, as the outputs of a query with a grouping do: columns of `OF_KEYS` and
    `OF_AGGREGATES`.
    """

    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expr | None = None


SetKind = OneOf["union", "except", "intersect"]


@dataclass(frozen=True)
class SetOperation:
    """Two results as one; a side is another set operation or the number of a branch. `is_all` counts equal rows."""

    kind: SetKind
    is_all: bool
    left: Combination
    right: Combination

    @property
    def name(self) -> str:
        """As the text has it, such as ``UNION ALL``."""
        return self.kind.upper() + (" ALL" if self.is_all else "")


Combination = SetOperation | int


def without_zones(schema: pa.Schema, columns: Iterable[str]) -> pa.Schema:
    """A schema in which some columns are timestamps without a zone."""
    for name in columns:
        place = schema.get_field_index(name)
        plain = pa.timestamp(schema.field(place).type.unit)
        schema = schema.set(place, schema.field(place).with_type(plain))
    return schema


@dataclass(frozen=True)
class Query:
    """A query, understood and checked. Made by `midstream.query`.

    >>> import midstream as ms
    >>> row = {"id": int, "ts": int}
    >>> ms.query("SELECT a.id FROM a [RANGE 1 HOUR], b [ROWS 9] WHERE a.id = b.id", {"a": row, "b": row}, "ts").streams
    ('a', 'b')

    `time_type` is the type of event time in results: int64, or timestamp[us] in the first stream's zone.
    `delays` gives each stream's (source's) allowed delay in microseconds. `schemas` has every source in FROM. Event
    times that were declared without a zone are there with the zone that `assumed_zones` has for stream and column.

    With a `step`, in microseconds, results are given out step by step, in canonical form; DISTINCT, a grouping, windows
    that tumble and set operations but UNION ALL need one. If it was not given (`step_is_given`), it follows from the
    windows.

    A query with a `combination` combines its `parts`, which have the same output columns. Results of a query that
    `is_uncut` are put together with those of other places later, so they need not be cut at steps, and rows of several
    branches are not combined yet.
    """

    text: str
    inputs: tuple[Input, ...]
    key_classes: tuple[KeyClass, ...]
    bands: tuple[Band, ...]
    thetas: tuple[Theta, ...]
    outputs: tuple[Output, ...]
    time_type: pa.DataType
    schemas: dict[str, pa.Schema]
    delays: dict[str, int]
    assumed_zones: dict[str, dict[str, str]] = field(default_factory=dict)
    is_distinct: bool = False
    grouping: Grouping | None = None
    step: int | None = None
    step_is_given: bool = False
    parts: tuple[Query, ...] = ()
    combination: SetOperation | None = None
    is_uncut: bool = False

    def __repr__(self) -> str:
        text = " ".join(self.text.split())
        return f"<midstream.Query {text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + '...'}>"

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        return tuple(relation.alias for relation in self.inputs)

    @cached_property
    def branches(self) -> tuple[Query, ...]:
        """What a set operation combines, in the order of the text; the query itself if there is none."""
        return self.parts or (self,)

    @cached_property
    def branch_inputs(self) -> tuple[range, ...]:
        """The numbers that the inputs of each branch have in this query."""
        bounds = accumulate((len(branch.inputs) for branch in self.branches), initial=0)
        return tuple(range(first, last) for first, last in pairwise(bounds))

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The names that rows are pushed under, in the order of FROM, each once."""
        return tuple(dict.fromkeys(relation.source for relation in self.inputs if not relation.is_static))

    @cached_property
    def of_results(self) -> tuple[Expr, ...]:
        """What is computed of every join result of a branch: the outputs, or keys and arguments of a grouping."""
        assert not self.parts, "each branch computes its own"
        if self.grouping is None:
            return tuple(output.expr for output in self.outputs)
        arguments = (aggregate.argument for aggregate in self.grouping.aggregates)
        return (*self.grouping.keys, *(argument for argument in arguments if argument is not None))

    @cached_property
    def tracks_arrivals(self) -> bool:
        """Whether it has a ROWS window, so that rows need arrival numbers."""
        return any(relation.window.counts_rows for relation in self.inputs)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The names of the static tables, in the order of FROM, each once."""
        return tuple(dict.fromkeys(relation.source for relation in self.inputs if relation.is_static))

    def with_step(self, step: int) -> Query:
        """The query with another step, in microseconds.

        >>> import midstream as ms
        >>> found = ms.query("SELECT DISTINCT a.k FROM a [RANGE 1 SECOND]", {"a": {"k": int, "ts": int}}, "ts")
        >>> found.step, found.with_step(500_000).step
        (100000, 500000)
        """
        return replace(self, step=step, parts=tuple(replace(part, step=step) for part in self.parts))

    def declared_schema(self, source: str) -> pa.Schema:
        """The schema of a source as it was given to the query: columns whose zone is assumed have none here.

        >>> import midstream as ms
        >>> schemas = {"a": {"ts": pa.timestamp("us")}, "b": {"ts": pa.timestamp("us", "UTC")}}
        >>> found = ms.query("SELECT 1 AS one FROM a [ROWS 9], b [ROWS 9] WHERE a.ts = b.ts", schemas, "ts",
        ...                  assume_zone="Europe/Berlin")
        >>> found.schemas["a"].field("ts").type, found.declared_schema("a").field("ts").type
        (TimestampType(timestamp[us, tz=Europe/Berlin]), TimestampType(timestamp[us]))
        """
        return without_zones(self.schemas[source], self.assumed_zones.get(source, {}))

    @cached_property
    def no_results(self) -> pa.Table:
        """A result without rows; to make one takes longer than many a push."""
        return self.output_schema.empty_table()

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The columns of a result: the SELECT list, then `valid_from` and `valid_to`."""
        fields = [pa.field(output.name, output.expr.type) for output in self.outputs]
        fields += [pa.field("valid_from", self.time_type), pa.field("valid_to", self.time_type)]
        return pa.schema(fields)
