"""Follows the record of migrations through a run and checks what every strategy promises about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import midstream as ms
from midstream.engine.executors.eddy.executor import EddyExecutor
from midstream.migrate import Migration

from ..evictions import trees_of

PHASES = ["begun", "running", "replaced", "done"]


@dataclass
class Follower:
    """The newest migration of an engine: what it told, and how far it was after each push."""

    record: Migration | None = None
    events: list[Migration] = field(default_factory=list)

    def check_begun(self, record: Migration) -> None:
        self.record = record
        self._check_events()
        assert self.events, "no event when the migration began"
        assert self.events[0].phase == "begun"
        assert record.holes_left <= record.holes_at_start

    def check_push(self, engine: ms.Engine) -> None:
        """A push has passed."""
        before, after = self.record, engine.migration
        if before is None:
            assert after is None
            return
        assert after is not None
        self._check_events()
        if before.is_done:
            assert after == before, f"a migration that is done changed:\n{before}\n{after}"
        else:
            assert after.phase != "begun"
            assert after.batches == before.batches + 1, f"{before.batches} batches, then {after.batches}"
            assert after.percent >= before.percent, f"{before.percent} percent, then {after.percent}"
            assert after.holes_left <= before.holes_left
            assert after.seconds >= before.seconds
        if after.is_done:
            assert (after.percent, after.holes_left, after.bytes) == (100.0, 0, 0), after
            check_states(engine)
        self.record = after

    def check_end(self) -> None:
        """It must have ended by now."""
        if self.events:
            self._check_events()
            assert self.events[-1].has_ended, f"no end was told: {self.events[-1]}"

    def _check_events(self) -> None:
        told = [PHASES.index(event.phase) for event in self.events]
        assert told == sorted(set(told)), f"events out of order or twice: {[event.phase for event in self.events]}"
        ended = [event for event in self.events if event.has_ended]
        assert len(ended) <= 1, f"ended twice: {[event.phase for event in ended]}"
        assert all(event.bytes == 0 and (event.holes_left == 0 or not event.is_done) for event in ended)


def check_states(engine: ms.Engine) -> None:
    """A migration is done: only the states of the new plan are there, and they lack nothing but what was evicted."""
    plan, executor = engine.plan, engine._pipeline.executor
    if isinstance(executor, EddyExecutor):
        if not executor.kind.moves_entries:
            return  # on an eddy, everything stays where it is
        if executor.store.demoted or executor._cause is None:
            return  # for want of memory, entries were demoted, a STAIR was off, or the rest is not moved
    joins = [state for state in engine.stats().states if state.kind == "join" or state.kind == "stair"]
    misplaced = [state for state in joins if state.kind == "stair" and state.holes]
    assert not misplaced, f"misplaced after a migration that is done: {misplaced}"
    joins = [state for state in joins if len(state.aliases) > 1]
    shapes = executor.kind.state_shapes(engine.query, plan)
    wanted = [sorted(plan.aliases[number] for number in shape.inputs) for shape in shapes]
    assert sorted(sorted(state.aliases) for state in joins) == sorted(wanted), f"states of {plan}: {joins}"
    nodes = [node for tree in trees_of(executor) for node in tree.joins() if node.state is not None]
    causes = [box.cause.kind for node in nodes if node.state is not None for box in node.state.missing]
    assert all(kind == "eviction" for kind in causes), f"missing because of a migration that is done: {causes}"
    missing = [state for state in joins if state.holes]
    assert causes or not missing, f"holes left: {missing}"
