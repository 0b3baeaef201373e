"""What a SELECT may have: its list, DISTINCT, FROM, WHERE, GROUP BY and HAVING.

Anything else, such as ORDER BY or UNION, is an error that names it and says where it is.
"""

from __future__ import annotations

from sqlglot import TokenType, exp

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
_SUPPORTED = frozenset({"expressions", "distinct", "from_", "joins", "where", "group", "having"})
_AFTERWARDS = "results go out as they are found; sort and cut them where they are read"
_RIGHT = {"order": _AFTERWARDS, "sort": _AFTERWARDS, "limit": _AFTERWARDS, "offset": _AFTERWARDS}


def check_clauses(source: Source, tree: exp.Expr) -> exp.Select:
    """The tree as a SELECT; an error if it has a clause that is not supported."""
    whole = (0, len(source.text))
    if isinstance(tree, exp.SetOperation):
        token = source.find(*whole, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
        name = type(tree).__name__.upper()
        raise source.error(token or tree, f"{name} is not supported", QUERY_TEXT)
    if not isinstance(tree, exp.Select):
        raise source.error(0, "the text is not a SELECT", QUERY_TEXT)
    for key, name, types in _CLAUSES:
        if tree.args.get(key):
            right = _RIGHT.get(key, QUERY_TEXT)
            raise source.error(source.find(*whole, *types) or tree, f"{name} is not supported", right)
    for key, value in tree.args.items():
        if value and key not in _SUPPORTED:
            raise source.error(tree, f"{key.strip('_').upper()} is not supported", QUERY_TEXT)
    return tree
