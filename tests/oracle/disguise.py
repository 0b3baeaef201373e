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
        columns.update({(source.name, name): other for name, other in zip(chosen, names, strict=True)})
    listed = list(inputs)
    aliases = dict(zip((one.alias for one in listed), rng.sample(ALIASES, len(listed)), strict=True))
    for one in listed:
        if one.alias == one.source:  # an input without an alias is called like its source
            aliases[one.alias] = others.get(one.source, one.source)
    return Spelling(others, columns, aliases)


def quoted(name: str) -> str:
    """A name as a query has it: between backticks if it is one of those above."""
    return "`" + name.replace("`", "``") + "`" if name in (*COLUMNS, *ALIASES, *SOURCES) else name


def disguised(case: Case, spelling: Spelling) -> Case:
    """The case under these names; its text has them already."""
    original = case.inputs

    def expression(expr: Expr) -> Expr:
        if isinstance(expr, Col):
            return dataclasses.replace(expr, name=spelling.column(original[expr.input].source, expr.name))
        if isinstance(expr, Lit):
            return expr
        return dataclasses.replace(expr, args=tuple(expression(arg) for arg in expr.args))

    def row(one: Row) -> Row:
        values = {spelling.column(one.source, name): value for name, value in one.values.items()}
        return Row(one.id, spelling.source(one.source), values)

    def source(one: Source) -> Source:
        fields = [pa.field(spelling.column(one.name, part.name), part.type) for part in one.schema]
        event_time = None if one.event_time is None else spelling.column(one.name, one.event_time)
        rows = tuple(row(part) for part in one.table_rows)
        return Source(spelling.source(one.name), pa.schema(fields), event_time, one.delay, rows)

    def push(one: Push) -> Push:
        given = one.watermark
        if isinstance(given, dict):
            given = {spelling.source(name): value for name, value in given.items()}
        return Push(tuple(row(part) for part in one.rows), given)

    return dataclasses.replace(
        case,
        sources={spelling.source(name): source(one) for name, one in case.sources.items()},
        inputs=tuple(
            Input(
                spelling.alias(one.alias),
                spelling.source(one.source),
                one.window,
                tuple(expression(condition) for condition in one.filters),
            )
            for one in original
        ),
        predicates=tuple(expression(one) for one in case.predicates),
        outputs=tuple(Output(one.name, expression(one.expr)) for one in case.outputs),
        pushes=tuple(push(one) for one in case.pushes),
    )
