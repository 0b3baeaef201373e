"""What is open: combinations that contain one that waits.

They are in no state, and nobody may find them until that one goes on. Where joins go by states this comes by itself,
since what waits is not stored. Whoever finds combinations in the base windows, for a state that is off or to fill one,
has to leave them out.

A combination is told by its rows alone. Beside another plan, what waits may have an interval that was cut, while
whoever fills a state finds the whole one in the windows.

It does not matter at which join a part waits. If it is at one further up, the combination is open there. If it is at
the join itself or below, nothing that has come so far matches the part there, but for what is open itself, because of
another part that waits further up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from midstream.engine.joins.checks import Mask
from midstream.engine.joins.combos import Delta
from midstream.kernels.types import EARLIEST, Combos
from midstream.state.window import BaseWindow


class Parts(Protocol):
    """Combinations of some inputs that wait at one join."""

    inputs: tuple[int, ...]

    def __len__(self) -> int: ...

    def has(self, delta: Delta, horizon: int) -> Mask:
        """Which of these combinations of its inputs wait; what ended before the horizon is dead."""


class OpenCombinations:
    """Tells what is open in one plan, in which `parts` wait."""

    def __init__(self, windows: Sequence[BaseWindow]):
        self._windows = windows
        self.parts: Sequence[Parts] = ()
        #: Where windows were purged to. What ended before may name rows whose ids others have since.
        self.horizon = int(EARLIEST)

    def find_others(self, inputs: tuple[int, ...], combos: Combos) -> Mask | None:
        """Which of these combinations are not open; None if none is."""
        others: Mask | None = None
        for part in self.parts:
            if len(part) and len(combos.starts) and set(part.inputs) <= set(inputs):
                columns = [inputs.index(number) for number in part.inputs]
                own = Combos(np.ascontiguousarray(combos.rows[:, columns]), combos.starts, combos.ends)
                waits = part.has(Delta(part.inputs, own, self._windows), self.horizon)
                others = ~waits if others is None else others & ~waits
        return others
