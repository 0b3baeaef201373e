"""What a change of plan finds when it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from midstream.cql.model import Query
from midstream.engine.executors.protocol import Executor
from midstream.engine.operators.held import HeldBack
from midstream.state.window import BaseWindow


@dataclass(frozen=True)
class Situation:
    """The query, the base windows, what runs, how far it has purged, and where results can be held back."""

    query: Query
    windows: Sequence[BaseWindow]
    executor: Executor
    floor: int
    held: HeldBack
