"""FROM -> the entries of a query: names, aliases, windows, and how they are joined.

An entry is a name, perhaps with a window and an alias. With a window it is a stream; without one it is a static
table. Entries stand apart by commas or are joined by ``JOIN ... ON`` and ``CROSS JOIN``; every ON condition counts like
one in WHERE, and a CROSS JOIN says that a missing condition is meant.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import TokenType, exp

from midstream.cql.names import find_spellings, list_names
from midstream.cql.syntax import Source, WindowText
from midstream.cql.windows import (
    TUMBLE_TEXT,
    UNBOUNDED,
    WINDOW_FUNCTIONS,
    WINDOWS_TEXT,
    StaticWindow,
    Window,
    parse_window,
)
from midstream.errors import QueryError, did_you_mean

_JOIN_WORDS = frozenset({
    TokenType.JOIN, TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.OUTER, TokenType.INNER, TokenType.CROSS,
    TokenType.SEMI, TokenType.ANTI, TokenType.NATURAL, TokenType.ASOF,
})  # fmt: skip
_ALL_BUT_PARENTHESIS = frozenset(TokenType) - {TokenType.L_PAREN}


@dataclass(frozen=True)
class Entry:
    """One entry of FROM, with the node that errors point at."""

    alias: str
    source: str
    window: Window
    node: exp.Expr


@dataclass(frozen=True)
class From:
    """All entries, the conditions of their joins, and the pairs of entries that a CROSS JOIN connects."""

    entries: tuple[Entry, ...]
    conditions: tuple[exp.Expr, ...]
    crossed: tuple[tuple[int, int], ...]


def source_names(text: str) -> list[str]:
    """The names of streams and tables in a query's FROM, as it spells them.

    >>> source_names("SELECT * FROM orders [ROWS 5] o JOIN rates ON o.currency = rates.currency")
    ['orders', 'rates']
    """
    tree = Source(text).parse()
    names: list[str] = []
    for select in _selects_in(tree):
        entries = [select.args.get("from_"), *(select.args.get("joins") or [])]
        tables = [entry.this for entry in entries if entry is not None and isinstance(entry.this, exp.Table)]
        names += map(_written_name, tables)
    return names


def _selects_in(tree: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs that a text combines."""
    if isinstance(tree, exp.SetOperation):
        yield from _selects_in(tree.this)
        yield from _selects_in(tree.expression)
    elif isinstance(tree, exp.Subquery):
        yield from _selects_in(tree.this)
    elif isinstance(tree, exp.Select):
        yield tree


def _written_name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def read_from(source: Source, select: exp.Select, schemas: Mapping[str, pa.Schema], used: set[WindowText]) -> From:
    """The FROM clause of a SELECT; the windows that it has are `used` afterwards."""
    clause = select.args.get("from_")
    if clause is None:
        raise source.error(source.first_token, "FROM is missing", f"{WINDOWS_TEXT} after a stream's name")
    joins: list[exp.Join] = select.args.get("joins") or []
    entries: list[Entry] = []
    conditions: list[exp.Expr] = []
    crossed: list[tuple[int, int]] = []
    left_side = 0
    for number, node in enumerate([clause.this, *(join.this for join in joins)]):
        entry = _entry(source, node, schemas, used)
        twice = next((earlier for earlier in entries if earlier.alias.casefold() == entry.alias.casefold()), None)
        if twice is not None:
            raise source.error(node, f"'{entry.alias}' stands in FROM twice", "give one of them another alias")
        entries.append(entry)
        if number == 0:
            continue
        join = joins[number - 1]
        before = source.before(source.extent(node)[0])
        if before is not None and before.token_type == TokenType.COMMA:
            left_side = number
            continue
        _check_join(source, join)
        if join.args.get("on") is not None and not _is_assumed(join.args["on"]):
            conditions.append(join.args["on"])
        elif join.kind == "CROSS":
            crossed.extend((left, number) for left in range(left_side, number))
    return From(tuple(entries), tuple(conditions), tuple(crossed))


def check_windows_used(source: Source, used: Container[WindowText]) -> None:
    """Refuse a window that no entry has."""
    for window_text in source.windows:
        if window_text not in used:
            raise source.error(
                window_text.start, f"'[{window_text.words}]' has no place", "a window stands after a name in FROM"
            )


