"""`make_case(seed)`: a random query, its input and plans for it, the same every time."""

from __future__ import annotations

import random
from typing import NamedTuple

import pyarrow as pa

from ..oracle.accept import Acceptance, accept
from ..oracle.compare import Rows
from ..oracle.plans import Tree, draw_tree, text_of
from ..oracle.spec import Case
from .canonical import TooManyRows, expect_rows
from .feed import draw_feed
from .queries import Draft, draw_query
from .sets import draw_plans, draw_sets
from .snapshots import find_history
from .spec import TemporalCase

#: Mostly few rows; enough now and then for long histories of one group.
ROWS = (6, 12, 20, 30, 45) * 5 + (200,)
FEW_ROWS = (4, 7, 10)
FEWEST_RESULTS, MOST_RESULTS = 4, 2_000
ATTEMPTS = 4


class Expected(NamedTuple):
    """What is accepted, and what comes out of each push and of `finish` at last."""

    acceptance: Acceptance
    rows: list[Rows]


def make_case(seed: int, kind: str | None = None, scale: int | None = None) -> TemporalCase:
    """The case of a seed. `kind` is what stands above the join; with `scale` 1 all times are small integers."""
    for attempt in range(ATTEMPTS):
        case = _attempt(seed, attempt, kind, scale)
        if FEWEST_RESULTS <= _count_results(case) <= MOST_RESULTS:
            break
    return case


def _count_results(case: TemporalCase) -> int:
    try:
        return sum(sum(rows.values()) for rows in expect(case).rows)
    except TooManyRows:
        return 2 * MOST_RESULTS


def _attempt(seed: int, attempt: int, kind: str | None, scale: int | None) -> TemporalCase:
    rng = random.Random(f"temporal {seed} {attempt}")
    draft = draw_query(rng, kind, scale)
    if draft.kind == "sets":
        draw_sets(draft)
    shape = "".join([f" --kind {kind!r}" if kind else "", f" --scale {scale}" if scale else ""])
    case = _describe(seed, draft, draw_plans(draft) if draft.branches else _draw_plans(draft), shape)
    return case.with_join(draw_feed(draft, case.join, rng.choice(FEW_ROWS if scale else ROWS)))


def _describe(seed: int, draft: Draft, plans: tuple[str, ...], shape: str) -> TemporalCase:
    """A case without rows."""
    time_type = draft.time_type
    empty = Case(
        seed=seed,
        kind=draft.kind,
        text=draft.text,
        sources=draft.sources,
        inputs=tuple(draft.inputs),
        predicates=tuple(draft.predicates),
        outputs=tuple(draft.outputs),
        pushes=(),
        plans=plans,
        zone=getattr(time_type, "tz", None),
        time_is_int=time_type == pa.int64(),
        free=False,
        shape=shape,
    )
    branches = tuple(_describe(seed, branch, (), shape) for branch in draft.branches)
    return TemporalCase(
        empty,
        draft.step,
        draft.gives_step,
        draft.is_distinct,
        draft.grouping,
        draft.unit,
        branches,
        0 if draft.combination is None else draft.combination,
    )


def _draw_plans(draft: Draft) -> tuple[str, ...]:
    aliases = [relation.alias for relation in draft.inputs]
    trees = [draw_tree(draft.rng, len(aliases), shape) for shape in ("left", "right", "bushy")]
    plain = [text_of(tree, aliases) for tree in trees]
    with_operators = [_with_operators(draft, tree, aliases) for tree in trees]
    return tuple(dict.fromkeys([*plain, *with_operators]))


def _with_operators(draft: Draft, tree: Tree, aliases: list[str]) -> str:
    """A plan with the operators of the query written around it, and, for DISTINCT, perhaps below joins too."""
    rng = draft.rng
    share = rng.choice([0.2, 0.4, 0.7]) if draft.kind == "distinct" else 0.0
    texts = [f"{word}({{}})" for word in draft.kind.split() if word in ("distinct", "group")]

    def write(node: Tree, is_root: bool) -> str:
        text = aliases[node] if isinstance(node, int) else f"({write(node[0], False)} {write(node[1], False)})"
        return f"distinct({text})" if not is_root and rng.random() < share else text

    text = write(tree, True)
    for around in reversed(texts) if rng.random() < 0.3 else ():
        text = around.format(text)
    return text


def expect(case: TemporalCase) -> Expected:
    acceptance = accept(case.join)
    history = find_history(case, acceptance)
    return Expected(acceptance, expect_rows(history, case.step, acceptance.watermarks[1:], case.join.time_type))
