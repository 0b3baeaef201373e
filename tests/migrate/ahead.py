"""Two streams in which a fifth of the rows is far ahead of the others, so that windows are packed again and again.

Rows that are ahead live on between dead ones. When their window is packed they get other ids, among them ids that
belonged to younger rows.
"""

from __future__ import annotations

from typing import Any

import pytest

import midstream as ms
from midstream.state.window import BaseWindow

TICK = 100_000
AHEAD = 30
EACH = 2
ROWS = 5 * EACH
Result = tuple[int, ...]


def make_engine() -> ms.Engine:
    row = {"k": int, "v": int, "ts": int}
    text = "SELECT a.v AS a, b.v AS b FROM a [RANGE 300 MILLISECONDS], b [RANGE 300 MILLISECONDS] WHERE a.k = b.k"
    return ms.Engine(ms.query(text, {"a": row, "b": row}, "ts"), plan="(a b)")


def push(engine: ms.Engine, number: int) -> list[Result]:
    """Rows of this moment, rows that are ahead, and then the watermark moves to the next moment."""
    rows = [
        {"k": moment, "v": number * ROWS + place, "ts": moment * TICK}
        for place, moment in enumerate([*[number] * 4, number + AHEAD] * EACH)
    ]
    return results_of(engine.push({"a": rows, "b": rows}, watermark=(number + 1) * TICK))


def results_of(table: Any) -> list[Result]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def is_new(result: Result, begin: int) -> bool:
    """Whether all rows of a result came with this push or a later one."""
    return min(result[:2]) >= begin * ROWS


def count_packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets an element whenever the live rows of a window get other ids."""
    packed: list[int] = []
    pack = BaseWindow._pack

    def counting(window: BaseWindow, kept: Any, capacity: int) -> Any:
        renumbering = pack(window, kept, capacity)
        packed.append(int((renumbering.apply(kept) != kept).sum()))
        return renumbering

    monkeypatch.setattr(BaseWindow, "_pack", counting)
    return packed
