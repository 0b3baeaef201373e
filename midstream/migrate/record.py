"""What a migration tells about itself, the same for every strategy."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

_logger = logging.getLogger("midstream")

Listener = Callable[["Migration"], None]

#: What `holes_left` counts, as strategies declare it.
UNFILLED_ROWS = "unfilled rows"
MISPLACED_ENTRIES = "misplaced entries"
OLD_ROWS = "old rows"
MICROSECONDS = "microseconds"


@dataclass(frozen=True)
class Migration:
    """A migration as it stands.

    `holes_left` is what has to go away before it ends, and `unit` says what that counts: "unfilled rows" are live
    driver rows that are still in a hole, summed over the states; "misplaced entries" are those of STAIRs that the new
    routing wants elsewhere; "old rows" are live rows that only the old plan knows;
    "microseconds" is the way of the watermark to the split time, from the oldest row as long as there is no watermark.
    `rows` and `entries` were computed for the migration's sake,
    `seconds` spent on it, `bytes` is what it holds beyond the new plan, `batches` counts the pushes since it began.
    `phase` is "begun", "running" once a push has passed, and in the end "done", or "replaced" if a later migration
    took over what ran. `note` tells why `strategy` is not the one that was asked for, and is empty if it is.
    `from_executor` and `to_executor` differ where it also leads to another executor.
    """

    strategy: str
    from_plan: str
    to_plan: str
    phase: str
    holes_left: int
    holes_at_start: int
    rows: int
    entries: int
    seconds: float
    bytes: int
    batches: int
    unit: str
    note: str = ""
    from_executor: str = "tree"
    to_executor: str = "tree"

    def __repr__(self) -> str:
        plans = f"{self.from_text} to {self.to_text} by {self.strategy}"
        left = "" if self.has_ended else f", {self.percent:.0f}% complete, {self.left_text}"
        return f"<midstream.Migration {plans}: {self.phase}{left}>"

    @property
    def from_text(self) -> str:
        """The plan before, with its executor if that changes."""
        return self.from_plan if self.from_executor == self.to_executor else f"{self.from_plan} on {self.from_executor}"

    @property
    def to_text(self) -> str:
        """The plan it leads to, with its executor if that changes."""
        return self.to_plan if self.from_executor == self.to_executor else f"{self.to_plan} on {self.to_executor}"

    @property
    def is_done(self) -> bool:
        return self.phase == "done"

    @property
    def has_ended(self) -> bool:
        return self.phase in ("done", "replaced")

    @property
    def left_text(self) -> str:
        """What is left, with its unit."""
        return f"{self.holes_left:,} of {self.holes_at_start:,} {self.unit} left"

    @property
    def percent(self) -> float:
        """How complete it is, in percent."""
        if self.is_done or self.holes_at_start == 0:
            return 100.0 if self.is_done else 0.0
        return 100.0 * (1 - min(self.holes_left, self.holes_at_start) / self.holes_at_start)


class Running(NamedTuple):
    """What runs before or after a migration, by name: a plan and the executor that it is on."""

    plan: str
    executor: str


class Recorder:
    """Keeps a migration's record up to date and tells listeners about each phase."""

    def __init__(self, strategy: str, unit: str, old: Running, new: Running, listener: Listener | None = None):
        self.current = Migration(
            strategy,
            old.plan,
            new.plan,
            "begun",
            holes_left=0,
            holes_at_start=0,
            rows=0,
            entries=0,
            seconds=0.0,
            bytes=0,
            batches=0,
            unit=unit,
            from_executor=old.executor,
            to_executor=new.executor,
        )
        self._listener = listener
        self._untold: list[Migration] = []

    def go_by(self, strategy: str, unit: str, note: str) -> None:
        """It goes by another strategy than the one that was asked for."""
        self.current = replace(self.current, strategy=strategy, unit=unit, note=note)

    def spend(self, began: float) -> None:
        """Add the time since it began, a moment of `time.perf_counter`."""
        self.current = replace(self.current, seconds=self.current.seconds + time.perf_counter() - began)

    def begin(self, holes: int) -> None:
        """The transition is made; so much has to go away."""
        self.current = replace(self.current, holes_left=holes, holes_at_start=holes)
        self._tell()

    def count_computed(self, rows: int, entries: int) -> None:
        """So much was computed at the transition."""
        self.current = replace(self.current, rows=rows, entries=entries)

    def count_push(self, holes: int, rows: int, entries: int, held: int) -> None:
        """A push has passed."""
        is_first = self.current.phase == "begun"
        self.current = replace(
            self.current,
            phase="running",
            holes_left=holes,
            rows=rows,
            entries=entries,
            bytes=held,
            batches=self.current.batches + 1,
        )
        if is_first:
            self._tell()

    def end(self) -> None:
        """Only the new plan is left, and nothing is missing."""
        if not self.current.has_ended:
            self.current = replace(self.current, phase="done", holes_left=0, bytes=0)
            self._tell()

    def give_way(self) -> None:
        """A later migration has taken over; what was left to do is not done any more."""
        if not self.current.has_ended:
            self.current = replace(self.current, phase="replaced", bytes=0)
            self._tell()

    def _tell(self) -> None:
        self._untold.append(self.current)

    def deliver(self) -> None:
        """Tell the listener of each phase since the last call, now that whatever runs has been put in place.

        Nothing can be undone any more, so an error of the listener is logged: a migration that was made must not look
        as if it had failed, and the results of a push must not be lost.
        """
        told, self._untold = self._untold, []
        if self._listener is None:
            return
        for record in told:
            try:
                self._listener(record)
            except Exception:
                _logger.exception("midstream: a listener of the migration to %s failed", record.to_plan)
