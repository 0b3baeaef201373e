"""Random plans of every shape, and an estimate of what their joins hold, to leave out the absurd ones."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

from midstream.plan.nodes import quoted

from .accept import Acceptance
from .expr import Op, compile_expr, inputs_of
from .naive import Member, members_of
from .spec import Case

Tree = int | tuple["Tree", "Tree"]
SAMPLE = 30


def draw_tree(rng: random.Random, n: int, shape: str) -> Tree:
    """A plan over inputs 0..n-1: left, right, zigzag or bushy."""
    order = list(range(n))
    rng.shuffle(order)
    if shape == "bushy":
        return _bushy(rng, order)
    tree: Tree = order[0]
    for number in order[1:]:
        side = shape if shape != "zigzag" else rng.choice(["left", "right"])
        tree = (tree, number) if side == "left" else (number, tree)
    return tree


def _bushy(rng: random.Random, order: list[int]) -> Tree:
    if len(order) == 1:
        return order[0]
    cut = rng.randint(1, len(order) - 1)
    return (_bushy(rng, order[:cut]), _bushy(rng, order[cut:]))


def leaves(tree: Tree) -> frozenset[int]:
    return frozenset([tree]) if isinstance(tree, int) else leaves(tree[0]) | leaves(tree[1])


def states(tree: Tree) -> list[frozenset[int]]:
    """The sets of inputs of the joins of a plan."""
    return [] if isinstance(tree, int) else [leaves(tree), *states(tree[0]), *states(tree[1])]


def text_of(tree: Tree, aliases: list[str]) -> str:
    if isinstance(tree, int):
        return quoted(aliases[tree])
    return f"({text_of(tree[0], aliases)} {text_of(tree[1], aliases)})"


@dataclass(frozen=True)
class Estimate:
    """Expected sizes of joins over sets of inputs, from selectivities measured on pairs of rows."""

    rows: tuple[int, ...]
    overlaps: dict[frozenset[int], float]
    equalities: tuple[tuple[frozenset[int], float], ...]
    others: tuple[tuple[frozenset[int], float], ...]

    def size(self, inputs: frozenset[int]) -> float:
        size = math.prod(float(self.rows[number]) for number in inputs)
        for chance in self._spanning(inputs, list(self.overlaps.items())):
            size *= chance
        for chance in self._spanning(inputs, list(self.equalities)):
            size *= chance
        for pair, chance in self.others:
            if pair <= inputs:
                size *= chance
        return size

    @staticmethod
    def _spanning(inputs: frozenset[int], edges: list[tuple[frozenset[int], float]]) -> list[float]:
        """The chances along a forest: predicates that follow from others must not count twice."""
        group = {number: number for number in inputs}
        chances = []
        for pair, chance in sorted(edges, key=lambda edge: edge[1]):
            if pair <= inputs:
                first, second = sorted(group[number] for number in pair)
                if first != second:
                    chances.append(chance)
                    group = {number: first if leader == second else leader for number, leader in group.items()}
        return chances


def estimate(case: Case, acceptance: Acceptance, rng: random.Random) -> Estimate:
    members = [members_of(case, number, acceptance) for number in range(len(case.inputs))]
    samples = [rng.sample(rows, min(len(rows), SAMPLE)) for rows in members]
    overlaps: dict[frozenset[int], float] = {}
    equalities: list[tuple[frozenset[int], float]] = []
    others: list[tuple[frozenset[int], float]] = []
    for i, j in itertools.combinations(range(len(members)), 2):
        pair = frozenset((i, j))
        overlapping = [(x, y) for x in samples[i] for y in samples[j] if _overlap(x, y)]
        overlaps[pair] = (len(overlapping) + 0.5) / (len(samples[i]) * len(samples[j]) + 1)
        for predicate in case.predicates:
            if inputs_of(predicate) == pair:
                evaluate = compile_expr(predicate)
                env: list[dict[str, object]] = [{} for _ in members]
                hits = 0
                for x, y in overlapping:
                    env[i], env[j] = x.row.values, y.row.values
                    hits += evaluate(env) is True
                chance = (hits + 0.5) / (len(overlapping) + 1)
                is_equality = isinstance(predicate, Op) and predicate.name == "eq" and case.kind != "clique"
                (equalities if is_equality else others).append((pair, chance))
    return Estimate(tuple(len(rows) for rows in members), overlaps, tuple(equalities), tuple(others))


def _overlap(x: Member, y: Member) -> bool:
    return x.start <= y.end and y.start <= x.end and x.first <= y.last and y.first <= x.last


def draw_plans(case: Case, sizes: Estimate, rng: random.Random, count: int, limit: float) -> tuple[str, ...]:
    """Up to `count` different plans, each of whose joins should stay below the limit; always at least one."""
    n = len(case.inputs)
    aliases = [relation.alias for relation in case.inputs]
    shapes = ["left", "right", "zigzag", "bushy", "bushy"]
    drawn: dict[str, float] = {}
    for attempt in range(count * 3):
        tree = draw_tree(rng, n, shapes[attempt % len(shapes)])
        drawn[text_of(tree, aliases)] = max((sizes.size(state) for state in states(tree)), default=0.0)
    fitting = [text for text, size in drawn.items() if size <= limit]
    return tuple(fitting[:count] or [min(drawn, key=lambda text: drawn[text])])
