"""Make a failing case smaller while it still fails: fewer pushes, fewer rows, fewer rows in static tables."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from .spec import Case, Push, Row

Fails = Callable[[Case], bool]
Item = TypeVar("Item")


def shrink(case: Case, fails: Fails, seconds: float = 60.0) -> Case:
    """The smallest failing case found within the time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = _size(case)
        case = _fewer_pushes(case, fails, until)
        case = _fewer_rows(case, fails, until)
        case = _smaller_tables(case, fails, until)
        case = _glue(case, fails, until)
        if _size(case) == before:
            break
    return case


def _size(case: Case) -> tuple[int, int, int]:
    rows = sum(len(push.rows) for push in case.pushes)
    return rows, len(case.pushes), sum(len(source.table_rows) for source in case.sources.values())


def _reduce(items: Sequence[Item], still: Callable[[list[Item]], bool], until: float) -> list[Item]:
    """Leave out ever smaller stretches of the items as long as the rest still fails."""
    items = list(items)
    size = max(1, len(items) // 2)
    while True:
        start = 0
        while start < len(items):
            if time.monotonic() > until:
                return items
            rest = items[:start] + items[start + size :]
            if still(rest):
                items = rest
            else:
                start += size
        if size == 1:
            return items
        size //= 2


def _fewer_pushes(case: Case, fails: Fails, until: float) -> Case:
    return case.with_pushes(_reduce(case.pushes, lambda rest: fails(case.with_pushes(rest)), until))


def _fewer_rows(case: Case, fails: Fails, until: float) -> Case:
    rows = [row for push in case.pushes for row in push.rows]

    def with_rows(rest: list[Row]) -> Case:
        kept = {id(row) for row in rest}
        return case.with_pushes(
            Push(tuple(row for row in push.rows if id(row) in kept), push.watermark) for push in case.pushes
        )

    return with_rows(_reduce(rows, lambda rest: fails(with_rows(rest)), until))


def _smaller_tables(case: Case, fails: Fails, until: float) -> Case:
    for name, source in case.sources.items():
        if source.table_rows:

            def with_table(rest: list[Row], name: str = name, case: Case = case) -> Case:
                smaller = dataclasses.replace(case.sources[name], table_rows=tuple(rest))
                return dataclasses.replace(case, sources={**case.sources, name: smaller})

            def still(rest: list[Row], make: Callable[[list[Row]], Case] = with_table) -> bool:
                return fails(make(rest))

            case = with_table(_reduce(source.table_rows, still, until))
    return case


def _glue(case: Case, fails: Fails, until: float) -> Case:
    """Push two pushes as one where the first gives no watermark."""
    number = 0
    while number + 1 < len(case.pushes) and time.monotonic() < until:
        first, second = case.pushes[number : number + 2]
        glued = Push(first.rows + second.rows, second.watermark)
        candidate = case.with_pushes((*case.pushes[:number], glued, *case.pushes[number + 2 :]))
        if first.watermark is None and fails(candidate):
            case = candidate
        else:
            number += 1
    return case
