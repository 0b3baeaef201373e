"""Random set-ups of a join over finite relations, as in the paper's section 5.3.

Twenty tables, five each of four sizes. A query is a path or a star of four or five of them. Its joins have *fan-outs*
between 0 and 10: as many partners has a row of the smaller table in the larger one on average. Some tables have a
selection. Each table streams at its own rate after a delay of its own, and the first plan is any plan without cross
products. Fan-outs whose results, or what a bad plan joins on the way to them, would explode are drawn anew.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lab.answers import compute_finite_join, digest_of
from midstream.lab.experiments.stairs_lanes import Relations, cut_pushes

_SIZES = (1_000, 10_000, 50_000, 100_000)
_TABLES_OF_A_SIZE = 5
_LARGEST_FAN_OUT = 10.0
#: Results, and combinations of some of the tables, that are expected at most, for each row of all tables.
_RESULTS, _ON_THE_WAY = 1.0, 5.0
#: Selections keep rows whose `p`, which is below this, is below a number drawn.
_PARTS = 1_000
Pair = tuple[int, int]


@dataclass(frozen=True)
class Setup:
    """What was drawn: rows by table, the pairs of tables that are joined with their fan-outs, and so on.

    `kept` is the share of rows that a table's selection keeps, `rates` are rows a unit of time, `delays` units of time.
    """

    shape: str
    sizes: tuple[int, ...]
    fan_outs: Mapping[Pair, float]
    kept: tuple[float, ...]
    rates: tuple[float, ...]
    delays: tuple[float, ...]
    plan: str
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(string.ascii_uppercase[: len(self.sizes)])

    @property
    def condition(self) -> str:
        """The predicates of the query."""
        names = self.names
        joins = [f"{names[left]}.j{at} = {names[right]}.j{at}" for at, (left, right) in enumerate(self.fan_outs)]
        selections = [
            f"{name}.p < {round(share * _PARTS)}" for name, share in zip(names, self.kept, strict=True) if share < 1
        ]
        return " AND ".join(joins + selections)


def draw_setup(seed: int, scale: float = 1.0) -> Setup:
    """A set-up; a smaller scale has smaller tables."""
    rng = np.random.default_rng([seed, 8])
    tables = int(rng.integers(4, 6))
    is_star = bool(rng.integers(2))
    pairs = [(0 if is_star else number - 1, number) for number in range(1, tables)]
    pool = np.repeat(_SIZES, _TABLES_OF_A_SIZE)
    sizes = tuple(max(20, round(int(size) * scale)) for size in rng.choice(pool, tables, replace=False))
    kept = tuple(float(share) for share in np.where(rng.random(tables) < 0.5, 1.0, rng.uniform(0.05, 1, tables)))
    fan_outs = _draw_fan_outs(rng, pairs, sizes, kept)
    rates = tuple(float(rate) for rate in 10 ** rng.uniform(0, 1, tables))
    longest = max(size / rate for size, rate in zip(sizes, rates, strict=True))
    delays = tuple(float(delay) for delay in rng.uniform(0, longest / 3, tables))
    plan = _draw_plan(rng, string.ascii_uppercase[:tables], pairs)
    shape = f"{'star' if is_star else 'path'} of {tables}"
    return Setup(shape, sizes, fan_outs, kept, rates, delays, plan, seed)


def _draw_fan_outs(
    rng: np.random.Generator, pairs: Sequence[Pair], sizes: Sequence[int], kept: Sequence[float]
) -> dict[Pair, float]:
    rows = [size * share for size, share in zip(sizes, kept, strict=True)]
    while True:
        fan_outs = {
            pair: float(fan_out)
            for pair, fan_out in zip(pairs, rng.uniform(0, _LARGEST_FAN_OUT, len(pairs)), strict=True)
        }
        shares = {pair: fan_out / max(sizes[pair[0]], sizes[pair[1]]) for pair, fan_out in fan_outs.items()}
        expected = [
            (len(chosen), prod(rows[number] for number in chosen) * prod(shares[pair] for pair in inside))
            for size in range(2, len(sizes) + 1)
            for chosen in combinations(range(len(sizes)), size)
            if len(inside := [pair for pair in pairs if set(pair) <= set(chosen)]) == size - 1
        ]
        if all(found <= (_RESULTS if size == len(sizes) else _ON_THE_WAY) * sum(sizes) for size, found in expected):
            return fan_outs


def _draw_plan(rng: np.random.Generator, names: str, pairs: Sequence[Pair]) -> str:
    """Any tree of joins along the pairs, in which every order of them is as likely as any other."""
    parts = dict(enumerate(names))
    part_of = {number: number for number in parts}
    for at in rng.permutation(len(pairs)):
        left, right = (part_of[number] for number in pairs[at])
        parts[left] = f"({parts[left]} {parts.pop(right)})"
        part_of = {number: left if part == right else part for number, part in part_of.items()}
    return next(iter(parts.values()))


def make_relations(setup: Setup, push: int) -> Relations:
    """The query and rows of a set-up, `push` rows of all tables together at a time."""
    rng = np.random.default_rng([setup.seed, 9])
    arrivals = [
        delay + np.arange(size) / rate for size, rate, delay in zip(setup.sizes, setup.rates, setup.delays, strict=True)
    ]
    ranks = np.empty(sum(setup.sizes), np.int64)
    ranks[np.argsort(np.concatenate(arrivals), kind="stable")] = np.arange(len(ranks))
    times = np.split(ranks, np.cumsum(setup.sizes)[:-1])
    columns = [{"ts": found, "p": rng.integers(0, _PARTS, len(found)), "v": np.arange(len(found))} for found in times]
    for at, (pair, fan_out) in enumerate(setup.fan_outs.items()):
        keys = max(1, round(max(setup.sizes[number] for number in pair) / fan_out))
        for number in pair:
            columns[number][f"j{at}"] = rng.integers(0, keys, setup.sizes[number])
    tables = {name: pa.table(found) for name, found in zip(setup.names, columns, strict=True)}
    outputs = {f"{name}_v": f"{name}.v" for name in setup.names}
    text = (
        f"SELECT {', '.join(f'{text} AS {name}' for name, text in outputs.items())} "
        f"FROM {', '.join(f'{name} [UNBOUNDED]' for name in setup.names)} WHERE {setup.condition}"
    )
    query = ms.query(text, {name: table.schema for name, table in tables.items()}, "ts")
    answer = digest_of([compute_finite_join(tables, outputs, setup.condition)])
    return Relations(query, list(cut_pushes(tables, push)), answer)
