"""Sizes inside the engine do not show: with tiny chunks, rings and blocks, small cases cross many boundaries."""

from __future__ import annotations

import pytest

from midstream.engine.input import batch
from midstream.state import rings
from midstream.state.window import BaseWindow

from ..blocks import blocks
from .cases import make_case
from .check import check_engine, every_batching, restores

WINDOWS = ["range", "mixed", "rows", "static"]


@pytest.mark.parametrize("number", blocks(3))
@pytest.mark.parametrize("chunk", [1, 2, 5, 16])
@pytest.mark.parametrize("windows", WINDOWS)
def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch, windows: str, chunk: int, number: int) -> None:
    """A large push is cut into chunks by event time; here every push is large."""
    monkeypatch.setattr(batch, "CHUNK_ROWS", chunk)
    monkeypatch.setattr(batch, "_SAMPLED", 1)
    check_engine(make_case(15_000 + chunk * 100 + number, windows=windows), every_batching)


@pytest.mark.parametrize("number", blocks(3))
@pytest.mark.parametrize("capacity", [1, 2, 8])
@pytest.mark.parametrize("windows", WINDOWS)
def test_capacities_do_not_show(monkeypatch: pytest.MonkeyPatch, windows: str, capacity: int, number: int) -> None:
    """Windows and states start tiny, so that they grow, shrink and are packed all the time."""

    def start_small(window: BaseWindow) -> None:
        window.capacity = capacity
        window._allocate()

    monkeypatch.setattr(rings, "SMALLEST_CAPACITY", capacity)
    monkeypatch.setattr(BaseWindow, "__post_init__", start_small)
    case = make_case(17_000 + capacity * 100 + number, windows=windows)
    check_engine(case, every_batching)
    check_engine(case, restores)
