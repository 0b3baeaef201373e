"""What a case is: a join as `tests.oracle` describes it, and above it DISTINCT, a grouping, and a step.

Expressions over groups read two inputs of their own, `KEYS` and `AGGREGATES`; their columns are called by their place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..oracle.expr import Col, Expr, Value
from ..oracle.spec import INT64_MAX, INT64_MIN, Case, Window
from ..oracle.sqltext import cql, duration_text

KEYS, AGGREGATES = 0, 1

#: Steps are whole milliseconds.
MILLISECOND = 1_000


@dataclass(frozen=True)
class Aggregate:
    """`function` is count, count_distinct, sum, avg, min or max; without an argument it is ``count(*)``."""

    function: str
    argument: Expr | None
    type: pa.DataType


@dataclass(frozen=True)
class Grouping:
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expr | None = None


@dataclass(frozen=True)
class SetOperation:
    """Two sides as one; `name` is as the text has it, such as ``UNION ALL``. A side may be the number of a branch."""

    name: str
    left: Combination
    right: Combination


Combination = SetOperation | int


@dataclass(frozen=True)
class TemporalCase:
    """The outputs of `join` are over its results, or over keys and aggregates if there is a grouping.

    `step` is in microseconds; if not `gives_step`, it is what the query has by default. `scale` is how many
    microseconds a unit of time has: 1 in cases that the naive oracle walks through instant by instant.

    With a `combination`, the rows are those of the `branches`, and `join` tells only what these have in common, the
    inputs of all of them, and the names and types of the outputs.
    """

    join: Case
    step: int
    gives_step: bool
    is_distinct: bool
    grouping: Grouping | None
    scale: int
    branches: tuple[TemporalCase, ...] = ()
    combination: Combination = 0

    def with_join(self, join: Case) -> TemporalCase:
        branches, first = [], 0
        for branch in self.branches:
            own = join.inputs[first : first + len(branch.join.inputs)]
            first += len(own)
            joined = dataclasses.replace(branch.join, inputs=own, pushes=join.pushes, sources=join.sources)
            branches.append(branch.with_join(joined))
        return dataclasses.replace(self, join=join, branches=tuple(branches))

    def with_windows(self, windows: Sequence[Window]) -> TemporalCase:
        """The case with other windows of the same kinds, in the same steps."""
        text, inputs = self.join.text, []
        for relation, window in zip(self.join.inputs, windows, strict=True):
            text = text.replace(window_text(relation.window, relation.alias), window_text(window, relation.alias))
            inputs.append(dataclasses.replace(relation, window=window))
        return self.with_join(dataclasses.replace(self.join, text=text, inputs=tuple(inputs)))

    @property
    def seed(self) -> int:
        return self.join.seed

    @property
    def column_names(self) -> list[str]:
        return [output.name for output in self.join.outputs] + ["valid_from", "valid_to"]

    def query_arguments(self) -> dict[str, Any]:
        """The keyword arguments of `ms.query`."""
        step = {"step": duration_text(self.step).lower()} if self.gives_step else {}
        return {**self.join.query_arguments(), **step}


def key_column(place: int, key: Expr) -> Col:
    return Col(KEYS, str(place), key.type)


def aggregate_column(place: int, aggregate: Aggregate) -> Col:
    return Col(AGGREGATES, str(place), aggregate.type)


def aggregate_text(aggregate: Aggregate, argument: str | None) -> str:
    """An aggregate as CQL and DuckDB write it, but for sums."""
    if argument is None:
        return "count(*)"
    if aggregate.function == "count_distinct":
        return f"count(DISTINCT {argument})"
    return f"{aggregate.function}({argument})"


def window_text(window: Window, alias: str) -> str:
    """A window and the alias after it, as they stand in FROM."""
    words = {"unbounded": "[UNBOUNDED] ", "static": ""}
    return words.get(window.kind, f"[{window.kind.upper()} {duration_text(window.size)}] ") + alias


def find_validity(window: Window, ts: int | None) -> tuple[int | None, int | None]:
    """The closed interval of instants at which a row is valid; None where there is no first or no last one."""
    if window.kind == "static" or ts is None:
        return None, None
    if window.kind == "range":
        return ts, min(ts + window.size, INT64_MAX)
    if window.kind == "tumble":
        start = ts // window.size * window.size
        return max(start, INT64_MIN + 1), min(start + window.size - 1, INT64_MAX)
    assert window.kind == "unbounded"
    return ts, None


def find_default_step(windows: Iterable[Window], resolution: int) -> int | None:
    """The least common multiple of the TUMBLE lengths, else a tenth of the longest RANGE window, if there is any."""
    lengths = [window.size for window in windows if window.kind == "tumble"]
    if lengths:
        return math.lcm(*lengths)
    longest = max((window.size for window in windows if window.kind == "range"), default=None)
    return None if longest is None else max(-(-longest // (10 * resolution)), 1) * resolution


def without_negative_zero(value: Value) -> Value:
    """The value; -0.0 is written 0.0."""
    return 0.0 if isinstance(value, float) and value == 0.0 else value


def output_text(case_keys: tuple[str, ...], aggregates: tuple[str, ...], expr: Expr) -> str:
    """CQL of an expression over keys and aggregates, given their texts."""

    def name(column: Col) -> str:
        return f"({case_keys[int(column.name)]})" if column.input == KEYS else aggregates[int(column.name)]

    if isinstance(expr, Col) and expr.input == KEYS:
        return case_keys[int(expr.name)]
    return cql(expr, name)
