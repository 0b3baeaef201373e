"""From a query to a plan: frozen trees over its inputs, their notation, their drawing, and a first choice."""

from midstream.plan.choose import default_plan
from midstream.plan.fitting import fit_plan, read_plan
from midstream.plan.nodes import Join, Leaf, Node, OperatorNode, SetNode
from midstream.plan.notation import parse_plan
from midstream.plan.text_drawing import draw, outline
from midstream.plan.tree import Plan

__all__ = [
    "Join",
    "Leaf",
    "Node",
    "OperatorNode",
    "Plan",
    "SetNode",
    "default_plan",
    "draw",
    "fit_plan",
    "outline",
    "parse_plan",
    "read_plan",
]
