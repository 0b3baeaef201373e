"""Time against memory: `memory-time`, what a row costs under limits from little more than the windows on.

No paper has this experiment. Four streams with a common key go through a left-deep plan in small batches. Keys are
drawn evenly, or by Zipf's law in the last stream, whose rows probe the largest state. In the others every key comes
once per window. The first window of rows passes without a limit; then engines are held to what their windows take and a
share of what the states of an engine without a limit take.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lab.answers import Digest, digest_of, require_same
from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.zhu_plots import lines

_STREAMS = "abcd"
_PLAN = "(((a b) c) d)"
_SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})
_BATCH, _WINDOWS_OF_ROWS = 50, 3
#: Of what the states of an engine without a limit take; None is no limit.
_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0, None)
_QUARTER = 1 / 4
#: How keys of the last stream are drawn, and which share of the throughput without a limit a quarter should leave.
_LEAST = {"even keys": 1 / 3, "Zipf(1) keys": 1 / 2}


@dataclass(frozen=True)
class _Measurement:
    """One run after its first window: processor time of a row, the most bytes that were held, and what was given up."""

    keys: str
    seed: int
    limit: str
    seconds_a_row: float
    most_bytes: int
    evicted: int
    refilled: int
    states_off: int


def _draw_tables(keys: str, window: int, seed: int) -> dict[str, pa.Table]:
    """Rows a microsecond apart."""
    rng = np.random.default_rng([seed, len(keys)])
    count = _WINDOWS_OF_ROWS * window
    drawn = {name: np.concatenate([rng.permutation(window) for _ in range(_WINDOWS_OF_ROWS)]) for name in _STREAMS}
    if keys != "even keys":
        weights = np.cumsum(1 / np.arange(1, window + 1))
        drawn["d"] = np.searchsorted(weights, rng.random(count) * weights[-1])
    times = np.arange(count)
    return {name: pa.table([codes, times, times], schema=_SCHEMA) for name, codes in drawn.items()}


def _find_answer(tables: Mapping[str, pa.Table], window: int) -> Digest:
    """DuckDB's join from scratch."""
    import duckdb

    times = ", ".join(f"{name}.ts" for name in _STREAMS)
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        found = database.sql(
            f"SELECT a.v AS av, d.v AS dv, greatest({times}) AS valid_from, least({times}) + {window - 1} AS valid_to "
            "FROM a JOIN b ON a.k = b.k AND abs(a.ts - b.ts) < $1 JOIN c ON a.k = c.k AND abs(a.ts - c.ts) < $1 "
            "JOIN d ON a.k = d.k WHERE greatest(" + times + ") - least(" + times + ") < $1",
            params=[window],
        ).to_arrow_table()
    return digest_of([found])


def _run(
    tables: Mapping[str, pa.Table], window: int, limit: int | None, labels: tuple[str, int, str]
) -> tuple[_Measurement, Digest, tuple[int, int]]:
    """The measurement, the results, and what windows and states took at the end."""
    inputs = ", ".join(f"{name} [RANGE {window - 1} MICROSECONDS]" for name in _STREAMS)
    text = f"SELECT a.v AS av, d.v AS dv FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    engine = ms.Engine(ms.query(text, dict.fromkeys(_STREAMS, _SCHEMA), "ts"), plan=_PLAN, demand="off")
    found, seconds, most = Digest(), 0.0, 0
    for begin in range(0, _WINDOWS_OF_ROWS * window, _BATCH):
        if begin == window:
            engine.memory_limit = limit
        batch = {name: table.slice(begin, _BATCH) for name, table in tables.items()}
        began = time.process_time()
        out = engine.push(batch)
        if begin >= window:
            seconds += time.process_time() - began
            most = max(most, engine.stats().state_bytes)
        found += digest_of([out])
    stats = engine.stats()
    sizes = [sum(state.bytes for state in stats.states if state.kind == kind) for kind in ("window", "join")]
    memory = stats.memory
    done = (0, 0, 0) if memory is None else (memory.evicted, memory.refilled, memory.states_off)
    rows = len(_STREAMS) * (_WINDOWS_OF_ROWS - 1) * window
    return _Measurement(*labels, seconds / rows, most, *done), found, (sizes[0], sizes[1])


def _name(share: float | None) -> str:
    return "none" if share is None else f"{share:.0%} of the states"


def _measure(settings: Settings, progress: Progress) -> Outcome:
    window = settings.size(4_000, 20_000, least=2_000) // _BATCH * _BATCH
    shares = _SHARES if settings.scale >= 1 else (_QUARTER, None)
    progress.total(len(_LEAST) * len(settings.seeds) * len(shares))
    taken: list[_Measurement] = []
    for keys in _LEAST:
        for seed in settings.seeds:
            tables = _draw_tables(keys, window, seed)
            expected = _find_answer(tables, window)
            windows = states = 0
            for share in reversed(shares):  # without a limit first: that tells what states take
                progress.step(f"{keys}, limit {_name(share)}")
                limit = None if share is None else windows + int(share * states)
                measurement, digest, sizes = _run(tables, window, limit, (keys, seed, _name(share)))
                if share is None:
                    windows, states = sizes
                require_same({f"{keys}, limit {_name(share)}": digest}, expected, "memory-time")
                taken.append(measurement)
                progress.advance()
    return _conclude(taken, shares)


def _conclude(taken: list[_Measurement], shares: tuple[float | None, ...]) -> Outcome:
    points = {
        (keys, share): (
            statistics.median(run.most_bytes for run in taken if (run.keys, run.limit) == (keys, _name(share))),
            statistics.median(run.seconds_a_row for run in taken if (run.keys, run.limit) == (keys, _name(share))),
        )
        for keys in _LEAST
        for share in shares
    }
    kept = {keys: points[keys, None][1] / points[keys, _QUARTER][1] for keys in _LEAST}
    holds = all(kept[keys] >= least for keys, least in _LEAST.items())
    figures = ", ".join(f"{share:.2f} times with {keys}" for keys, share in kept.items())
    short = [f"{keys} leave less than {least:.2f}" for keys, least in _LEAST.items() if kept[keys] < least]
    return Outcome(
        pa.Table.from_pylist([asdict(run) for run in taken]),
        pa.table(
            {
                "keys": [keys for keys, _ in points],
                "limit": [_name(share) for _, share in points],
                "MB held at most": [size / 1e6 for size, _ in points.values()],
                "us a row": [1e6 * seconds for _, seconds in points.values()],
            }
        ),
        (
            lines(
                {
                    keys: sorted((points[keys, share][0] / 1e6, 1e6 * points[keys, share][1]) for share in shares)
                    for keys in _LEAST
                },
                "MB held at most",
                "us of processor time a row",
            ),
        ),
        verdict(holds),
        f"a quarter of what states take leaves {figures} of the throughput without a limit",
        "" if holds else "; ".join(short),
        checked=True,
    )


MEMORY_TIME = Experiment(
    "memory-time",
    "Time against memory",
    "none: an experiment of Midstream's own",
    "With room for a quarter of its join states an engine keeps a third of its throughput, with skewed keys half",
    _measure,
)
