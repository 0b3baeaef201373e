"""A set of rows against Python's own set, through additions, removals, purges and renumberings."""

from __future__ import annotations

import random

import numpy as np
import pytest

from midstream.state.row_set import RowSet
from midstream.state.window import Renumbering


def check(rows: RowSet, wanted: set[int], tail: int) -> None:
    assert rows.ids().tolist() == sorted(wanted)
    assert len(rows) == len(wanted)
    ids = np.arange(max(0, tail - 60), tail + 5)
    assert rows.has(ids).tolist() == [row in wanted for row in ids.tolist()]
    flags = np.ones(len(ids) - 2, np.bool_)
    rows.clear_flags(np.column_stack((ids - 1, ids)), 2, 1, flags)
    assert flags.tolist() == [row not in wanted for row in ids[2:].tolist()]
    assert rows.is_run == (rows.high - rows.low == len(wanted))
    if wanted:
        assert rows.low == min(wanted) and rows.high == max(wanted) + 1
    for limit in (1, 3, 100):
        assert rows.last(limit).tolist() == sorted(wanted)[-limit:]
    if rows.is_run:
        assert rows.nbytes == 0


@pytest.mark.parametrize("seed", range(30))
def test_it_holds_what_was_put_in_and_not_taken_out(seed: int) -> None:
    rng = random.Random(seed)
    rows, wanted = RowSet(), set[int]()
    head = tail = 1
    for _ in range(120):
        step = rng.choice(["enter", "enter", "pass", "add", "discard", "take last", "forget", "renumber"])
        if step == "enter":  # the usual way: new rows, all of them
            count = rng.randrange(6)
            rows.add_run(tail, tail + count)
            wanted |= set(range(tail, tail + count))
            tail += count
        elif step == "pass":  # new rows that go elsewhere
            tail += rng.randrange(3)
        elif step == "add" and tail > head:
            chosen = [rng.randrange(head, tail) for _ in range(rng.randrange(5))]
            rows.add(np.array(chosen, np.int64))
            wanted |= set(chosen)
        elif step == "discard" and tail > head:
            chosen = [rng.randrange(head, tail + 3) for _ in range(rng.choice([1, 4, 40]))]
            rows.discard(np.array(chosen, np.int64))
            wanted -= set(chosen)
        elif step == "take last":
            taken = rows.last(rng.choice([1, 4]))
            rows.discard(taken)
            wanted -= set(taken.tolist())
        elif step == "forget":
            head = min(tail, head + rng.choice([1, 5, 20]))
            rows.forget(head)
            wanted = {row for row in wanted if row >= head}
        elif step == "renumber" and rng.random() < 0.3:
            kept = np.array([row for row in range(head, tail) if rng.random() < 0.5], np.int64)
            first = tail - len(kept)
            rows.renumber(Renumbering(kept, first))
            wanted = {first + place for place, row in enumerate(kept.tolist()) if row in wanted}
            head = first
        check(rows, wanted, tail)


def test_a_run_needs_no_bitmap() -> None:
    rows = RowSet()
    rows.add_run(1, 1_000)
    rows.forget(500)
    assert rows.nbytes == 0
    rows.discard(np.array([600]))
    assert rows.nbytes > 0
    rows.forget(601)
    assert rows.is_run and rows.nbytes == 0
    rows.discard(np.arange(900, 1_000))
    rows.add(np.arange(550, 601))
    assert (rows.low, rows.high, rows.is_run, rows.nbytes) == (550, 900, True, 0)
