"""The tools themselves: shrinking keeps what fails, texts are readable, dressed tables hold the same rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from midstream.tables import as_table

from .carried import CARRIED
from .cases import make_case
from .compare import difference, multiset, rows_of
from .dress import dress_push
from .expr import Lit, compile_expr, cond, lit
from .report import describe
from .shrink import shrink
from .spec import Case, push_tables
from .sqltext import duration_text


def test_shrinking_keeps_what_fails() -> None:
    case = make_case(1, rows=60)
    wanted = {3, 17}

    def fails(candidate: Case) -> bool:
        return wanted <= {row.id for push in candidate.pushes for row in push.rows}

    small = shrink(case, fails, seconds=20)
    assert {row.id for push in small.pushes for row in push.rows} == wanted
    assert len(small.pushes) <= 2
    assert sum(len(source.table_rows) for source in small.sources.values()) == 0


def test_a_description_has_the_seed_the_query_and_the_pushes() -> None:
    case = make_case(5)
    text = describe(case, "plan x")
    assert "--seed 5" in text and case.text in text and "push 0" in text and "plan x" in text


def test_dressed_tables_hold_the_same_rows() -> None:
    rng = random.Random(7)
    for seed in range(40):
        case = make_case(seed)
        for push in case.pushes:
            plain = push_tables(case, push)
            for name, table in dress_push(case, push, rng).items():
                schema = case.pushed_schema(name)
                whole = as_table(table, schema)
                columns = [
                    whole.column(column).to_pylist()
                    if column == CARRIED
                    else whole.column(column).cast(schema.field(column).type)
                    for column in schema.names
                ]
                again = pa.table(columns, schema=schema)
                if name in plain:
                    assert rows_of(again) == rows_of(plain[name])
                else:
                    assert again.num_rows == 0


def test_differences_are_counted() -> None:
    expected, found = multiset([(1,), (1,), (2,)]), multiset([(1,), (3,)])
    text = difference(expected, found, ["x"])
    assert text is not None and "missing: 2" in text and "too much: 1" in text
    assert difference(expected, expected, ["x"]) is None


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0, "0 SECONDS"), (1, "1 MICROSECOND"), (90_000_000, "90 SECONDS"), (604_800_000_000, "1 WEEK")],
)
def test_durations(microseconds: int, text: str) -> None:
    assert duration_text(microseconds) == text


def test_logic_has_three_values() -> None:
    null, yes, no = Lit(None, pa.bool_()), lit(True), lit(False)
    table = {"and": {(yes, null): None, (no, null): False}, "or": {(yes, null): True, (no, null): None}}
    for name, rows in table.items():
        for (first, second), expected in rows.items():
            assert compile_expr(cond(name, first, second))([]) is expected
            assert compile_expr(cond(name, second, first))([]) is expected
    assert compile_expr(cond("not", null))([]) is None
    assert compile_expr(cond("in", lit(1), lit(2), Lit(None, pa.int32())))([]) is None
    assert compile_expr(cond("between", lit(0), lit(3), Lit(None, pa.int32())))([]) is False
