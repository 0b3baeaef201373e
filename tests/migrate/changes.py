"""Random changes of plan: when, to what, by which strategy and with what budget. All drawn before the run begins."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from midstream.migrate import BUDGET, STRATEGIES, Strategy
from midstream.migrate.begin import find_strategy
from midstream.plan import Join, Node, Plan

from ..oracle.accept import accept
from ..oracle.plans import Estimate, Tree, draw_tree, estimate, states, text_of
from ..oracle.spec import Case

#: Staged is for STAIRs alone; its random cases are in tests/eddies.
NAMES = tuple(strategy.name for strategy in STRATEGIES if strategy.name != "staged")
MIXED = "mixed"
BUDGETS: tuple[int | str | None, ...] = (None, 0, 0, 1, 5, "1 millisecond")
RATES = (0.1, 0.3, 0.6)
#: Of some runs, one push: so many changes before it, one on top of the other.
BURSTS = (0, 0, 0, 5, 12)
LARGEST_STATE = 20_000.0
#: The executors that a run goes back and forth between; often there is but one.
EXECUTORS = (
    ("tree",),
    ("tree",),
    ("stems",),
    ("stairs",),
    ("stairs", "eddy"),
    ("tree", "stems"),
    ("tree", "stairs"),
    ("tree", "stems", "eddy", "stairs"),
)
#: Windows under which a strategy does not refuse; most cases of its own are drawn from these.
SUITABLE = {
    "genmig": ("range", "range", "static"),
    "genmig-reference-point": ("range", "range", "static"),
    "parallel-track": ("range", "rows", "static"),
}


@dataclass(frozen=True)
class Change:
    """A call of `migrate` before a push. Without a plan it is the one that runs with some of its joins turned round.

    Without an executor it stays the one that runs. `budget` is given to a strategy that has that option.
    """

    before: int
    strategy: str
    plan: str | None
    turn: int
    budget: int | str | None
    executor: str | None = None

    def target(self, running: Plan) -> str:
        return self.plan if self.plan is not None else str(swap_sides(running, self.turn))


def fit_budget(strategy: str | Strategy, budget: int | str | None) -> dict[str, Any]:
    """The budget as an argument of `migrate`, if the strategy has that option."""
    found = strategy if isinstance(strategy, Strategy) else find_strategy(strategy, STRATEGIES)
    return {"budget": budget} if BUDGET in found.options else {}


def draw_changes(
    case: Case, rng: random.Random, strategies: tuple[str, ...], executors: tuple[str, ...]
) -> list[Change]:
    """Several in a row, a burst of many, back to where it came from, or one long migration left alone."""
    plans = draw_targets(case, rng)
    rate = rng.choice(RATES)
    burst_at, burst = rng.randrange(len(case.pushes)), rng.choice(BURSTS)
    changes: list[Change] = []
    for number in range(len(case.pushes)):
        left = burst if number == burst_at else 0
        while left > 0 or rng.random() < rate:
            left -= 1
            strategy = rng.choice(strategies)
            plan: str | None = rng.choice(plans)
            if len(changes) > 1 and rng.random() < 0.2:
                plan = changes[-2].plan
            if rng.random() < (0.8 if strategy == "pause-drain-resume" else 0.1):
                plan = None
            executor = rng.choice([None, *executors])
            changes.append(Change(number, strategy, plan, rng.getrandbits(8), rng.choice(BUDGETS), executor))
    return changes


def draw_targets(case: Case, rng: random.Random) -> list[str]:
    """The plans of the case, and chains of plans that differ by one rotation, so that states are kept in between."""
    aliases = [relation.alias for relation in case.inputs]
    sizes = estimate(case, accept(case), rng)
    found = list(case.plans)
    for shape in ("left", "bushy"):
        tree = draw_tree(rng, len(aliases), shape)
        for _ in range(4):
            if fits(tree, sizes):
                found.append(text_of(tree, aliases))
            tree = rotate(tree, rng)
    return found


def fits(tree: Tree, sizes: Estimate) -> bool:
    return all(sizes.size(state) <= LARGEST_STATE for state in states(tree))


def rotate(tree: Tree, rng: random.Random) -> Tree:
    """The tree with one random step down and one rotation there: ((a b) c) becomes (a (b c)) or the like."""
    if isinstance(tree, int):
        return tree
    left, right = tree
    if rng.random() < 0.5:
        left, right = right, left
    if rng.random() < 0.4 and not isinstance(left, int):
        return (rotate(left, rng), right)
    if isinstance(left, int):
        return (left, right)
    return (left[0], (left[1], right))


def swap_sides(plan: Plan, bits: int) -> Plan:
    """The plan with the sides of some joins swapped; its states hold the same."""

    def walk(node: Node, depth: int) -> Node:
        if not isinstance(node, Join):
            return node
        left, right = walk(node.left, depth + 1), walk(node.right, depth + 2)
        return Join(right, left) if bits >> depth % 8 & 1 else Join(left, right)

    return Plan(plan.aliases, walk(plan.root, 0))
