"""The same case under other names: columns, aliases and streams called what the engine calls things of its own.

A name that only looks odd is quoted and goes through; one that is also a name inside the engine, of a snapshot or of
the Spark layer shows where the two are not kept apart.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from .carried import CARRIED
from .expr import Col, Expr, Lit
from .spec import Case, Input, Output, Push, Row, Source

COLUMNS = (
    "key 0", "key 1", "value v", "value key 0", "start", "end", "code 0", "band 0", "arrival", "ordinal", "reason",
    "_reason", "__REASON", "valid_from", "valid_to", "midstream_event_time", "cell", "lane", "parcel", "report", "home",
    "dropped", "c0", "c1", "result_id", "rows", "held", "held back results", "windows", "meta", "a.k0", "b`s", "k0 > 1",
)  # fmt: skip
ALIASES = ("held back results", "key 0", "windows", "held", "meta", "value", "numbers", "start", "o as p", "filter")
SOURCES = ("held back results", "Windows", "meta", "numbers", "x as y", "x", "late", "key 0", "y.z", "join")


@dataclass(frozen=True)
class Spelling:
    """Other names by source, by source and column, and by alias; what is not here keeps its name."""

    sources: dict[str, str] = field(default_factory=dict)
    columns: dict[tuple[str, str], str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def source(self, name: str) -> str:
        return self.sources.get(name, name)

    def column(self, source: str, name: str) -> str:
        return self.columns.get((source, name), name)

    def alias(self, name: str) -> str:
        return self.aliases.get(name, name)


def draw_spelling(rng: random.Random, sources: dict[str, Source], inputs: Iterable[Input]) -> Spelling:
    """Some columns of every source, some sources and most aliases get other names."""
    others = dict(zip(rng.sample(list(sources), len(sources) // 2), rng.sample(SOURCES, len(SOURCES)), strict=False))
    columns = {}
    for source in sources.values():
        chosen = [name for name in source.schema.names if name != CARRIED and rng.random() < 0.6]
        names = rng.sample(COLUMNS, len(chosen))
        columns.update({(source.name, name): new_name for name, new_name in zip(chosen, names, strict=True)})
    listed = list(inputs)
    aliases = dict(zip((relation.alias for relation in listed), rng.sample(ALIASES, len(listed)), strict=True))
    for relation in listed:
        if relation.alias == relation.source:  # an input without an alias is called like its source
            aliases[relation.alias] = others.get(relation.source, relation.source)
    return Spelling(others, columns, aliases)


def quote_name(name: str) -> str:
    """A name as a query has it: between backticks if it is one of those above."""
    return "`" + name.replace("`", "``") + "`" if name in (*COLUMNS, *ALIASES, *SOURCES) else name


def disguise_case(case: Case, spelling: Spelling) -> Case:
    """The case under these names; its text has them already."""
    original = case.inputs

    def rename_expr(expr: Expr) -> Expr:
        if isinstance(expr, Col):
            return dataclasses.replace(expr, name=spelling.column(original[expr.input].source, expr.name))
        if isinstance(expr, Lit):
            return expr
        return dataclasses.replace(expr, args=tuple(rename_expr(arg) for arg in expr.args))

    def rename_row(row: Row) -> Row:
        values = {spelling.column(row.source, name): value for name, value in row.values.items()}
        return Row(row.id, spelling.source(row.source), values)

    def rename_source(source: Source) -> Source:
        fields = [pa.field(spelling.column(source.name, part.name), part.type) for part in source.schema]
        event_time = None if source.event_time is None else spelling.column(source.name, source.event_time)
        rows = tuple(rename_row(part) for part in source.table_rows)
        return Source(spelling.source(source.name), pa.schema(fields), event_time, source.delay, rows)

    def rename_push(push: Push) -> Push:
        given = push.watermark
        if isinstance(given, dict):
            given = {spelling.source(name): value for name, value in given.items()}
        return Push(tuple(rename_row(part) for part in push.rows), given)

    return dataclasses.replace(
        case,
        sources={spelling.source(name): rename_source(source) for name, source in case.sources.items()},
        inputs=tuple(
            Input(
                spelling.alias(relation.alias),
                spelling.source(relation.source),
                relation.window,
                tuple(rename_expr(condition) for condition in relation.filters),
            )
            for relation in original
        ),
        predicates=tuple(rename_expr(predicate) for predicate in case.predicates),
        outputs=tuple(Output(output.name, rename_expr(output.expr)) for output in case.outputs),
        pushes=tuple(rename_push(push) for push in case.pushes),
    )
