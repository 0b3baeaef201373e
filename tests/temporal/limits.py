"""Limits inside the engine made so small that cases of a few rows cross them all the time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from midstream.engine import lane
from midstream.engine.input import batch
from midstream.engine.joins import nodes
from midstream.engine.operators import lifetimes, lower_distinct, runs
from midstream.engine.operators.aggregates import accumulator, pairs
from midstream.state import rings
from midstream.state.window import BaseWindow

from ..oracle.run import large_from
from .ways import Way


def _start_small(window: BaseWindow) -> None:
    window.capacity = rings.SMALLEST_CAPACITY
    window._allocate()


#: Values and groups are forgotten at once, tables have a row or two, and a restored stage catches up row by row. Rows
#: that have left a window are soon written over, so that nobody can look at them without being found out.
TINY: tuple[tuple[Any, str, Any], ...] = (
    (lifetimes, "_FEW", 0),
    (accumulator, "_FEWEST_ROWS", 1),
    (pairs, "FEWEST_FORGOTTEN", 0),
    (runs, "_SMALLEST_TABLE", 1),
    (runs, "_LARGEST_TABLE", 2),
    (lane, "_CAUGHT_UP_IN_A_PUSH", 1),
    (lane, "_CAUGHT_UP_AT_ONCE", 2),
    (lower_distinct, "_RUNS_AT_ONCE", 1),
    (nodes, "_SMALLEST_BLOCK", 4),
    (rings, "SMALLEST_CAPACITY", 2),
    (BaseWindow, "__post_init__", _start_small),
)


@contextlib.contextmanager
def make_small(way: Way) -> Iterator[None]:
    """Have the engine cut and forget as a way of running says."""
    chosen = list(TINY) if way.is_tiny else []
    if way.chunk_rows is not None:
        chosen += [(batch, "CHUNK_ROWS", way.chunk_rows), (batch, "_SAMPLED", 1)]
    with contextlib.ExitStack() as stack:
        for module, name, size in chosen:
            stack.enter_context(mock.patch.object(module, name, size))
        stack.enter_context(large_from(way.piece_bytes))
        yield
