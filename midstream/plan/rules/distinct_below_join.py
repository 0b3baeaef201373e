"""Distinct below a join: ``(a b)`` may be ``(distinct(a) b)`` where the query is a SELECT DISTINCT.

The condition: the query says DISTINCT, and has neither groups nor set operations. Then how often a row is there does
not matter, and equal rows of a subtree may be made one before they are joined. Rows of a subtree are equal here if they
agree in all that is *needed* above it: the columns of its inputs that are in outputs and in predicates with inputs
outside, and the keys and bands by which it is joined. What is needed has to be of types whose values can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from midstream.cql.functions import FunctionError
from midstream.cql.model import Column, Query, columns_of
from midstream.cql.typing_aggregates import check_comparable


@dataclass(frozen=True)
class Needed:
    """What is needed above a subtree of some inputs. Two of its rows that agree in that are as good as one.

    `classes` and `bands` are numbers of key classes and bands of the query, each with the input of the subtree that
    tells the value.
    """

    columns: tuple[Column, ...]
    classes: tuple[tuple[int, int], ...]
    bands: tuple[tuple[int, int], ...]


def find_needed(query: Query, inputs: frozenset[int]) -> Needed:
    """What is needed above a subtree with these inputs.

    >>> import midstream as ms
    >>> row = {"k": int, "x": int, "y": int, "ts": int}
    >>> text = "SELECT DISTINCT a.x FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k AND a.y + b.y > 5"
    >>> needed = find_needed(ms.query(text, {"a": row, "b": row}, "ts"), frozenset({0}))
    >>> [column.name for column in needed.columns], needed.classes
    (['x', 'y'], ((0, 0),))
    """
    exprs = [*query.of_results, *(theta.expr for theta in query.thetas if not theta.inputs <= inputs)]
    columns = dict.fromkeys(column for expr in exprs for column in columns_of(expr) if column.input in inputs)
    classes = [
        (number, min(key_class.inputs & inputs))
        for number, key_class in enumerate(query.key_classes)
        if key_class.inputs & inputs and key_class.inputs - inputs
    ]
    bands = []
    for number, band in enumerate(query.bands):
        inside = {band.left_input, band.right_input} & inputs
        if len(inside) == 1:
            bands.append((number, inside.pop()))
    return Needed(tuple(columns), tuple(classes), tuple(bands))


class DistinctBelowJoin:
    """The rule, as `plan.fitting` asks it."""

    name = "distinct below a join"

    def refusal(self, query: Query, inputs: frozenset[int]) -> str | None:
        """Why DISTINCT may not stand around a subtree of these inputs, or None."""
        if query.combination is not None:
            return "the query has set operations, which may count equal rows"
        if query.grouping is not None:
            return "the query has groups, and an aggregate counts equal rows as often as they are there"
        if not query.is_distinct:
            return "the query is no SELECT DISTINCT, so equal rows count as often as they are there"
        for column in find_needed(query, inputs).columns:
            try:
                check_comparable(column, "distinct", f"{query.aliases[column.input]}.{column.name}")
            except FunctionError as problem:
                return str(problem)
        return None
