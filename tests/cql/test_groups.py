"""A grouped query means what its text says: random texts, run by DuckDB, against their models, computed here.

Expressions are evaluated by the engine's own programs, which other tests compare with DuckDB; groups are formed and
aggregated here, one result at a time.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from midstream.cql import Query, query
from midstream.cql.model import OF_AGGREGATES, OF_KEYS, Aggregate, Expr
from midstream.engine.expressions import compile_expression

from ..blocks import blocks

SCHEMAS = {
    "a": pa.schema({"x": pa.int64(), "y": pa.int32(), "s": pa.string(), "ts": pa.int64()}),
    "b": pa.schema({"x": pa.int32(), "z": pa.int64(), "ts": pa.int64()}),
}
SCALARS = (
    "a.x",
    "y",
    "a.s",
    "z",
    "b.x",
    "y + 1",
    "a.x % 3",
    "coalesce(a.s, 'none')",
    "y * z",
    "a.x + b.x",
    "length(s)",
)
NUMBERS = ("a.x", "y", "z", "b.x", "y + z", "a.x * 2")
Columns = dict[tuple[int, str], pa.Array]


def draw_rows(dice: random.Random) -> dict[str, pa.Table]:
    def values(choices: Sequence[Any], size: int) -> list[Any]:
        return [dice.choice([None, *choices]) for _ in range(size)]

    tables = {}
    for name, schema in SCHEMAS.items():
        size = dice.randint(1, 6)
        choices: dict[str, Sequence[Any]] = {"s": ["u", "v", ""], "ts": [7, 7, 7, 7]}
        columns = {field.name: values(choices.get(field.name, [-2, 0, 1, 5]), size) for field in schema}
        tables[name] = pa.table(columns, schema=schema)
    return tables


def draw_aggregate(dice: random.Random) -> str:
    function = dice.choice(["count(*)", "count({})", "count(DISTINCT {})", "sum({})", "avg({})", "min({})", "max({})"])
    argument = dice.choice(NUMBERS if "sum" in function or "avg" in function else SCALARS)
    return function.format(argument)


def draw_text(dice: random.Random) -> str:
    """A query without windows, in which every way to write keys may occur."""
    keys = dice.sample(SCALARS, dice.randint(0, 3))
    items = [f"{key} AS k{place}" for place, key in enumerate(keys) if dice.random() < 0.8]
    items += [f"coalesce({key}, {key}) AS again" for key in keys[:1]]
    items += [f"{draw_aggregate(dice)} AS n{place}" for place in range(dice.randint(0 if items else 1, 3))]
    if dice.random() < 0.5:
        items.append(f"{draw_aggregate(dice)} IS NULL OR count(*) > {dice.randint(1, 9)} AS larger")
    dice.shuffle(items)
    group = [dice.choice(_ways(key, f"k{place}", items)) for place, key in enumerate(keys)]
    dice.shuffle(group)
    having = ""
    if dice.random() < 0.5:
        names = [item.rpartition(" AS ")[2] for item in items]
        tested = dice.choice([draw_aggregate(dice), *keys, *(name for name in names if name[0] in "kn")])
        having = f" HAVING {tested} IS NOT NULL AND count(*) < {dice.randint(2, 20)}"
    distinct = dice.choice(["", "DISTINCT "])
    by = f" GROUP BY {', '.join(group)}" if group else ""
    if not by and not any("(" in item for item in items):
        having = ""
    return f"SELECT {distinct}{', '.join(items)} FROM a, b WHERE a.ts = b.ts{by}{having}"


def _ways(key: str, name: str, items: list[str]) -> list[str]:
    """How GROUP BY may write a key: itself, and its name or position if SELECT has it."""
    selected = f"{key} AS {name}"
    return [key, name, str(items.index(selected) + 1)] if selected in items else [key]


def answers(found: Query, tables: dict[str, pa.Table]) -> Iterator[tuple[Any, ...]]:
    """The rows of the snapshot in which all rows are valid, by the model."""
    left, right = tables["a"].to_pylist(), tables["b"].to_pylist()
    joined = [(r, s) for r, s in itertools.product(left, right) if r["ts"] is not None and r["ts"] == s["ts"]]
    columns: Columns = {
        (number, field.name): pa.array([pair[number][field.name] for pair in joined], field.type)
        for number, schema in enumerate(SCHEMAS.values())
        for field in schema
    }
    grouping = found.grouping
    if grouping is None:
        values = [evaluate(output.expr, columns, len(joined)) for output in found.outputs]
        yield from zip(*values, strict=True)
        return
    keys = [evaluate(key, columns, len(joined)) for key in grouping.keys]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(joined)):
        groups.setdefault(tuple(key[row] for key in keys), []).append(row)
    arguments = [
        None if aggregate.argument is None else evaluate(aggregate.argument, columns, len(joined))
        for aggregate in grouping.aggregates
    ]
    for group, rows in groups.items():
        of_group: Columns = {
            (OF_KEYS, str(place)): pa.array([value], key.type)
            for place, (value, key) in enumerate(zip(group, grouping.keys, strict=True))
        }
        for place, (aggregate, argument) in enumerate(zip(grouping.aggregates, arguments, strict=True)):
            values = [None if argument is None else argument[row] for row in rows]
            of_group[OF_AGGREGATES, str(place)] = pa.array([compute(aggregate, values)], aggregate.type)
        if grouping.having is None or evaluate(grouping.having, of_group, 1)[0]:
            yield tuple(evaluate(output.expr, of_group, 1)[0] for output in found.outputs)


def evaluate(expr: Expr, columns: Columns, length: int) -> list[Any]:
    values: list[Any] = compile_expression(expr)(columns, length).to_pylist()
    return values


def compute(aggregate: Aggregate, values: list[Any]) -> Any:
    if aggregate.argument is None:
        return len(values)
    known = [value for value in values if value is not None]
    if aggregate.function == "count":
        return len(known)
    if aggregate.function == "count_distinct":
        return len(set(known))
    if not known:
        return None
    if aggregate.function == "avg":
        return sum(known) / len(known)
    return {"sum": sum, "min": min, "max": max}[aggregate.function](known)


@pytest.mark.parametrize("seed", blocks(20, 3))
def test_a_model_means_its_text(seed: int) -> None:
    dice, seen = random.Random(seed), 0
    with duckdb.connect() as connection:
        for _ in range(20):
            text, tables = draw_text(dice), draw_rows(dice)
            found = query(text.replace("FROM a, b", "FROM a [RANGE 1 HOUR], b [UNBOUNDED]"), SCHEMAS, "ts")
            rows = Counter(answers(found, tables))
            if found.is_distinct:
                rows = Counter(set(rows))
            for name, table in tables.items():
                connection.register(name, table)
            wanted = Counter(connection.execute(text).fetchall())
            (matches,) = connection.execute("SELECT count(*) FROM a, b WHERE a.ts = b.ts").fetchall()[0]
            if matches == 0:
                wanted.clear()  # in SQL, aggregates without GROUP BY make a row of nothing
            assert rows == wanted, text
            seen += len(rows)
    assert seen > 20
