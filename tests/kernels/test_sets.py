"""Set operations over time against a look at every moment."""

from __future__ import annotations

import collections
import random

import duckdb
import numpy as np
import pytest

from midstream.kernels import sets

Multiset = collections.Counter[str]
OPERATIONS = {
    sets.UNION_ALL: "UNION ALL",
    sets.UNION: "UNION",
    sets.EXCEPT_ALL: "EXCEPT ALL",
    sets.EXCEPT: "EXCEPT",
    sets.INTERSECT_ALL: "INTERSECT ALL",
    sets.INTERSECT: "INTERSECT",
}


def evaluate(program: list[int], counts: list[int]) -> int:
    """How often a row is in the result, by multisets."""
    stack: list[Multiset] = []
    for word in program:
        if word >= 0:
            stack.append(collections.Counter({"row": counts[word]}) if counts[word] else collections.Counter())
        elif word == sets.DISTINCT:
            stack[-1] = collections.Counter(set(stack[-1]))
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(combine(word, left, right))
    return stack[0]["row"]


def combine(word: int, left: Multiset, right: Multiset) -> Multiset:
    if word == sets.UNION_ALL:
        return left + right
    if word == sets.EXCEPT_ALL:
        return left - right
    if word == sets.INTERSECT_ALL:
        return left & right
    if word == sets.UNION:
        return collections.Counter(set(left) | set(right))
    return collections.Counter(set(left) - set(right) if word == sets.EXCEPT else set(left) & set(right))


def draw_program(rng: random.Random, branches: list[int]) -> list[int]:
    if len(branches) == 1:
        return branches + ([sets.DISTINCT] if rng.random() < 0.2 else [])
    cut = rng.randint(1, len(branches) - 1)
    left, right = draw_program(rng, branches[:cut]), draw_program(rng, branches[cut:])
    return [*left, *right, rng.choice(list(OPERATIONS))]


@pytest.mark.parametrize("seed", range(120))
def test_runs_are_those_of_every_moment(seed: int) -> None:
    rng = random.Random(seed)
    people, branches, begin, end = rng.choice([1, 4]), rng.choice([2, 3, 4]), -5, 12
    program = draw_program(rng, list(range(branches)))
    carried = np.array([[rng.choice([0, 0, 1, 2]) for _ in range(branches)] for _ in range(people)])
    changes: list[list[tuple[int, int, int]]] = []
    for who in range(people):
        there = [[int(carried[who, branch])] for branch in range(branches)]
        own = []
        for time in sorted(rng.randint(begin, end - 1) for _ in range(rng.choice([0, 2, 10, 30]))):
            branch = rng.randrange(branches)
            sign = rng.choice([1, -1]) if there[branch][0] else 1
            there[branch][0] += sign
            own.append((time, sign, branch))
        changes.append(own)
    flat = [change for own in changes for change in own]
    offsets = np.cumsum([0, *(len(own) for own in changes)])
    times, signs, whose_branch = (np.array([change[at] for change in flat], np.int64) for at in range(3))
    counts = carried.copy()
    found = sets.find_runs((offsets, times, signs), whose_branch, counts, np.array(program), begin, end)
    expected = []
    for who in range(people):
        levels = []
        for moment in range(begin, end + 1):
            now = carried[who].tolist()
            for time, sign, branch in changes[who]:
                now[branch] += sign if time <= moment else 0
            levels.append(evaluate(program, now))
            assert moment < end or now == counts[who].tolist()
        for level in range(1, max(levels) + 1):
            first = None
            for moment, there_now in enumerate([*levels, 0], begin):
                if there_now >= level and first is None:
                    first = moment
                elif there_now < level and first is not None:
                    expected.append((who, first, moment - 1))
                    first = None
    assert sorted(zip(*(column.tolist() for column in found), strict=True)) == sorted(expected), program


@pytest.mark.parametrize(("word", "name"), OPERATIONS.items())
def test_every_operation_is_that_of_sql(word: int, name: str) -> None:
    for left in range(4):
        for right in range(4):
            sides = (f"SELECT NULL AS x, 'nan'::DOUBLE AS y FROM range({count})" for count in (left, right))
            rows = duckdb.sql(f" {name} ".join(sides)).fetchall()
            assert evaluate([0, 1, word], [left, right]) == len(rows)
