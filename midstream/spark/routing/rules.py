"""Query, cells, rates, hot keys -> `Routing`: which rows go to which cells. Never a function of data.

A plan-independent partitioning is what lets every cell use any plan and change it alone. `grids` lays out the cells for
each branch, by `shares` and with `hot` keys that are spread, `lanes` tells what travels; `router` sends rows. A
checkpoint remembers the routing's fingerprint: the rows that it keeps were routed by it, so it may not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstream.cql.describe import expression_text
from midstream.cql.durations import duration_text
from midstream.cql.model import Query
from midstream.engine.operators.parts import rounds_of
from midstream.engine.operators.rounds import Round
from midstream.spark.routing.grids import Grid, grids_of
from midstream.spark.routing.hot import HotKeys
from midstream.spark.routing.lanes import Lane, cell_query_of, lanes_of
from midstream.spark.routing.shares import Dimension, Rates

#: The number of the functions that turn keys into coordinates: `state.keys.codes_of` and
#: `kernels.partition.add_coordinates`, with the seeds of `router`. Another function needs another number.
HASH_FORMAT = 1


@dataclass(frozen=True)
class Routing:
    """Where rows go. Made by `routing_for`."""

    query: Query
    grids: tuple[Grid, ...]
    lanes: tuple[Lane, ...]
    cell_query: Query

    @property
    def cells(self) -> int:
        return self.grids[0].shares.cells

    def fingerprint(self) -> dict[str, Any]:
        """What may not change while a checkpoint lives, as JSON."""
        aliases = self.query.aliases
        return {
            "hash": HASH_FORMAT,
            "cells": self.cells,
            "dimensions": [
                {"of": self._text(dimension), "share": dimension.share}
                for grid in self.grids
                for dimension in grid.shares.dimensions
            ],
            "hot keys": [
                {
                    "of": self._text(grid.shares.dimensions[hot_key.dimension]),
                    "spread": aliases[hot_key.spread],
                    "values": list(hot_key.values),
                }
                for grid in self.grids
                for hot_key in grid.hot_keys
            ],
            "lanes": [{"of": lane.source, "as": [aliases[number] for number in lane.inputs]} for lane in self.lanes],
        }

    def explain(self, memory_limit: int | None = None) -> str:
        """The dimensions with their shares, what copies every stream pays, and how steps are put together.

        Every branch of a set operation has its own dimensions. `memory_limit` is that of each cell, in bytes.
        """
        aliases = self.query.aliases
        lanes = [
            (lane.source, ", ".join(aliases[number] for number in lane.inputs), str(lane.copies)) for lane in self.lanes
        ]
        blocks = [
            self._by_branch(("dimension", "share"), self._explain_dimensions),
            _table(("stream", "as", "copies"), lanes),
        ]
        if any(grid.hot_keys for grid in self.grids):
            blocks.append(self._by_branch(("hot key", "spread", "values"), self._explain_hot_keys))
        if self.query.step is not None:
            blocks.append(f"steps of {duration_text(self.query.step)}")
            rounds = [line for current in rounds_of(self.query) for line in self._explain_round(current)]
            blocks.append(_table(("put together by", "in"), rounds))
        head = _count(self.cells, "cell")
        if memory_limit is not None:
            head += f" of at most {memory_limit:,} bytes: {self.cells * memory_limit:,} bytes in all"
        return "\n\n".join([head, *blocks])

    def _by_branch(self, head: Sequence[str], explain: Callable[[Grid], list[tuple[str, ...]]]) -> str:
        """A table of what there is to say of each grid; with set operations its first column tells the branch."""
        if len(self.grids) == 1:
            return _table(head, explain(self.grids[0]))
        rows = [(self._name_branch(place), *row) for place, grid in enumerate(self.grids) for row in explain(grid)]
        return _table(("branch", *head), rows)

    def _name_branch(self, branch: int) -> str:
        """A branch is called by its aliases."""
        return ", ".join(self.query.aliases[number] for number in self.query.branch_inputs[branch])

    def _explain_dimensions(self, grid: Grid) -> list[tuple[str, ...]]:
        return [(self._text(dimension), str(dimension.share)) for dimension in grid.shares.dimensions]

    def _explain_hot_keys(self, grid: Grid) -> list[tuple[str, ...]]:
        return [
            (
                self._text(grid.shares.dimensions[hot_key.dimension]),
                self.query.aliases[hot_key.spread],
                ", ".join(hot_key.values),
            )
            for hot_key in grid.hot_keys
        ]

    def _explain_round(self, current: Round) -> list[tuple[str, str]]:
        if not current.groupings:
            return [("row", _count(self.cells, "partition"))]
        lines = []
        for branch, grouping in current.groupings.items():
            of_branch = f" of {self._name_branch(branch)}" if self.query.parts else ""
            if not grouping.keys:
                lines.append((f"nothing, because all{of_branch} are one group", _count(1, "partition")))
                continue
            aliases = self.query.branches[branch].aliases
            keys = ", ".join(expression_text(key, aliases) for key in grouping.keys)
            lines.append((f"group{of_branch}: {keys}", _count(self.cells, "partition")))
        return lines

    def _text(self, dimension: Dimension) -> str:
        aliases = self.query.aliases
        if dimension.key_class is None:
            (number,) = dimension.inputs
            return f"rows of {aliases[number]}"
        key_class = self.query.key_classes[dimension.key_class]
        return " = ".join(expression_text(expr, aliases) for _, expr in key_class.keys) + f" ({key_class.type})"


def routing_for(query: Query, cells: int, rates: Rates | None = None, hot_keys: HotKeys | None = None) -> Routing:
    """How the rows of a query's streams and tables go to so many cells.

    `rates` are relative rates of streams or aliases, by which the shares are chosen. `hot_keys` maps key columns to
    values that are to be spread.

    >>> import midstream as ms, pyarrow as pa
    >>> schema = pa.schema({"x": pa.int64(), "y": pa.int64(), "ts": pa.int64()})
    >>> text = "SELECT a.ts FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] WHERE a.x = b.x AND b.y = c.y"
    >>> query = ms.query(text, schemas=dict.fromkeys("abc", schema), event_time="ts")
    >>> print(routing_for(query, 4).explain())
    4 cells
    <BLANKLINE>
    dimension          share
    a.x = b.x (int64)      2
    b.y = c.y (int64)      2
    <BLANKLINE>
    stream  as  copies
    a       a        2
    b       b        1
    c       c        2
    """
    grids = grids_of(query, cells, rates, hot_keys)
    lanes = lanes_of(query, grids)
    return Routing(query, grids, lanes, cell_query_of(query, lanes))


def _count(number: int, of: str) -> str:
    return f"{number} {of}" if number == 1 else f"{number} {of}s"


def find_difference(stored: Mapping[str, Any], current: Mapping[str, Any]) -> str | None:
    """The first difference between a checkpoint's fingerprint and the current one, as text, or None.

    >>> find_difference({"hash": 1, "cells": 4}, {"hash": 1, "cells": 8})
    'cells: the checkpoint has 4, the query has 8'
    """
    for name in dict.fromkeys([*stored, *current]):
        before, now = stored.get(name), current.get(name)
        if before == now:
            continue
        if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
            pairs = zip(before, now, strict=True)
            before, now = next((old, new) for old, new in pairs if old != new)
        return f"{name}: the checkpoint has {_show(before)}, the query has {_show(now)}"
    return None


def _show(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_show(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(_show(part) for part in value) or "none"
    return "none" if value is None else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, numbers to the right."""
    lines = [head, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    right = [
        all(row[place].isdigit() for row in rows) and head[place] in ("share", "copies") for place in range(len(head))
    ]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )
