"""What becomes of the states of two plans, told without making or touching anything."""

from __future__ import annotations

import itertools
import random

import pytest

import midstream as ms
from midstream.engine.executors.tree import Tree
from midstream.engine.joins.comparison import REINDEXED_AT_ONCE, Fate, compare_states, state_shapes
from midstream.engine.joins.nodes import JoinNode
from midstream.plan import parse_plan
from midstream.state.missing import Cause

from .audit import executor_of, windows_of
from .small import ALIASES, CASES, Small, draw_plan, draw_pushes

SCHEMA = {"k": int, "v": int, "ts": int}
STREAMS = ("a", "b", "c", "d")


def star() -> ms.Query:
    """One key for all, and a band between b and c."""
    inputs = ", ".join(f"{name} [RANGE 1 MINUTE]" for name in STREAMS)
    text = f"SELECT a.v FROM {inputs} WHERE a.k = b.k AND a.v = c.v AND c.k = d.k AND b.v - d.v BETWEEN 0 AND 5"
    return ms.query(text, schemas=dict.fromkeys(STREAMS, SCHEMA), event_time="ts")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("((a b) c) d", "((a b) c) d", {"ab": "kept", "abc": "kept"}),
        ("((a b) c) d", "d ((a b) c)", {"ab": "kept", "abc": "kept"}),
        ("((a b) c) d", "((b a) c) d", {"ab": "indexed anew", "abc": "indexed anew"}),
        ("((a b) c) d", "(a (b c)) d", {"bc": "computed", "abc": "kept", "ab": "given up"}),
        ("((a b) c) d", "(a b) (c d)", {"ab": "kept", "cd": "computed", "abc": "given up"}),
        ("(a b) (c d)", "((d c) a) b", {"cd": "indexed anew", "acd": "computed", "ab": "given up"}),
    ],
)
def test_what_becomes_of_each_state(old: str, new: str, told: dict[str, str]) -> None:
    query = star()
    held, needed = (state_shapes(query, parse_plan(plan, query.aliases)) for plan in (old, new))
    found = {
        "".join(sorted(query.aliases[number] for number in change.shape.inputs)): change.fate
        for change in compare_states(held, needed, lambda identity: None)
    }
    assert found == told


def test_a_large_state_that_is_found_in_another_way_is_computed() -> None:
    query = star()
    held, needed = (state_shapes(query, parse_plan(plan, query.aliases)) for plan in ("((a b) c) d", "((b a) c) d"))
    sizes = {frozenset((0, 1)): REINDEXED_AT_ONCE, frozenset((0, 1, 2)): REINDEXED_AT_ONCE + 1}
    assert [change.fate for change in compare_states(held, needed, sizes.__getitem__)] == ["indexed anew", "computed"]


def test_what_is_told_is_what_happens() -> None:
    """An executor that takes over has states of the old one, indexes or copies of them, or lacks them, as was told."""
    seen = set().union(*(take_over_again_and_again(small) for small in CASES))
    assert seen == {"kept", "indexed anew", "computed", "given up"}


def take_over_again_and_again(small: Small) -> set[Fate]:
    """Check what happens to each state between two pushes; the fates that there were."""
    rng = random.Random(f"told {small.name}")
    query = small.query()
    engine = ms.Engine(query, plan=draw_plan(rng, small.size))
    seen: set[Fate] = set()
    for push in draw_pushes(rng, small, 30):
        engine.push(push)
        old = executor_of(engine)
        plan = parse_plan(draw_plan(rng, small.size), ALIASES[: small.size])
        before = {frozenset(node.inputs): node.state for node in old.joins() if node.state is not None}
        entries = {inputs: len(state) for inputs, state in before.items()}
        changes = compare_states(state_shapes(query, old.plan), state_shapes(query, plan), entries.__getitem__)
        new = Tree().make(query, plan, windows_of(engine))
        new.start(Cause("migration"), old.hand_over())
        after: dict[frozenset[int], JoinNode] = {frozenset(node.inputs): node for node in new.joins()}
        for change in changes:
            node = after.get(change.shape.identity)
            state = None if node is None else node.state
            seen.add(change.fate)
            if change.fate == "given up":
                assert state is None
                continue
            assert node is not None and node.path is not None and state is not None
            assert (node.inputs, node.path.driver) == (change.shape.inputs, change.shape.driver)
            if change.fate != "indexed anew":
                assert (state is before.get(change.shape.identity)) == (change.fate == "kept")
            assert len(state) == (0 if change.fate == "computed" else entries[change.shape.identity])
        engine._pipeline._lane.executor = new
    return seen


def test_every_pair_of_plans_accounts_for_every_state() -> None:
    query = star()
    texts = ("((a b) c) d", "(a b) (c d)", "((d c) b) a", "a (b (c d))", "((a c) (b d))")
    plans = [parse_plan(text, query.aliases) for text in texts]
    for old, new in itertools.product(plans, plans):
        held, needed = state_shapes(query, old), state_shapes(query, new)
        changes = compare_states(held, needed, lambda identity: None)
        assert tuple(change.shape for change in changes[: len(needed)]) == needed
        given_up = {change.shape.identity for change in changes[len(needed) :]}
        assert given_up == {shape.identity for shape in held} - {shape.identity for shape in needed}
