"""A plan against the query that it is for: set operations stand where the query's text has them.

A plan says in which order the inputs of each branch are joined. Which branches are combined, and how, is the query's to
say, so a plan has the same set operations with the same sides. Their words may be left out::

    query           plan                            may be written as
    A UNION B       ((o p) union (o_2 s))           ((o p) (o_2 s))
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.cql.model import Combination, Query, SetKind, SetOperation
from midstream.errors import PlanError
from midstream.plan.notation import parse_plan
from midstream.plan.tree import Join, Leaf, Node, Plan, SetNode, notation_of

#: What plans call set operations.
WORDS: dict[SetKind, str] = {"union": "union", "except": "minus", "intersect": "intersect"}


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
    """The plan with the set operations of the query; an error if it has others."""
    if query.combination is not None:
        return Plan(query.aliases, _fit(plan.root, query.combination, query))
    for node in plan.nodes():
        if isinstance(node, SetNode):
            raise PlanError(f"plan: {plan.text(node)}: the query has no set operation; leave {node.word} out")
    return Plan(query.aliases, plan.root)


def _fit(node: Node, combination: Combination, query: Query) -> Node:
    if not isinstance(combination, SetOperation):
        if node.inputs != _inputs_of(combination, query) or _has_set_node(node):
            raise _misfit(node, query)
        return node
    word = WORDS[combination.kind]
    if isinstance(node, Leaf) or (isinstance(node, SetNode) and node.word != word):
        raise _misfit(node, query)
    for side, wanted in ((node.left, combination.left), (node.right, combination.right)):
        if side.inputs != _inputs_of(wanted, query):
            raise _misfit(node, query)
    left, right = _fit(node.left, combination.left, query), _fit(node.right, combination.right, query)
    return SetNode(word, left, right)


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
    pending = [node]
    while pending:
        below = pending.pop()
        if isinstance(below, SetNode):
            return True
        if isinstance(below, Join):
            pending += (below.left, below.right)
    return False
