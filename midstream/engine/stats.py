"""What an engine tells about itself."""

from __future__ import annotations

from dataclasses import dataclass

from midstream.engine.input.dropped import SHED


@dataclass(frozen=True)
class StateStats:
    """One base window or join state, or the output stage. `holes` counts live rows whose combinations may be missing.

    `rows` counts rows or entries: none that were evicted, but those that have expired and were not collected yet.
    `aliases` are the inputs whose rows it has; `name` shows them as a plan does, with quotes where a plan needs them.
    A join state that `is_off` keeps nothing, to save memory: what it would hold is found in the windows when needed.
    """

    name: str
    kind: str
    rows: int
    bytes: int
    holes: int
    aliases: tuple[str, ...]
    is_off: bool = False


@dataclass(frozen=True)
class Work:
    """What the engine has done, counted and not timed: entries looked at by probes, bytes written to rings.

    `rows_moved` are rows of STAIRs whose entries were misplaced and have been moved, for a router or by a migration.
    """

    slots_visited: int
    bytes_moved: int
    rows_moved: int = 0


@dataclass(frozen=True)
class MemoryStats:
    """How an engine keeps to its memory limit, in bytes where nothing else is said.

    `windows`, `states`, `output` and `late` are what is held now, and `holes` the part of `states` that tells what is
    missing. `over` is the most that was held beyond the limit at the end of a chunk, before it was evicted; where
    windows, output and late rows alone are more than the limit, it stays. `evictions` counts how often a state lost
    entries, `evicted` the entries, and `refilled` those filled in, also for migrations. `states_off` counts the states
    that keep nothing. `kept_share` is the share of new rows that is not shed at present.
    """

    limit: int
    windows: int
    states: int
    holes: int
    output: int
    late: int
    over: int
    evictions: int
    evicted: int
    refilled: int
    states_off: int
    kept_share: float = 1.0


@dataclass(frozen=True)
class DemandStats:
    """What became of rows for which there was no demand.

    `hidden` counts rows that had to wait for a partner before they entered, `waiting` those of them that still do or
    have expired and were not collected yet, `woken` those for which all partners have come, and `released` those that
    entered without, because their plan has changed or waiting did not pay; the others have expired. `dropped` counts
    rows without a partner in a static table. `suspended` counts rows and combinations that had to wait inside a plan,
    and `resumed` those that went on. In `checks` one was looked up, in `hits` of them it had no partner. `idle` counts
    rows that came while a join further up had nothing at all on its other side: they are joined only with those that
    come there later, and when they do.
    """

    hidden: int
    waiting: int
    woken: int
    released: int
    dropped: int
    suspended: int
    resumed: int
    checks: int
    hits: int
    idle: int

    @property
    def saved(self) -> int:
        """How many rows and combinations have been kept out of joins so far, one by one: the idle are not counted."""
        never_entered = self.hidden - self.woken - self.released + self.dropped
        return never_entered + self.suspended - self.resumed


@dataclass(frozen=True)
class EngineStats:
    """Counters since the engine was made, and what it holds now.

    `rows_in` counts accepted rows, `late` and `rejected` the others, by stream. `dropped` counts those of the accepted
    rows that are in no window, because a filter or a null in a key keeps them out of every result, or because they were
    shed. `watermark` is in microseconds, and `held_back_by` names the stream that keeps it from moving on. `memory` is
    there with a limit, and `demand` unless it is off.
    """

    rows_in: dict[str, int]
    rows_out: int
    late: dict[str, int]
    rejected: dict[str, dict[str, int]]
    dropped: dict[str, dict[str, int]]
    watermark: int | None
    held_back_by: str | None
    state_bytes: int
    states: tuple[StateStats, ...]
    work: Work
    memory: MemoryStats | None = None
    demand: DemandStats | None = None

    @property
    def shed(self) -> dict[str, int]:
        """Rows that were dropped because memory was too small for them, by stream: results with them are missing."""
        return {stream: reasons.get(SHED, 0) for stream, reasons in self.dropped.items()}

    def __repr__(self) -> str:
        rejected = sum(sum(reasons.values()) for reasons in self.rejected.values())
        rows = f"rows_in={sum(self.rows_in.values())} rows_out={self.rows_out}"
        refused = f"late={sum(self.late.values())} rejected={rejected}"
        if any(self.shed.values()):
            refused += f" shed={sum(self.shed.values())}"
        watermark = f"watermark={self.watermark} held_back_by={self.held_back_by!r}"
        return f"<midstream.EngineStats {rows} {refused} {watermark} state_bytes={self.state_bytes}>"
