"""The clauses of a query: SELECTs with their list, DISTINCT, FROM, WHERE, GROUP BY and HAVING, and set operations.

Anything else, such as ORDER BY or WITH, is an error that names it and says where it is. INTERSECT binds more strongly
than UNION and EXCEPT, which are read from left to right; parentheses come before both.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from sqlglot import TokenType, exp

from midstream.cql.model import Combination, SetKind, SetOperation
from midstream.cql.syntax import QUERY_TEXT, Source

# What sqlglot calls a clause, what people call it, and the words it begins with.
_CLAUSES: tuple[tuple[str, str, tuple[TokenType, ...]], ...] = (
    ("with_", "WITH", (TokenType.WITH,)),
    ("hint", "a hint", (TokenType.HINT,)),
    ("into", "INTO", (TokenType.INTO,)),
    ("laterals", "LATERAL VIEW", (TokenType.LATERAL,)),
    ("pivots", "PIVOT", (TokenType.PIVOT, TokenType.UNPIVOT)),
    ("sample", "TABLESAMPLE", (TokenType.TABLE_SAMPLE,)),
    ("qualify", "QUALIFY", (TokenType.QUALIFY,)),
    ("windows", "WINDOW", (TokenType.WINDOW,)),
    ("order", "ORDER BY", (TokenType.ORDER_BY,)),
    ("sort", "SORT BY", (TokenType.SORT_BY,)),
    ("cluster", "CLUSTER BY", (TokenType.CLUSTER_BY,)),
    ("distribute", "DISTRIBUTE BY", (TokenType.DISTRIBUTE_BY,)),
    ("limit", "LIMIT", (TokenType.LIMIT, TokenType.FETCH)),
    ("offset", "OFFSET", (TokenType.OFFSET,)),
)
#: What sqlglot hangs on a SELECT in parentheses, or on a set operation that ends with one, if it stands after them.
_AFTER_PARENTHESES: tuple[tuple[str, str, tuple[TokenType, ...]], ...] = (
    ("joins", "a further table", (TokenType.COMMA, TokenType.JOIN)),
    ("where", "WHERE", (TokenType.WHERE,)),
    ("group", "GROUP BY", (TokenType.GROUP_BY,)),
    ("having", "HAVING", (TokenType.HAVING,)),
)
_OF_OPERATIONS = frozenset({"this", "expression", "distinct", "by_name", "side", "kind", "on"})
_OF_PARENTHESES = frozenset({"this", "alias"})
_SUPPORTED = frozenset({"expressions", "distinct", "from_", "joins", "where", "group", "having"})
_AFTERWARDS = "results go out as they are found; sort and cut them where they are read"
_RIGHT = {"order": _AFTERWARDS, "sort": _AFTERWARDS, "limit": _AFTERWARDS, "offset": _AFTERWARDS}
_SET_KINDS: dict[type[exp.Expr], SetKind] = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}
_ALL_BUT_SET_WORDS = frozenset(TokenType) - {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}


@dataclass(frozen=True)
class BranchText:
    """A SELECT, and the source while it is read.

    On the right of EXCEPT and INTERSECT it may read static tables alone: the left side says when there are results.
    """

    select: exp.Select
    source: Source
    may_be_static: bool = False


@dataclass(frozen=True)
class Clauses:
    """All SELECTs of a query in the order of the text, and how they are combined, by their places there."""

    branches: tuple[BranchText, ...]
    combination: Combination


def check_clauses(source: Source, tree: exp.Expr) -> Clauses:
    """The SELECTs of a tree; an error if there is a clause that is not supported."""
    whole = tree
    while isinstance(whole, exp.Subquery):
        whole = _inside(source, whole)
    branches: list[BranchText] = []
    if isinstance(whole, exp.Select):
        return Clauses((BranchText(_check_select(source, whole), source),), 0)
    combination = _read(source, whole, False, branches)
    return Clauses(tuple(branches), combination)


def _read(source: Source, tree: exp.Expr, may_be_static: bool, branches: list[BranchText]) -> Combination:
    """How the SELECTs of a tree are combined; they are added to the branches."""
    if isinstance(tree, exp.Subquery):
        return _read(source, _inside(source, tree), may_be_static, branches)
    if isinstance(tree, exp.SetOperation):
        return _read_operation(source, tree, may_be_static, branches)
    if not isinstance(tree, exp.Select):
        raise source.error(tree if branches else 0, "the text is not a SELECT", QUERY_TEXT)
    own = source.of_branch(tree)
    branches.append(BranchText(_check_select(own, tree), own, may_be_static))
    return len(branches) - 1


def _read_operation(
    source: Source, tree: exp.SetOperation, may_be_static: bool, branches: list[BranchText]
) -> SetOperation:
    kind = _SET_KINDS[type(tree)]
    word = source.before(source.extent(tree.expression)[0], _ALL_BUT_SET_WORDS) or tree
    if tree.args.get("by_name"):
        right = "name the columns of both sides in the same order"
        raise source.error(word, f"{kind.upper()} BY NAME is not supported", right)
    extra = [key for key in ("side", "kind", "on") if tree.args.get(key)]
    if extra:
        raise source.error(word, f"{str(tree.args[extra[0]]).upper()} {kind.upper()} is not supported", QUERY_TEXT)
    _refuse_clauses(source, tree)
    _refuse_what_follows(source, tree, _OF_OPERATIONS)
    left = _read(source, tree.this, may_be_static, branches)
    right_side = _read(source, tree.expression, may_be_static or kind != "union", branches)
    return SetOperation(kind, not tree.args.get("distinct"), left, right_side)


def _inside(source: Source, tree: exp.Subquery) -> exp.Expr:
    """What stands in parentheses around a SELECT, with nothing after them."""
    _refuse_clauses(source, tree)
    if tree.args.get("alias"):
        raise source.error(tree.args["alias"], "an alias after a SELECT in parentheses is not supported", "take it out")
    _refuse_what_follows(source, tree, _OF_PARENTHESES)
    inside: exp.Expr = tree.this
    return inside


def _check_select(source: Source, select: exp.Select) -> exp.Select:
    _refuse_clauses(source, select)
    for key, value in select.args.items():
        if value and key not in _SUPPORTED:
            raise source.error(select, f"{key.strip('_').upper()} is not supported", QUERY_TEXT)
    return select


def _refuse_what_follows(source: Source, tree: exp.Expr, known: Container[str]) -> None:
    """Refuse clauses that stand after a SELECT in parentheses and belong to none."""
    names = {key: (name, types) for key, name, types in _AFTER_PARENTHESES}
    for key, value in tree.args.items():
        if value and key not in known:
            name, types = names.get(key, (key.strip("_").upper(), ()))
            word = source.find(*source.span, *types) if types else None
            what = f"{name} after a SELECT in parentheses is not supported"
            raise source.error(word or tree, what, "write it inside the parentheses")


def _refuse_clauses(source: Source, tree: exp.Expr) -> None:
    for key, name, types in _CLAUSES:
        if tree.args.get(key):
            right = _RIGHT.get(key, QUERY_TEXT)
            raise source.error(source.find(*source.span, *types) or tree, f"{name} is not supported", right)
