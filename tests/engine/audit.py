"""Invariant I of partial states, checked from outside.

At a batch boundary the live entries of a join state and the union of its boxes partition Join(Q), the live
combinations of its inputs: none is stored twice, none is both stored and in a box, none is missing. Join(Q) is computed
here from the rows of the base windows by nested loops, the boxes from their definition.

With suspension, combinations are missing too that contain one that waits below; these must not be stored (I'). Whatever
waits at a join has a partner in its eager side only if that is kept from the join itself: it contains one that waits at
a join further up (S).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import midstream as ms
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.joins.access import BandPath, HashPath
from midstream.engine.joins.nodes import JoinNode
from midstream.engine.joins.waiting import Waiting
from midstream.kernels import rings as kernels
from midstream.kernels.boxes import FILLING, MISSING
from midstream.kernels.types import EVICTED, LARGEST
from midstream.migrate.strategies.jisc import Filling
from midstream.state.indexes import HashIndex, Ints
from midstream.state.missing import Box
from midstream.state.window import BaseWindow

from .small import Row, Small

Combination = tuple[tuple[int, int], ...]  # (input, row id) by input
#: The share of pushes and events after which many cases are audited: an audit takes longer than what it looks at.
OFTEN = 0.3


@dataclass
class Count:
    """What an audit has seen, so that a test can tell that it saw something."""

    states: int = 0
    holes: int = 0
    stored: int = 0
    boxed: int = 0
    several: int = 0
    off: int = 0
    open: int = 0
    #: Combinations that a state lacks because a join further up is idle.
    withheld: int = 0
    #: What waited, after each push; and what was suspended while a state lacked something or was off.
    waited: int = 0
    waited_beside_holes: int = 0


def executor_of(engine: ms.Engine) -> TreeExecutor:
    executor = engine._pipeline.executor
    executor = executor.executor if isinstance(executor, Filling) else executor
    assert isinstance(executor, TreeExecutor)
    return executor


def windows_of(engine: ms.Engine) -> list[BaseWindow]:
    return engine._pipeline._windows


def read_live_rows(window: BaseWindow, watermark: int) -> dict[int, tuple[Row, int, int]]:
    """The live rows of a window by id, with their intervals."""
    ids = kernels.alive(window.ends, window.head, window.tail, watermark)
    ids = ids[[has_not_left(window, row_id) for row_id in ids.tolist()]]
    held = window.held(ids)
    columns = {name: values.to_pylist() for name, values in held.payload.items()}
    return {
        row_id: ({name: values[at] for name, values in columns.items()}, int(held.starts[at]), int(held.ends[at]))
        for at, row_id in enumerate(ids.tolist())
    }


def has_not_left(window: BaseWindow, row_id: int) -> bool:
    """Whether a row is still in its window. One of a ROWS window that entered late may stand behind later rows."""
    is_open = not window.layout.window.counts_rows or window.arrival_ends[row_id & (window.capacity - 1)] == LARGEST
    return row_id >= window.head and bool(is_open)


def join_naively(small: Small, live: list[dict[int, tuple[Row, int, int]]], inputs: tuple[int, ...]) -> dict[Any, Any]:
    """Join(Q): combinations with their intervals. Rows of ROWS windows that are held are alive together."""
    parts: list[tuple[dict[int, int], int, int]] = [({}, -(2**63), 2**63 - 1)]
    for at, number in enumerate(inputs):
        tests = small.tests_of(number, inputs[: at + 1])
        longer = []
        for chosen, start, end in parts:
            rows = {other: live[other][at][0] for other, at in chosen.items()}
            for row_id, (row, begin, last) in live[number].items():
                if max(start, begin) <= min(end, last):
                    rows[number] = row
                    if all(test(*(rows[member] for member in members)) for members, test in tests):
                        longer.append((chosen | {number: row_id}, max(start, begin), min(end, last)))
        parts = longer
    return {tuple(sorted(chosen.items())): (start, end) for chosen, start, end in parts}


def read_entries(
    node: JoinNode, windows: list[BaseWindow], watermark: int
) -> tuple[Counter[Combination], dict[Any, Any]]:
    """The live entries of a state, and their intervals."""
    assert node.state is not None
    ring = node.state.ring()
    found: Counter[Combination] = Counter()
    intervals, live = {}, []
    for entry in range(ring.head, ring.tail):
        slot = entry & (len(ring.starts) - 1)
        members = ring.members[slot].tolist()
        is_held = all(
            has_not_left(windows[number], row_id) for row_id, number in zip(members, node.inputs, strict=True)
        )
        if is_held and ring.ends[slot] >= watermark and ring.ends[slot] != EVICTED:
            combination = tuple(sorted(zip(node.inputs, members, strict=True)))
            found[combination] += 1
            intervals[combination] = int(ring.starts[slot]), int(ring.ends[slot])
            live.append(entry)
    assert_indexed(node, np.array(live, np.int64))
    return found, intervals


def assert_indexed(node: JoinNode, entries: Ints) -> None:
    """The state's index leads to entries by the keys that the path gives them."""
    assert node.state is not None
    ring = node.state.ring()
    if isinstance(node.path, HashPath | BandPath):
        index, keys = node.path.index(node.state), node.state._keys_of(node.path.signature, entries)
        for key in np.unique(keys):
            alone = np.array([key])
            found = index.find(ring.head, alone) if isinstance(index, HashIndex) else index.find(ring, alone, alone)
            assert set(entries[keys == key].tolist()) <= set(found.tolist())


