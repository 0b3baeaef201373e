"""The SELECT list -> output columns and their names.

A column is called what its schema calls it, ``*`` calls columns ``alias_column``, and any other expression without an
alias is called what was written. Names must differ, also without regard to case, and leave `valid_from` and `valid_to`
to the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from midstream.cql.expressions import Reader
from midstream.cql.model import OF_AGGREGATES, Column, Output

RESERVED = ("valid_from", "valid_to")


@dataclass(frozen=True)
class Selected:
    """One output column and what stands for it in the SELECT list; ``*`` stands for many."""

    output: Output
    node: exp.Expr


def read_outputs(reader: Reader, select: exp.Select, names_count: bool = True) -> tuple[Selected, ...]:
    """The output columns of a SELECT, in order; where their names do not count, they may be any."""
    if not select.expressions:
        right = "write columns, expressions or *"
        raise reader.source.error(reader.source.first_token, "the SELECT list is empty", right)
    selected: list[Selected] = []
    names: set[str] = set()
    for node in select.expressions:
        for output in _columns(reader, node):
            if names_count and output.name.casefold() in RESERVED:
                what = f"output column '{output.name}' has a name that every result has already"
                raise reader.source.error(node, what, "give it another name with AS")
            if names_count and output.name.casefold() in names:
                what = f"two output columns are called '{output.name}'"
                raise reader.source.error(node, what, "give one of them another name with AS")
            names.add(output.name.casefold())
            selected.append(Selected(output, node))
    return tuple(selected)


def _columns(reader: Reader, node: exp.Expr) -> Iterator[Output]:
    scope = reader.scope
    star = node.this if isinstance(node, exp.Column) and isinstance(node.this, exp.Star) else node
    if isinstance(star, exp.Star):
        if any(star.args.values()) or node.args.get("db"):
            what = f"'{reader.source.written(node)}' is not supported"
            raise reader.source.error(node, what, "name the columns that are wanted")
        table = node.args.get("table")
        numbers = range(len(scope.aliases)) if table is None else [scope.input(table)]
        for number in numbers:
            for name in scope.schemas[number].names:
                column = scope.of(number, name, node)
                yield Output(f"{scope.aliases[number]}_{column.name}", column)
    elif isinstance(node, exp.Alias):
        yield Output(node.alias, reader.read(node.this))
    elif isinstance(node, exp.Aliases):
        raise reader.source.error(node, "several aliases for one expression are not supported", "write one name")
    else:
        expr = reader.read(node)
        name = expr.name if isinstance(expr, Column) and expr.input != OF_AGGREGATES else reader.source.written(node)
        yield Output(name, expr)
