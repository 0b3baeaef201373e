"""Filling level by level stores what the plain recursion stores."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.executors.tree import Tree
from midstream.engine.joins.filling import Filler
from midstream.engine.joins.level_filling import LevelFiller
from midstream.plan import parse_plan
from midstream.state.missing import Cause

from ..blocks import blocks
from .audit import Count, audit, executor_of, read_entries, windows_of
from .small import ALIASES, CASES, Small, draw_plan, draw_pushes, sorted_rows


def states_of(engine: ms.Engine) -> list[object]:
    """The live entries of every state, and how many rows of its driver may still lack some."""
    windows, watermark = windows_of(engine), engine._pipeline._horizon
    executor = executor_of(engine)
    holes = [state.holes for state in executor.state_stats()]
    nodes = [node for node in executor.joins() if node.state is not None]
    return [(read_entries(node, windows, watermark), left) for node, left in zip(nodes, holes, strict=True)]


@pytest.mark.parametrize("seed", blocks(2))
@pytest.mark.parametrize("small", CASES, ids=lambda small: small.name)
def test_both_ways_fill_the_same(small: Small, seed: int) -> None:
    rng = random.Random(f"both ways {small.name} {seed}")
    query = small.query()
    plain, levels = (ms.Engine(query) for _ in range(2))
    count, filled = Count(), 0
    for push in draw_pushes(rng, small, 40):
        if rng.random() < 0.3:
            plan = parse_plan(draw_plan(rng, small.size), ALIASES[: small.size])
            for engine in (plain, levels):
                new = Tree().make(query, plan, windows_of(engine))
                new.start(Cause("migration"), executor_of(engine).hand_over())
                engine._pipeline._lane.executor = new
            executor_of(plain).filler = Filler(windows_of(plain), executor_of(plain).prober)
        assert isinstance(executor_of(levels).filler, LevelFiller)
        assert sorted_rows(plain.push(push)) == sorted_rows(levels.push(push))
        assert states_of(plain) == states_of(levels)
        limit = rng.choice([0, 0, 0, 2, 5])
        for engine in (plain, levels):
            executor = executor_of(engine)
            for node in executor.joins():
                executor.filler.fill_some(node, limit, engine._pipeline._horizon)
        assert states_of(plain) == states_of(levels)
        audit(plain, small, count)
        filled += executor_of(plain).filler.rows_filled
    assert filled > 0 and count.holes > 0


SECOND = 1_000_000


@pytest.mark.parametrize("executor", ["tree", "stairs"])
@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.binary(3), [b"aaa", b"bbb", b"ccc", b"ddd"]),
        (pa.decimal256(38, 2), [Decimal(1), Decimal(2), Decimal(3), Decimal(4)]),
    ],
    ids=["binary", "decimal"],
)
@pytest.mark.parametrize("strategy", ["jisc", "moving-state"])
def test_a_fill_reads_no_row_that_has_left(
    executor: str, type: pa.DataType, values: list[object], strategy: str
) -> None:
    """An entry that is dead, and not collected yet, meets old rows that are filled in: its rows have no values."""
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "u": type})
    inputs = ", ".join(f"{alias} [RANGE 10 SECONDS]" for alias in "abcd")
    text = f"SELECT a.ts AS t FROM {inputs} WHERE a.k = b.k AND a.k = c.k AND a.k = d.k AND a.u <> b.u"
    query = ms.query(text, dict.fromkeys("abcd", schema), "ts")
    engine = ms.Engine(query, plan="((a c) d) b", demand="off", executor=executor)
    value_of = dict(zip("abcd", values, strict=True))

    def rows(alias: str, *seconds: int) -> dict[str, pa.Table]:
        columns = [[at * SECOND for at in seconds], [7] * len(seconds), [value_of[alias]] * len(seconds)]
        return {alias: pa.table(columns, schema=schema)}

    for batch in (rows("a", 5, 5, 5, 50), rows("c", 50, 50, 50, 50), rows("c", 5), rows("b", 50), rows("b", 5)):
        engine.push(batch, watermark=0)
    engine.push({}, watermark=20 * SECOND)  # rows of a have left; what was joined with them stands behind what lives
    engine.migrate("((a c) b) d", strategy)
    assert engine.push(rows("d", 55), watermark=20 * SECOND).num_rows == 4