def is_boxed(node: JoinNode, combination: Combination) -> bool:
    """Whether one of the boxes covers a combination."""
    return node.state is not None and any(in_box(box, combination) for box in node.state.missing)


def in_box(box: Box, combination: Combination) -> bool:
    """Whether a box covers a combination, by the definition: `has` holds for each row."""
    for number, row in combination:
        record = box._records.get(number)
        if row >= box.marks[number]:
            return False
        if record is not None and (row < record.base or record.states_of(np.array([row]))[0] != MISSING):
            return False
    return True


def audit(engine: ms.Engine, small: Small, count: Count) -> None:
    """Check every join state of an engine between two pushes."""
    windows, watermark = windows_of(engine), engine._pipeline._horizon
    live = [read_live_rows(window, watermark) for window in windows]
    for window in windows:
        if window.layout.window.counts_rows and engine._pipeline._entrance is None:
            assert len(window) <= window.layout.window.size, "what was pushed out of a ROWS window is gone"
    waits = Waits(engine)
    for node in executor_of(engine).joins():
        if node.state is None:
            continue
        if node.is_off:
            assert len(node.state) == 0 and not node.state.missing, "a state that is off holds and lacks nothing"
            count.off += 1
            continue
        wanted = join_naively(small, live, node.inputs)
        entries, intervals = read_entries(node, windows, watermark)
        boxed = {combination for combination in wanted if is_boxed(node, combination)}
        twice = [combo for combo, times in entries.items() if times > 1]
        assert not twice, f"stored twice in {node.inputs}: {twice[:3]}"
        assert not boxed & set(entries), f"both stored and missing in {node.inputs}"
        opened = {combination for combination in wanted if waits.is_open(node, combination)}
        assert not opened & set(entries), f"stored in {node.inputs} although a part waits"
        count.open += len(opened)
        withheld = {combination for combination in wanted if waits.is_withheld(node, combination)}
        assert not withheld & set(entries), f"stored in {node.inputs} although a join further up was idle"
        count.withheld += len(withheld)
        lost = set(wanted) - boxed - set(entries) - opened - withheld
        assert not lost, f"neither stored nor in the box of {node.inputs}: {sorted(lost)[:3]}"
        assert set(entries) <= set(wanted), f"should not be in {node.inputs}: {sorted(set(entries) - set(wanted))[:3]}"
        for combo, (start, end) in intervals.items():
            # What has waited begins when it went on.
            assert end == wanted[combo][1] and (start == wanted[combo][0] or wanted[combo][0] < start <= watermark)
        for box in node.state.missing:
            _check_box(box, windows)
        count.states += 1
        count.holes += bool(node.state.missing)
        count.several += bool(node.state.missing) and node.state.missing.only_box is None
        count.stored += len(entries)
        count.boxed += len(boxed)


