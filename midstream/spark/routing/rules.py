"""Query, cells, rates, hot keys -> `Routing`: which rows go to which cells. Never a function of data.

A plan-independent partitioning is what lets every cell use any plan and change it alone. `shares` lays out the cells,
`hot_keys` names values that are spread, `lanes` tells what travels; `router` sends rows. A checkpoint remembers the
routing's fingerprint: the rows that it keeps were routed by it, so it may not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstream.cql.describe import expression_text
from midstream.cql.durations import duration_text
from midstream.cql.model import Query
from midstream.engine.operators.parts import Round, rounds_of
from midstream.spark.routing.hot import HotKey, HotKeys, hot_keys_of
from midstream.spark.routing.lanes import Lane, cell_query_of, lanes_of
from midstream.spark.routing.shares import Dimension, Rates, Shares, rates_of, shares_for

#: The number of the functions that turn keys into coordinates: `state.keys.codes_of` and
#: `kernels.partition.add_coordinates`, with the seeds of `router`. Another function needs another number.
HASH_FORMAT = 1


@dataclass(frozen=True)
class Routing:
    """Where rows go. Made by `routing_for`."""

    query: Query
    shares: Shares
    hot_keys: tuple[HotKey, ...]
    lanes: tuple[Lane, ...]
    cell_query: Query

    @property
    def cells(self) -> int:
        return self.shares.cells

    def fingerprint(self) -> dict[str, Any]:
        """What may not change while a checkpoint lives, as JSON."""
        aliases = self.query.aliases
        return {
            "hash": HASH_FORMAT,
            "cells": self.cells,
            "dimensions": [
                {"of": self._text(dimension), "share": dimension.share} for dimension in self.shares.dimensions
            ],
            "hot keys": [
                {
                    "of": self._text(self.shares.dimensions[hot_key.dimension]),
                    "spread": aliases[hot_key.spread],
                    "values": list(hot_key.values),
                }
                for hot_key in self.hot_keys
            ],
            "lanes": [{"of": lane.source, "as": [aliases[number] for number in lane.inputs]} for lane in self.lanes],
        }

    def explain(self) -> str:
        """The dimensions with their shares, what copies every stream pays, and how steps are put together."""
        aliases = self.query.aliases
        dimensions = [(self._text(dimension), str(dimension.share)) for dimension in self.shares.dimensions]
        lanes = [
            (lane.source, ", ".join(aliases[number] for number in lane.inputs), str(lane.copies)) for lane in self.lanes
        ]
        blocks = [_table(("dimension", "share"), dimensions), _table(("stream", "as", "copies"), lanes)]
        if self.hot_keys:
            hot = [
                (
                    self._text(self.shares.dimensions[hot_key.dimension]),
                    aliases[hot_key.spread],
                    ", ".join(hot_key.values),
                )
                for hot_key in self.hot_keys
            ]
            blocks.append(_table(("hot key", "spread", "values"), hot))
        if self.query.step is not None:
            blocks.append(f"steps of {duration_text(self.query.step)}")
            blocks.append(
                _table(("put together by", "in"), [self._explain_round(current) for current in rounds_of(self.query)])
            )
        return "\n\n".join([_count(self.cells, "cell"), *blocks])

    def _explain_round(self, current: Round) -> tuple[str, str]:
        grouping = current.query.grouping
        if grouping is None:
            return "row", _count(self.cells, "partition")
        if not grouping.keys:
            return "nothing, because all are one group", _count(1, "partition")
        keys = ", ".join(expression_text(key, self.query.aliases) for key in grouping.keys)
        return f"group: {keys}", _count(self.cells, "partition")

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
    shares = shares_for(query, cells, rates)
    hot = hot_keys_of(query, shares, rates_of(query, rates), hot_keys)
    lanes = lanes_of(query, shares, hot)
    return Routing(query, shares, hot, lanes, cell_query_of(query, lanes))


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
