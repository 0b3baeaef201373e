"""STAIRs, figure 9: two joins whose selectivities change places half-way: any single plan is wrong half the time.

Every row of S has five partners in R and hardly any in T in the first half, and the other way round in the second. The
paper's selectivity is zero where there are hardly any; here every fiftieth row has a partner, so that there are results
to check.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lab.answers import compute_finite_join, digest_of
from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.stairs_lanes import (
    ADAPTIVE,
    EDDY,
    PAPER,
    STAGED,
    Cost,
    Point,
    Relations,
    as_table,
    costs_of,
    race,
    tree,
)
from midstream.lab.experiments.stairs_plots import draw_over_rows, draw_routing
from midstream.state.indexes import Ints

_PLANS = ("((R S) T)", "(R (S T))")
_PARTNERS = 5
#: One row in so many has a partner where hardly any has one.
_RARE = 50
#: What STAIRs should be better by than the best plan, in counted work and in processor time.
_LESS_WORK, _LESS_TIME = 1.5, 1.15
_CONDITION = "R.a = S.a AND S.b = T.b"
_OUTPUTS = {"r": "R.v", "s": "S.v", "t": "T.v"}


@dataclass(frozen=True)
class _Keys:
    """The keys of both ends of an edge."""

    left: Ints
    right: Ints


def make_relations(rows: int, push: int, seed: int) -> Relations:
    """R, S and T of so many rows each, `push` rows of all three at a time."""
    rng = np.random.default_rng(seed)
    half = rows // 2
    first, second = _many(rng, half), _few(rng, half, half)
    over_a = _Keys(np.concatenate([first.left, second.left]), np.concatenate([first.right, second.right]))
    first, second = _few(rng, half, half), _many(rng, half)
    over_b = _Keys(np.concatenate([first.left, second.left]), np.concatenate([first.right, second.right]))
    place = np.arange(2 * half)
    tables = {
        "R": pa.table({"ts": 3 * place, "a": over_a.left, "v": place}),
        "S": pa.table({"ts": 3 * place + 1, "a": over_a.right, "b": over_b.left, "v": place}),
        "T": pa.table({"ts": 3 * place + 2, "b": over_b.right, "v": place}),
    }
    columns = ", ".join(f"{text} AS {name}" for name, text in _OUTPUTS.items())
    query = ms.query(
        f"SELECT {columns} FROM R [UNBOUNDED], S [UNBOUNDED], T [UNBOUNDED] WHERE {_CONDITION}",
        {name: table.schema for name, table in tables.items()},
        "ts",
    )
    cuts = np.linspace(0, 2 * half, max(1, round(6 * half / push)) + 1).astype(int)
    pushes = [
        {name: table.slice(begin, end - begin) for name, table in tables.items()}
        for begin, end in pairwise(cuts.tolist())
    ]
    return Relations(query, pushes, digest_of([compute_finite_join(tables, _OUTPUTS, _CONDITION)]))


def _many(rng: np.random.Generator, rows: int) -> _Keys:
    """Every row of one end has five partners at the other."""
    keys = np.arange(rows) // _PARTNERS
    return _Keys(rng.permutation(keys), rng.permutation(keys))


def _few(rng: np.random.Generator, rows: int, above: int) -> _Keys:
    """Every fiftieth row has one partner, the others have none; all keys are `above` those with many partners."""
    keys = above + np.arange(rows)
    others = np.where(np.arange(rows) % _RARE == 0, keys, keys + rows)
    return _Keys(rng.permutation(keys), rng.permutation(others))


def run(settings: Settings, progress: Progress) -> Outcome:
    rows = settings.size(50_000, 50_000, least=1_000)
    push = settings.size(2_000, 2_000, least=100)
    contenders = [*((tree(plan), plan) for plan in _PLANS), *((contender, _PLANS[0]) for contender in ADAPTIVE)]
    relations = {seed: make_relations(rows, push, seed) for seed in settings.seeds}
    progress.total(sum(len(found.pushes) for found in relations.values()))
    progress.step("getting the kernels ready")
    race(make_relations(1_000, 100, 0), contenders, 0, "the first rows")
    points: list[Point] = []
    for seed, found in relations.items():
        progress.step(f"{found.rows:,} rows, {push:,} a push, seed {seed}")
        points += race(found, contenders, seed, f"seed {seed}", lambda _: progress.advance())
    return _outcome(points, costs_of(points), settings.seeds[0])


def _outcome(points: list[Point], costs: dict[str, Cost], seed: int) -> Outcome:
    trees = [costs[tree(plan).name] for plan in _PLANS]
    best = Cost(min(cost.seconds for cost in trees), min(cost.visited for cost in trees))
    table = pa.table(
        {
            "contender": list(costs),
            "processor time, s": [cost.seconds for cost in costs.values()],
            "entries looked at": [round(cost.visited) for cost in costs.values()],
            "best plan / this, time": [best.seconds / cost.seconds for cost in costs.values()],
            "best plan / this, work": [best.visited / max(1, cost.visited) for cost in costs.values()],
        }
    )
    stairs, eddy = costs[STAGED.name], costs[EDDY.name]
    work, time = best.visited / max(1, stairs.visited), best.seconds / stairs.seconds
    problems = []
    if work < _LESS_WORK:
        problems.append(f"the best plan looks at {work:.2f} times the entries, less than {_LESS_WORK} times")
    if time < _LESS_TIME:
        problems.append(f"the best plan takes {time:.2f} times as long, less than {_LESS_TIME} times")
    if best.visited <= eddy.visited:
        problems.append("EddyJoins look at no fewer entries than the best plan")
    figure = (
        f"the best plan looks at {work:.1f} times the entries that STAIRs look at and takes {time:.2f} times as long; "
        f"beside EddyJoins {best.visited / max(1, eddy.visited):.1f} and {best.seconds / eddy.seconds:.2f} times"
    )
    shown = [point for point in points if point.seed == seed]
    plots = (
        draw_over_rows(shown, lambda point: point.seconds, "processor time, s"),
        draw_over_rows(shown, lambda point: point.visited, "entries looked at"),
        draw_routing(shown, ("S",)),
    )
    return Outcome(as_table(points), table, plots, verdict(not problems), figure, "; ".join(problems), True)


STAIRS_FIGURE_9 = Experiment(
    "stairs-fig9",
    "Selectivities that change places",
    PAPER,
    "eddies beat the best single plan: STAIRs by 1.5 times in counted work and 1.15 times in time",
    run,
)
