"""Memory limits at random, so tight that small cases meet them. No result may change by them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import TypeVar
from unittest import mock

import midstream as ms
from midstream.engine.executors.eddy.executor import EddyExecutor
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.memory import accounts, forecast, keeper
from midstream.state import rings

Found = TypeVar("Found")


@contextlib.contextmanager
def tight() -> Iterator[None]:
    """Have rings begin with a few slots and chunks with a few rows, so that little is already too much."""
    with contextlib.ExitStack() as patches:
        for module, name, value in (
            (rings, "SMALLEST_CAPACITY", 2),
            (keeper, "LEAST_ROWS", 3),
            (forecast, "LEAST_ROWS", 3),
            (accounts, "_FIRST_WAIT", 2),
            (accounts, "_LONGEST_WAIT", 4),
        ):
            patches.enter_context(mock.patch.object(module, name, value))
        yield


class Limits:
    """Changes the limit of an engine now and then, and counts what that led to."""

    def __init__(self, seed: str):
        self._rng = random.Random(f"limits {seed}")
        self.evicted = self.refused = self.switched_off = 0

    def change(self, engine: ms.Engine, often: float = 0.4) -> None:
        """Perhaps another limit: what the windows take and a share of what the states take, much, or none."""
        if self._rng.random() >= often or not engine._pipeline.executor.kind.can_evict:
            return
        memory = engine._pipeline.memory
        use = memory.count()
        share = self._rng.choice([0.0, 0.0, 0.1, 0.3, 0.6, 0.9, 1.5, None])
        if share is None:
            memory.set_limit(None, "test")
        else:
            least = use.windows + use.output + use.late
            memory.set_limit(int(least * self._rng.choice([1.0, 1.0, 1.2]) + share * use.states), "test")
        check_limit(engine)

    def push(self, engine: ms.Engine, push: Callable[[], Found]) -> Found:
        """Push, with more memory if the windows do not fit into what there is."""
        if engine._pipeline.memory.limit is None:
            return push()
        while True:
            before = engine.stats()
            try:
                found = push()
            except ms.InputError as refusal:
                if "memory_limit" not in str(refusal):
                    raise
                assert engine.stats() == before, "a refused push has changed something"
                engine._loop.receive({})  # what moves the watermark alone is never refused
                self.refused += 1
                memory = engine._pipeline.memory
                assert memory.limit is not None
                memory.set_limit(2 * memory.limit, "test")
                continue
            self._note(engine)
            check_limit(engine)
            return found

    def _note(self, engine: ms.Engine) -> None:
        stats = engine.stats().memory
        if stats is not None:
            self.evicted += stats.evicted
            self.switched_off += stats.states_off


def check_limit(engine: ms.Engine) -> None:
    """What is held is within the limit, but for what cannot be given up."""
    stats = engine.stats()
    memory = stats.memory
    if memory is None:
        return
    assert stats.state_bytes == memory.windows + memory.states + memory.output + memory.late
    if stats.state_bytes > memory.limit:
        owners = (owner for executor in engine._pipeline.lane.executors() for owner in executor.evicting())
        for owner in owners:
            if isinstance(owner, TreeExecutor) and owner._suspender is not None:
                assert owner._suspender.waiting == 0, f"combinations wait, over the limit of {memory.limit}"
            if isinstance(owner, EddyExecutor):
                assert owner.nbytes == 0, f"STAIRs take {owner.nbytes} bytes, over the limit of {memory.limit}"
            for holding in owner.holdings():
                inputs, size = holding.state.inputs, len(holding.state)
                is_least = holding.state.capacity == rings.SMALLEST_CAPACITY
                assert is_least, f"{inputs} has {size} entries, over the limit of {memory.limit}"


def check_windows(engine: ms.Engine) -> None:
    """What is held is within the limit after a push that was taken, if output and late rows leave room for it."""
    memory = engine.stats().memory
    if memory is not None:
        others = memory.output + memory.late
        assert memory.windows <= max(memory.limit - others, 0) or others, f"{memory.windows} > {memory.limit}"
