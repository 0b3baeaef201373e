"""Random queries with steps, set operations above all: cells and what puts their parts together, against the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from midstream.cql.model import Query
from midstream.spark.parcels.encoding import to_wire
from midstream.spark.routing.cell_numbers import cell_number
from midstream.spark.routing.rules import routing_for
from tests.oracle.compare import difference, multiset, rows_of
from tests.oracle.dress import dress_push
from tests.temporal.cases import expect, make_case
from tests.temporal.run import make_query

from ..blocks import blocks
from .cells_run import CellsRun
from .finishing_run import put_together
from .test_routing_exact import draw_hot_keys

CELLS = (1, 2, 3, 4, 6)


def check(seed: int, kind: str | None = None) -> int:
    """Run a case in some number of cells; how many rows it gave."""
    case = make_case(seed, kind)
    rng = random.Random(f"cells {seed}")
    query, expected = make_query(case), expect(case)
    rates = {alias: rng.choice([0.1, 1, 5, 30]) for alias in query.aliases if rng.random() < 0.5}
    hot = draw_hot_keys(case.join, query, rng) if rng.random() < 0.6 else None
    routing = routing_for(query, rng.choice(CELLS), rates, hot)
    run = CellsRun(routing, case.join.tables(), rng.choice(["off", "on", "auto"]))

    def compare(parts: Sequence[pa.Table], place: int) -> None:
        found = [row for table in put_together_tables(query, parts, rng) for row in rows_of(table)]
        different = difference(expected.rows[place], multiset(found), case.column_names)
        assert different is None, (
            f"seed {seed}, {kind}, demand {run.demand}, push {place}: {different}\n"
            f"{case.join.text}\n{routing.explain()}"
        )

    for number, push in enumerate(case.join.pushes):
        rows = dress_push(case.join, push, rng, only_arrow=True)
        compare(run.push(rows, expected.acceptance.watermarks[number + 1]), number)
    compare([engine.finish() for engine in run.engines], -1)
    return sum(sum(rows.values()) for rows in expected.rows)


def put_together_tables(query: Query, parts: Sequence[pa.Table], rng: random.Random) -> list[pa.Table]:
    output = [(cell_number(cell), to_wire(table)) for cell, table in enumerate(parts) if table.num_rows]
    return [pa.Table.from_batches([batch]) for batch in put_together(query, output, rng)]


@pytest.mark.parametrize("block", blocks(10, 2))
def test_random_set_operations(block: int) -> None:
    assert sum(check(seed, "sets") for seed in range(70_000 + 4 * block, 70_004 + 4 * block))


def test_random_queries_with_steps() -> None:
    assert sum(check(seed) for seed in range(71_000, 71_010))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(15))
def test_many_random_set_operations(block: int) -> None:
    assert sum(check(seed, "sets") for seed in range(72_000 + 25 * block, 72_025 + 25 * block))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_queries_with_steps(block: int) -> None:
    assert sum(check(seed) for seed in range(75_000 + 25 * block, 75_025 + 25 * block))
