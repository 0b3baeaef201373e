"""Filling level by level, ahead of the joins: what the plain recursion stores, in fewer and larger steps.

The plain recursion goes down from each probed state by itself, so that a state low in the plan is filled many times
with few rows. Here one round per chunk fills every state once. It needs exactly one box per incomplete state; where
one has more, the plain recursion runs alone.

1. **Claim, from the top down.** New rows of a leaf say by an index which rows of the state beside it they touch.
   Filling a join for rows takes the same rows of the child that has their input, or, if that is a leaf, what these rows
   touch in the other child. So all rows are known before any combination is made, and every row is claimed once: from
   its claim on it counts as being filled, and nobody else claims it.
2. **Make, from the bottom up.** When a join's turn comes, its children hold what its rows need, because their turns
   came before. A join may be filled for rows of two inputs. A combination with claimed rows of both is made with the
   first: rows whose turn is still to come are `pending`, which means still in the box, and rows whose turn has been
   have left.
3. **Settle last.** The rows stay marked as being filled until all joins have had their turn, so that a join can tell
   what its child made for which rows in this round.

**Twins.** Often a join and its child were declared missing at the same moment, and only through the input being filled
have rows left either box since. If the child's box had all the rows that the join is filled for, the child had stored
nothing with them that is in the join's box: whatever it stores for them now is all there is. So what was made for the
child goes up as it is, and is not looked up in the child's state again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from midstream.engine.joins.combos import Delta
from midstream.engine.joins.filling import Bounds, Filler, store
from midstream.engine.joins.nodes import JoinNode, LeafNode, LiveNode
from midstream.engine.joins.probing import Prober
from midstream.state.indexes import Ints
from midstream.state.missing import Box
from midstream.state.window import BaseWindow


class _Round:
    """The fills of one chunk, by node and input: rows that were claimed, and what was made for them."""

    def __init__(self) -> None:
        self._claimed: dict[tuple[int, int], list[Delta]] = {}
        self.made: dict[tuple[int, int], Delta] = {}

    def add(self, node: JoinNode, number: int, rows: Delta) -> None:
        if len(rows):
            self._claimed.setdefault((id(node), number), []).append(rows)

    def claims_of(self, node: JoinNode) -> list[tuple[int, Delta]]:
        """The inputs and rows for which a node has to be filled."""
        found = []
        for (owner, number), parts in self._claimed.items():
            if owner == id(node):
                parts[:] = [Delta.concatenate(parts)]
                found.append((number, parts[0]))
        return found


class LevelFiller(Filler):
    """Fills by rounds, and uses twins."""

    def __init__(self, windows: Sequence[BaseWindow], prober: Prober):
        super().__init__(windows, prober)
        self._round = _Round()

    def fill_ahead(self, joins: Sequence[JoinNode], deltas: Mapping[int, Delta], horizon: int) -> None:
        lacking = [node.state.missing for node in joins if node.lacks_entries and node.state is not None]
        if any(missing.only_box is None for missing in lacking):
            super().fill_ahead(joins, deltas, horizon)
            return
        self._round = _Round()
        for node in reversed(joins):
            self._claim_for_children(node, deltas)
            for number, rows in self._round.claims_of(node):
                self._claim_below(node, number, rows)
        for node in joins:
            self._make(node, horizon)
        for node in joins:
            for number, rows in self._round.claims_of(node):
                self._settle(node, number, rows.ids, len(self._round.made[id(node), number]))
        self._round = _Round()

    def _claim_for_children(self, node: JoinNode, deltas: Mapping[int, Delta]) -> None:
        """What the new rows of a leaf touch in the state beside it."""
        for child, sibling in ((node.left, node.right), (node.right, node.left)):
            if isinstance(sibling, LeafNode) and sibling.number in deltas:
                self._claim_touched(child, deltas[sibling.number])

    def _claim_below(self, node: JoinNode, number: int, rows: Delta) -> None:
        """What filling a node for rows of an input takes of its children."""
        child = node.child_with(number)
        if isinstance(child, LeafNode):
            self._claim_touched(node.other(child), rows)
        elif self._leads_to_entries(child, number) and child.lacks_entries and child.state is not None:
            claimed = child.state.missing.claim(number, self._windows[number].head, rows.ids)
            self._round.add(child, number, rows.at(claimed))

    def _claim_touched(self, node: LiveNode, probing: Delta) -> None:
        if isinstance(node, JoinNode) and node.lacks_entries:
            assert node.path is not None and node.state is not None
            self._round.add(node, node.path.driver, node.path.claim(probing, node.state.missing))

    def _make(self, node: JoinNode, horizon: int) -> None:
        """A node's turn: store what is missing with its claimed rows, input by input."""
        claims = self._round.claims_of(node)
        for place, (number, rows) in enumerate(claims):
            assert node.state is not None
            bounds = Bounds(horizon, node.state.missing)
            if isinstance(node.child_with(number), LeafNode):
                # What these rows touch in the other child was claimed, and so it is there by now.
                found = self._joined(node, rows, bounds)
            else:
                found = self._combinations(node, number, rows.ids, bounds)
            pending = [other for other, _ in claims[place + 1 :]]
            made = self._covered(found, number, bounds, pending)
            store(node, made)
            self._round.made[id(node), number] = made

    def _child_combinations(self, child: LiveNode, number: int, ids: Ints, bounds: Bounds) -> Delta:
        if isinstance(child, LeafNode) or not child.lacks_entries or not self._leads_to_entries(child, number):
            return super()._child_combinations(child, number, ids, bounds)
        assert child.state is not None
        own, target = child.state.missing.only_box, bounds.missing.only_box
        if own is None or target is None or not own.has_marks_of(target, number):
            return super()._child_combinations(child, number, ids, bounds)
        claimed = self._claim(child, number, ids)
        made = self._complete(child, number, claimed, bounds.horizon)
        if made is not None and len(claimed) == len(ids):
            return made
        in_round = self._round.made.get((id(child), number))
        if in_round is not None and len(claimed) == 0:
            return self._part_of_round(in_round, target, own, child, number, ids)
        return self._stored_with_rows(child, number, ids)

    def _part_of_round(self, made: Delta, target: Box, own: Box, child: JoinNode, number: int, ids: Ints) -> Delta:
        """What the child made in this round for the rows that the node is filling, and what it had of them before."""
        column = made.inputs.index(number)
        part = made.at(target.tell_filling(number, made.combos.rows[:, column])[0])
        before = ids[own.tell_filling(number, ids)[1]]
        if len(before) == 0:
            return part
        stored = self._stored_with_rows(child, number, before)
        # Entries of the same key that were made now come with those stored before: each counts once.
        old = stored.at(own.tell_filling(number, stored.combos.rows[:, column])[1])
        return Delta.concatenate([part, old])
