"""STAIRs, figure 9: two joins whose selectivities change places half-way: any single plan is wrong half the time.

Every row of S has five partners in R and hardly any in T in the first half, and the other way round in the second. The
paper's selectivity is zero where there are hardly any; here every fiftieth row has a partner, so that there are results
to check.

The same rows come once more, *shuffled*: now no plan, and no routing that is the same for all rows, is right at any
time. What tells the rows of both halves apart are their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lab.answers import compute_finite_join, digest_of
from midstream.lab.definition import Experiment, Outcome, Plot, Progress, Settings, verdict
from midstream.lab.experiments.stairs_lanes import (
    ADAPTIVE,
    BY_CONTENT,
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
from midstream.lab.race import Contender
from midstream.state.indexes import Ints

_PLANS = ("((R S) T)", "(R (S T))")
_PARTNERS = 5
#: One row in so many has a partner where hardly any has one.
_RARE = 50
#: What STAIRs should be better by than the best plan, in counted work and in processor time.
_LESS_WORK, _LESS_TIME = 1.5, 1.15
_CONDITION = "R.a = S.a AND S.b = T.b"
_OUTPUTS = {"r": "R.v", "s": "S.v", "t": "T.v"}
_IN_HALVES, _SHUFFLED = "in halves", "shuffled"


@dataclass(frozen=True)
class _Keys:
    """The keys of both ends of an edge."""

    left: Ints
    right: Ints


def make_relations(rows: int, push: int, seed: int, is_shuffled: bool = False) -> Relations:
    """R, S and T of so many rows each, `push` rows of all three at a time, in halves or shuffled."""
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
    if is_shuffled:
        tables = {name: _shuffle(rng, table) for name, table in tables.items()}
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


def _shuffle(rng: np.random.Generator, table: pa.Table) -> pa.Table:
    """The same rows in another order, at the same times."""
    return table.take(rng.permutation(table.num_rows)).set_column(0, "ts", table["ts"])


def _many(rng: np.random.Generator, rows: int) -> _Keys:
    """Every row of one end has five partners at the other."""
    keys = np.arange(rows) // _PARTNERS
    return _Keys(rng.permutation(keys), rng.permutation(keys))


def _few(rng: np.random.Generator, rows: int, above: int) -> _Keys:
    """Every fiftieth row has one partner, the others have none; all keys are `above` those with many partners."""
    keys = above + np.arange(rows)
    others = np.where(np.arange(rows) % _RARE == 0, keys, keys + rows)
    return _Keys(rng.permutation(keys), rng.permutation(others))


@dataclass(frozen=True)
class _Part:
    """One order of the rows, and who gets them; what the one that the claim is about is called."""

    order: str
    contenders: Sequence[tuple[Contender, str]]
    judged: str

    @property
    def is_shuffled(self) -> bool:
        return self.order == _SHUFFLED


def _start(*adaptive: Contender) -> list[tuple[Contender, str]]:
    return [*((tree(plan), plan) for plan in _PLANS), *((contender, _PLANS[0]) for contender in adaptive)]


_PARTS = (
    _Part(_IN_HALVES, _start(*ADAPTIVE), STAGED.name),
    _Part(_SHUFFLED, _start(EDDY, STAGED, BY_CONTENT), BY_CONTENT.name),
)


def run(settings: Settings, progress: Progress) -> Outcome:
    rows = settings.size(50_000, 50_000, least=1_000)
    push = settings.size(2_000, 2_000, least=100)
    relations = {
        (part.order, seed): make_relations(rows, push, seed, part.is_shuffled)
        for part in _PARTS
        for seed in settings.seeds
    }
    progress.total(sum(len(found.pushes) for found in relations.values()))
    progress.step("getting the kernels ready")
    for part in _PARTS:
        race(make_relations(1_000, 100, 0, part.is_shuffled), part.contenders, 0, "the first rows")
    points: dict[str, list[Point]] = {part.order: [] for part in _PARTS}
    for part in _PARTS:
        for seed in settings.seeds:
            found = relations[part.order, seed]
            progress.step(f"{found.rows:,} rows {part.order}, {push:,} a push, seed {seed}")
            where = f"{part.order}, seed {seed}"
            points[part.order] += race(found, part.contenders, seed, where, lambda _: progress.advance())
    return _outcome(points, settings.seeds[0])


@dataclass(frozen=True)
class _Lead:
    """By how much a contender is ahead of the best plan: in counted work and in time."""

    work: float
    time: float

    @classmethod
    def of(cls, cost: Cost, best: Cost) -> _Lead:
        return cls(best.visited / max(1, cost.visited), best.seconds / cost.seconds)


def _leads(points: Sequence[Point]) -> dict[str, _Lead]:
    """By contender; the best plan is the best tree in each respect."""
    costs = costs_of(points)
    trees = [costs[tree(plan).name] for plan in _PLANS]
    best = Cost(min(cost.seconds for cost in trees), min(cost.visited for cost in trees))
    return {name: _Lead.of(cost, best) for name, cost in costs.items()}


def _outcome(points: dict[str, list[Point]], seed: int) -> Outcome:
    leads = {order: _leads(found) for order, found in points.items()}
    costs = {order: costs_of(found) for order, found in points.items()}
    table = pa.Table.from_pylist(
        [
            {
                "rows": order,
                "contender": name,
                "processor time, s": cost.seconds,
                "entries looked at": round(cost.visited),
                "best plan / this, time": leads[order][name].time,
                "best plan / this, work": leads[order][name].work,
            }
            for order, found in costs.items()
            for name, cost in found.items()
        ]
    )
    problems = []
    for part in _PARTS:
        lead = leads[part.order][part.judged]
        if lead.work < _LESS_WORK:
            problems.append(
                f"{part.order}, the best plan looks at {lead.work:.2f} times the entries, less than {_LESS_WORK} times"
            )
        if lead.time < _LESS_TIME:
            problems.append(f"{part.order}, the best plan takes {lead.time:.2f} times as long, less than {_LESS_TIME}")
    if leads[_IN_HALVES][EDDY.name].work <= 1:
        problems.append("EddyJoins look at no fewer entries than the best plan")
    figure = "; ".join(_describe(part, leads[part.order]) for part in _PARTS)
    raw = [as_table(found).append_column("order", pa.array([order] * len(found))) for order, found in points.items()]
    return Outcome(
        pa.concat_tables(raw), table, _draw(points, seed), verdict(not problems), figure, "; ".join(problems), True
    )


def _describe(part: _Part, leads: dict[str, _Lead]) -> str:
    own, eddy = leads[part.judged], leads[EDDY.name]
    return (
        f"{part.order}, the best plan looks at {own.work:.1f} times the entries that {part.judged} look at and takes "
        f"{own.time:.2f} times as long; beside EddyJoins {eddy.work:.1f} and {eddy.time:.2f} times"
    )


def _draw(points: dict[str, list[Point]], seed: int) -> tuple[Plot, ...]:
    shown = {order: [point for point in found if point.seed == seed] for order, found in points.items()}
    return (
        draw_over_rows(shown[_IN_HALVES], lambda point: point.seconds, "processor time, s"),
        draw_over_rows(shown[_IN_HALVES], lambda point: point.visited, "entries looked at"),
        draw_routing(shown[_IN_HALVES], ("S",)),
        draw_over_rows(shown[_SHUFFLED], lambda point: point.visited, "entries looked at, rows shuffled"),
        draw_routing(shown[_SHUFFLED], ("S",)),
    )


STAIRS_FIGURE_9 = Experiment(
    "stairs-fig9",
    "Selectivities that change places",
    PAPER,
    "eddies beat the best single plan: STAIRs by 1.5 times in counted work and 1.15 times in time, also by content if "
    "the rows are shuffled",
    run,
)
