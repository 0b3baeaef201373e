"""What is written counts or is refused: sqlglot drops some of it, or hangs it where nobody looks."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql.describe import expression_text
from midstream.cql.model import Expr, Literal
from midstream.errors import QueryError

SCHEMAS: dict[str, dict[str, Any]] = {
    "orders": {"id": int, "total": float, "name": str, "ts": pa.timestamp("us")},
    "payments": {"id": int, "total": float, "name": str, "ts": pa.timestamp("us")},
}
TABLES = {"rates": {"name": str, "rate": float}}
ORDERS = "SELECT o.id FROM orders [RANGE 1 MINUTE] o"
PAYMENTS = "SELECT p.id FROM payments [RANGE 1 MINUTE] p"


def read(text: str) -> ms.Query:
    return ms.query(text, SCHEMAS | TABLES, "ts")


def read_expression(text: str) -> Expr:
    return read(f"SELECT {text} AS x FROM orders [ROWS 1] o").outputs[0].expr


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        ("WHERE id > 3", "WHERE"),
        ("GROUP BY id", "GROUP BY"),
        ("HAVING id > 3", "HAVING"),
        ("JOIN rates r ON TRUE", "a further table"),
        (", rates r", "a further table"),
    ],
)
@pytest.mark.parametrize("head", [f"({ORDERS})", f"(({ORDERS}))", f"{ORDERS} UNION ALL ({PAYMENTS})"])
def test_clauses_after_parentheses(head: str, tail: str, told: str) -> None:
    assert read(head)
    with pytest.raises(QueryError, match=f"{told} after a SELECT in parentheses is not supported at line 1, column"):
        read(f"{head} {tail}")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (".5 hours", timedelta(minutes=30)),
        ("-.5 hours", timedelta(minutes=-30)),
        ("- 5 minutes", timedelta(minutes=-5)),
        ("1 hour 5 minutes", timedelta(minutes=65)),
        ("90 s", timedelta(seconds=90)),
        ("10,000 seconds", None),
        ("1 000 seconds", None),
        ("1,5 hours", None),
        ("5 minutes ago", None),
    ],
)
def test_the_whole_text_of_an_interval(text: str, length: timedelta | None) -> None:
    if length is None:
        with pytest.raises(QueryError, match=rf"'{re.escape(text)}' is not a duration at line 1"):
            read_expression(f"INTERVAL '{text}'")
        return
    assert read_expression(f"INTERVAL '{text}'") == Literal(length, pa.duration("us"))


@pytest.mark.parametrize("written", ["INTERVAL '90' SECONDS", "INTERVAL 90 SECONDS", "INTERVAL '1.5' MINUTES"])
def test_an_amount_and_its_unit_apart(written: str) -> None:
    assert read_expression(written) == Literal(timedelta(seconds=90), pa.duration("us"))


@pytest.mark.parametrize(
    "type",
    [
        "TIMESTAMP(3)",
        "FLOAT(53)",
        "INT(3)",
        "DECIMAL(p)",
        "DECIMAL(2.5)",
        "DECIMAL(²)",
        "DECIMAL(10, 2, 3)",
        "DECIMAL(0)",
        "DECIMAL(39)",
        "STRING COLLATE UTF8_LCASE",
    ],
)
def test_what_a_type_says_beyond_its_name(type: str) -> None:
    with pytest.raises(QueryError):
        read_expression(f"CAST(o.name AS {type})")


@pytest.mark.parametrize(
    ("type", "found"),
    [
        ("DECIMAL", pa.decimal128(10, 0)),
        ("DECIMAL(12)", pa.decimal128(12, 0)),
        ("DECIMAL(12, 2)", pa.decimal128(12, 2)),
        ("VARCHAR(10)", pa.string()),
        ("TIMESTAMP", pa.timestamp("us")),
    ],
)
def test_sizes_that_types_have(type: str, found: pa.DataType) -> None:
    assert read_expression(f"CAST(o.name AS {type})").type == found


@pytest.mark.parametrize(
    "text", ["TIMESTAMP '1970-01-01 00:00:05'::BIGINT", "DATE '2026-01-31'::STRING", "DATE '2026-01-31'::STRING::INT"]
)
def test_a_cast_after_a_typed_literal(text: str) -> None:
    """sqlglot casts the text first, and makes a time of what comes out."""
    with pytest.raises(QueryError, match=r"is not supported at line 1, column 8; write CAST\(... AS type\)"):
        read_expression(text)
    literal, _, type = text.partition("::")
    assert read_expression(f"CAST({literal} AS {type.partition('::')[0]})")
    assert read_expression("CAST('5'::INT AS BIGINT)::STRING").type == pa.string()


def test_seconds_have_a_fraction_in_spark() -> None:
    with pytest.raises(QueryError, match=r"has a fraction in Spark, is not supported .*write second\(...\)"):
        read_expression("EXTRACT(SECOND FROM o.ts)")
    assert read_expression("EXTRACT(MINUTE FROM o.ts)").type == read_expression("second(o.ts)").type


@pytest.mark.parametrize("pipe", ["WHERE total > 10", "DISTINCT", "JOIN rates r ON o.name = r.name"])
def test_pipes(pipe: str) -> None:
    with pytest.raises(QueryError, match=r"'\|>' is not supported at line 1, column"):
        read(f"SELECT o.id AS total, o.total AS id FROM orders [ROWS 5] o |> {pipe}")


def test_concatenation_beside_sums() -> None:
    """In Spark both bind alike, from left to right; to sqlglot a sum binds more strongly."""
    for text in ("o.name || o.id + 1", "o.name || o.id - 1"):
        with pytest.raises(QueryError, match=r"may mean two things.*write parentheses"):
            read_expression(text)
    for text in ("o.name || (o.id + 1)", "o.id + 1 || o.name", "o.name || '-' || o.id"):
        assert read_expression(text).type == pa.string()


def test_a_position_is_a_plain_number() -> None:
    with pytest.raises(QueryError):
        read("SELECT o.id, count(*) FROM orders [TUMBLE 1 MINUTE] o GROUP BY ²")


def test_a_float_literal_is_the_float_that_is_compared() -> None:
    """0.1F is a little more than 0.1: a band with the double as its bound would lose what lies between."""
    schema = pa.schema({"x": pa.float64(), "ts": pa.int64()})
    for condition in ("abs(a.x - b.x) <= 0.1F", "a.x <= b.x + 0.1F", "a.x - b.x BETWEEN -0.1F AND 0.1F"):
        text = f"SELECT a.x AS v FROM a [ROWS 9], b [ROWS 9] WHERE {condition}"
        engine = ms.Engine(ms.query(text, dict.fromkeys("ab", schema), "ts"))
        rows = {"a": [{"x": 0.1000000012, "ts": 1}], "b": [{"x": 0.0, "ts": 1}]}
        assert engine.push(rows).num_rows == 1, condition
    with pytest.raises(QueryError, match="'1e39F' is out of range"):
        read_expression("1e39F")
    assert expression_text(read_expression("0.1F")) == "0.1"
