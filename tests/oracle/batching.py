"""The same input cut into other pushes, only ever in ways that must not change what is accepted, nor the results."""

from __future__ import annotations

import random

from .accept import event_time
from .spec import Case, Push, Row, Watermark


def batchings(case: Case, rng: random.Random) -> dict[str, Case]:
    """The case as given and under every other cut that its windows and watermarks allow."""
    found = {"as given": case}
    if case.max_jump is None:  # how far ahead a row is depends on the push that it comes with
        found["cut by arrival"] = case.with_pushes(_cut_by_arrival(case, rng))
    if case.free and not case.has_rows_windows:
        found["one row"] = case.with_pushes(_recut(case, rng, chance=1.0))
        found["all at once"] = case.with_pushes(_recut(case, rng, chance=0.0))
        found["recut"] = case.with_pushes(_recut(case, rng, chance=rng.choice([0.05, 0.2, 0.5])))
    return found


def _first_explicit(case: Case) -> int:
    """The push that gives the first explicit watermark; what comes up to it must not see other implicit ones."""
    return next((i for i, push in enumerate(case.pushes) if push.watermark is not None), -1)


def _cut_by_arrival(case: Case, rng: random.Random) -> list[Push]:
    """Each push in pieces along the order of arrival.

    This is free always: a watermark between two pieces is at most the event time of the piece before it, or what it
    was before the push. Only the first explicit watermark could fall behind an implicit one that a piece brings.
    """
    order = {name: place for place, name in enumerate(case.streams)}
    keep = _first_explicit(case)
    pushes = []
    for number, push in enumerate(case.pushes):
        if number == keep or len(push.rows) < 2:
            pushes.append(push)
            continue

        def arrival(placed: tuple[int, Row]) -> tuple[int, int, int]:
            ts = event_time(case, placed[1])
            return (2**80 if ts is None else ts, order[placed[1].source], placed[0])

        rows = [row for _, row in sorted(enumerate(push.rows), key=arrival)]
        cuts = sorted(rng.sample(range(1, len(rows)), rng.randint(1, min(3, len(rows) - 1))))
        pieces = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        pushes += [Push(tuple(piece)) for piece in pieces[:-1]]
        pushes.append(Push(tuple(pieces[-1]), push.watermark))
    return pushes


def _recut(case: Case, rng: random.Random, chance: float) -> list[Push]:
    """Cut between any two rows with some chance, else glue; a watermark waits for the next cut."""
    pushes: list[Push] = []
    rows: list[Row] = []
    pending: Watermark = None

    def close() -> None:
        nonlocal rows, pending
        pushes.append(Push(tuple(rows), pending))
        rows, pending = [], None

    first = _first_explicit(case)
    for number, push in enumerate(case.pushes):
        for row in push.rows:
            if rows and rng.random() < chance:
                close()
            rows.append(row)
        if isinstance(push.watermark, dict) and isinstance(pending, dict):
            pending = {**pending, **push.watermark}
        elif push.watermark is not None:
            pending = push.watermark
        if number == first:
            close()
    close()
    return pushes
