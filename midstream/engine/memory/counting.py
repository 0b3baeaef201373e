"""What an engine holds, in bytes by kind; the total is what `stats().state_bytes` shows and what a limit is held to.

An array counts whole, also where only a part of it is in use. Room that is reserved for an array to grow into and was
never written is address space: the system has given no memory for it, and it does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from midstream.engine.lane import Lane
from midstream.state.window import BaseWindow


class MemoryUse(NamedTuple):
    """Bytes of base windows with payload and indexes, of join states, of what the output holds, and of kept late rows.

    `states` counts the states of every plan that runs, with the records of what is missing from them.
    """

    windows: int
    states: int
    output: int
    late: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.windows + self.states + self.output + self.late


def count_memory(windows: Sequence[BaseWindow], lane: Lane, late: int) -> MemoryUse:
    """What all parts of an engine hold; `late` is what kept late rows take."""
    # Asked after every chunk where memory is limited: loops are cheaper than sums of a few things.
    held = states = 0
    for window in windows:
        held += window.nbytes
    for executor in lane.executors():
        states += executor.nbytes
    return MemoryUse(held, states, lane.output_bytes, late)
