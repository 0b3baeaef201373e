"""What a query was understood as, and the plan it would run with, each join with the predicates it tests."""

from __future__ import annotations

from collections.abc import Iterator

from midstream.cql.describe import describe, expression_text
from midstream.cql.model import Band, Expr, Query
from midstream.plan import Leaf, Node, OperatorNode, Plan, SetNode, default_plan, outline
from midstream.plan.rules import find_needed


def explain(query: Query, plan: Plan | None = None) -> str:
    """The model of a query as text, then a plan with the work of each node: the one given, or the default one."""
    shown = default_plan(query) if plan is None else plan
    title = "default plan" if plan is None else "plan"

    def label(node: Node) -> str:
        return "\n".join(describe_work(query, node))

    return f"{describe(query).rstrip()}\n\n{title} {shown}\n\n{outline(shown, label)}"


def describe_work(query: Query, node: Node) -> Iterator[str]:
    """What a node does, in words: the filters of an input, the predicates that can first be tested at this join, or
    what an operator tells rows apart by.
    """
    aliases = query.aliases
    if isinstance(node, SetNode):
        return
    if isinstance(node, OperatorNode):
        yield f"one row for each {', '.join(_needed_texts(query, node.inputs)) or 'moment'}"
        return
    if isinstance(node, Leaf):
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


def _needed_texts(query: Query, inputs: frozenset[int]) -> Iterator[str]:
    """What rows of a subtree differ in, as far as anything above it is concerned."""
    needed = find_needed(query, inputs)
    exprs: list[Expr] = list(needed.columns)
    exprs += [query.key_classes[number].by_input[told_by] for number, told_by in needed.classes]
    for number, told_by in needed.bands:
        band = query.bands[number]
        exprs.append(band.left if told_by == band.left_input else band.right)
    yield from dict.fromkeys(expression_text(expr, query.aliases) for expr in exprs)


def _band(query: Query, band: Band) -> str:
    left, right = (expression_text(expr, query.aliases) for expr in (band.left, band.right))
    low = "" if band.low is None else f"{band.low} <= "
    high = "" if band.high is None else f" <= {band.high}"
    return f"{low}{left} - {right}{high}"
