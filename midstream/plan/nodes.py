"""The nodes of plan trees: inputs, joins, set operations and operators. Frozen, and written as plan text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from midstream.errors import PlanError, shown

#: The words of set operations in plan text; EXCEPT is called minus.
SET_WORDS = ("union", "minus", "intersect")
#: The words of operators that stand before their parentheses, as in distinct(a b).
UNARY_WORDS = ("distinct", "group")
#: Words that are no aliases unless they are quoted.
OPERATOR_WORDS = (*SET_WORDS, *UNARY_WORDS)
#: What a join is drawn as.
JOIN = "⋈"
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
            check_tree(side)
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
            check_tree(side)
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
        check_tree(self.below)
        object.__setattr__(self, "inputs", self.below.inputs)


Node = Leaf | Join | SetNode | OperatorNode


def check_tree(node: Node) -> None:
    """An error if something is no tree."""
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


def post_order(root: Node) -> tuple[Node, ...]:
    """All nodes of a tree, each after those below it.

    >>> [len(node.inputs) for node in post_order(Join(Join(Leaf(0), Leaf(1)), Leaf(2)))]
    [1, 1, 2, 1, 3]
    """
    found: list[Node] = []
    pending = [root]
    while pending:
        node = pending.pop()
        found.append(node)
        pending += children_of(node)
    return tuple(reversed(found))


def symbol_of(node: Node, aliases: Sequence[str]) -> str:
    """What a node is drawn as: an alias, the sign of a join, or the word of an operator or a set operation."""
    if isinstance(node, SetNode | OperatorNode):
        return node.word
    return quoted(aliases[node.input]) if isinstance(node, Leaf) else JOIN


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
