"""Every result is found in exactly one cell: random queries and inputs, engines in cells against the oracle."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from midstream.cql.model import Cast, Column, Query
from midstream.spark.routing.rules import Routing, routing_for
from tests.oracle.cases import make_case
from tests.oracle.compare import difference, multiset, rows_of
from tests.oracle.dress import dress_push
from tests.oracle.predicates import KINDS
from tests.oracle.run import expect, make_query
from tests.oracle.spec import Case, array_of

from ..blocks import blocks
from .cells_run import CellsRun

CELLS = (1, 2, 3, 4, 6, 8)


def routings(case: Case, query: Query, cells: Sequence[int]) -> list[Routing]:
    """For each number of cells one routing, by random rates and hot keys."""
    rng = random.Random(f"routing {case.seed}")
    found = []
    for count in [1] if case.has_rows_windows else cells:
        rates = {alias: rng.choice([0.1, 1, 1, 5, 30]) for alias in query.aliases if rng.random() < 0.5}
        hot = draw_hot_keys(case, query, rng) if rng.random() < 0.6 else None
        found.append(routing_for(query, count, rates, hot))
    return found


def draw_hot_keys(case: Case, query: Query, rng: random.Random) -> dict[str, list[Any]]:
    """Values of some key columns that the input has."""
    rows = [row for push in case.pushes for row in push.rows]
    hot: dict[str, list[Any]] = {}
    for key_class in query.key_classes:
        number, expr = rng.choice(key_class.keys)
        bare = expr.operand if isinstance(expr, Cast) else expr
        if not isinstance(bare, Column):
            continue
        source = query.inputs[number].source
        values = [row.values[bare.name] for row in rows if row.source == source]
        type_ = query.schemas[source].field(bare.name).type
        values = [as_python(value, type_) for value in values if value is not None]
        if values:
            hot[f"{query.aliases[number]}.{bare.name}"] = rng.sample(values, min(len(values), 2))
    return hot


def as_python(value: Any, type_: pa.DataType) -> Any:
    return array_of([value], type_)[0].as_py()


def check(seed: int, cells: Sequence[int] = CELLS, **shape: Any) -> None:
    case = dataclasses.replace(make_case(seed, **shape), max_jump=None)
    expected = expect(case)
    query = make_query(case)
    names = query.output_schema.names
    for routing in routings(case, query, cells):
        rng = random.Random(f"{seed} {routing.cells}")
        run = CellsRun(routing, case.tables(), rng.choice(["off", "on", "auto"]))
        for number, (push, rows) in enumerate(zip(case.pushes, expected.by_push(case), strict=True)):
            found = run.push(dress_push(case, push, rng, only_arrow=True), expected.acceptance.watermarks[number + 1])
            different = difference(rows, multiset(row for table in found for row in rows_of(table)), names)
            assert different is None, (
                f"seed {seed}, {shape}, demand {run.demand}, push {number}: {different}\n"
                f"{case.text}\n{routing.explain()}"
            )


@pytest.mark.parametrize("block", blocks(8, 2))
def test_random_queries(block: int) -> None:
    for seed in range(50_000 + block * 5, 50_005 + block * 5):
        check(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_shape_of_join(kind: str) -> None:
    for seed in range(51_000, 51_002):
        check(seed, (2, 4, 6), kind=kind, windows="range")


@pytest.mark.parametrize("windows", ["range", "mixed", "rows", "static"])
def test_every_kind_of_window(windows: str) -> None:
    for seed in range(52_000, 52_008):
        check(seed, (2, 6), windows=windows)


@pytest.mark.parametrize("inputs", [2, 3, 4])
def test_one_stream_under_two_aliases(inputs: int) -> None:
    for seed in range(53_000, 53_005):
        check(seed, (1, 2, 6), self_join=True, inputs=inputs, windows="mixed")


@pytest.mark.parametrize("seed", range(54_000, 54_003))
def test_larger_input(seed: int) -> None:
    check(seed, (4,), big=True, windows="range")


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_random_queries(block: int) -> None:
    for seed in range(60_000 + block * 10, 60_010 + block * 10):
        check(seed)
