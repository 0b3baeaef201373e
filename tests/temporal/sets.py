"""Random set operations: branches that read the same sources, and how they are combined.

The sources of a case have columns of the same types and draw from the same values, so that rows of branches are equal
now and then.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from ..oracle.expr import Col, Expr, arith, lit
from ..oracle.plans import draw_tree, text_of
from ..oracle.spec import Input, Output, Source, Window
from ..oracle.sqltext import cql
from .canonical import Snapshot
from .queries import SOURCES, Draft, draw_predicates, draw_step, draw_window, write, write_grouped
from .spec import Aggregate, Combination, Grouping, SetOperation, aggregate_column, key_column
from .values import ANY, JOINED, NUMERIC, draw_pool

OPERATIONS = ("UNION", "EXCEPT", "INTERSECT", "UNION ALL", "EXCEPT ALL", "INTERSECT ALL")
PLAN_WORDS = {"UNION": "union", "EXCEPT": "minus", "INTERSECT": "intersect"}
BRANCH_KINDS = ("plain", "plain", "plain", "distinct", "group", "distinct group")
COLUMNS = "jjnnqy"


def combine(combination: Combination, snapshots: Sequence[Snapshot]) -> Snapshot:
    """The result of set operations over the snapshots of their branches."""
    if isinstance(combination, int):
        return snapshots[combination]
    left, right = combine(combination.left, snapshots), combine(combination.right, snapshots)
    if combination.name == "UNION ALL":
        return left + right
    if combination.name == "EXCEPT ALL":
        return left - right
    if combination.name == "INTERSECT ALL":
        return left & right
    if combination.name == "UNION":
        return collections.Counter(set(left) | set(right))
    if combination.name == "EXCEPT":
        return collections.Counter(set(left) - set(right))
    return collections.Counter(set(left) & set(right))


def draw_sets(draft: Draft) -> None:
    """Branches, their combination, and with them the inputs, the step, the outputs and the text of a draft."""
    rng = draft.rng
    count = rng.choice([2, 2, 2, 3, 3, 4])
    draft.combination = _draw_combination(rng, 0, count)
    static = _draw_sources(draft)
    wanted = [rng.choice(COLUMNS) for _ in range(rng.choice([1, 1, 2]))]
    inner = _on_the_right(draft.combination)
    for number in range(count):
        branch = Draft(rng, rng.choice(BRANCH_KINDS), draft.unit, draft.resolution, draft.time_type)
        branch.sources, branch.pools = draft.sources, draft.pools
        _draw_inputs(branch, len(draft.inputs), static, number in inner)
        draft.inputs += branch.inputs
        draft.branches.append(branch)
    draft.sources = {name: draft.sources[name] for name in dict.fromkeys(entry.source for entry in draft.inputs)}
    if not _has_steps(draft):
        draft.combination = SetOperation("UNION", draft.combination.left, draft.combination.right)
    draw_step(draft)
    for number, branch in enumerate(draft.branches):
        draw_predicates(branch)
        if "group" in branch.kind:
            _draw_groups(branch, wanted, number)
        else:
            _draw_rows(branch, wanted, number)
    draft.inputs = [relation for branch in draft.branches for relation in branch.inputs]  # which have filters now
    draft.outputs = [
        Output(
            output.name, Col(0, output.name, _widest([branch.outputs[place].expr.type for branch in draft.branches]))
        )
        for place, output in enumerate(draft.branches[0].outputs)
    ]
    draft.text = _write(draft.combination, draft.branches, rng)


def draw_plans(draft: Draft) -> tuple[str, ...]:
    """Plans of the branches below the set operations; now and then these are left out."""
    return tuple(dict.fromkeys(_draw_plan(draft, shape) for shape in ("left", "right", "bushy")))


def _draw_plan(draft: Draft, shape: str) -> str:
    assert draft.combination is not None
    texts = []
    for branch in draft.branches:
        aliases = [relation.alias for relation in branch.inputs]
        texts.append(text_of(draw_tree(draft.rng, len(aliases), shape), aliases))
    has_words = draft.rng.random() < 0.7

    def text(combination: Combination) -> str:
        if isinstance(combination, int):
            return texts[combination]
        if combination.name.startswith("EXCEPT") and draft.rng.random() < 0.5:
            combination = _reorder(draft.rng, combination)
        word = f"{PLAN_WORDS[combination.name.split()[0]]} " if has_words else ""
        return f"({text(combination.left)} {word}{text(combination.right)})"

    return text(draft.combination)


def _reorder(rng: random.Random, difference: SetOperation) -> SetOperation:
    """What is subtracted one after the other by the same operation, in any order."""
    subtracted = [difference.right]
    base = difference.left
    while isinstance(base, SetOperation) and base.name == difference.name:
        subtracted.append(base.right)
        base = base.left
    rng.shuffle(subtracted)
    for side in subtracted:
        base = SetOperation(difference.name, base, side)
    assert isinstance(base, SetOperation)
    return base


def _draw_combination(rng: random.Random, first: int, count: int) -> SetOperation:
    cut = rng.randint(1, count - 1)
    left: Combination = first if cut == 1 else _draw_combination(rng, first, cut)
    rest = count - cut
    right: Combination = first + cut if rest == 1 else _draw_combination(rng, first + cut, rest)
    return SetOperation(rng.choice(OPERATIONS), left, right)


def _has_steps(draft: Draft) -> bool:
    """Whether anything but UNION ALL of plain joins needs them."""
    assert draft.combination is not None
    tumbles = any(relation.window.kind == "tumble" for relation in draft.inputs)
    plain = all(branch.kind == "plain" for branch in draft.branches)
    return tumbles or not plain or any(name != "UNION ALL" for name in _names_in(draft.combination))


def _names_in(combination: Combination) -> list[str]:
    if isinstance(combination, int):
        return []
    return [combination.name, *_names_in(combination.left), *_names_in(combination.right)]


def _on_the_right(combination: Combination, is_right: bool = False) -> set[int]:
    """The branches that may read static tables alone."""
    if isinstance(combination, int):
        return {combination} if is_right else set()
    excludes = not combination.name.startswith("UNION")
    return _on_the_right(combination.left, is_right) | _on_the_right(combination.right, is_right or excludes)


def _draw_sources(draft: Draft) -> str | None:
    """Sources of the same columns; the name of the static table among them, if there is one."""
    rng = draft.rng
    names = rng.sample(SOURCES, rng.choice([1, 2, 2, 3]))
    static = names[-1] if len(names) > 1 and rng.random() < 0.4 else None
    fields = [pa.field("j", rng.choice(JOINED)), pa.field("n", pa.int32())]
    fields += [pa.field("q", rng.choice(NUMERIC)), pa.field("y", rng.choice(ANY))]
    pools = {column.name: draw_pool(rng, column.type, 3) for column in fields}
    pools["n"] = [0, 1, 2]
    for name in names:
        own = list(fields) if name == static else [*fields, pa.field("ts", draft.time_type)]
        rng.shuffle(own)
        draft.sources[name] = Source(name, pa.schema(own), None if name == static else "ts")
        draft.pools.update({(name, column): pool for column, pool in pools.items()})
    return static


def _draw_inputs(branch: Draft, first: int, static: str | None, may_be_static: bool) -> None:
    rng = branch.rng
    streams = [name for name in branch.sources if name != static]
    names = [rng.choice(streams), *rng.choices(list(branch.sources), k=rng.choice([0, 0, 1, 1, 2]))]
    if static is not None and may_be_static and rng.random() < 0.4:
        names = [static] * rng.choice([1, 1, 2])
    kinds = rng.choice([["range"], ["range"], ["tumble"], ["range", "tumble"], ["range", "unbounded"]])
    for number, name in enumerate(names):
        window = Window("static") if name == static else draw_window(branch, rng.choice(kinds))
        branch.inputs.append(Input("abcdefghijkl"[first + number], name, window))


def _draw_rows(branch: Draft, wanted: Sequence[str], number: int) -> None:
    for place, column in enumerate(wanted):
        expr: Expr = branch.draw_column(column)
        if column == "n" and branch.rng.random() < 0.3:
            expr = branch.rng.choice([arith("mod", expr, lit(2)), arith("add", expr, branch.draw_column("n")), lit(1)])
        branch.outputs.append(Output(_name(number, place), expr))
    texts = [f"{cql(output.expr, branch.name_column)} AS {output.name}" for output in branch.outputs]
    branch.text = write(branch, texts, "")


def _draw_groups(branch: Draft, wanted: Sequence[str], number: int) -> None:
    rng = branch.rng
    shown: list[Expr | Aggregate] = [_draw_shown(branch, column) for column in wanted]
    drawn = [expr for expr in shown if not isinstance(expr, Aggregate)]
    if rng.random() < 0.3 or not any(isinstance(expr, Aggregate) for expr in shown):
        drawn.append(branch.draw_column("n"))
    keys = tuple(dict.fromkeys(drawn))
    found = tuple(dict.fromkeys(expr for expr in shown if isinstance(expr, Aggregate)))
    for place, expr in enumerate(shown):
        is_key = not isinstance(expr, Aggregate)
        column = key_column(keys.index(expr), expr) if is_key else aggregate_column(found.index(expr), expr)
        branch.outputs.append(Output(_name(number, place), column))
    branch.grouping = Grouping(keys, found)
    write_grouped(branch, branch.grouping)


def _draw_shown(branch: Draft, column: str) -> Expr | Aggregate:
    """A key or an aggregate of a column's type; of signed integers also a count, which is as wide."""
    rng, expr = branch.rng, branch.draw_column(column)
    if rng.random() < 0.5:
        return expr
    if types.is_signed_integer(expr.type) and rng.random() < 0.6:
        return Aggregate("count", None, pa.int64())
    return Aggregate(rng.choice(["min", "max"]), expr, expr.type)


def _name(branch: int, place: int) -> str:
    return f"out{place}" if branch == 0 else f"other{branch}{place}"


def _widest(found: Sequence[pa.DataType]) -> pa.DataType:
    return pa.int64() if pa.int64() in found else found[0]


def _write(combination: Combination, branches: Sequence[Draft], rng: random.Random) -> str:
    """The text, with parentheses where they are needed, and elsewhere now and then."""
    if isinstance(combination, int):
        text = branches[combination].text
        return f"({text})" if rng.random() < 0.1 else text
    binds = combination.name.startswith("INTERSECT")
    sides = []
    for side, is_right in ((combination.left, False), (combination.right, True)):
        text = _write(side, branches, rng)
        if isinstance(side, SetOperation):
            side_binds = side.name.startswith("INTERSECT")
            is_needed = (binds and not side_binds) or (is_right and binds == side_binds)
            text = f"({text})" if is_needed or rng.random() < 0.1 else text
        sides.append(text)
    return f"{sides[0]}\n{combination.name}\n{sides[1]}"
