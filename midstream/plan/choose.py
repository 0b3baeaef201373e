"""The plan that a query starts with when nobody gives one.

Nothing is known yet about rates and selectivities, so the choice leans on the query alone and is the same on every
run. It is left-deep: begin with the two inputs that are connected best, then add, one after the other, the input that
is connected best to those already there. Better means, in this order:

1. the stronger predicates: more equalities, then bands closed on both sides, half-open bands, thetas that can be
   tested at this join, thetas that still wait for a further input;
2. the smaller input: a static table with a filter, which throws rows out and never changes; then ROWS windows by their
   rows, RANGE and TUMBLE windows by their length, UNBOUNDED ones; last a table without a filter, because it only adds
   columns and makes every state above it larger. Of equal windows the one with more filters is smaller;
3. the order of FROM.

Inputs that no chain of predicates connects are islands: each island gets its own tree, and cross products stand only
on top, between the islands. An island with a stream does not begin with two tables. Each branch of a set operation gets
its own tree.

Statistics of the running query, not rules, should make later choices.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import combinations

from midstream.cql.model import Call, Expr, Query
from midstream.plan.fitting import combine
from midstream.plan.nodes import Join, Leaf, Node
from midstream.plan.tree import Plan

Strength = tuple[int, int, int, int, int]
"""Equalities, closed bands, half-open bands, thetas tested here, thetas that wait: more is better."""

Size = tuple[bool, int, int, int]
"""Whether it only adds columns, the window's expected size in two numbers, the filters (negative): less is better."""


def default_plan(query: Query) -> Plan:
    """A sensible plan from the query's predicates and windows alone, left-deep unless it must have cross products.

    >>> import pyarrow as pa, midstream as ms
    >>> schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "x": pa.int64()})
    >>> text = "SELECT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 MINUTE] WHERE a.x = b.x AND b.k = c.k"
    >>> query = ms.query(text, schemas={"a": schema, "b": schema, "c": schema}, event_time="ts")
    >>> print(default_plan(query))
    ((b c) a)
    """
    roots = [_join_all(query, frozenset(inputs)) for inputs in query.branch_inputs]
    return Plan(query.aliases, roots[0] if query.combination is None else combine(query.combination, roots))


def _join_all(query: Query, left: frozenset[int]) -> Node:
    """A tree over all of these inputs."""
    root = _island(query, left)
    while left := left - root.inputs:
        root = Join(root, _island(query, left))
    return root


def strength(query: Query, joined: Set[int], number: int) -> Strength:
    """What connects one input with the inputs already joined, strongest kind first; all zero if nothing does."""
    equalities = sum(number in key_class.inputs and bool(key_class.inputs & joined) for key_class in query.key_classes)
    closed = half_open = 0
    for band in query.bands:
        ends = {band.left_input, band.right_input}
        if number in ends and ends - {number} <= joined:
            if band.low is None or band.high is None:
                half_open += 1
            else:
                closed += 1
    tested = waiting = 0
    for theta in query.thetas:
        others = theta.inputs - {number}
        if number in theta.inputs and others & joined:
            if others <= joined:
                tested += 1
            else:
                waiting += 1
    return equalities, closed, half_open, tested, waiting


def _island(query: Query, left: frozenset[int]) -> Node:
    """A left-deep tree from the best connected pair of the inputs left, with all inputs connected to it."""
    pairs = [
        (first, second) for first, second in combinations(sorted(left), 2) if any(strength(query, {first}, second))
    ]
    if not pairs:
        return Leaf(min(left, key=lambda number: (_size(query, number), number)))
    first = min(pairs, key=lambda pair: _pair_rank(query, pair))
    tree = Join(Leaf(first[0]), Leaf(first[1]))
    while near := [number for number in left - tree.inputs if any(strength(query, tree.inputs, number))]:
        tree = Join(tree, Leaf(min(near, key=lambda number: _rank(query, tree.inputs, number))))
    return tree


def _pair_rank(query: Query, pair: tuple[int, int]) -> tuple[bool, Strength, list[Size], tuple[int, int]]:
    first, second = pair
    no_stream = query.inputs[first].is_static and query.inputs[second].is_static
    sizes = sorted((_size(query, first), _size(query, second)), reverse=True)
    return no_stream, _strongest_first(strength(query, {first}, second)), sizes, pair


def _rank(query: Query, joined: Set[int], number: int) -> tuple[Strength, Size, int]:
    return _strongest_first(strength(query, joined, number)), _size(query, number), number


def _strongest_first(found: Strength) -> Strength:
    equalities, closed, half_open, tested, waiting = found
    return -equalities, -closed, -half_open, -tested, -waiting


def _size(query: Query, number: int) -> Size:
    relation = query.inputs[number]
    filters = sum(not _only_drops_nulls(expr) for expr in relation.filters)
    only_adds_columns = relation.is_static and not filters
    return only_adds_columns, *relation.window.expected_size, -filters


def _only_drops_nulls(expr: Expr) -> bool:
    """Whether a filter only drops nulls, which no join would match anyway."""
    if isinstance(expr, Call) and expr.function == "not":
        return isinstance(expr.args[0], Call) and expr.args[0].function == "is_null"
    return isinstance(expr, Call) and expr.function == "isnotnull"
