"""Names of columns and inputs: case is ignored, and results spell them as the schemas do.

A name that is not there, or that could mean two things, is an error that lists what could have been meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from midstream.cql.model import Column
from midstream.cql.plain import has_union, plain_type
from midstream.cql.syntax import Source
from midstream.errors import QueryError, did_you_mean


def find_spellings(name: str, known: Iterable[str]) -> list[str]:
    """The known names that equal a name if case is ignored.

    >>> find_spellings("ORDERS", ["orders", "payments"])
    ['orders']
    """
    return [candidate for candidate in known if candidate.casefold() == name.casefold()]


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """The wanted name, with underscores put before it until it differs from all names that are taken.

    >>> free_name("reason", ["id", "Reason"])
    '_reason'
    """
    known = {name.casefold() for name in taken}
    while wanted.casefold() in known:
        wanted = f"_{wanted}"
    return wanted


def list_names(names: Iterable[str]) -> str:
    """Names for a message.

    >>> list_names(["a", "b"]), list_names([])
    ('a, b', 'none')
    """
    return ", ".join(names) or "none"


@dataclass(frozen=True)
class Scope:
    """The inputs that columns can come from: aliases, their schemas and what FROM calls them, in its order."""

    source: Source
    aliases: tuple[str, ...]
    schemas: tuple[pa.Schema, ...]
    names: tuple[str, ...] = ()

    def input(self, identifier: exp.Expr) -> int:
        """The number of the input that an alias names."""
        found = find_spellings(identifier.name, self.aliases)
        if not found:
            called = [self.aliases[at] for at, name in enumerate(self.names) if find_spellings(name, [identifier.name])]
            hint = f"FROM calls it {' and '.join(called)}; " if called else did_you_mean(identifier.name, self.aliases)
            right = f"{hint}aliases in FROM: {list_names(self.aliases)}"
            raise self.source.error(identifier, f"unknown alias '{identifier.name}'", right)
        return self.aliases.index(found[0])

    def column(self, node: exp.Column) -> Column:
        """The column that ``alias.name`` or ``name`` means."""
        if node.args.get("db"):
            right = "write alias.column"
            raise self.source.error(node, f"'{self.source.written(node)}' is not supported", right)
        name = node.name
        if node.args.get("table"):
            number = self.input(node.args["table"])
            if not find_spellings(name, self.schemas[number].names):
                known = self.schemas[number].names
                right = f"{did_you_mean(name, known)}columns of {self.aliases[number]}: {list_names(known)}"
                raise self.source.error(node, f"unknown column '{name}'", right)
            return self.of(number, name, node)
        owners = self.owners(name)
        if not owners:
            raise self.unknown_column(node)
        if len(owners) > 1:
            choices = (
                f"{self.aliases[owner]}.{find_spellings(name, self.schemas[owner].names)[0]}" for owner in owners
            )
            raise self.source.error(node, f"ambiguous column '{name}'", f"write one of {list_names(choices)}")
        return self.of(owners[0], name, node)

    def unknown_column(self, node: exp.Column, outputs: Sequence[str] = (), more: str = "") -> QueryError:
        """An error about a name that no input has. `outputs` may stand there, too, and `more` says what else may."""
        columns = [column for _, schema in self._pairs() for column in schema.names]
        right = did_you_mean(node.name, [*outputs, *columns])
        if outputs:
            right += f"names in SELECT: {list_names(outputs)}; "
        right += (
            f"columns: {list_names(f'{alias}.{column}' for alias, schema in self._pairs() for column in schema.names)}"
        )
        return self.source.error(node, f"unknown column '{node.name}'", right + (f"; {more}" if more else ""))

    def owners(self, name: str) -> list[int]:
        """The numbers of the inputs that have a column of this name."""
        return [number for number, schema in enumerate(self.schemas) if find_spellings(name, schema.names)]

    def of(self, number: int, name: str, node: exp.Expr) -> Column:
        """A column of an input that has at least one column of that name."""
        schema = self.schemas[number]
        found = find_spellings(name, schema.names)
        if len(found) > 1:
            what = f"ambiguous column '{name}'"
            right = (
                f"{self.aliases[number]} has {list_names(found)}; give its columns names that differ by more than case"
            )
            raise self.source.error(node, what, right)
        type = plain_type(schema.field(found[0]).type)
        if has_union(type):
            what = f"column '{found[0]}' of {self.aliases[number]} is {type}, which queries do not take"
            raise self.source.error(node, what, "give a struct with a field for each of its types")
        return Column(number, found[0], type)

    def _pairs(self) -> Iterable[tuple[str, pa.Schema]]:
        return zip(self.aliases, self.schemas, strict=True)
