"""One embedded engine per cell, fed by a routing: what Spark does, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import midstream as ms
from midstream.spark.routing.router import Router, Split
from midstream.spark.routing.rules import Routing
from midstream.tables import as_table


def check_split(routing: Routing, source: str, split: Split) -> None:
    """Every row has one home, or was dropped or refused; parts are as the cell's query wants them."""
    homes = sum(part.home for part in split.parts)
    assert homes + split.dropped + split.rejected == split.rows
    places = [(part.lane, part.cell) for part in split.parts]
    assert places == sorted(set(places))
    for part in split.parts:
        lane = routing.lanes[part.lane]
        assert lane.source == source
        assert 0 <= part.cell < routing.cells
        assert 0 <= part.home <= part.rows.num_rows > 0
        assert part.rows.schema.equals(routing.cell_query.schemas[lane.name])


@dataclass
class CellsRun:
    """Engines of all cells, which work by `demand`; `sent` counts the rows that travelled."""

    routing: Routing
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    demand: str = "off"
    sent: int = 0

    def __post_init__(self) -> None:
        routing = self.routing
        if routing.query.step is None:
            assert routing.cell_query.output_schema.equals(routing.query.output_schema)
        self.routers = {source: Router(routing, source) for source in routing.query.schemas}
        static = self.routed(self.tables)
        self.engines = []
        for rows in static:
            empty = {name: routing.cell_query.schemas[name].empty_table() for name in routing.cell_query.tables}
            self.engines.append(ms.Engine(routing.cell_query, tables=empty | rows, demand=self.demand))

    def routed(self, data: Mapping[str, Any]) -> list[dict[str, pa.Table]]:
        cells: list[dict[str, pa.Table]] = [{} for _ in range(self.routing.cells)]
        for source, table in data.items():
            split = self.routers[source].split(as_table(table, self.routing.query.declared_schema(source)))
            check_split(self.routing, source, split)
            for part in split.parts:
                cells[part.cell][self.routing.lanes[part.lane].name] = part.rows
                self.sent += part.rows.num_rows
        return cells

    def push(self, data: Mapping[str, Any], watermark: int | None = None) -> list[pa.Table]:
        """What each cell finds."""
        options: dict[str, Any] = {} if watermark is None else {"watermark": watermark}
        rows = self.routed(data)
        found = [engine.push(own, **options) for engine, own in zip(self.engines, rows, strict=True)]
        assert all(table.schema.equals(self.routing.cell_query.output_schema) for table in found)
        return found
