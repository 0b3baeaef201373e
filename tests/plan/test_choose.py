"""The default plan: golden pairs of a query and its plan."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from midstream.cql.model import Query
from midstream.cql.parse import query as parse_query
from midstream.plan import Leaf, Plan, default_plan
from tests.plan.golden_cases import golden_cases

CHOICES = golden_cases("choices.txt")
COLUMNS = pa.schema({name: pa.int64() for name in ("ts", "k", "x", "y")})


def query_of(case: dict[str, str]) -> Query:
    names = re.findall(r"(?:^|, |CROSS JOIN )(\w+)", case["from"])
    text = f"SELECT {names[0]}.k AS k FROM {case['from']} WHERE {case['where']}"
    return parse_query(text, dict.fromkeys(names, COLUMNS), "ts")


@pytest.mark.parametrize("title", CHOICES)
def test_golden_choices(title: str) -> None:
    assert str(default_plan(query_of(CHOICES[title]))) == CHOICES[title]["plan"]


@pytest.mark.parametrize("title", CHOICES)
def test_without_cross_products_a_plan_is_left_deep(title: str) -> None:
    plan: Plan = default_plan(query_of(CHOICES[title]))
    if "cross product" not in title:
        assert all(isinstance(join.right, Leaf) for join in plan.joins())