class Waits:
    """What waits in a plan: for each kind its live combinations, and where these are open; and what idle joins lack."""

    def __init__(self, engine: ms.Engine):
        executor = executor_of(engine)
        suspender = executor._suspender
        self._idle = None if suspender is None else suspender.idle
        windows, watermark = windows_of(engine), engine._pipeline._horizon
        #: Each kind with its combinations and the join that it waits at.
        self.kinds: list[tuple[Waiting, set[Combination], JoinNode]] = []
        #: The kinds that are open at a join, by its id: their inputs and combinations.
        self._open: dict[int, list[tuple[frozenset[int], set[Combination]]]] = {}
        for waiting in () if suspender is None else suspender._all():
            node, way = waiting.node, [waiting.node]
            while node is not waiting.top:
                assert suspender is not None
                node = suspender._parents[id(node)]
                way.append(node)
            assert suspender is not None
            combos = read_waiting(waiting, windows, watermark)
            self.kinds.append((waiting, combos, suspender._parents[id(waiting.top)]))
            for join in way:
                self._open.setdefault(id(join), []).append((frozenset(waiting.node.inputs), combos))

    def is_withheld(self, node: JoinNode, combination: Combination) -> bool:
        """Whether a combination has a row that came while a join above a node was idle."""
        lacking = {} if self._idle is None else self._idle.lacking(node)
        return any(number in lacking and row >= lacking[number] for number, row in combination)

    def is_open(self, node: JoinNode, combination: Combination) -> bool:
        """Whether a combination of a node contains one that waits there or below, for a join above."""
        return any(restrict(combination, inputs) in combos for inputs, combos in self._open.get(id(node), ()))


def read_waiting(waiting: Waiting, windows: list[BaseWindow], watermark: int) -> set[Combination]:
    """The live combinations of one kind that waits."""
    inputs = waiting.node.inputs
    combos = waiting.state.entries(inputs)
    return {
        tuple(sorted(zip(inputs, members, strict=True)))
        for members, end in zip(combos.rows.tolist(), combos.ends.tolist(), strict=True)
        if end >= watermark
        and all(has_not_left(windows[number], row_id) for row_id, number in zip(members, inputs, strict=True))
    }


def restrict(combination: Combination, inputs: frozenset[int]) -> Combination:
    """The rows of a combination that are of these inputs."""
    return tuple(pair for pair in combination if pair[0] in inputs)


def audit_waiting(engine: ms.Engine, small: Small) -> int:
    """Check that whatever waits has no partner that its join knows of; how much there is."""
    windows, watermark = windows_of(engine), engine._pipeline._horizon
    live = [read_live_rows(window, watermark) for window in windows]
    waits = Waits(engine)
    for waiting, combos, join in waits.kinds:
        own, eager = frozenset(waiting.node.inputs), frozenset(waiting.eager.inputs)
        joined = join_naively(small, live, (*waiting.node.inputs, *waiting.eager.inputs)) if combos else {}
        for combination in joined:
            if restrict(combination, own) in combos:
                partner = restrict(combination, eager)
                assert waits.is_open(join, partner), f"{combination} waits although its partner is there"
    return sum(len(combos) for _, combos, _ in waits.kinds)


def _check_box(box: Box, windows: list[BaseWindow]) -> None:
    """A box counts its rows rightly, has none that is being filled, and is there only if something is missing."""
    for number in box.inputs:
        record, head = box._records.get(number), windows[number].head
        remaining = max(box.marks[number] - head, 0)
        if record is not None:
            states = record.states_of(np.arange(record.base, record.mark))
            assert not (states == FILLING).any()
            remaining = int(np.count_nonzero(states[max(head - record.base, 0) :] == MISSING))
        assert box.remaining(number, head) == remaining
        assert remaining > 0, "a box that is empty in one dimension is dropped"
