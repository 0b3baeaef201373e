"""The checks of one seed: the two oracles against each other, and the engine against the first in several ways."""

from __future__ import annotations

import random

from ..oracle.compare import difference
from ..oracle.report import describe
from ..oracle.run import Mismatch
from .cases import expect, make_case
from .naive import walk
from .run import MODULE, Tally, check_run, make_query
from .ways import draw_way

WAYS = 2


def check_oracles(seed: int, kind: str | None = None) -> int:
    """DuckDB's snapshots against a walk from instant to instant; how many rows of output there are."""
    case = make_case(seed, kind, scale=1)
    acceptance, expected = expect(case)
    for number, (rows, walked) in enumerate(zip(expected, walk(case, acceptance), strict=True)):
        different = difference(walked, rows, case.column_names)
        if different:
            what = f"push {number}, step {case.step} us: DuckDB against the walk: {different}"
            raise Mismatch(f"{what}\n{describe(case.join, 'oracles', MODULE)}")
    return sum(sum(rows.values()) for rows in expected)


def check_seed(seed: int, tally: Tally, kind: str | None = None, ways: int = WAYS) -> None:
    """The engine over the case of a seed, in so many ways."""
    case = make_case(seed, kind)
    expected, query = expect(case), make_query(case)
    rng = random.Random(f"ways {seed}")
    for _ in range(ways):
        check_run(case, query, expected, draw_way(case.join, rng), tally)
    tally["cases"] += 1


def check_block(first: int, count: int, kind: str | None = None, ways: int = WAYS) -> Tally:
    """All seeds of a block, so that one failure does not hide the next; the first is shown in full."""
    tally = Tally()
    failures: dict[int, Exception] = {}
    for seed in range(first, first + count):
        try:
            check_seed(seed, tally, kind, ways)
        except Exception as failure:
            failures[seed] = failure
    if failures:
        seeds = ", ".join(str(seed) for seed in failures)
        raise AssertionError(f"failing seeds: {seeds}; kind {kind}") from next(iter(failures.values()))
    return tally
