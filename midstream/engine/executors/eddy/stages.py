"""Moving entries in stages: a slice of them moves once they have cost enough where they are.

A misplaced entry costs something when a probe finds it and what comes out has to be sent on, over an edge that the
routing would have taken before. So every STAIR has an account of what its misplaced entries have made come up. When a
small slice is paid for, so many rows are moved before the next probe, the newest first: they stay the longest, and as
they follow each other, sets of rows stay runs. What a row makes when it moves is expected by the router's rates until a
trial, the first rows of the first slice, has shown it. What nobody probes costs nothing where it is. What a slice turns
out to have cost is taken from the account, and may leave it in debt: a STAIR whose entries make many combinations when
they move waits long for the next slice. Nobody knows how long a routing will last. Rows that make nothing move for a
quarter of what that costs: if the routing lasts, hardly more is spent than by somebody who knew; if it does not, up to
five times as much.

A STAIR that is wanted to hold something else again soon after the last time gets more expensive to move, so that a
routing that goes to and fro does not carry all entries with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from midstream.engine.executors.eddy.moving import Mover
from midstream.engine.executors.eddy.stair import Stair

#: What is paid to move a row, beside the combinations that it makes, in combinations that misplaced entries make.
#: One of these is found, stored and sent on, which takes about half a microsecond; to move a row takes a quarter of it.
_PRICE = 0.06
#: Chunks within which another wish makes moving more expensive, and the most that it is multiplied by.
_SOON = 32
_DEAREST = 64.0
#: One row for so many that are paid for moves on top of them, so that no small rest waits for a slice of its own.
_PAID_FOR_ONE_MORE = 8


@dataclass
class _Account:
    """What a STAIR wants, what its misplaced entries have cost, what a row cost to move, and a factor on that.

    It `is_tried` once a first slice has moved to what it wants now.
    """

    wanted: frozenset[frozenset[int]]
    changed: int = 0
    lost: float = 0.0
    price: float = _PRICE
    factor: float = 1.0
    is_tried: bool = False

    def count_rows(self, overhead: float = 0.0) -> int:
        """The rows that have been paid for, beside what a slice costs."""
        return int((self.lost / self.factor - overhead) / self.price)


class Stages:
    """The accounts of all STAIRs, and the mover that is paid from them."""

    #: The fewest rows that are worth a slice.
    least_rows = 512
    #: What a slice costs beside its rows, in combinations: it looks through all states of the STAIR that it moves to.
    overhead = 4_096.0
    #: Rows that move first, to show what they make.
    trial = 4_096

    def __init__(self, mover: Mover):
        self._mover = mover
        self._accounts: dict[Stair, _Account] = {}
        self._chunk = 0
        self.follow(mover.wanted(), lambda stair: 0.0)

    def follow(self, wanted: Mapping[Stair, frozenset[frozenset[int]]], made: Callable[[Stair], float]) -> None:
        """The STAIRs want these sets of inputs from now on; `made` is what a row should make when it moves there."""
        for stair, sets in wanted.items():
            account = self._accounts.setdefault(stair, _Account(sets))
            if account.wanted != sets:
                is_soon = account.changed and self._chunk - account.changed < _SOON
                account.factor = min(_DEAREST, 2 * account.factor) if is_soon else max(1.0, account.factor / 2)
                account.wanted, account.changed, account.lost = sets, self._chunk, 0.0
                account.price, account.is_tried = _PRICE + made(stair), False

    def next_chunk(self) -> None:
        """Another chunk begins."""
        self._chunk += 1

    def is_misplaced(self, stair: Stair, inputs: frozenset[int]) -> bool:
        """Whether a STAIR does not want entries of these inputs."""
        return inputs not in self._accounts[stair].wanted

    def lose(self, stair: Stair, count: int) -> None:
        """So many combinations have come up from misplaced entries of a STAIR."""
        self._accounts[stair].lost += count

    def begin_anew(self, stair: Stair) -> None:
        """There is no memory for what a STAIR wants: what has been paid until now does not count."""
        self._accounts[stair].lost = 0.0

    def settle(self, stair: Stair) -> None:
        """Before a STAIR is probed, move what has been paid for; where only a loop leads to entries, of any STAIR."""
        account = self._accounts[stair]
        if account.lost <= 0:
            return
        rows = account.count_rows(self.overhead)
        if rows < self.least_rows:
            return
        account.lost -= account.factor * self.overhead
        if not account.is_tried:
            account.is_tried = True
            self._move(stair, account, min(rows, self.trial))
            rows = account.count_rows()
        if rows >= self.least_rows:
            self._move(stair, account, rows + rows // _PAID_FOR_ONE_MORE)

    def _move(self, stair: Stair, account: _Account, rows: int) -> None:
        """Move so many rows, and pay for what that has taken."""
        moved, found = self._mover.rows_moved, self._mover.found
        if self._mover.is_found_by_key(stair):
            self._mover.move_some_of(stair, rows)
        else:
            self._mover.move_some(rows)
        moved, found = self._mover.rows_moved - moved, self._mover.found - found
        if moved:
            spent = _PRICE * moved + found
            account.lost -= account.factor * spent
            account.price = max(_PRICE, spent / moved)
        else:
            account.lost = 0.0
