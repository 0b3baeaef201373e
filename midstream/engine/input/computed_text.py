"""Which columns of text a query computes with: what is in them has to be UTF-8.

Text that is only passed on, compared or chosen between is bytes, whatever these are. Other functions, casts and
functions that came with the query read characters, and some of Arrow's fail on bytes that are none.
"""

from __future__ import annotations

from collections import defaultdict

from midstream.cql.model import OF_AGGREGATES, OF_KEYS, Call, Cast, Column, Expr, Query
from midstream.cql.typing_types import family

_COMPARES = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq", "is_null", "in"})
_CHOOSES = frozenset({"case", "coalesce", "greatest", "least"})


def find_computed_text(query: Query) -> dict[str, set[str]]:
    """The columns of text that a query computes with, by stream or static table.

    >>> import midstream as ms
    >>> text = "SELECT upper(a.s) AS s, a.t FROM a [ROWS 9] WHERE a.t = 'x'"
    >>> dict(find_computed_text(ms.query(text, {"a": {"s": str, "t": str, "ts": int}}, "ts")))
    {'a': {'s'}}
    """
    found: dict[str, set[str]] = defaultdict(set)
    joined = [condition for relation in query.inputs for condition in relation.filters]
    joined += [key for key_class in query.key_classes for _, key in key_class.keys]
    joined += [side for band in query.bands for side in (band.left, band.right)]
    joined += [theta.expr for theta in query.thetas]
    for expr in joined:
        _visit(expr, query, found, False)
    for branch in query.branches:
        for expr in [*branch.of_results, *(output.expr for output in branch.outputs)]:
            _visit(expr, branch, found, False)
        if branch.grouping is not None and branch.grouping.having is not None:
            _visit(branch.grouping.having, branch, found, False)
    return found


def _visit(expr: Expr, query: Query, found: dict[str, set[str]], is_computed: bool) -> None:
    """Note the columns whose text is computed with in an expression, which may itself be computed with."""
    if isinstance(expr, Column):
        if is_computed and family(expr.type) == "text":
            _note(expr, query, found)
    elif isinstance(expr, Cast):
        _visit(expr.operand, query, found, is_computed or family(expr.type) != "text")
    elif isinstance(expr, Call):
        goes_on = is_computed if expr.function in _CHOOSES else expr.function not in _COMPARES
        for arg in expr.args:
            _visit(arg, query, found, goes_on)


def _note(column: Column, query: Query, found: dict[str, set[str]]) -> None:
    if column.input >= 0:
        found[query.inputs[column.input].source].add(column.name)
    elif query.grouping is not None and column.input == OF_KEYS:
        _visit(query.grouping.keys[int(column.name)], query, found, True)
    elif query.grouping is not None and column.input == OF_AGGREGATES:
        argument = query.grouping.aggregates[int(column.name)].argument
        if argument is not None:
            _visit(argument, query, found, True)
