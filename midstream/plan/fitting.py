"""A plan against the query that it is for: operators stand where the query's text has them, but for what rules allow.

A plan says in which order the inputs of each branch are joined. Which branches are combined, and how, is the query's to
say, so a plan has the same set operations with the same sides, and DISTINCT or the grouping of a branch stands above
its joins. Their words may be left out::

    query                   plan                            may be written as
    A UNION B               ((o p) union (o_2 s))           ((o p) (o_2 s))
    SELECT DISTINCT ...     (o p)                           distinct(o p)

The rules of `plan.rules` say what else means the same: a plan may have DISTINCT below joins too, and subtract in
another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from midstream.cql.model import Combination, Query, SetKind, SetOperation
from midstream.errors import PlanError
from midstream.plan.nodes import Join, Leaf, Node, OperatorNode, SetNode, children_of, notation_of
from midstream.plan.notation import parse_plan
from midstream.plan.rules import DistinctBelowJoin, ReorderedDifferences
from midstream.plan.tree import Plan

#: What plans call set operations.
WORDS: dict[SetKind, str] = {"union": "union", "except": "minus", "intersect": "intersect"}

_LOWER_DISTINCT, _DIFFERENCES = DistinctBelowJoin(), ReorderedDifferences()


def read_plan(text: str, query: Query) -> Plan:
    """The plan of a query that a text describes.

    >>> import midstream as ms
    >>> row = {"id": int, "ts": int}
    >>> joined = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
    >>> text = f"SELECT id FROM a [RANGE 1 HOUR] EXCEPT {joined}"
    >>> print(read_plan("a (b a_2)", ms.query(text, schemas={"a": row, "b": row}, event_time="ts")))
    (a minus (b a_2))
    """
    return fit_plan(parse_plan(text, query.aliases, query.combination is not None), query)


def fit_plan(plan: Plan, query: Query) -> Plan:
    """The plan with the operators of the query where they have to stand; an error if it has others."""
    if query.combination is not None:
        return Plan(query.aliases, _fit(plan.root, query.combination, query))
    for node in plan.nodes():
        if isinstance(node, SetNode):
            raise PlanError(f"plan: {plan.text(node)}: the query has no set operation; leave {node.word} out")
    return Plan(query.aliases, _fit_operators(plan.root, query, query))


def combination_of(plan: Plan, query: Query) -> Combination:
    """The set operations of a query in the order in which a plan that fits it has them."""
    assert query.combination is not None
    return _reordered(plan.root, query.combination, query)


def _reordered(node: Node, combination: Combination, query: Query) -> Combination:
    if not isinstance(combination, SetOperation):
        return combination
    assert isinstance(node, SetNode)
    left, right = _sides(node, combination, query)
    return replace(combination, left=_reordered(node.left, left, query), right=_reordered(node.right, right, query))


def _sides(node: Join | SetNode, operation: SetOperation, query: Query) -> tuple[Combination, Combination]:
    """What the two sides of a node should be; what it subtracts last may be any of several."""
    return _DIFFERENCES.reorder(operation, lambda side: _inputs_of(side, query) == node.right.inputs)


def _fit(node: Node, combination: Combination, query: Query) -> Node:
    if not isinstance(combination, SetOperation):
        if node.inputs != _inputs_of(combination, query) or _has_set_node(node):
            raise _misfit(node, query)
        return _fit_operators(node, query.parts[combination], query)
    word = WORDS[combination.kind]
    if isinstance(node, Leaf | OperatorNode) or (isinstance(node, SetNode) and node.word != word):
        raise _misfit(node, query)
    wanted = _sides(node, combination, query)
    for side, inside in zip((node.left, node.right), wanted, strict=True):
        if side.inputs != _inputs_of(inside, query):
            raise _misfit(node, query)
    left, right = _fit(node.left, wanted[0], query), _fit(node.right, wanted[1], query)
    return SetNode(word, left, right)


def _fit_operators(root: Node, branch: Query, query: Query) -> Node:
    """The tree of a branch without the branch's own operators on top; an error if it has others than rules allow."""
    while isinstance(root, OperatorNode) and root.word == "distinct" and branch.is_distinct:
        root = root.below
    while isinstance(root, OperatorNode) and root.word == "group" and branch.grouping is not None:
        root = root.below
    return _fit_lower(root, branch, query) if _has_operator(root) else root


def _fit_lower(node: Node, branch: Query, query: Query) -> Node:
    if isinstance(node, Join):
        return Join(_fit_lower(node.left, branch, query), _fit_lower(node.right, branch, query))
    if not isinstance(node, OperatorNode):
        return node
    text = notation_of(node, query.aliases)
    if node.word == "group":
        why = "group stands around all joins of a branch" if branch.grouping else "the query has no GROUP BY"
        raise PlanError(f"plan: {text}: {why}; leave it out here")
    refusal = _LOWER_DISTINCT.refusal(query, node.inputs)
    if refusal is not None:
        raise PlanError(f"plan: {text}: {_LOWER_DISTINCT.name}: {refusal}; leave distinct out")
    below = _fit_lower(node.below, branch, query)
    return below if isinstance(below, OperatorNode) else OperatorNode("distinct", below)


def _misfit(node: Node, query: Query) -> PlanError:
    assert query.combination is not None
    example = combine(query.combination, [_join_in_order(inputs) for inputs in query.branch_inputs])
    return PlanError(
        f"plan: {notation_of(node, query.aliases)} does not fit the set operations of the query; "
        f"write the joins of each branch in its own place, for example {notation_of(example, query.aliases)}"
    )


def combine(combination: Combination, branches: Sequence[Node]) -> Node:
    """The set operations of a query above the trees of its branches."""
    if not isinstance(combination, SetOperation):
        return branches[combination]
    left, right = combine(combination.left, branches), combine(combination.right, branches)
    return SetNode(WORDS[combination.kind], left, right)


def _join_in_order(inputs: Sequence[int]) -> Node:
    """Some inputs, joined one after the other."""
    first, *others = inputs
    tree: Node = Leaf(first)
    for other in others:
        tree = Join(tree, Leaf(other))
    return tree


def _inputs_of(combination: Combination, query: Query) -> frozenset[int]:
    if not isinstance(combination, SetOperation):
        return frozenset(query.branch_inputs[combination])
    return _inputs_of(combination.left, query) | _inputs_of(combination.right, query)


def _has_set_node(node: Node) -> bool:
    return any(isinstance(below, SetNode) for below in _walk(node))


def _has_operator(node: Node) -> bool:
    return any(isinstance(below, OperatorNode) for below in _walk(node))


def _walk(node: Node) -> Iterator[Node]:
    pending = [node]
    while pending:
        below = pending.pop()
        yield below
        pending += children_of(below)
