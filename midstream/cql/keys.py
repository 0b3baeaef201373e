"""Equalities -> key classes: expressions that are all equal in every result, directly or through others.

Every equality between expressions of two inputs is an edge between its two sides, both cast to the type in which they
are compared. The connected components are the key classes. A component that has two expressions of one input keeps the
first as that input's key; that the others equal it is a filter of the input::

    a.x = b.y AND b.y = c.z AND c.w = a.x   ->   class a.x = b.y = c.z,   filter of c: c.z = c.w
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from midstream.cql import functions
from midstream.cql.conjuncts import Part
from midstream.cql.model import Cast, Expr, KeyClass, inputs_of


@dataclass(frozen=True)
class Keys:
    """The key classes, and the filters that follow from them by input."""

    classes: tuple[KeyClass, ...]
    filters: tuple[tuple[int, Expr], ...]


def is_equality(part: Part) -> bool:
    """Whether a part says that an expression of one input equals an expression of another input."""
    if part.operator != "eq" or part.left is None or part.right is None:
        return False
    left, right = inputs_of(part.left), inputs_of(part.right)
    return len(left) == len(right) == 1 and left != right


def in_type(expr: Expr, type: pa.DataType) -> Expr:
    """An expression cast to a type, or itself if it has that type."""
    return expr if expr.type == type else Cast(expr, type)


def close_equalities(parts: Iterable[Part]) -> Keys:
    """The key classes of some equalities, in the order in which they first appear."""
    leader: dict[Expr, Expr] = {}

    def find(expr: Expr) -> Expr:
        while leader[expr] != expr:
            expr = leader[expr]
        return expr

    for part in parts:
        assert part.left is not None
        assert part.right is not None
        type = functions.comparison_type(part.left.type, part.right.type)
        sides = [in_type(side, type) for side in (part.left, part.right)]
        for side in sides:
            leader.setdefault(side, side)
        first, second = (find(side) for side in sides)
        leader[second] = first
    components: dict[Expr, list[Expr]] = {}
    for expr in leader:
        components.setdefault(find(expr), []).append(expr)
    found = [_class(members) for members in components.values()]
    return Keys(tuple(key_class for key_class, _ in found), tuple(pair for _, filters in found for pair in filters))


def _class(members: list[Expr]) -> tuple[KeyClass, list[tuple[int, Expr]]]:
    keys: dict[int, Expr] = {}
    filters = []
    for expr in members:
        (number,) = inputs_of(expr)
        if number in keys:
            filters.append((number, functions.call("eq", (keys[number], expr))))
        else:
            keys[number] = expr
    return KeyClass(members[0].type, tuple(sorted(keys.items(), key=lambda pair: pair[0]))), filters
