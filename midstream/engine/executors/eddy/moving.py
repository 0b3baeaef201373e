"""Moving entries to where the routing wants them.

A STAIR *wants* entries of one set of inputs, which follows from the routing; all others are misplaced. They are as good
for results, but lead probes another way than the routing has in mind. A misplaced entry is demoted to the largest part
of it on the way from the STAIR's input to what is wanted, and promoted from there.

Just in time: a probe has the entries that it touches moved before it reads them. In the background, the STAIRs that
want the smallest sets come first, because promotions into the others build on what these hold. When slices move is
somebody else's to say: a migration with its budget, or `stages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from midstream.engine.executors.eddy.inserting import insert
from midstream.engine.executors.eddy.operations import cut_down, merge, send_over, take_out
from midstream.engine.executors.eddy.routing import Climb, Routing
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore
from midstream.engine.joins.combos import Delta, find_distinct, heads_of
from midstream.engine.routing.classes import KeyClasses
from midstream.engine.routing.edges import Edge
from midstream.state.indexes import Ints
from midstream.state.join_state import Access


class Mover:
    """Moves the entries of STAIRs to where a routing wants them. It counts rows that moved and what came of them."""

    def __init__(self, store: StairStore, routings: Sequence[Routing]):
        self._store = store
        self.rows_moved = 0
        self.entries_made = 0
        #: Combinations that promotions have found on the way.
        self.found = 0
        self.follow(routings, None)

    def follow(self, routings: Sequence[Routing], classes: KeyClasses | None) -> None:
        """From now on routings, one for each class of rows, want entries elsewhere."""
        self._classes = classes
        stairs = self._store.stairs
        self._climbs = {stair: [routing.climb(*key) for routing in routings] for key, stair in stairs.items()}
        self._wanted = {stair: frozenset(climb.wanted for climb in climbs) for stair, climbs in self._climbs.items()}
        self._in_order = sorted(stairs.values(), key=lambda stair: min(map(len, self.wanted_by(stair))))

    def count_on_from(self, other: Mover) -> None:
        """Add what another mover has counted."""
        self.rows_moved += other.rows_moved
        self.entries_made += other.entries_made
        self.found += other.found

    def wanted(self) -> dict[Stair, frozenset[frozenset[int]]]:
        """The sets of inputs of the entries that each STAIR should hold."""
        return self._wanted

    def wanted_by(self, stair: Stair) -> frozenset[frozenset[int]]:
        """The sets of inputs of the entries that a STAIR should hold, for rows of one class or another."""
        return self._wanted[stair]

    def misplaced(self, stair: Stair) -> list[frozenset[int]]:
        """The sets of inputs that a STAIR has entries of and does not want."""
        wanted = self.wanted_by(stair)
        return [inputs for inputs in stair.contents() if inputs not in wanted]

    def count_misplaced(self) -> int:
        """All misplaced entries, those included that have expired and were not collected yet."""
        return sum(
            len(stair.rows) if inputs == stair.alone else len(stair.states[inputs])
            for stair in self._in_order
            for inputs in self.misplaced(stair)
        )

    @property
    def is_done(self) -> bool:
        """Whether nothing is misplaced."""
        return not any(self.misplaced(stair) for stair in self._in_order)

    def forget_dead(self) -> None:
        """Give up states of misplaced combinations that have all expired; they have just been purged."""
        for stair in self._in_order:
            empty = [inputs for inputs, state in stair.states.items() if len(state) == 0]
            for inputs in empty:
                if inputs not in self.wanted_by(stair):
                    del stair.states[inputs]

    def settle(self, stair: Stair, delta: Delta) -> bool:
        """Move the entries of a STAIR that a probe with this delta touches; True if it finds no rows alone then.

        If only a loop leads to entries, here or where they would be promoted, everything would be touched: then the
        probe goes on with what there is.
        """
        misplaced = self.misplaced(stair)
        if not misplaced or not self.is_found_by_key(stair):
            return False
        touched = np.concatenate([stair.find_touched(inputs, delta) for inputs in misplaced])
        touched = touched[find_distinct(touched.reshape(-1, 1))]
        self._move(stair, touched)
        return stair.alone in misplaced and not stair.rows.has(touched).any()

    def is_found_by_key(self, stair: Stair) -> bool:
        """Whether no loop leads to the entries of a STAIR, nor to those that they would be joined with."""
        if stair.path.access is Access.LOOP:
            return False
        climbs = self._climbs[stair]
        duals = (
            self._beyond(inputs, via) for climb in climbs for inputs, via in zip(climb.sets, climb.edges, strict=False)
        )
        return all(not self.misplaced(dual) or self.is_found_by_key(dual) for dual in duals)

    def _beyond(self, joined: frozenset[int], edge: Edge) -> Stair:
        return self._store.stair(edge.other(edge.inner_end(joined)), edge)

    def move_some(self, limit: int) -> int:
        """Move up to so many rows of the first STAIR that has misplaced entries; how many there were."""
        for stair in self._in_order:
            moved = self._move_first(stair, limit)
            if moved:
                return moved
        return 0

    def move_some_of(self, stair: Stair, limit: int) -> int:
        """Move up to so many rows of one STAIR, if keys lead to all that it builds on; how many there were."""
        return self._move_first(stair, limit) if self.is_found_by_key(stair) else 0

    def _move_first(self, stair: Stair, limit: int) -> int:
        for inputs in self.misplaced(stair):
            rows = self._choose(stair, inputs, limit)
            if len(rows):
                self._move(stair, rows)
                return len(rows)
            del stair.states[inputs]  # all of them have expired
        return 0

    def _choose(self, stair: Stair, inputs: frozenset[int], limit: int) -> Ints:
        """Rows of a STAIR's input that stand in entries of these inputs; of combinations, those that are not dead.

        The newest rows that stand alone come first: they stay the longest.
        """
        if inputs == stair.alone:
            return stair.rows.last(limit)
        state = stair.states[inputs]
        # What has been moved or is dead leaves the head, so that no choice looks at it again.
        state.purge(self._store.horizon, heads_of(self._store.windows))
        rows = state.rows_of(stair.stream, state.first(limit))
        return rows[find_distinct(rows.reshape(-1, 1))]

    def _move(self, stair: Stair, rows: Ints) -> None:
        """Move all misplaced entries of a STAIR that have one of these rows of its input, each class on its way."""
        climbs = self._climbs[stair]
        numbers = None
        if len(rows) and self._classes is not None:
            numbers = self._classes.of(Delta.of_rows(stair.stream, rows, self._store.windows))
        if numbers is None:
            self._move_along(stair, climbs[0], rows)
            return
        for climb in dict.fromkeys(climbs):
            own = [number for number, other in enumerate(climbs) if other == climb]
            self._move_along(stair, climb, rows[np.isin(numbers, own)])

    def _move_along(self, stair: Stair, climb: Climb, rows: Ints) -> None:
        if len(rows) == 0:
            return
        store = self._store
        waiting: dict[frozenset[int], list[Delta]] = {inputs: [] for inputs in climb.sets}
        for inputs in self.misplaced(stair):
            taken = take_out(store, stair, inputs, rows)
            part = max((found for found in climb.sets if found <= inputs), key=len)
            waiting[part].append(cut_down(store, taken, part))
        for inputs, via in zip(climb.sets, climb.edges, strict=False):
            for promoted in self._send_over(waiting[inputs], via):
                if frozenset(promoted.inputs) in waiting:
                    waiting[frozenset(promoted.inputs)].append(promoted)
                else:  # the STAIR beyond the edge had more than what it wants
                    insert(store, stair, promoted)
        self.rows_moved += len(rows)
        stair.window.meter.rows_moved += len(rows)
        settled = merge(waiting[climb.wanted])
        if settled is not None:
            self.entries_made += len(settled)
            stair.window.meter.entries_filled += len(settled)
            insert(store, stair, settled)

    def _send_over(self, parts: list[Delta], via: Edge) -> Iterator[Delta]:
        delta = merge(parts)
        if delta is not None:
            self.settle(self._beyond(frozenset(delta.inputs), via), delta)
            for found in send_over(self._store, delta, via):
                self.found += len(found)
                yield found
