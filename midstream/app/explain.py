"""What a query was understood as, and the plan it would run with, each join with the predicates it tests."""

from __future__ import annotations

from collections.abc import Iterator

from midstream.cql.describe import describe, expression_text
from midstream.cql.model import Band, Query
from midstream.plan import Join, Node, Plan, SetNode, default_plan, outline


def explain(query: Query, plan: Plan | None = None) -> str:
    """The model of a query as text, then a plan with the work of each node: the one given, or the default one."""
    shown = default_plan(query) if plan is None else plan
    title = "default plan" if plan is None else "plan"

    def label(node: Node) -> str:
        return "\n".join(describe_work(query, node))

    return f"{describe(query).rstrip()}\n\n{title} {shown}\n\n{outline(shown, label)}"


def describe_work(query: Query, node: Node) -> Iterator[str]:
    """What a node does, in words: the filters of an input, or the predicates that can first be tested at this join."""
    aliases = query.aliases
    if isinstance(node, SetNode):
        return
    if not isinstance(node, Join):
        for expr in query.inputs[node.input].filters:
            yield f"filter {expression_text(expr, aliases)}"
        return
    left, right = node.left.inputs, node.right.inputs
    found = False
    for key in query.key_classes:
        sides = [min(key.inputs & side, default=None) for side in (left, right)]
        if None not in sides:
            found = True
            yield "key " + " = ".join(
                expression_text(key.by_input[side], aliases) for side in sides if side is not None
            )
    for band in query.bands:
        ends = {band.left_input, band.right_input}
        if ends <= node.inputs and ends & left and ends & right:
            found = True
            yield f"band {_band(query, band)}"
    for theta in query.thetas:
        if theta.inputs <= node.inputs and theta.inputs & left and theta.inputs & right:
            found = True
            yield f"theta {expression_text(theta.expr, aliases)}"
    if not found:
        yield "cross product"


def _band(query: Query, band: Band) -> str:
    left, right = (expression_text(expr, query.aliases) for expr in (band.left, band.right))
    low = "" if band.low is None else f"{band.low} <= "
    high = "" if band.high is None else f" <= {band.high}"
    return f"{low}{left} - {right}{high}"
