"""What the experiments on STAIRs race: trees that stay as they are, EddyJoins, SteMs, and STAIRs.

Relations are finite. They arrive side by side, are `[UNBOUNDED]`, and every contender gets the same pushes in turns.
What is recorded is processor time, counted work (the entries that probes look at, those of the router's samples
included), results, and the way that rows of each input take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.engine.routing.policies.content import Content
from midstream.lab.answers import Digest
from midstream.lab.race import Batch, Contender, Lane, Race
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategies.staged import Staged

PAPER = "Lifting the Burden of History from Adaptive Query Processing, VLDB 2004"
EDDY = Contender("EddyJoins", executor="eddy")
STEMS = Contender("SteMs", executor="stems")
STAGED = Contender("STAIRs", executor="stairs", moves=Staged.name)
BY_CONTENT = Contender("STAIRs by content", executor="stairs", moves=Staged.name, routing=Content.name)
JISC_ON_STAIRS = Contender("JISC on STAIRs", executor="stairs", moves=JustInTime.name)
ADAPTIVE = (EDDY, STEMS, STAGED, JISC_ON_STAIRS)


def tree(plan: str) -> Contender:
    """A tree of symmetric hash joins that never changes."""
    return Contender(f"tree {plan}")


@dataclass(frozen=True)
class Relations:
    """A query over finite relations, the pushes that bring their rows, and the results of all of them together."""

    query: ms.Query
    pushes: Sequence[Batch]
    answer: Digest

    @property
    def rows(self) -> int:
        """The rows of all relations together."""
        return sum(table.num_rows for batch in self.pushes for table in batch.values())


def cut_pushes(tables: Mapping[str, pa.Table], push: int) -> Iterator[dict[str, pa.Table]]:
    """Pushes of so many rows of all tables together, in the order of `ts`, which numbers them."""
    rows = sum(table.num_rows for table in tables.values())
    cuts = np.arange(0, rows + push, push)
    bounds = {name: np.searchsorted(table["ts"].to_numpy(), cuts).tolist() for name, table in tables.items()}
    for at in range(len(cuts) - 1):
        yield {
            name: table.slice(bounds[name][at], bounds[name][at + 1] - bounds[name][at])
            for name, table in tables.items()
        }


@dataclass(frozen=True)
class Point:
    """What a contender has done up to the end of a push; `ways` are the orders that rows of each input take.

    Rows of one input may take several, by their keys.
    """

    contender: str
    seed: int
    push: int
    rows: int
    seconds: float
    visited: int
    results: int
    ways: Mapping[str, str]


def race(
    relations: Relations,
    starts: Sequence[tuple[Contender, str]],
    seed: int,
    where: str,
    after_push: Callable[[int], None] = lambda push: None,
) -> list[Point]:
    """Give the relations to all contenders, each with its first plan, and check their results."""
    lanes = [Lane(contender, relations.query, plan) for contender, plan in starts]
    running = Race(lanes)
    points: list[Point] = []
    rows = 0
    for number, batch in enumerate(relations.pushes, 1):
        running.push(batch)
        rows += sum(table.num_rows for table in batch.values())
        points += [_look_at(lane, seed, number, rows) for lane in lanes]
        after_push(number)
    running.check(relations.answer, where)
    return points


def _look_at(lane: Lane, seed: int, push: int, rows: int) -> Point:
    engine = lane.engine
    routing = engine.routing
    orders: dict[str, dict[str, None]] = {}
    for way in () if routing is None else routing.streams:
        orders.setdefault(way.alias, {})[way.order] = None
    ways = {alias: " or ".join(found) for alias, found in orders.items()}
    visited = engine.stats().work.slots_visited
    return Point(lane.contender.name, seed, push, rows, lane.seconds, visited, lane.digest.rows, ways)


@dataclass(frozen=True)
class Cost:
    """What a contender needed in all: medians over the runs."""

    seconds: float
    visited: float


def costs_of(points: Sequence[Point]) -> dict[str, Cost]:
    """The costs by contender, in the order in which they raced."""
    last = max(point.push for point in points)
    ends = [point for point in points if point.push == last]
    return {
        name: Cost(
            median(point.seconds for point in ends if point.contender == name),
            median(point.visited for point in ends if point.contender == name),
        )
        for name in dict.fromkeys(point.contender for point in ends)
    }


def as_table(points: Sequence[Point]) -> pa.Table:
    """The raw rows: one for every contender and push."""
    return pa.Table.from_pylist(
        [
            {
                "contender": point.contender,
                "seed": point.seed,
                "push": point.push,
                "rows": point.rows,
                "seconds": point.seconds,
                "slots_visited": point.visited,
                "results": point.results,
                "ways": "; ".join(f"{alias}: {order}" for alias, order in point.ways.items()),
            }
            for point in points
        ]
    )
