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
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from midstream.errors import PlanError, shown

#: The words of set operations in plan text; EXCEPT is called minus.
SET_WORDS = ("union", "minus", "intersect")
#: Words that are no aliases unless they are quoted.
OPERATOR_WORDS = (*SET_WORDS, "distinct", "group")
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


Node = Leaf | Join | SetNode


def _check_tree(node: Node) -> None:
    if not isinstance(node, Leaf | Join | SetNode):
        raise PlanError(f"plan: {shown(node)} is no tree; give a Join of two trees, or a Leaf")


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
    def branches(self) -> tuple[Plan, ...]:
        """The plans below the set operations, from left to right; the plan itself if there are none."""
        if not isinstance(self.root, SetNode):
            return (self,)
        roots: list[Node] = []
        pending = [self.root.right, self.root.left]
        while pending:
            node = pending.pop()
            if isinstance(node, SetNode):
                pending += (node.right, node.left)
            else:
                roots.append(node)
        return tuple(BranchPlan(self.aliases, root) for root in roots)

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
            if not isinstance(node, Leaf):
                pending += (node.left, node.right)
        return tuple(reversed(found))


class BranchPlan(Plan):
    """The plan of one branch of a set operation: a tree over some of the inputs, under the numbers of the whole."""

    def _check_left_out(self, seen: Container[int]) -> None:
        pass


def notation_of(node: Node, aliases: Sequence[str]) -> str:
    """A tree as plan text.

    >>> notation_of(Join(Leaf(1), Leaf(0)), ["R", "S"])
    '(S R)'
    """
    if isinstance(node, Leaf):
        return quoted(aliases[node.input])
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
