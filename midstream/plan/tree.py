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

import re
from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from midstream.errors import PlanError, shown

#: The words of set operations in plan text; EXCEPT is called minus.
SET_WORDS = ("union", "minus", "intersect")
#: The words of operators that stand before their parentheses, as in distinct(a b).
UNARY_WORDS = ("distinct", "group")
#: Words that are no aliases unless they are quoted.
OPERATOR_WORDS = (*SET_WORDS, *UNARY_WORDS)
_PLAIN = re.compile(r'[^\s()"`,]+')


@dataclass(frozen=True)
class Leaf:
    """The base window of one input, by its number in FROM.

    >>> Leaf(2).inputs
    frozenset({2})
    """

    input: int
    inputs: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.input, int):
            raise PlanError(f"plan: Leaf({shown(self.input)}); give the number of an input, from 0 on")
        object.__setattr__(self, "inputs", frozenset((self.input,)))


@dataclass(frozen=True)
class Join:
    """The join of two subtrees.

    >>> sorted(Join(Join(Leaf(0), Leaf(2)), Leaf(1)).inputs)
    [0, 1, 2]
    """

    left: Node
    right: Node
    inputs: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for side in (self.left, self.right):
            _check_tree(side)
        object.__setattr__(self, "inputs", self.left.inputs | self.right.inputs)


@dataclass(frozen=True)
class SetNode:
    """A set operation of two subtrees, by its word in plan text; whether equal rows count is the query's to say.

    >>> sorted(SetNode("minus", Leaf(0), Leaf(1)).inputs)
    [0, 1]
    """

    word: str
    left: Node
    right: Node
    inputs: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.word not in SET_WORDS:
            raise PlanError(f"plan: {shown(self.word)} is no set operation; give one of {', '.join(SET_WORDS)}")
        for side in (self.left, self.right):
            _check_tree(side)
        object.__setattr__(self, "inputs", self.left.inputs | self.right.inputs)


@dataclass(frozen=True)
class OperatorNode:
    """An operator over one subtree, by its word in plan text: DISTINCT or a grouping.

    >>> sorted(OperatorNode("distinct", Join(Leaf(0), Leaf(1))).inputs)
    [0, 1]
    """

    word: str
    below: Node
    inputs: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.word not in UNARY_WORDS:
            raise PlanError(f"plan: {shown(self.word)} is no operator; give one of {', '.join(UNARY_WORDS)}")
        _check_tree(self.below)
        object.__setattr__(self, "inputs", self.below.inputs)


Node = Leaf | Join | SetNode | OperatorNode
#: What tells whether operators stand in the same places, and what they are joined with: see `Plan.skeleton`.
Skeleton: TypeAlias = Hashable


def _check_tree(node: Node) -> None:
    if not isinstance(node, Leaf | Join | SetNode | OperatorNode):
        raise PlanError(f"plan: {shown(node)} is no tree; give a Join of two trees, or a Leaf")


def children_of(node: Node) -> tuple[Node, ...]:
    """The subtrees right below a node, from left to right.

    >>> children_of(Join(Leaf(0), Leaf(1)))
    (Leaf(input=0), Leaf(input=1))
    """
    if isinstance(node, Leaf):
        return ()
    return (node.below,) if isinstance(node, OperatorNode) else (node.left, node.right)


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
        _check_tree(self.root)
        lowered = [alias.lower() for alias in self.aliases]
        for number, alias in enumerate(self.aliases):
            if lowered[number] in lowered[:number]:
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
        mixed = self._mixed
        if not mixed:
            return (self,)
        roots: list[Node] = []
        pending: list[tuple[Node, bool]] = [(self.root, False)]
        while pending:
            node, is_joined = pending.pop()
            if id(node) in mixed:
                pending += [(child, isinstance(node, Join)) for child in children_of(node)]
            elif not (is_joined and isinstance(node, Leaf)):
                roots.append(node)
        return tuple(FragmentPlan(self.aliases, root) for root in sorted(roots, key=lambda root: min(root.inputs)))

    @cached_property
    def fragment_inputs(self) -> tuple[tuple[int, ...], ...]:
        """The inputs of each fragment, in the order of FROM."""
        return tuple(tuple(sorted(fragment.root.inputs)) for fragment in self.fragments)

    @cached_property
    def _mixed(self) -> frozenset[int]:
        """The nodes that are, or have below them, something else than joins and inputs; by `id`."""
        found: set[int] = set()
        for node in self.nodes():
            if isinstance(node, SetNode | OperatorNode) or any(id(child) in found for child in children_of(node)):
                found.add(id(node))
        return frozenset(found)

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
        return _skeleton_of(self.root, self._mixed)

    def without_operators(self) -> Plan:
        """The same joins without the operators between them.

        >>> print(Plan(("R", "S"), Join(OperatorNode("distinct", Leaf(0)), Leaf(1))).without_operators())
        (R S)
        """
        return Plan(self.aliases, _without_operators(self.root)) if self.has_lower_operators else self

    def text(self, node: Node) -> str:
        """The notation of one subtree: `(R S)`."""
        return notation_of(node, self.aliases)

    def __str__(self) -> str:
        return self.text(self.root)

    def __repr__(self) -> str:
        return f"<midstream.Plan {self}>"

    def _repr_html_(self) -> str:
        """The tree as a notebook shows it."""
        from midstream.plan.picture import draw_picture  # which draws these trees

        return draw_picture(self)

    @cached_property
    def _post_order(self) -> tuple[Node, ...]:
        found: list[Node] = []
        pending = [self.root]
        while pending:
            node = pending.pop()
            found.append(node)
            pending += children_of(node)
        return tuple(reversed(found))


def _skeleton_of(node: Node, mixed: Container[int]) -> Skeleton:
    if id(node) not in mixed or isinstance(node, SetNode):
        return node.inputs
    below = [_skeleton_of(child, mixed) for child in children_of(node)]
    return (node.word, *below) if isinstance(node, OperatorNode) else frozenset(below)


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


def _without_operators(node: Node) -> Node:
    while isinstance(node, OperatorNode):
        node = node.below
    if isinstance(node, Join):
        return Join(_without_operators(node.left), _without_operators(node.right))
    return node


class FragmentPlan(Plan):
    """The plan of a fragment: a tree over some of the inputs, under the numbers of the whole."""

    def _check_left_out(self, seen: Container[int]) -> None:
        pass


def notation_of(node: Node, aliases: Sequence[str]) -> str:
    """A tree as plan text.

    >>> notation_of(Join(Leaf(1), Leaf(0)), ["R", "S"])
    '(S R)'
    >>> notation_of(Join(OperatorNode("distinct", Join(Leaf(1), Leaf(0))), Leaf(2)), ["R", "S", "T"])
    '(distinct(S R) T)'
    """
    if isinstance(node, Leaf):
        return quoted(aliases[node.input])
    if isinstance(node, OperatorNode):
        below = notation_of(node.below, aliases)
        return node.word + (below if isinstance(node.below, Join | SetNode) else f"({below})")
    word = f"{node.word} " if isinstance(node, SetNode) else ""
    return f"({notation_of(node.left, aliases)} {word}{notation_of(node.right, aliases)})"


def quoted(alias: str) -> str:
    """An alias as plan text has it: in double quotes if it would not be read as one word, or as an operator.

    >>> quoted("orders"), quoted("my orders"), quoted("Union")
    ('orders', '"my orders"', '"Union"')
    """
    if _PLAIN.fullmatch(alias) and alias.lower() not in OPERATOR_WORDS:
        return alias
    return '"' + alias.replace('"', '""') + '"'
