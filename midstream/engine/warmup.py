"""Getting the kernels ready: small joins that use nearly every one of them once, and calls of the others.

Kernels are compiled the first time that they are called on a machine and then come from a cache on disk; loading one
from there takes a few milliseconds. Doing both when the first engine of a process is made keeps them out of the first
pushes and out of the first migration.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from midstream.cql.model import Aggregate, Literal
from midstream.engine.compiling import all_kernels, tell_compiling
from midstream.engine.joins.combos import Block
from midstream.engine.operators.aggregates import make_accumulator
from midstream.engine.operators.aggregates.pairs import Pairs
from midstream.kernels import changes, distinct, hashing, partition, rings, sets, sums
from midstream.kernels.types import Combos, KeyCounts, Layout, Ring
from midstream.state.indexes import NOWHERE, HashIndex, SortedIndex, find_lacking, new_cursor
from midstream.state.join_state import Access, JoinState
from midstream.state.missing import Box, Cause
from midstream.state.row_set import RowSet
from midstream.state.window import Renumbering

_SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.int64(),
        "x": pa.int64(),
        "t": pa.int8(),
        "h": pa.int16(),
        "n": pa.int32(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
        "f": pa.float64(),
    }
)
_QUERIES = (
    "a.k = b.k AND b.k = c.k AND c.k = d.k",
    "a.s = b.s AND b.d = c.d AND c.k = d.k AND c.x = d.x",
    "abs(a.x - b.x) <= 1 AND abs(a.k - b.k) <= 9 AND a.f >= c.f - 1.0 AND a.f <= c.f + 1.0"
    " AND b.x + c.x <> d.x AND abs(c.x - d.x) <= 1",
)
_AGGREGATES = (
    ("count", pa.int64(), pa.int64()),
    ("sum", pa.int64(), pa.int64()),
    ("avg", pa.int64(), pa.float64()),
    ("avg", pa.float64(), pa.float64()),
    ("avg", pa.decimal128(9, 2), pa.decimal128(13, 6)),
    ("min", pa.int64(), pa.int64()),
    ("count_distinct", pa.int64(), pa.int64()),
)
_IN_STEPS = (
    ("SELECT DISTINCT a.k AS k, b.s AS s", ""),
    ("SELECT a.s AS s, count(*) AS n, sum(b.x) AS x", " GROUP BY a.s"),
)
_RANGE, _ROWS = "[RANGE 9 MICROSECONDS]", "[ROWS 3]"


def warm_up(run: Callable[[str, dict[str, pa.Schema], list[dict[str, pa.Table]]], None]) -> None:
    """Run small queries, given as text, schemas and pushes, through `run`, and call what they do not come across."""
    names = "abcd"
    columns = ", ".join(
        f"{name}.{column} AS {name}_{column}" for name in names for column in _SCHEMA.names if column != "ts"
    )
    pushes = [{name: _rows(place) for name in names} for place in range(10)]
    with tell_compiling(list(all_kernels().values())):
        for window, where in [*((_RANGE, where) for where in _QUERIES), (_ROWS, _QUERIES[0])]:
            streams = ", ".join(f"{name} {window}" for name in names)
            run(f"SELECT {columns} FROM {streams} WHERE {where}", dict.fromkeys(names, _SCHEMA), pushes)
        streams = ", ".join(f"{name} {_RANGE}" for name in names)
        for select, group in _IN_STEPS:
            run(f"{select} FROM {streams} WHERE {_QUERIES[0]}{group}", dict.fromkeys(names, _SCHEMA), pushes)
        _renumber_a_box()
        _evict_entries()
        _wake_rows()
        _hold_rows()
        _route_rows()
        _accumulate()
        _add_totals()
        _combine()
        _represent()


def _renumber_a_box() -> None:
    """A window is packed while a box over it is filled, which takes disorder and many rows to happen by itself."""
    ids = np.arange(1, 5)
    box = Box((0, 1), {0: 5, 1: 5}, Cause("eviction"), rows={1: ids})
    box.claim(0, 1, ids)
    box.tell_filling(0, ids)
    box.renumber(0, Renumbering(ids[2:], 3))


def _evict_entries() -> None:
    """Only tests evict entries so far."""
    ids = np.arange(1, 5)
    for access in (Access.HASH, Access.SORTED):
        state = JoinState((0, 1), {("key",): access})
        state.store(Combos(np.column_stack((ids, ids)), ids, ids + 9), {("key",): ids})
        state.evict(0, ids[:2])
        state.find_members(("key",), 0, ids[2:], ids[2:].copy)
        state.purge(0, {0: 1, 1: 1})


def _wake_rows() -> None:
    """Only with demand do rows wait for partners, and only for a router are they counted."""
    ids = np.arange(1, 5)
    intervals, reasons = (ids, ids + 9), np.zeros(64, np.int64)
    ring = Ring(np.zeros(64, np.int64), np.zeros(64, np.int64), np.empty((0, 1), np.int64), 1, 5)
    by_key, by_range = HashIndex(64), SortedIndex(64)
    by_key.insert(1, ids, *intervals)
    by_key.find_partners(ring, ids, intervals, np.zeros(4, np.bool_))
    by_key.split_by_partner(ring, ids, intervals)
    find_lacking((by_key.place(1), NOWHERE, NOWHERE), (ids, ids, ids), ids, intervals, reasons[:4], 0)
    by_key.wake(ring, ids, intervals, reasons, 0)
    by_key.count_partners(ring, ids, intervals, ids - 1, 1, np.zeros(4, np.int64))
    of_pairs = ring._replace(members=np.zeros((64, 2), np.int64))
    by_key.find_same(of_pairs, ids, np.column_stack((ids, ids)), 0, np.zeros(4, np.bool_))
    by_range.insert(1, ids, *intervals)
    by_range.find_partners(ring, intervals, intervals, np.zeros(4, np.bool_))
    by_range.wake(ring, intervals, intervals, reasons, 0)
    state = JoinState((0,), {("key",): Access.HASH})
    state.store(Combos(ids.reshape(-1, 1), *intervals), {("key",): ids})
    state.take(("key",), ids[:2], (ids[:2], ids[:2] + 9))
    waiting = RowSet()
    waiting.add_run(1, 3)
    waiting.clear_flags(ids.reshape(-1, 1), 0, 0, np.ones(4, np.bool_))
    rings.close_late_rows(reasons, reasons.copy(), ids, 1, 0, ids)


def _hold_rows() -> None:
    """Only STAIRs have sets of rows, and look at columns of combinations one at a time."""
    ids, filter = np.arange(1, 5), KeyCounts(np.zeros(8, np.uint16), 61)
    pairs = Combos(np.column_stack((ids, ids)), ids, ids + 9)
    hashing.enter_keys(ids, *filter)
    hashing.leave_keys(ids[:1], *filter)
    rows = RowSet()
    for some in (ids[::2], ids[::2].copy()):
        rows.add(some)
    rows.discard(ids[:1])
    for column in (ids, pairs.rows[:, 0]):
        rows.mark(column, rows.has(column))
    index, single = HashIndex(64), Combos(ids.reshape(-1, 1), ids, ids + 9)
    index.insert(1, ids, *single[1:])
    index.probe_held(ids, single, Block(2, 64).combos, new_cursor(), Layout(0, 1), rows.held(), filter)
    index.find_held(ids, rows.held(), filter)
    rings.find_live(pairs, 0, ids[:2], np.empty(4, np.bool_))
    partition.split(ids, ids[:1], False, ids[:2] - 1, pairs, Block(2, 4).combos, np.empty(4, np.int64))
    for matrix in (pairs.rows, pairs.rows[:, :1]):
        distinct.find_distinct_rows(matrix)
    state = JoinState((0, 1), {("key",): Access.HASH})
    state.store(pairs, {("key",): ids})
    for some in (ids, ids[:0]):  # many rows are found by a scan, few, as none are, by their keys
        state.find_members(("key",), 0, some, some.copy)


def _route_rows() -> None:
    """What an engine never does itself: on Spark, rows go to cells before they meet one."""
    codes, cells = np.arange(4), np.zeros(4, np.int64)
    partition.mark(codes, codes[:2], 2, cells)
    partition.add_coordinates(codes, np.int64(1), 2, 1, cells)
    partition.group(cells, 4)


def _accumulate() -> None:
    """Every aggregate, of a value that comes and goes."""
    groups, signs = np.zeros(2, np.int64), np.array([1, -1])
    for function, argument, type in _AGGREGATES:
        accumulator = make_accumulator(Aggregate(function, Literal(None, argument), type))
        accumulator.resize(1)
        words = np.zeros((1, accumulator.words), np.int64)
        accumulator.encode(groups[:1], pa.array([1], argument), words)
        accumulator.apply(groups, signs, np.repeat(words, 2, axis=0), np.array([0, 1]))
        if isinstance(accumulator, Pairs):
            accumulator.forget()


def _add_totals() -> None:
    """On Spark, states of groups are added up behind the cells."""
    groups, signs = np.zeros(2, np.int64), np.array([1, -1])
    words, totals, found = (np.zeros((2, sums.TOTAL_WORDS), np.int64) for _ in range(3))
    sums.add_totals(groups, signs, words, np.array([0, 1]), totals, found)


def _combine() -> None:
    """A set operation of two branches, of which one has a row for a while."""
    offsets, moments, signs = np.array([0, 2]), np.array([1, 2]), np.array([1, -1])
    program = np.array([0, 1, sets.UNION])
    sets.find_runs((offsets, moments, signs), np.zeros(2, np.int64), np.zeros((1, 2), np.int64), program, 0, 9)


def _represent() -> None:
    """What DISTINCT below a join does of a combination of one row."""
    zeros = np.zeros(1, np.int64)
    changes.keep_latest(zeros, zeros.reshape(1, 1), zeros, np.zeros((1, 1), np.int64), zeros.copy())


def _rows(place: int) -> pa.Table:
    numbers = [place, place + 1]
    return pa.table(
        {
            "ts": [2 * place, 2 * place + 1],
            "k": [1, 100 + place],
            "x": numbers,
            "t": pa.array(numbers, pa.int8()),
            "h": pa.array(numbers, pa.int16()),
            "n": pa.array(numbers, pa.int32()),
            "s": ["one", None if place == 3 else "one"],
            "d": pa.array([1, 1], pa.decimal128(9, 2)),
            "f": [1.0, 2.0],
        },
        schema=_SCHEMA,
    )
