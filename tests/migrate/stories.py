"""Short stories of rows and transitions, told in one line and run through an engine row by row.

``"r1 s1 -> ((R S) T) -> r2 t1"``: rows r1 and s1, a change of plan, rows r2 and t1. A row may have a key and an event
time: ``t2:k0@15``; without them its key is k0 and its time one more than that of the row before it. Every push is one
row, and the watermark follows it at once, so that rows expire as early as they may. Keys are common to all streams.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

import midstream as ms

from .changes import fit_budget

SCHEMA = pa.schema({"name": pa.string(), "k": pa.string(), "ts": pa.int64()})
ROW = re.compile(r"([a-z])(\d+)(?::(\w+))?(?:@(\d+))?")
WIDE = 1_000_000
#: The results of a push: each the names of its rows in the order of the streams.
Results = list[str]


@dataclass(frozen=True)
class Row:
    name: str
    stream: str
    key: str
    ts: int


def read_story(story: str) -> Iterator[Row | str]:
    """The rows and plans of a story, in its order."""
    now = 0
    for number, part in enumerate(story.split("->")):
        if number % 2:
            yield part.strip()
            continue
        for text in part.split():
            found = ROW.fullmatch(text)
            assert found is not None, f"no row: {text!r}"
            letter, count, key, ts = found.groups()
            now = int(ts) if ts else now + 1
            yield Row(letter + count, letter.upper(), key or "k0", now)


def make_engine(plan: str, windows: dict[str, int] | None = None) -> ms.Engine:
    """An engine over the streams of a plan, all with one key; a window in microseconds for each, else a wide one."""
    streams = sorted(re.findall(r"\w+", plan))
    windows = windows or dict.fromkeys(streams, WIDE)
    names = ", ".join(f"{stream}.name AS {stream}_name" for stream in streams)
    inputs = ", ".join(f"{stream} [RANGE {windows[stream]} MICROSECONDS]" for stream in streams)
    keys = " AND ".join(f"{left}.k = {right}.k" for left, right in itertools.pairwise(streams))
    query = ms.query(
        f"SELECT {names} FROM {inputs} WHERE {keys}", schemas=dict.fromkeys(streams, SCHEMA), event_time="ts"
    )
    return ms.Engine(query, plan=plan)


def push(engine: ms.Engine, *rows: Row) -> Results:
    """The results of a push of these rows; the watermark goes to the last."""
    tables = {
        stream: pa.table(
            [
                [row.name for row in rows if row.stream == stream],
                [row.key for row in rows if row.stream == stream],
                [row.ts for row in rows if row.stream == stream],
            ],
            schema=SCHEMA,
        )
        for stream in {row.stream for row in rows}
    }
    out = engine.push(tables, watermark=rows[-1].ts)
    return sorted(" ".join(list(result.values())[:-2]) for result in out.to_pylist())


def run(engine: ms.Engine, story: str, strategy: str = "jisc", budget: int | str | None = 0) -> list[Results]:
    """What each row of the story brings."""
    found: list[Results] = []
    for step in read_story(story):
        if isinstance(step, str):
            engine.migrate(step, strategy, **fit_budget(strategy, budget))
        else:
            found.append(push(engine, step))
    return found


def find_expected(story: str, streams: str, windows: dict[str, int] | None = None) -> list[Results]:
    """What each row brings by the definition: every combination of rows so far that it completes."""
    windows = windows or dict.fromkeys(streams, WIDE)
    rows: list[Row] = []
    found: list[Results] = []
    for row in (step for step in read_story(story) if isinstance(step, Row)):
        rows.append(row)
        choices = [[earlier for earlier in rows if earlier.stream == stream] for stream in sorted(streams)]
        results = []
        for members in itertools.product(*choices):
            starts, ends = [member.ts for member in members], [member.ts + windows[member.stream] for member in members]
            if row in members and len({member.key for member in members}) == 1 and max(starts) <= min(ends):
                results.append(" ".join(member.name for member in members))
        found.append(sorted(results))
    return found
