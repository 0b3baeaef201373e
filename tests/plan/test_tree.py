"""Trees: what they say about themselves, and what cannot be built."""

from __future__ import annotations

import dataclasses

import pytest

from midstream.errors import PlanError
from midstream.plan import Join, Leaf, Plan

R, S, T, U = Leaf(0), Leaf(1), Leaf(2), Leaf(3)
RSTU = ("R", "S", "T", "U")


def test_the_identity_of_a_state_is_its_set_of_inputs() -> None:
    left_deep, right_deep = Join(Join(R, S), T), Join(T, Join(S, R))
    assert left_deep.inputs == right_deep.inputs == frozenset({0, 1, 2})
    assert left_deep != right_deep


def test_nodes_come_children_first_and_left_before_right() -> None:
    left, right = Join(S, R), Join(T, U)
    plan = Plan(RSTU, Join(left, right))
    assert list(plan.nodes()) == [S, R, left, T, U, right, plan.root]
    assert list(plan.joins()) == [left, right, plan.root]


def test_a_plan_of_one_input_has_no_joins() -> None:
    plan = Plan(("orders",), Leaf(0))
    assert list(plan.nodes()) == [Leaf(0)]
    assert list(plan.joins()) == []
    assert str(plan) == "orders"


def test_equal_plans_are_equal_and_hash_alike() -> None:
    plan = Plan(("R", "S"), Join(Leaf(0), Leaf(1)))
    equal_plan = Plan(("R", "S"), Join(Leaf(0), Leaf(1)))
    assert plan == equal_plan
    assert hash(plan) == hash(equal_plan)
    assert plan != Plan(("R", "S"), Join(Leaf(1), Leaf(0)))
    assert plan != Plan(("R", "Q"), Join(Leaf(0), Leaf(1)))


def test_plans_do_not_change() -> None:
    plan = Plan(("R", "S"), Join(R, S))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.root = R  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        R.input = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("aliases", "root", "message"),
    [
        (("R", "S"), Join(R, R), "plan: input 'R' is used twice; inputs: R, S"),
        (RSTU, Join(Join(R, S), U), "plan: input 'T' is left out of ((R S) U); inputs: R, S, T, U"),
        (RSTU, Join(S, R), "plan: inputs 'T', 'U' are left out of (S R); inputs: R, S, T, U"),
        (("R", "S"), Join(R, T), "plan: there is no input number 2; numbers go from 0 to 1"),
        (("R", "S"), Join(R, Leaf(-1)), "plan: there is no input number -1; numbers go from 0 to 1"),
        ((), R, "plan: there is no input number 0; there are no inputs"),
        (("r", "R"), Join(R, S), "plan: two inputs are called 'R'; give each its own alias"),
    ],
)
def test_what_is_not_a_plan_cannot_be_built(aliases: tuple[str, ...], root: Leaf | Join, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan(aliases, root)
    assert str(caught.value) == message


def test_odd_aliases_are_printed_in_quotes() -> None:
    plan = Plan(("my orders", 'a"b', "x"), Join(Join(R, S), T))
    assert str(plan) == '(("my orders" "a""b") x)'
