"""Plan text: golden pairs, golden messages, and round trips over random trees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.errors import PlanError
from midstream.plan import Join, Leaf, Node, OperatorNode, Plan, draw, outline, parse_plan
from midstream.plan.nodes import children_of
from tests.plan.golden_cases import golden_cases

PLANS = golden_cases("plans.txt")
ERRORS = golden_cases("errors.txt")


def numbers(node: Node) -> str:
    if isinstance(node, Leaf):
        return str(node.input)
    below = " ".join(numbers(child) for child in children_of(node))
    if isinstance(node, OperatorNode):
        return node.word + (f"({below})" if isinstance(node.below, Leaf) else below)
    return f"({below})"


@pytest.mark.parametrize("title", PLANS)
def test_golden_plans(title: str) -> None:
    case = PLANS[title]
    plan = parse_plan(case["text"], case["inputs"].split())
    assert str(plan) == case["plan"]
    assert numbers(plan.root) == case["tree"]
    assert draw(plan) == case["picture"]


@pytest.mark.parametrize("title", ERRORS)
def test_golden_errors(title: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(ERRORS[title]["text"], ["R", "S", "T"])
    assert str(caught.value) == ERRORS[title]["error"]


def test_a_text_of_several_lines_is_pointed_at_by_line() -> None:
    with pytest.raises(PlanError, match=r"^plan: unknown input 'X' at line 2, column 4; inputs: R, S$"):
        parse_plan("(R\n   X)", ["R", "S"])


def test_deep_nonsense_is_an_error_of_the_plan_not_of_the_stack() -> None:
    with pytest.raises(PlanError, match="is not closed"):
        parse_plan("(" * 100_000, ["R"])
    assert str(parse_plan("(" * 100_000 + "R" + ")" * 100_000, ["R"])) == "R"


plain = st.text("abcxyz_0123456789-.é", min_size=1, max_size=6)
odd = st.text('ab ()"`,\n\t⋈', min_size=0, max_size=5)


@st.composite
def plans(draw_from: st.DrawFn) -> Plan:
    aliases = draw_from(st.lists(plain | odd, min_size=1, max_size=9, unique_by=str.lower))
    nodes: list[Node] = [Leaf(number) for number in draw_from(st.permutations(range(len(aliases))))]
    while len(nodes) > 1:
        at = draw_from(st.integers(0, len(nodes) - 2))
        if draw_from(st.integers(0, 4)) == 0:
            nodes[at] = OperatorNode("distinct", nodes[at])
        nodes[at : at + 2] = [Join(nodes[at], nodes[at + 1])]
    return Plan(tuple(aliases), nodes[0])


@given(plans())
def test_what_is_printed_is_read_back(plan: Plan) -> None:
    assert parse_plan(str(plan), plan.aliases) == plan


@given(plans())
def test_outer_parentheses_and_case_do_not_matter(plan: Plan) -> None:
    text = str(plan)
    if isinstance(plan.root, Join):
        assert parse_plan(text[1:-1], plan.aliases) == plan
    assert parse_plan(f"({text})", plan.aliases) == plan
    if text.upper().lower() == text.lower():
        assert parse_plan(text.upper(), plan.aliases) == plan


@given(st.text('RSX()"`, \n', max_size=12))
def test_any_text_gives_a_plan_or_a_plan_error(text: str) -> None:
    try:
        plan = parse_plan(text, ["R", "S"])
    except PlanError as error:
        assert str(error).startswith("plan: ")
    else:
        assert str(plan) in ("(R S)", "(S R)")


@given(plans())
def test_every_plan_can_be_drawn(plan: Plan) -> None:
    for picture in (draw(plan, lambda node: f"{len(node.inputs)}\nrows"), outline(plan, lambda node: "")):
        assert picture.count("⋈") >= len(list(plan.joins()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a union (b c)", "(a union (b c))"),
        ("(a MINUS b) Intersect c", "((a minus b) intersect c)"),
    ],
)
def test_set_operations(text: str, expected: str) -> None:
    plan = parse_plan(text, "abc")
    assert str(plan) == expected
    assert parse_plan(str(plan), "abc") == plan


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("union a b", "'union' at column 1 stands between two parts, as in (a union b)"),
        ("a b union", "'union' at column 5 stands between two parts, as in (a union b)"),
        ("a union minus b", "'union' at column 3 stands between two parts, as in (a union b)"),
        ("a union b union c", "'union' at column 3 stands between two parts, as in (a union b)"),
        ("(minus) a", "'minus' at column 2 stands between two parts, as in (a minus b)"),
        ("a distinct", "'distinct' at column 3 stands before parentheses: distinct(a b)"),
        ("distinct distinct(a) b", "'distinct' at column 1 stands before parentheses: distinct(a b)"),
        (
            "a group",
            "'group' at column 3 stands before parentheses: group(a b); the input of that name is written \"group\"",
        ),
    ],
)
def test_misplaced_operators(text: str, what: str) -> None:
    with pytest.raises(PlanError) as problem:
        parse_plan(text, ["a", "b", "c", "group"])
    assert str(problem.value) == f"plan: {what}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("distinct(a) (b c)", "(distinct(a) (b c))"),
        ("DISTINCT (a b) c", "(distinct(a b) c)"),
        ("distinct((a b)) c", "(distinct(a b) c)"),
        ("group(distinct(distinct(a) b) c)", "group(distinct(distinct(a) b) c)"),
        ("(distinct(a)) (distinct(c) b)", "(distinct(a) (distinct(c) b))"),
        ("distinct(a b) minus c", "(distinct(a b) minus c)"),
    ],
)
def test_operators_before_parentheses(text: str, expected: str) -> None:
    plan = parse_plan(text, "abc")
    assert str(plan) == expected
    assert parse_plan(str(plan), "abc") == plan


def test_what_stands_in_the_parentheses_of_an_operator_is_checked() -> None:
    with pytest.raises(PlanError, match=r"nothing between the parentheses at column 1"):
        parse_plan("distinct() (a b)", "ab")
    with pytest.raises(PlanError, match=r"3 parts side by side at column 10"):
        parse_plan("distinct(a b c)", "abc")


@pytest.mark.parametrize("word", ["union", "Minus", "INTERSECT", "distinct", "Group"])
def test_an_alias_that_is_an_operator_is_quoted(word: str) -> None:
    plan = parse_plan(f'"{word}" b', [word, "b"])
    assert str(plan) == f'("{word}" b)'
    assert parse_plan(str(plan), [word, "b"]) == plan


def test_without_set_operations_their_words_are_names_like_others() -> None:
    """As in plans that were stored before there were set operations."""
    aliases = ["union", "x", "group"]
    plan = parse_plan("((x union) group)", aliases, has_sets=False)
    assert str(plan) == '((x "union") "group")'
    assert parse_plan(str(plan), aliases) == plan
    assert str(parse_plan("(group (x union))", aliases, has_sets=False)) == '("group" (x "union"))'
    assert str(parse_plan("distinct(group (x union))", aliases, has_sets=False)) == 'distinct("group" (x "union"))'
    with pytest.raises(PlanError, match="'minus' at column 4: the query has no set operation; leave it out"):
        parse_plan("(a minus b)", ["a", "b"], has_sets=False)
