"""WHERE and ON -> conjuncts, each read once and kept with its text.

Nested ANDs and parentheses are flattened. A conjunct has one part, or two if it is a BETWEEN; a part that is a
comparison keeps its two sides as they were written, without the conversions that a comparison needs, so that
`predicates` and `bands` can choose their own conversions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from midstream.cql.expressions import COMPARISONS, Reader
from midstream.cql.model import Expr, inputs_of


@dataclass(frozen=True)
class Part:
    """A boolean expression; if it is a comparison, also the operator and the two sides."""

    expr: Expr
    operator: str | None = None
    left: Expr | None = None
    right: Expr | None = None

    @cached_property
    def inputs(self) -> frozenset[int]:
        return inputs_of(self.expr)


@dataclass(frozen=True)
class Conjunct:
    text: str
    parts: tuple[Part, ...]


def read_conjuncts(reader: Reader, conditions: Iterable[exp.Expr]) -> list[Conjunct]:
    """The conjuncts of several conditions, in the order of the text."""
    return [_conjunct(reader, node) for condition in conditions for node in _flatten(condition)]


def _flatten(condition: exp.Expr) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Paren):
            waiting.append(node.this)
        elif isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        else:
            found.append(node)
    return found


def _conjunct(reader: Reader, node: exp.Expr) -> Conjunct:
    text = reader.source.written(node)
    if isinstance(node, exp.Between):
        value, low, high = reader.between(node)
        return Conjunct(text, (_compare(reader, "ge", value, low, node), _compare(reader, "le", value, high, node)))
    if type(node) in COMPARISONS:
        operator = COMPARISONS[type(node)]
        return Conjunct(text, (_compare(reader, operator, reader.read(node.this), reader.read(node.expression), node),))
    return Conjunct(text, (Part(reader.condition(node)),))


def _compare(reader: Reader, operator: str, left: Expr, right: Expr, node: exp.Expr) -> Part:
    return Part(reader.call(operator, (left, right), node), operator, left, right)
