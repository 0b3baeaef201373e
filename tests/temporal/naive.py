"""The second oracle: plain Python that walks from instant to instant, for cases whose times are a few small integers.

It takes every definition at its word and shares nothing with the first oracle but the description of the case: what is
valid, what the snapshot's result is, in which step an instant lies, which instants are a run.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import itertools
import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import types

from ..oracle.accept import Acceptance
from ..oracle.compare import Rows, canonical
from ..oracle.expr import Value, compile_expr, order_key
from ..oracle.spec import INT64_MAX, INT64_MIN, Window
from .sets import combine
from .spec import Aggregate, TemporalCase

#: A power of two that makes an integer of every float.
ALL_BITS = 1074
Row = tuple[Value, ...]
Env = list[dict[str, Value]]


class TooLong(Exception):
    """There are more instants than can be walked through."""


def walk(case: TemporalCase, acceptance: Acceptance, most_instants: int = 3_000) -> list[Rows]:
    """What comes out of each push, and of `finish` at last."""
    times = [arrival.ts for arrival in acceptance.arrivals]
    reach = max((relation.window.size for relation in case.join.inputs), default=0)
    if not times:
        return [collections.Counter() for _ in acceptance.watermarks]
    first = (min(times) - reach) // case.step
    last = (max(times) + reach + 1) // case.step + 1
    watermarks = [mark for mark in acceptance.watermarks[1:] if mark is not None]
    last = max([last, *(mark // case.step for mark in watermarks)])
    if (last - first) * case.step > most_instants:
        raise TooLong
    snapshots = {t: find_snapshot(case, acceptance, t) for t in range(first * case.step, (last + 1) * case.step)}
    pushes: list[Rows] = []
    done = first
    for watermark in acceptance.watermarks[1:]:
        rows: Rows = collections.Counter()
        while watermark is not None and watermark >= (done + 1) * case.step:
            rows.update(_close(case, snapshots, done))
            done += 1
        pushes.append(rows)
    return [*pushes, _finish(case, snapshots, done, last)]


def _finish(case: TemporalCase, snapshots: dict[int, collections.Counter[Row]], done: int, last: int) -> Rows:
    """Close every step; runs that still go on at the last instant never end, for nothing ends so late."""
    rows: Rows = collections.Counter()
    final = (last + 1) * case.step - 1
    endless: list[tuple[Row, int, int]] = []
    for row, count in snapshots[final].items():
        for k in range(1, count + 1):
            start = final
            while start - 1 >= done * case.step and snapshots[start - 1][row] >= k:
                start -= 1
            endless.append((row, k, start))
            rows[_with_times(case, row, start, None)] += 1
    for n in range(done, last + 1):
        rows.update(_close(case, snapshots, n))
    for row, _, start in endless:
        for n in range(start // case.step, last + 1):
            piece = _with_times(case, row, max(start, n * case.step), (n + 1) * case.step - 1)
            assert rows[piece] > 0
            rows[piece] -= 1
    return +rows


def _close(case: TemporalCase, snapshots: dict[int, collections.Counter[Row]], n: int) -> Iterator[Row]:
    """The output of one step."""
    instants = range(n * case.step, (n + 1) * case.step)
    for row in {row for t in instants for row in snapshots[t]}:
        for k in range(1, max(snapshots[t][row] for t in instants) + 1):
            for is_there, run in itertools.groupby(instants, lambda t: snapshots[t][row] >= k):  # noqa: B023
                if is_there:
                    listed = list(run)
                    yield _with_times(case, row, listed[0], listed[-1])


def _with_times(case: TemporalCase, row: Row, start: int, end: int | None) -> Row:
    return (*row, canonical(start, case.join.time_type), canonical(end, case.join.time_type))


def find_snapshot(case: TemporalCase, acceptance: Acceptance, t: int) -> collections.Counter[Row]:
    """The result of the query over the rows that are valid at an instant."""
    if case.branches:
        return combine(case.combination, [find_snapshot(branch, acceptance, t) for branch in case.branches])
    conditions = [compile_expr(predicate) for predicate in case.join.predicates]
    conditions += [compile_expr(condition) for relation in case.join.inputs for condition in relation.filters]
    valid: list[list[dict[str, Value]]] = []
    for relation in case.join.inputs:
        source = case.join.sources[relation.source]
        rows = [row.values for row in source.table_rows]
        rows += [
            arrival.row.values
            for arrival in acceptance.arrivals
            if arrival.row.source == source.name and is_valid(relation.window, arrival.ts, t)
        ]
        valid.append(rows)
    combinations = [list(env) for env in itertools.product(*valid)]
    joined = [env for env in combinations if all(condition(env) is True for condition in conditions)]
    envs = joined if case.grouping is None else list(_group(case, joined))
    outputs = [(compile_expr(output.expr), output.expr.type) for output in case.join.outputs]
    found = collections.Counter(tuple(canonical(_plain(value(env)), type_) for value, type_ in outputs) for env in envs)
    return collections.Counter(dict.fromkeys(found, 1)) if case.is_distinct else found


def is_valid(window: Window, ts: int, t: int) -> bool:
    """Whether a row of this event time is in the window at an instant."""
    if window.kind == "range":
        return ts <= t <= ts + window.size and INT64_MIN < t <= INT64_MAX
    if window.kind == "tumble":
        return t // window.size == ts // window.size
    return ts <= t


def _group(case: TemporalCase, joined: list[Env]) -> Iterator[Env]:
    assert case.grouping is not None
    keys = [compile_expr(key) for key in case.grouping.keys]
    groups: dict[Row, list[Env]] = {}
    values: dict[Row, dict[str, Value]] = {}
    for env in joined:
        found = [_plain(key(env)) for key in keys]
        group = tuple(order_key(value) for value in found)
        groups.setdefault(group, []).append(env)
        values[group] = {str(place): value for place, value in enumerate(found)}
    having = None if case.grouping.having is None else compile_expr(case.grouping.having)
    for group, members in groups.items():
        computed = {
            str(place): _aggregate(aggregate, members) for place, aggregate in enumerate(case.grouping.aggregates)
        }
        env = [values[group], computed]
        if having is None or having(env) is True:
            yield env


def _aggregate(aggregate: Aggregate, members: list[Env]) -> Value:
    if aggregate.argument is None:
        return len(members)
    argument = compile_expr(aggregate.argument)
    values = [value for value in (argument(env) for env in members) if value is not None]
    if aggregate.function == "count":
        return len(values)
    if aggregate.function == "count_distinct":
        return len({order_key(value) for value in values})
    if not values:
        return None
    if aggregate.function in ("min", "max"):
        return _plain(min(values, key=order_key) if aggregate.function == "min" else max(values, key=order_key))
    count = 1 if aggregate.function == "sum" else len(values)
    return _plain(_divide(values, count, aggregate.type))


def _divide(values: Sequence[Value], count: int, type_: pa.DataType) -> Value:
    """The sum of the values, divided: an integer division, which Python rounds once, at any size."""
    if types.is_decimal(type_):
        with decimal.localcontext(prec=500, rounding=decimal.ROUND_HALF_UP):
            quotient = sum(values, decimal.Decimal(0)) / count
            rounded = quotient.quantize(decimal.Decimal(1).scaleb(-type_.scale))
            return rounded if len(rounded.as_tuple().digits) <= type_.precision else None
    if type_ == pa.int64():
        total = sum(values)
        return total if INT64_MIN <= total <= INT64_MAX else None
    if not all(math.isfinite(value) for value in values):
        return sum(value for value in values if not math.isfinite(value))
    whole = sum(_shift(value) for value in values)
    try:
        return whole / (count << ALL_BITS)
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def _shift(value: int | float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << ALL_BITS) // denominator


def _plain(value: Value) -> Value:
    if isinstance(value, float) and not isinstance(value, datetime.date):
        return value + 0.0
    return value
