"""UNION ALL of random joins: every result of both, in the push that brings it, whatever happens to the plans."""

from __future__ import annotations

import contextlib
import datetime
import random
from typing import Any

import pytest

import midstream as ms
from midstream.migrate import STRATEGIES
from midstream.plan import Join, Leaf, Node, Plan, SetNode, parse_plan

from ..oracle.cases import make_case
from ..oracle.compare import multiset, rows_of
from ..oracle.dress import watermark_argument
from ..oracle.run import make_query
from ..oracle.spec import Case, push_tables


def shift(node: Node, by: int) -> Node:
    """The same tree over inputs of higher numbers."""
    if isinstance(node, Leaf):
        return Leaf(node.input + by)
    assert isinstance(node, Join)
    return Join(shift(node.left, by), shift(node.right, by))


def draw_plan(case: Case, query: ms.Query, rng: random.Random) -> Plan:
    """A plan for both branches, of which each may have any of the case."""
    aliases = [relation.alias for relation in case.inputs]
    left, right = (parse_plan(rng.choice(case.plans), aliases).root for _ in range(2))
    return Plan(query.aliases, SetNode("union", left, shift(right, len(aliases))))


@pytest.mark.parametrize("seed", range(40))
def test_a_join_and_itself_give_every_result_twice(seed: int) -> None:
    case, rng = make_case(seed, big=False), random.Random(seed)
    single = make_query(case)
    query = ms.query(f"{case.text}\nUNION ALL\n{case.text}", **case.query_arguments())
    options: dict[str, Any] = {}
    if case.max_jump is not None:
        options["max_jump"] = datetime.timedelta(microseconds=case.max_jump)
    engine = ms.Engine(query, plan=draw_plan(case, query, rng), tables=case.tables(), **options)
    other = ms.Engine(single, plan=case.plans[0], tables=case.tables(), **options)
    for push in case.pushes:
        if rng.random() < 0.3:
            with contextlib.suppress(ms.EngineError):  # some strategies refuse some windows
                engine.migrate(draw_plan(case, query, rng), rng.choice(STRATEGIES).name)
        if rng.random() < 0.1:
            engine = ms.Engine.restore(query, engine.snapshot(), plan=draw_plan(case, query, rng), **options)
        given: dict[str, Any] = {}
        if push.watermark is not None:
            given["watermark"] = watermark_argument(case, push.watermark, rng)
        found, expected = (running.push(push_tables(case, push), **given) for running in (engine, other))
        twice = {row: 2 * count for row, count in multiset(rows_of(expected)).items()}
        assert multiset(rows_of(found)) == twice
