"""Query text -> `Query`: the frozen description of a continuous join. `parse` tells the steps in order."""

from midstream.cql.describe import describe, expression_text
from midstream.cql.functions import Function, given_function
from midstream.cql.model import (
    Band,
    Call,
    Cast,
    Column,
    Expr,
    Input,
    KeyClass,
    Literal,
    Output,
    Query,
    Theta,
    columns_of,
    inputs_of,
)
from midstream.cql.parse import query
from midstream.cql.windows import Window, WindowKind

__all__ = [
    "Band",
    "Call",
    "Cast",
    "Column",
    "Expr",
    "Function",
    "Input",
    "KeyClass",
    "Literal",
    "Output",
    "Query",
    "Theta",
    "Window",
    "WindowKind",
    "columns_of",
    "describe",
    "expression_text",
    "given_function",
    "inputs_of",
    "query",
]
