"""Random expression trees, evaluated here and in DuckDB, which shares no code; same rows, same values.

Only what means the same in both is generated: DuckDB fails where Spark's ANSI mode does, and TRY makes that null.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from midstream.cql.functions import call, cast
from midstream.cql.model import Column, Expr, Literal
from midstream.engine.expressions import compile_expression

ROWS = 97
EXTREMES = [0, 1, -1, 2, 7, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 3037000500, -3037000499]
FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 1e300, -1e300, 1e-300, math.nan, math.inf, -math.inf, 3.0]
WORDS = ["", "a", "ab", "abc", "ABC", "b%c", "a_c", "héllo", "日本語", "  pad ", "aaa"]
MOMENTS = [datetime(1969, 12, 31, 23, 59, 59, 500000), datetime(2024, 2, 29), datetime(2000, 1, 1, 12, 34, 56)]


@dataclass(frozen=True)
class SqlExpr:
    """An expression, and the same in DuckDB's SQL."""

    expr: Expr
    sql: str


def table(seed: int) -> pa.Table:
    source = random.Random(seed)

    def some(values: list[Any]) -> list[Any]:
        return [None if source.random() < 0.15 else source.choice(values) for _ in range(ROWS)]

    near = [moment + timedelta(seconds=n, microseconds=n) for moment in MOMENTS for n in range(-3, 40000, 997)]
    return pa.table(
        {
            "i": pa.array(some(list(range(-20, 20))), pa.int64()),
            "j": pa.array(some(EXTREMES), pa.int64()),
            "k": pa.array(some([-128, -1, 0, 1, 100, 127]), pa.int8()),
            "f": pa.array(some(FLOATS), pa.float64()),
            "g": pa.array([None if n % 7 == 0 else source.uniform(-100, 100) for n in range(ROWS)], pa.float64()),
            "p": pa.array(some([True, False]), pa.bool_()),
            "s": pa.array(some(WORDS), pa.string()),
            "t": pa.array(some(WORDS), pa.string()),
            "u": pa.array(some(near), pa.timestamp("us")),
            "v": pa.array(some(near), pa.timestamp("us")),
        }
    )


