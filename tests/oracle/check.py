"""The checks of one case, by theme: every plan, every way of cutting the input, restores, pieces, the two oracles."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence

from midstream.engine.executors.registry import executor_names

from ..eager import eager
from .accept import accept
from .batching import batchings
from .compare import difference, multiset
from .duck import duck_join
from .naive import naive_join
from .report import describe
from .run import Expected, Mismatch, Way, expect, make_query, run
from .spec import Case

Ways = Iterator[tuple[Case, Way]]


def every_plan(case: Case, rng: random.Random) -> Ways:
    """Every plan of the case, and the engine's own choice."""
    for plan in (*case.plans, None):
        yield case, Way(plan)


def every_batching(case: Case, rng: random.Random) -> Ways:
    for place, cut in enumerate(batchings(case, rng).values()):
        yield cut, Way(rng.choice(case.plans), evicts=place % 2 == 1)


def pieces(case: Case, rng: random.Random) -> Ways:
    """Results in pieces, for a plan as given and recut."""
    for cut in list(batchings(case, rng).values())[-2:]:
        yield cut, Way(rng.choice(case.plans), pieces=True)


def restores(case: Case, rng: random.Random) -> Ways:
    """Stored and restored at random moments: into the same plan, into another, twice in a row, before everything."""
    count = len(case.pushes)
    plan, target = rng.choice(case.plans), rng.choice(case.plans)
    yield case, Way(plan, restore_before=(rng.randrange(count),), plans_after=(None,))
    yield case, Way(plan, restore_before=(rng.randrange(count),), plans_after=(target,))
    moment = rng.randrange(count)
    moments = (moment, moment, rng.randrange(count))
    yield case, Way(plan, restore_before=moments, plans_after=(target, None, plan), evicts=True)
    cut = rng.choice(list(batchings(case, rng).values()))
    moments = tuple(sorted(rng.sample(range(len(cut.pushes)), min(3, len(cut.pushes)))))
    plans = tuple(rng.choice(case.plans) for _ in moments)
    yield cut, Way(plan, restore_before=moments, plans_after=plans, evicts=True)


def small_pieces(case: Case, rng: random.Random) -> Ways:
    """As if every value were large: pushes, windows, results and snapshots are cut into pieces of a few bytes."""
    for cut in list(batchings(case, rng).values())[-2:]:
        moment, plan = rng.randrange(len(cut.pushes)), rng.choice(case.plans)
        yield cut, Way(plan, rng.random() < 0.5, (moment,), (rng.choice(case.plans),), rng.choice([1, 50, 400]))


def limits(case: Case, rng: random.Random) -> Ways:
    """With limits of memory that change between pushes, for several ways of cutting the input; one is restored."""
    cuts = batchings(case, rng)
    chosen = rng.sample(sorted(cuts), min(3, len(cuts)))
    for place, label in enumerate(chosen):
        moments = (rng.randrange(len(cuts[label].pushes)),) if place == 0 else ()
        plans = tuple(rng.choice([None, *case.plans]) for _ in moments)
        pieces, plan = rng.random() < 0.2, rng.choice(case.plans)
        yield cuts[label], Way(plan, pieces, moments, plans, evicts=rng.random() < 0.2, limited=True)


def everything(case: Case, rng: random.Random) -> Ways:
    for theme in THEMES:
        yield from theme(case, rng)


THEMES = (every_plan, every_batching, pieces, restores, small_pieces, limits)


def check_oracles(case: Case) -> Expected:
    """The two oracles agree, and no way of cutting the input changes what is accepted or the results."""
    expected = expect(case)
    found = multiset(result.values for result in expected.results)
    names = [output.name for output in case.outputs] + ["valid_from", "valid_to"]
    different = difference(found, duck_join(case, expected.acceptance), names)
    if different:
        raise Mismatch(f"DuckDB against the naive join: {different}\n{describe(case, 'oracles')}")
    return expected


def check_batchings(case: Case) -> None:
    """No way of cutting the input changes what is accepted or the results, by the definition itself."""
    expected = expect(case)
    numbers = [arrival.row.id for arrival in expected.acceptance.arrivals]
    for label, cut in batchings(case, random.Random(case.seed)).items():
        acceptance = accept(cut)
        ids = [arrival.row.id for arrival in acceptance.arrivals]
        if sorted(ids) != sorted(numbers) or (case.has_rows_windows and ids != numbers):
            raise Mismatch(f"{label} changes what is accepted\n{describe(cut, label)}")
        if label in ("recut", "cut by arrival"):
            found = multiset(result.values for result in naive_join(cut, acceptance))
            if found != multiset(result.values for result in expected.results):
                raise Mismatch(f"{label} changes the results\n{describe(cut, label)}")


@eager()
def check_engine(case: Case, theme: object = everything, executors: Sequence[str] = ("tree",)) -> int:
    """The engine against the naive join, in all ways of a theme on each of these executors; the number of runs."""
    assert callable(theme)
    expected = expect(case)
    query = make_query(case)
    runs = 0
    for executor in executors:
        for cut, way in theme(case, random.Random(f"ways {case.seed}")):
            runs += run(cut, expected, [on_executor(way, executor, case.seed)], query)
    return runs


def on_executor(way: Way, executor: str, seed: int) -> Way:
    """A way on an executor, with or without demand, and perhaps with a router; restores may go to any."""
    rng = random.Random(f"executors {seed} {executor} {way.plan}")
    after = tuple(rng.choice([None, None, *executor_names()]) for _ in way.restore_before)
    demand = rng.choice(["off", "on", "auto"])
    routing = (
        None if executor == "tree" else rng.choice([None, "fixed", "rank", "cost", "cumulative", "lottery", "content"])
    )
    return dataclasses.replace(
        way,
        executor=executor,
        executors_after=after,
        demand=demand,
        routing=routing,
        restless=rng.random() < 0.4,
    )
