"""The invariant of partial states, looked at from inside: entries and boxes are exactly the join, and do not overlap.

Only for queries with nothing but equalities, whose key codes stand in the base windows.
"""

from __future__ import annotations

import itertools

import numpy as np

import midstream as ms
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.joins.nodes import JoinNode
from midstream.kernels.boxes import MISSING
from midstream.migrate.strategies.jisc import Filling
from midstream.state import rings
from midstream.state.missing import Box
from midstream.state.window import BaseWindow

Rows = tuple[int, ...]


def audit(engine: ms.Engine) -> int:
    """Check every join state of a plan that runs alone; how many combinations are missing."""
    pipeline = engine._pipeline
    executor = pipeline.executor
    executor = executor.executor if isinstance(executor, Filling) else executor
    assert isinstance(executor, TreeExecutor)
    missing = 0
    for node in executor.joins():
        if node.state is not None:
            missing += _audit_state(engine, node, pipeline._windows, pipeline._horizon)
    return missing


def _audit_state(engine: ms.Engine, node: JoinNode, windows: list[BaseWindow], watermark: int) -> int:
    assert node.state is not None
    wanted = join_naively(engine, node.inputs, windows, watermark)
    entries = node.state.entries(node.inputs)
    heads = np.array([windows[number].head for number in node.inputs])
    is_live = (entries.ends >= watermark) & (entries.rows >= heads).all(axis=1)
    stored = [tuple(map(int, rows)) for rows in entries.rows[is_live]]
    name = " ".join(engine.plan.aliases[number] for number in node.inputs)
    assert len(set(stored)) == len(stored), f"({name}) has entries twice"
    missing = {rows for rows in wanted if any(_has(box, node.inputs, rows) for box in node.state.missing)}
    assert not missing & set(stored), f"({name}): both stored and missing: {sorted(missing & set(stored))[:5]}"
    assert missing | set(stored) == wanted, f"({name}): lost {sorted(wanted - missing - set(stored))[:5]}"
    return len(missing)


def _has(box: Box, inputs: tuple[int, ...], rows: Rows) -> bool:
    """Whether a combination is in the box: each of its rows is below the mark and has not been filled."""
    assert box.inputs == inputs, "the box has its columns in another order than the state"
    for number, row in zip(inputs, rows, strict=True):
        record = box._records.get(number)
        if row >= box.marks[number]:
            return False
        if record is not None and (row < record.base or record.states_of(np.array([row]))[0] != MISSING):
            return False
    return True


def join_naively(engine: ms.Engine, inputs: tuple[int, ...], windows: list[BaseWindow], watermark: int) -> set[Rows]:
    """All live combinations of the rows that the windows hold, by brute force."""
    found: dict[Rows, tuple[int, int]] = {(): (-(2**63), 2**63 - 1)}
    for place, number in enumerate(inputs):
        window = windows[number]
        ids = range(window.head, window.tail)
        starts, ends = (rings.read(ring, window.head, window.tail) for ring in (window.starts, window.ends))
        longer: dict[Rows, tuple[int, int]] = {}
        for (rows, (start, end)), (row, low, high) in itertools.product(
            found.items(), zip(ids, starts, ends, strict=True)
        ):
            first, last = max(start, int(low)), min(end, int(high))
            if first <= last and last >= watermark and _agree(engine, inputs[: place + 1], (*rows, row), windows):
                longer[(*rows, row)] = (first, last)
        found = longer
    return set(found)


def _agree(engine: ms.Engine, inputs: tuple[int, ...], rows: Rows, windows: list[BaseWindow]) -> bool:
    """Whether the last row has the keys of those before it."""
    number, window = inputs[-1], windows[inputs[-1]]
    for key_class, codes in window.codes.items():
        for other, row in zip(inputs[:-1], rows[:-1], strict=True):
            if other != number and key_class in windows[other].codes:
                theirs = windows[other].codes[key_class]
                if codes[rows[-1] & (len(codes) - 1)] != theirs[row & (len(theirs) - 1)]:
                    return False
    return True
