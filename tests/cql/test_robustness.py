"""Whatever the text, the parser gives a query or a `QueryError` with a place; nothing else escapes."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.cql import Query, query
from midstream.errors import QueryError

SCHEMAS = {
    "orders": pa.schema({"id": pa.int64(), "name": pa.string(), "total": pa.float64(), "ts": pa.timestamp("us")}),
    "payments": pa.schema({"id": pa.int32(), "total": pa.decimal128(8, 2), "ts": pa.timestamp("ms")}),
    "rates": pa.schema({"name": pa.string(), "rate": pa.float32(), "day": pa.date32()}),
}
TEXTS = (
    "SELECT o.id, p.total FROM orders [RANGE 10 MINUTES] o, payments [ROWS 5] p WHERE o.id = p.id AND o.total > 10",
    "SELECT * FROM orders o [UNBOUNDED] JOIN rates r ON o.name = r.name WHERE abs(o.total - r.rate) <= 0.5\n"
    "OR o.id IN (1, 2)",
    "SELECT o.*, CASE WHEN p.id > 3 THEN 'x' ELSE `o`.name END AS \"y\" FROM orders [RANGE 0.5 HOURS] AS o\n"
    "CROSS JOIN payments [ROWS 7] p WHERE p.ts BETWEEN o.ts - INTERVAL 5 MINUTES AND o.ts + INTERVAL '1 hour' -- why",
    "SELECT CAST(o.id AS STRING) || 'it''s', -1.5e3, 3L, NULL FROM orders [ROWS 1] o\n"
    "WHERE NOT (o.name LIKE 'a%') AND TRUE",
    "SELECT r.rate FROM orders [ROWS 1] o, rates r WHERE r.day <= DATE '2026-01-01' + 3 AND o.ts < r.day\n"
    "GROUP BY 1 LIMIT 3",
    "SELECT o.name AS n, sum(o.total) / count(*) AS m, count(DISTINCT o.id) FROM orders [TUMBLE 5 MINUTES] o\n"
    "GROUP BY n, o.id % 2 HAVING m > 3 AND max(o.ts) < TIMESTAMP '2026-01-01 00:00:00'",
    "SELECT DISTINCT min(p.total), avg(o.total) FROM orders [RANGE 1 HOUR] o, payments [RANGE 1 HOUR] p\n"
    "WHERE o.id = p.id GROUP BY 3, o.name HAVING count(*) > 1",
)
PIECES = (
    "SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "NULL", "CASE", "WHEN", "THEN", "END",
    "JOIN", "LEFT JOIN", "CROSS JOIN", "ON", "USING", "AS", "[", "]", "[ROWS 3]", "[RANGE 1 SECOND]", "[UNBOUNDED]",
    "[TUMBLE 1 MINUTE]", "HAVING", "sum(", "min(DISTINCT", "window(", "FILTER (WHERE", "ROLLUP(", "GROUP BY 1",
    "(", ")", ",", ".", "*", "+", "-", "/", "%", "=", "<", "<=", "<>", "<=>", "||", "::", ":", ";", "?", "@", "#", "$",
    "'", '"', "`", "--", "/*", "*/", "\n", "\t", "\\", "\0", "é", "🙂", "1", "1.5", "1e999", "9" * 50, "X'0g'",
    "INTERVAL", "INTERVAL '1-2' YEAR TO MONTH", "DATE 'x'", "TIMESTAMP '2026'", "orders", "payments", "o.id", "p.id",
    "count(*)", "OVER ()", "GROUP BY", "ORDER BY", "LIMIT", "UNION", "WITH", "DISTINCT", "EXTRACT(YEAR FROM o.ts)",
    "lambda x -> x", "CAST(", "::INT", "{", "}", "EXISTS (SELECT 1)", "VALUES (1)", "SYMMETRIC", "DIV",
    "TABLESAMPLE (1 ROWS)",
)  # fmt: skip


def attempt(text: str) -> None:
    try:
        found = query(text, SCHEMAS, "ts")
    except QueryError as error:
        match = re.search(r" at line (\d+), column (\d+)(;|$)", str(error))
        assert match is not None, error
        lines = text.split("\n")
        assert 1 <= int(match.group(1)) <= len(lines)
        assert 1 <= int(match.group(2)) <= len(lines[int(match.group(1)) - 1]) + 1
    else:
        assert isinstance(found, Query)


def mutate(dice: random.Random, text: str) -> str:
    for _ in range(dice.randint(1, 4)):
        start = dice.randint(0, len(text))
        end = min(len(text), start + dice.choice([0, 0, 1, 5, 20]))
        second = dice.choice(TEXTS)
        cut = dice.randint(0, len(second))
        piece = dice.choice([dice.choice(PIECES), f" {dice.choice(PIECES)} ", second[cut : cut + 20], ""])
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.parametrize("seed", range(100))
def test_mutated_texts(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(20):
        attempt(mutate(dice, dice.choice(TEXTS)))


@pytest.mark.parametrize("seed", range(20))
def test_texts_of_pieces(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(20):
        pieces = " ".join(dice.choice(PIECES) for _ in range(dice.randint(1, 12)))
        attempt(dice.choice([pieces, f"SELECT {pieces} FROM orders [ROWS 1] o", f"{TEXTS[0]} AND {pieces}"]))


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text(text: str) -> None:
    attempt(text)


@pytest.mark.parametrize("text", TEXTS)
def test_every_beginning_of_a_text(text: str) -> None:
    for end in range(len(text)):
        attempt(text[:end])


def test_deep_nesting() -> None:
    attempt("SELECT o.id FROM orders [ROWS 1] o WHERE " + "(" * 5_000 + "TRUE" + ")" * 5_000)
    attempt("SELECT " + "-" * 1 + " - ".join(["o.id"] * 3_000) + " AS x FROM orders [ROWS 1] o")


def test_a_thousand_conjuncts() -> None:
    where = " AND ".join(f"o.id <> {number}" for number in range(1_000))
    found = query(f"SELECT o.id FROM orders [ROWS 1] o WHERE {where}", SCHEMAS, "ts")
    assert len(found.inputs[0].filters) == 1_000


def test_a_thousand_alternatives() -> None:
    where = " OR ".join(f"o.id = {number}" for number in range(1_000))
    found = query(f"SELECT o.id FROM orders [ROWS 1] o WHERE {where}", SCHEMAS, "ts")
    assert len(found.inputs[0].filters) == 1
