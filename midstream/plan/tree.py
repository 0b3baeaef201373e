"""Plan trees: which inputs are joined with which, and in what order. Frozen, checked when built, nothing runs here.

A plan is a binary tree over the inputs of a query, each exactly once, in any shape::

        left-deep                 bushy
            ⋈                       ⋈
         ┌──┴──┐                 ┌──┴──┐
         ⋈     T                 ⋈     ⋈
       ┌─┴─┐                   ┌─┴─┐ ┌─┴─┐
       R   S                   R   S T   U

Every node stands for a state. What a state holds depends only on the set of inputs below it, never on their order or
shape, so `Node.inputs` is a state's identity: a plan change keeps every state whose set occurs in both plans.

The branches of a set operation are trees of their own, and set operations stand above them::

        union
       ┌──┴──┐
       ⋈     T
     ┌─┴─┐
     R   S

DISTINCT may also stand below a join. Such operators and the joins above them cut a plan into *fragments*, subtrees of
joins alone: what a state inside a fragment holds still depends on its inputs alone::

        ⋈
     ┌──┴───┐
  distinct  ⋈         fragments: (R S), which goes into the operator, and (T U)
     │     ┌┴┐
     ⋈     T U
    ┌┴┐
    R S
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property

from midstream.errors import PlanError, shown
from midstream.plan.fragments import Skeleton, cut_into_fragments, find_mixed, skeleton_of, without_operators
from midstream.plan.nodes import (
    Join,
    Leaf,
    Node,
    OperatorNode,
    check_tree,
    notation_of,
    post_order,
)
from midstream.plan.svg_drawing import draw_picture


@dataclass(frozen=True)
class Plan:
    """A tree over exactly the inputs `aliases`, which are in the order of FROM.

    Two plans are equal if their trees are; the sides of a join are told apart.

    >>> plan = Plan(("R", "S", "T"), Join(Join(Leaf(0), Leaf(1)), Leaf(2)))
    >>> print(plan)
    ((R S) T)
    >>> [plan.text(join) for join in plan.joins()]
    ['(R S)', '((R S) T)']
    >>> Plan(("R", "S"), Join(Leaf(0), Leaf(0)))
    Traceback (most recent call last):
    midstream.errors.PlanError: plan: input 'R' is used twice; inputs: R, S
    """

    aliases: tuple[str, ...]
    root: Node

    def __post_init__(self) -> None:
        if not isinstance(self.aliases, tuple) or not all(isinstance(alias, str) for alias in self.aliases):
            raise PlanError(f"plan: aliases={shown(self.aliases)}; give a tuple of names")
        check_tree(self.root)
        folded = [alias.casefold() for alias in self.aliases]
        for number, alias in enumerate(self.aliases):
            if folded[number] in folded[:number]:
                raise PlanError(f"plan: two inputs are called '{alias}'; give each its own alias")
        inputs = f"inputs: {', '.join(self.aliases)}"
        seen: set[int] = set()
        for node in self.nodes():
            if not isinstance(node, Leaf):
                continue
            if not 0 <= node.input < len(self.aliases):
                right = f"numbers go from 0 to {len(self.aliases) - 1}" if self.aliases else "there are no inputs"
                raise PlanError(f"plan: there is no input number {node.input}; {right}")
            if node.input in seen:
                raise PlanError(f"plan: input '{self.aliases[node.input]}' is used twice; {inputs}")
            seen.add(node.input)
        self._check_left_out(seen)

    def _check_left_out(self, seen: Container[int]) -> None:
        left_out = [alias for number, alias in enumerate(self.aliases) if number not in seen]
        if left_out:
            names = ", ".join(f"'{alias}'" for alias in left_out)
            are = "is" if len(left_out) == 1 else "are"
            noun = "input" if len(left_out) == 1 else "inputs"
            raise PlanError(f"plan: {noun} {names} {are} left out of {self}; inputs: {', '.join(self.aliases)}")

    def nodes(self) -> Iterator[Node]:
        """All nodes, children before their parents and left before right: the order in which a batch passes."""
        return iter(self._post_order)

    def joins(self) -> Iterator[Join]:
        """The joins among `nodes`; the last one is the root."""
        return (node for node in self._post_order if isinstance(node, Join))

    @cached_property
    def fragments(self) -> tuple[Plan, ...]:
        """The plans that executors run, in the order of FROM: the largest subtrees of joins alone.

        That is the plan itself if it has no set operations and no operators below joins. A single input that is joined
        with what an operator gives out is no fragment: its window is all that the join needs.

        >>> plan = Plan(("R", "S", "T"), Join(OperatorNode("distinct", Join(Leaf(1), Leaf(0))), Leaf(2)))
        >>> [str(fragment) for fragment in plan.fragments]
        ['(S R)']
        """
        if not self._mixed:
            return (self,)
        return tuple(FragmentPlan(self.aliases, root) for root in cut_into_fragments(self.root, self._mixed))

    @cached_property
    def fragment_inputs(self) -> tuple[tuple[int, ...], ...]:
        """The inputs of each fragment, in the order of FROM."""
        return tuple(tuple(sorted(fragment.root.inputs)) for fragment in self.fragments)

    @cached_property
    def _mixed(self) -> frozenset[int]:
        return find_mixed(self.nodes())

    @cached_property
    def has_lower_operators(self) -> bool:
        """Whether an operator stands below a join."""
        return any(isinstance(node, OperatorNode) for node in self.nodes())

    @cached_property
    def skeleton(self) -> Skeleton:
        """Which operators stand below joins, over which inputs, and what is joined with their results in what order.

        As long as it is the same, only joins inside of fragments differ.

        >>> texts = "distinct(R) (S T)", "(T S) distinct(R)", "(distinct(R) S) T"
        >>> from midstream.plan import parse_plan
        >>> one, turned, other = (parse_plan(text, "RST").skeleton for text in texts)
        >>> one == turned, one == other
        (True, False)
        """
        return skeleton_of(self.root, self._mixed)

    def without_operators(self) -> Plan:
        """The same joins without the operators between them.

        >>> print(Plan(("R", "S"), Join(OperatorNode("distinct", Leaf(0)), Leaf(1))).without_operators())
        (R S)
        """
        return Plan(self.aliases, without_operators(self.root)) if self.has_lower_operators else self

    def text(self, node: Node) -> str:
        """The notation of one subtree: `(R S)`."""
        return notation_of(node, self.aliases)

    def __str__(self) -> str:
        return self.text(self.root)

    def __repr__(self) -> str:
        return f"<midstream.Plan {self}>"

    def _repr_html_(self) -> str:
        """The tree as a notebook shows it."""
        return draw_picture(self.root, self.aliases)

    @cached_property
    def _post_order(self) -> tuple[Node, ...]:
        return post_order(self.root)


class FragmentPlan(Plan):
    """The plan of a fragment: a tree over some of the inputs, under the numbers of the whole."""

    def _check_left_out(self, seen: Container[int]) -> None:
        pass


def is_kept_for_operator(plan: Plan, node: Node) -> bool:
    """Whether rows of a node are kept until a step closes because an operator stands below a join.

    That is so of an operator over a fragment, and of a fragment that is joined with what an operator gives out.

    >>> plan = Plan(("R", "S", "T"), Join(OperatorNode("distinct", Leaf(0)), Join(Leaf(1), Leaf(2))))
    >>> [plan.text(node) for node in plan.nodes() if is_kept_for_operator(plan, node)]
    ['distinct(R)', '(S T)']
    """
    if not plan.has_lower_operators or tuple(sorted(node.inputs)) not in plan.fragment_inputs:
        return False
    under_operators = {other.inputs for other in plan.nodes() if isinstance(other, OperatorNode)}
    return isinstance(node, OperatorNode) or node.inputs not in under_operators
