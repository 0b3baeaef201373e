"""A steady workload: four streams with one key, a window of ten seconds, a hundred milliseconds a push."""

from __future__ import annotations

import random

import pyarrow as pa

import midstream as ms

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})
STREAMS = ("r", "s", "t", "u")
OLD, NEW = "(((r s) t) u)", "(((u t) s) r)"
#: How many pushes a window is long.
WINDOW = 20
PUSH = 10_000_000 // WINDOW


def make_engine(plan: str, window: str = "[RANGE 10 SECONDS]") -> ms.Engine:
    inputs = ", ".join(f"{name} {window}" for name in STREAMS)
    text = f"SELECT r.v AS a, s.v AS b, t.v AS c, u.v AS d FROM {inputs} WHERE r.k = s.k AND s.k = t.k AND t.k = u.k"
    return ms.Engine(ms.query(text, schemas=dict.fromkeys(STREAMS, SCHEMA), event_time="ts"), plan=plan)


def batch(number: int, rows: int = 6, keys: int = 30) -> dict[str, pa.Table]:
    """The rows of a push: so many of each stream, by event time."""
    rng = random.Random(f"batch {number}")
    tables = {}
    for name in STREAMS:
        times = sorted(number * PUSH + rng.randrange(PUSH) for _ in range(rows))
        values = [number * rows + row for row in range(rows)]
        tables[name] = pa.table([[rng.randrange(keys) for _ in times], values, times], schema=SCHEMA)
    return tables


def push(engine: ms.Engine, number: int) -> list[tuple[int, ...]]:
    """The results of a push, in a fixed order; the watermark goes to its end."""
    out = engine.push(batch(number), watermark=(number + 1) * PUSH)
    return sorted(tuple(row.values()) for row in out.to_pylist())


def join_states(engine: ms.Engine) -> dict[str, tuple[int, int]]:
    """Entries and bytes of each join state, by its inputs."""
    found: dict[str, tuple[int, int]] = {}
    for state in engine.stats().states:
        if state.kind == "join":
            name = " ".join(sorted(state.aliases))
            rows, size = found.get(name, (0, 0))
            found[name] = (rows + state.rows, size + state.bytes)
    return found
