"""Where operators cut a tree: the fragments of joins alone between them, and the skeleton that is left of it.

A node is *mixed* if it is, or has below it, something else than joins and inputs.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from typing import TypeAlias

from midstream.plan.nodes import Join, Leaf, Node, OperatorNode, SetNode, children_of

#: What tells whether operators stand in the same places, and what they are joined with: see `Plan.skeleton`.
Skeleton: TypeAlias = Hashable


def find_mixed(nodes: Iterable[Node]) -> frozenset[int]:
    """The mixed ones of some nodes, children given before their parents; by `id`."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, SetNode | OperatorNode) or any(id(child) in found for child in children_of(node)):
            found.add(id(node))
    return frozenset(found)


def cut_into_fragments(root: Node, mixed: Container[int]) -> list[Node]:
    """The roots of the fragments of a tree, in the order of FROM; see `Plan.fragments`."""
    roots: list[Node] = []
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, is_joined = pending.pop()
        if id(node) in mixed:
            pending += [(child, isinstance(node, Join)) for child in children_of(node)]
        elif not (is_joined and isinstance(node, Leaf)):
            roots.append(node)
    return sorted(roots, key=lambda root: min(root.inputs))


def skeleton_of(node: Node, mixed: Container[int]) -> Skeleton:
    """The skeleton of a tree; see `Plan.skeleton`."""
    if id(node) not in mixed or isinstance(node, SetNode):
        return node.inputs
    below = [skeleton_of(child, mixed) for child in children_of(node)]
    return (node.word, *below) if isinstance(node, OperatorNode) else frozenset(below)


def without_operators(node: Node) -> Node:
    """The same joins without the operators between them."""
    while isinstance(node, OperatorNode):
        node = node.below
    if isinstance(node, Join):
        return Join(without_operators(node.left), without_operators(node.right))
    return node
