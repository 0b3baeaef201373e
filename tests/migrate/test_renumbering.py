"""Base windows that are packed while a migration is under way: marks, holes and entries follow the new row numbers.

A row far ahead of its stream keeps the head of a window, so that dead rows behind it leave only when it is packed.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import midstream as ms
from midstream.state.window import BaseWindow

from .changes import NAMES, fit_budget
from .workload import PUSH, SCHEMA, STREAMS, make_engine, push

FAR = 1_000 * PUSH
KEY = 999
END = 60


def feed(engine: ms.Engine, begin: int, end: int) -> list[list[tuple[int, ...]]]:
    return [push(engine, number) for number in range(begin, end)]


def far_rows(stream: str, number: int, ts: int = FAR) -> dict[str, pa.Table]:
    return {stream: pa.table([[KEY], [number], [ts]], schema=SCHEMA)}


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("moment", [3, 11, 25])
def test_windows_are_packed_during_a_migration(strategy: str, moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []
    pack = BaseWindow._pack

    def counting(window: BaseWindow, *arguments: object) -> object:
        packed.append(1)
        return pack(window, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(BaseWindow, "_pack", counting)
    target = "((s t) (u r))" if strategy == "pause-drain-resume" else "(((r s) t) u)"
    engines = [make_engine("((r u) (s t))", "[RANGE 1 SECOND]") for _ in range(2)]
    found: list[list[list[tuple[int, ...]]]] = []
    for engine in engines:
        engine.push({stream: far_rows(stream, place)[stream] for place, stream in enumerate(STREAMS[:3])}, watermark=0)
        results = feed(engine, 0, moment)
        if engine is engines[0]:
            engine.migrate(target, strategy, **fit_budget(strategy, 0))
            packed.clear()
        results += feed(engine, moment, END)
        if engine is engines[0]:
            assert len(packed) >= 4, "nothing was packed"
        last = engine.push(far_rows("u", 7, FAR + 1), watermark=FAR)
        results.append([tuple(row.values()) for row in last.to_pylist()])
        found.append(results)
    assert found[0] == found[1]
    assert found[0][-1] == [(0, 1, 2, 7, FAR + 1, FAR + 1_000_000)]
