"""Going on after rows whose results are out already, for those who keep the rows themselves."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import midstream as ms
from midstream.errors import EngineError
from midstream.options import EngineKeywords

from ..blocks import blocks
from .small import ALIASES, CASES, Small, draw_plan, draw_pushes, sorted_rows

NO_ROWS_WINDOW = [small for small in CASES if not any("ROWS" in window for window in small.windows)]
NONE_YET = -(2**63)


def run_with_resumes(small: Small, seed: int) -> tuple[list[object], list[object]]:
    """The results of one engine, and of engines that take over from each other with nothing but the rows."""
    rng = random.Random(seed)
    query = small.query()
    whole, taken = ms.Engine(query), ms.Engine(query)
    kept: dict[str, list[pa.Table]] = {alias: [] for alias in ALIASES[: small.size]}
    taken.push({}, watermark=NONE_YET)
    whole.push({}, watermark=NONE_YET)
    expected: list[object] = []
    found: list[object] = []
    watermark, newest = NONE_YET, NONE_YET
    for push in draw_pushes(rng, small, 40):
        expected += sorted_rows(whole.push(push, watermark=watermark))
        found += sorted_rows(taken.push(push, watermark=watermark))
        for alias, rows in push.items():
            kept[alias].append(rows)
            newest = max([newest, *rows["ts"].to_pylist()])
        watermark = max(watermark, newest - 8)
        whole.push({}, watermark=watermark)
        taken.push({}, watermark=watermark)
        if rng.random() < 0.3:
            rows_of = {alias: pa.concat_tables(tables) for alias, tables in kept.items() if tables}
            taken = ms.Engine.resume(query, rows_of, watermark, plan=draw_plan(rng, small.size))
            assert taken.migration is not None and taken.migration.strategy == "jisc"
    return expected, found


@pytest.mark.parametrize("seed", blocks(6, 3))
@pytest.mark.parametrize("small", NO_ROWS_WINDOW, ids=lambda small: small.name)
def test_an_engine_takes_over_with_the_rows_alone(small: Small, seed: int) -> None:
    expected, found = run_with_resumes(small, seed)
    assert Counter(map(str, found)) == Counter(map(str, expected))


def test_the_cases_have_results() -> None:
    assert all(sum(len(run_with_resumes(small, seed)[0]) for seed in range(2)) > 5 for small in NO_ROWS_WINDOW)


def test_rows_alone_do_not_tell_the_order_that_rows_windows_need() -> None:
    small = next(small for small in CASES if small.name == "rows")
    with pytest.raises(EngineError, match=r"resume: the query has ROWS windows; go on with Engine\.restore"):
        ms.Engine.resume(small.query(), {}, 0)


def test_an_engine_that_resumes_takes_the_options_of_every_engine() -> None:
    small = NO_ROWS_WINDOW[0]
    options: EngineKeywords = {"late": "keep", "max_jump": "1 second", "strategy": "moving-state"}
    engine = ms.Engine.resume(small.query(), {}, 10**9, **options)
    late = next(iter(draw_pushes(random.Random(0), small, 1)))
    engine.push(late)
    assert sum(table.num_rows for table in engine.take_late().values()) == sum(rows.num_rows for rows in late.values())
    assert engine.migrate(engine.plan).strategy == "moving-state"
