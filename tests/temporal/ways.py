"""How a case is run: plan and executor, what happens between its pushes, and how small everything is cut."""

from __future__ import annotations

import random
from dataclasses import dataclass

from midstream.migrate import STRATEGIES

from ..oracle.spec import Case, Window

STRATEGY_NAMES = tuple(strategy.name for strategy in STRATEGIES if strategy.name != "staged")
EXECUTORS = ("tree", "tree", "stems", "stairs", "eddy")


@dataclass(frozen=True)
class Change:
    """A call of `migrate` before a push; without an executor it stays the one that runs."""

    before: int
    plan: str
    strategy: str
    budget: int | None
    executor: str | None

    def __str__(self) -> str:
        on = f" on {self.executor}" if self.executor else ""
        return f"before push {self.before} migrated to {self.plan}{on} by {self.strategy}, budget {self.budget}"


@dataclass(frozen=True)
class Restart:
    """Before a push, the engine is thrown away and another one goes on: from a snapshot, or from the rows alone."""

    before: int
    plan: str | None
    executor: str | None
    resumes: bool
    #: Smaller windows, one for each input, with which the query goes on.
    windows: tuple[Window, ...] = ()

    def __str__(self) -> str:
        how = "resumed from rows" if self.resumes else "restored"
        if self.windows:
            how += f" under windows {', '.join(f'{window.kind} {window.size}' for window in self.windows)}"
        return f"before push {self.before} {how} into {self.plan or 'its plan'} on {self.executor or 'its executor'}"


@dataclass(frozen=True)
class Way:
    """`chunk_rows` and `piece_bytes` are how small pushes and values are cut; None leaves the engine's own limits.

    With `is_tiny`, other limits of its stages are tiny too, see `limits`. With `is_limited`, memory is, by limits that
    change between pushes.
    """

    plan: str | None = None
    executor: str = "tree"
    events: tuple[Change | Restart, ...] = ()
    chunk_rows: int | None = None
    piece_bytes: int | None = None
    in_pieces: bool = False
    evicts: bool = False
    is_tiny: bool = False
    is_limited: bool = False
    demand: str = "off"

    def text(self) -> str:
        parts = [f"plan {self.plan} on {self.executor}"]
        parts += [f"chunks of {self.chunk_rows} rows"] * (self.chunk_rows is not None)
        parts += [f"pieces of {self.piece_bytes} bytes"] * (self.piece_bytes is not None)
        parts += [f"demand {self.demand}"] * (self.demand != "off")
        parts += ["push_batches"] * self.in_pieces + ["evicting"] * self.evicts + ["tiny limits"] * self.is_tiny
        parts += ["limits of memory"] * self.is_limited
        return ", ".join([*parts, *(str(event) for event in self.events)])


def draw_way(case: Case, rng: random.Random) -> Way:
    """Anything may happen before any push, and before `finish`."""
    events: list[Change | Restart] = []
    is_shrunk = False
    restarts, changes = rng.choice([0.0, 0.0, 0.1, 0.4]), rng.choice([0.0, 0.1, 0.2, 0.4])
    for before in range(len(case.pushes) + 1):
        if rng.random() < restarts:
            executor = rng.choice([None, *EXECUTORS])
            resumes = rng.random() < 0.3 and can_resume(case, before)
            windows: tuple[Window, ...] = ()
            if not resumes and not is_shrunk and rng.random() < 0.2:
                windows, is_shrunk = draw_smaller_windows(case, rng), True
            events.append(Restart(before, rng.choice([None, *case.plans]), executor, resumes, windows))
        while rng.random() < changes:
            budget = rng.choice([None, 0, 1, 5])
            executor = rng.choice([None, None, None, *EXECUTORS])
            events.append(Change(before, rng.choice(case.plans), rng.choice(STRATEGY_NAMES), budget, executor))
    return Way(
        plan=rng.choice([None, *case.plans]),
        executor=rng.choice(EXECUTORS),
        events=tuple(events),
        chunk_rows=rng.choice([None, None, 1, 2, 5]),
        piece_bytes=rng.choice([None, None, None, 1, 50, 400]),
        in_pieces=rng.random() < 0.2,
        evicts=rng.random() < 0.4,
        is_tiny=rng.random() < 0.5,
        is_limited=rng.random() < 0.4,
        demand=rng.choice(["off", "on", "auto"]),
    )


def can_resume(case: Case, before: int) -> bool:
    """Whether from here on the watermark is what it is after a resume: explicit, and the same for all streams."""
    given = [push.watermark for push in case.pushes]
    is_explicit = any(isinstance(watermark, int) for watermark in given[:before])
    return is_explicit and not any(isinstance(watermark, dict) for watermark in given)


def draw_smaller_windows(case: Case, rng: random.Random) -> tuple[Window, ...]:
    """Windows of which some are smaller; a bucket stays what it is."""
    windows = []
    for relation in case.inputs:
        window = relation.window
        if window.kind == "range":
            window = Window("range", rng.choice([window.size, window.size // 2, window.size // 3, 0]))
        windows.append(window)
    return tuple(windows)