def check_for_streams(source: Source, entries: Sequence[Entry], is_branch: bool) -> None:
    """Refuse a FROM of static tables alone: nothing would ever arrive."""
    if all(entry.window.is_static for entry in entries):
        names = list_names(entry.source for entry in entries)
        what = f"no entry of FROM is a stream: a name without a window is a static table ({names})"
        right = "write a window such as [RANGE 10 MINUTES] or [UNBOUNDED] after a stream's name"
        if is_branch:
            right += "; static tables alone may stand on the right of EXCEPT and INTERSECT"
        raise source.error(entries[0].node, what, right)


def _entry(source: Source, node: exp.Expr, schemas: Mapping[str, pa.Schema], used: set[WindowText]) -> Entry:
    if isinstance(node, exp.Subquery | exp.Select):
        opening = source.before(source.extent(node)[0], _ALL_BUT_PARENTHESIS)
        raise source.error(opening or node, "a subquery is not supported", "write a stream's name")
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
        name = node.this.name
        if name.lower() in WINDOW_FUNCTIONS:
            raise source.error(node, f"{name}(...) is not supported", TUMBLE_TEXT)
    extra = [key for key, value in node.args.items() if value and key not in ("this", "alias", "db", "catalog")]
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or extra:
        what = f"'{source.written(node)}' is not supported in FROM"
        raise source.error(node, what, "write a stream's name, its window and its alias")
    written = _written_name(node)
    found = find_spellings(written, schemas)
    if not found:
        right = f"{did_you_mean(written, schemas)}streams given: {list_names(schemas)}"
        raise source.error(node, f"unknown stream '{written}'", right)
    if len(found) > 1:
        raise source.error(node, f"ambiguous stream '{written}'", f"streams given: {list_names(found)}")
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise source.error(node, "a list of columns after an alias is not supported", "write the alias alone")
    ends = [source.extent(part)[1] for part in (node.parts[-1], alias.this if alias else None) if part is not None]
    mine = [window_text for window_text in source.windows if window_text.after in ends]
    used.update(mine)
    if alias is not None and not mine:
        _check_brackets(source, alias, written)
    if len(mine) > 1:
        raise source.error(mine[1].start, f"'{written}' has two windows", "write one")
    try:
        size = parse_window(mine[0].words) if mine else StaticWindow()
    except QueryError as error:
        what, _, right = str(error).partition("; ")
        raise source.error(mine[0].start, what, right or WINDOWS_TEXT) from None
    if size.is_static and not schemas[found[0]].names:
        # Rows of lists and dicts would be none without a column that says how many there are.
        raise source.error(node, f"the schema of static table '{found[0]}' has no columns", "declare at least one")
    return Entry(alias.this.name if alias else found[0], found[0], size, node)


def _check_brackets(source: Source, alias: exp.TableAlias, written: str) -> None:
    """Refuse a window without brackets that is read as the alias of a static table."""
    word = alias.this
    before = source.before(source.extent(word)[0])
    says_as = before is not None and before.token_type == TokenType.ALIAS
    if word.name.upper() == UNBOUNDED and not word.args.get("quoted") and not says_as:
        right = f"write {written} [{UNBOUNDED}]; if it is meant as an alias, write AS {word.name}"
        raise source.error(word, f"the {word.name} window has no brackets", right)


def _check_join(source: Source, join: exp.Join) -> None:
    """Refuse everything but JOIN, INNER JOIN and CROSS JOIN."""
    words = " ".join(str(join.args[key]) for key in ("global_", "method", "side", "kind") if join.args.get(key))
    name = source.extent(join.this)[0]
    earlier = source.before(name, _JOIN_WORDS)
    place = name if earlier is None else source.after(earlier)
    if words.upper() not in ("", "INNER", "CROSS"):
        raise source.error(place, f"{words.upper()} JOIN is not supported", "write JOIN ... ON or CROSS JOIN")
    if join.args.get("using"):
        raise source.error(join.args["using"][0], "USING is not supported", "write ON with both columns")
    extra = [key for key, value in join.args.items() if value and key not in ("this", "kind", "on")]
    if extra:
        raise source.error(place, f"'{source.written(join)}' is not supported", "write JOIN ... ON or CROSS JOIN")


def _is_assumed(condition: exp.Expr) -> bool:
    """Whether sqlglot made up the condition ``true`` for a JOIN without ON."""
    return isinstance(condition, exp.Boolean) and not condition.meta
