"""Plans against their query: where operators may stand, and what is refused by the name of a rule."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.errors import PlanError
from midstream.plan import read_plan
from midstream.plan.fitting import combination_of
from midstream.plan.rules import find_needed

ROW: dict[str, Any] = {"k": int, "x": int, "y": float, "tags": pa.list_(pa.string()), "ts": int}
JOINED = "FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS] WHERE a.k = b.k AND b.x = c.x"
SCHEMAS = dict.fromkeys("abcd", ROW)


def make_query(text: str) -> ms.Query:
    return ms.query(text, SCHEMAS, "ts", step="1 second")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("distinct((a b) c)", "((a b) c)"),
        ("distinct(distinct((a b) c))", "((a b) c)"),
        ("distinct(distinct(a b)) c", "(distinct(a b) c)"),
        ("distinct(distinct(a) (b c))", "(distinct(a) (b c))"),
        ("distinct(distinct(a) b) distinct(c)", "(distinct(distinct(a) b) distinct(c))"),
    ],
)
def test_distinct_stands_around_the_plan_or_below_joins(text: str, printed: str) -> None:
    query = make_query(f"SELECT DISTINCT a.x, c.k {JOINED}")
    plan = read_plan(text, query)
    assert str(plan) == printed
    assert read_plan(str(plan), query) == plan


def test_group_stands_around_the_plan_alone() -> None:
    query = make_query(f"SELECT DISTINCT count(*) AS n {JOINED} GROUP BY a.x")
    assert str(read_plan("distinct(group((a b) c))", query)) == "((a b) c)"
    assert str(read_plan("group((a b) c)", query)) == "((a b) c)"
    with pytest.raises(PlanError, match=r"^plan: group\(a b\): group stands around all joins of a branch; leave it"):
        read_plan("group(a b) c", query)
    with pytest.raises(PlanError, match=r"^plan: group\(\(a b\) c\): the query has no GROUP BY; leave it out here$"):
        read_plan("group((a b) c)", make_query(f"SELECT DISTINCT a.x {JOINED}"))


SUBTRACTED = "EXCEPT SELECT d.x FROM d [RANGE 1 SECOND]"


@pytest.mark.parametrize(
    ("text", "plan", "reason"),
    [
        (f"SELECT a.x {JOINED}", "(distinct(a) b) c", "the query is no SELECT DISTINCT"),
        (f"SELECT DISTINCT count(*) AS n {JOINED} GROUP BY a.x", "(distinct(a) b) c", "the query has groups"),
        (f"SELECT DISTINCT a.x {JOINED} {SUBTRACTED}", "((distinct(a) b) c) minus d", "the query has set operations"),
        (
            f"SELECT DISTINCT a.x {JOINED} AND (a.tags IS NULL OR b.k > 0)",
            "(distinct(a) b) c",
            r"distinct does not take 'a.tags', which is list<item: string>",
        ),
    ],
)
def test_where_equal_rows_count_distinct_below_a_join_is_refused(text: str, plan: str, reason: str) -> None:
    query = ms.query(text, SCHEMAS, "ts")
    with pytest.raises(PlanError, match=rf"distinct\(a\): distinct below a join: {reason}.*; leave distinct out$"):
        read_plan(plan, query)


def test_a_column_that_cannot_be_compared_may_be_used_up_below() -> None:
    query = ms.query(f"SELECT DISTINCT a.x {JOINED} AND (a.tags IS NULL OR b.k > 0)", SCHEMAS, "ts")
    assert str(read_plan("distinct(a b) c", query)) == "(distinct(a b) c)"


def test_what_is_needed_above_a_subtree() -> None:
    query = make_query(
        "SELECT DISTINCT a.x, c.k FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS] "
        "WHERE a.k = b.k AND b.x = c.x AND a.y + b.y > c.y AND a.x BETWEEN c.k - 1 AND c.k + 1"
    )
    needed = find_needed(query, frozenset({0, 1}))
    assert [(column.input, column.name) for column in needed.columns] == [(0, "x"), (0, "y"), (1, "y")]
    assert [(query.key_classes[number].inputs, told_by) for number, told_by in needed.classes] == [({1, 2}, 1)]
    assert [told_by for _, told_by in needed.bands] == [0]
    whole = find_needed(query, frozenset({0, 1, 2}))
    assert [(column.input, column.name) for column in whole.columns] == [(0, "x"), (2, "k")]
    assert whole.classes == whole.bands == ()


def minus(*operations: str) -> ms.Query:
    branches = [f"SELECT {name}.x FROM {name} [RANGE 9 SECONDS]" for name in "abcd"[: len(operations) + 1]]
    text = branches[0]
    for operation, branch in zip(operations, branches[1:], strict=True):
        text = f"({text}) {operation} {branch}"
    return make_query(text)


@pytest.mark.parametrize("operation", ["EXCEPT", "EXCEPT ALL"])
def test_differences_of_one_kind_may_be_reordered(operation: str) -> None:
    query = minus(operation, operation, operation)
    for text in ("((a minus d) minus b) minus c", "((a d) c) b", "((a b) c) d"):
        plan = read_plan(text, query)
        assert str(plan).replace("minus ", "") == f"({text})".replace("minus ", "")
        assert read_plan(str(plan), query) == plan
    combination = combination_of(read_plan("((a d) b) c", query), query)
    assert not isinstance(combination, int) and not isinstance(combination.left, int)
    assert (combination.right, combination.left.right) == (2, 1)


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        (("EXCEPT", "EXCEPT ALL"), "(a minus c) minus b"),
        (("EXCEPT ALL", "EXCEPT"), "(a minus c) minus b"),
        (("EXCEPT", "EXCEPT"), "(b minus a) minus c"),
        (("EXCEPT", "EXCEPT"), "a minus (b minus c)"),
        (("UNION", "UNION"), "(a union c) union b"),
        (("EXCEPT", "UNION", "EXCEPT"), "((a minus d) union c) minus b"),
    ],
)
def test_no_other_set_operations_may_be_reordered(operations: tuple[str, ...], text: str) -> None:
    with pytest.raises(PlanError, match="does not fit the set operations of the query"):
        read_plan(text, minus(*operations))