class Grower:
    """Grows random trees of a wanted type up to a depth."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def column(self, *names: str) -> SqlExpr:
        name = self.random.choice(names)
        types = {"k": pa.int8(), "f": pa.float64(), "g": pa.float64(), "p": pa.bool_(), "s": pa.string()}
        types |= {"t": pa.string(), "u": pa.timestamp("us"), "v": pa.timestamp("us")}
        return SqlExpr(Column(0, name, types.get(name, pa.int64())), name)

    def leaf(self, sql_type: str, type: pa.DataType, values: list[Any], *names: str) -> SqlExpr:
        """A column, or sometimes a constant or null."""
        if self.random.random() < 0.7:
            return self.column(*names)
        value = self.random.choice([None, *values])
        written = "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"
        return SqlExpr(Literal(value, type), f"({written})::{sql_type}")

    def make(self, name: str, pattern: str, *args: SqlExpr) -> SqlExpr:
        return SqlExpr(call(name, [arg.expr for arg in args]), pattern.format(*(f"({arg.sql})" for arg in args)))

    def integer(self, depth: int) -> SqlExpr:
        pick = self.random.randrange(10) if depth else 0
        if pick == 0:
            return self.leaf("BIGINT", pa.int64(), EXTREMES, "i", "i", "j")
        if pick < 5:
            name, sign = self.random.choice([("add", "+"), ("subtract", "-"), ("multiply", "*")])
            return self.make(name, f"TRY({{}} {sign} {{}})", self.integer(depth - 1), self.integer(depth - 1))
        if pick == 5:
            divisor = self.make("multiply", "{} * {}", self.column("i"), SqlExpr(Literal(2, pa.int64()), "2"))
            return self.make("modulo", "TRY({} % {})", self.integer(depth - 1), divisor)
        if pick == 6:
            return self.make("abs", "TRY(abs({}))", self.integer(depth - 1))
        if pick == 7:
            name = self.random.choice(["year", "month", "day", "hour", "minute", "second", "quarter"])
            changed = self.make(name, f"{name}({{}})", self.column("u", "v"))
            return SqlExpr(cast(changed.expr, pa.int64()), changed.sql)
        if pick == 8:
            return self.picked(self.integer, depth)
        return self.chosen(depth, self.integer(depth - 1), self.integer(depth - 1))

    def floating(self, depth: int) -> SqlExpr:
        pick = self.random.randrange(7) if depth else 0
        if pick == 0:
            return self.leaf("DOUBLE", pa.float64(), FLOATS, "f", "g")
        if pick < 4:
            name, sign = self.random.choice([("add", "+"), ("subtract", "-"), ("multiply", "*")])
            return self.make(name, f"{{}} {sign} {{}}", self.floating(depth - 1), self.floating(depth - 1))
        if pick == 4:
            return self.make("divide", "{} / nullif({}, 0)", self.floating(depth - 1), self.floating(depth - 1))
        if pick == 5:
            return self.picked(self.floating, depth)
        return self.chosen(depth, self.floating(depth - 1), self.floating(depth - 1))

    def text(self, depth: int) -> SqlExpr:
        pick = self.random.randrange(7) if depth else 0
        if pick == 5:
            number = self.integer(depth - 1)
            return SqlExpr(cast(number.expr, pa.string()), f"({number.sql})::VARCHAR")
        if pick == 6:
            return self.picked(self.text, depth)
        if pick == 0:
            return self.leaf("VARCHAR", pa.string(), WORDS, "s", "t")
        if pick == 1:
            name = self.random.choice(["trim", "ltrim", "rtrim"])
            return self.make(name, f"{name}({{}}, ' ')", self.text(depth - 1))
        if pick == 2:
            start, count = self.random.randrange(1, 4), self.random.randrange(0, 4)
            text = self.text(depth - 1)
            numbers = [Literal(start, pa.int32()), Literal(count, pa.int32())]
            return SqlExpr(call("substring", [text.expr, *numbers]), f"substring({text.sql}, {start}, {count})")
        if pick == 3:
            return self.make("concat", "({} || {})", self.text(depth - 1), self.text(depth - 1))
        return self.chosen(depth, self.text(depth - 1), self.text(depth - 1))

    def picked(self, grow: Callable[[int], SqlExpr], depth: int) -> SqlExpr:
        name = self.random.choice(["greatest", "least", "coalesce"])
        args = [grow(depth - 1) for _ in range(self.random.randint(2, 4))]
        return self.make(name, f"{name}({', '.join(['{}'] * len(args))})", *args)

    def chosen(self, depth: int, a: SqlExpr, b: SqlExpr) -> SqlExpr:
        condition = self.boolean(depth - 1)
        if self.random.random() < 0.5:
            return self.make("case", "CASE WHEN {} THEN {} ELSE {} END", condition, a, b)
        return self.make("nullif", "nullif({}, {})", a, b)

    def boolean(self, depth: int) -> SqlExpr:
        pick = self.random.randrange(11) if depth else 0
        if pick == 0:
            return self.leaf("BOOLEAN", pa.bool_(), [True, False], "p")
        if pick < 3:
            name, word = self.random.choice([("and", "AND"), ("or", "OR")])
            return self.make(name, f"{{}} {word} {{}}", self.boolean(depth - 1), self.boolean(depth - 1))
        if pick == 3:
            return self.make("not", "NOT {}", self.boolean(depth - 1))
        if pick == 4:
            return self.make("is_null", "{} IS NULL", self.anything(depth - 1))
        if pick == 5:
            name, function = self.random.choice(
                [("startswith", "starts_with"), ("endswith", "ends_with"), ("contains", "contains")]
            )
            return self.make(name, f"{function}({{}}, {{}})", self.text(depth - 1), self.text(depth - 1))
        if pick == 6:
            pattern = self.random.choice(["%", "a%", "%c", "%b%", "a_c", "a\\_c", "b\\%c", "_", "h%o", ""])
            text = self.text(depth - 1)
            expr = call("like", [text.expr, Literal(pattern, pa.string())])
            return SqlExpr(expr, f"({text.sql}) LIKE '{pattern}' ESCAPE '\\'")
        if pick == 7:
            numbers = [None if n == 5 else n for n in self.random.sample(range(-10, 10), self.random.randrange(1, 14))]
            integer = self.integer(depth - 1)
            options = ", ".join("NULL" if n is None else str(n) for n in numbers)
            listed = [Literal(n, pa.null() if n is None else pa.int32()) for n in numbers]
            return SqlExpr(call("in", [integer.expr, *listed]), f"({integer.sql}) IN ({options})")
        name, sign = self.random.choice(
            [("eq", "="), ("ne", "<>"), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="),
             ("null_safe_eq", "IS NOT DISTINCT FROM")]
        )  # fmt: skip
        grow = self.random.choice([self.integer, self.floating, self.text, self.moment])
        return self.make(name, f"{{}} {sign} {{}}", grow(depth - 1), grow(depth - 1))

    def moment(self, depth: int) -> SqlExpr:
        if not depth or self.random.random() < 0.4:
            return self.leaf("TIMESTAMP", pa.timestamp("us"), MOMENTS, "u", "v")
        unit = self.random.choice(["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
        moment = self.moment(depth - 1)
        expr = call("date_trunc", [Literal(unit, pa.string()), moment.expr])
        return SqlExpr(expr, f"date_trunc('{unit}', ({moment.sql})::TIMESTAMP)")

    def anything(self, depth: int) -> SqlExpr:
        return self.random.choice([self.integer, self.floating, self.text, self.boolean, self.moment])(depth)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b
    return bool(a == b)


@pytest.mark.parametrize("seed", range(150))
def test_random_tree(seed: int) -> None:
    rows = table(seed % 5)
    grower = Grower(seed)
    trees = [grower.anything(depth) for depth in (1, 2, 3, 4)]
    connection = duckdb.connect()
    connection.register("rows", rows)
    connection.sql("SET threads = 1")
    expected = connection.sql(f"SELECT {', '.join(grown.sql for grown in trees)} FROM rows").fetchall()
    columns = {(0, name): rows[name].combine_chunks() for name in rows.column_names}
    for at, tree in enumerate(trees):
        evaluate = compile_expression(tree.expr)
        found = evaluate(columns, ROWS)
        found.validate(full=True)
        for row, value in enumerate(found.to_pylist()):
            assert same(value, expected[row][at]), f"{tree.sql} in {rows.slice(row, 1).to_pylist()}"
        if pa.types.is_boolean(found.type):
            assert evaluate.mask(columns, ROWS).tolist() == [truth is True for truth in found.to_pylist()]
