"""What a memory limit costs: an engine with room for a quarter of what its join states would take.

Four streams with a common key by a left-deep plan, in batches of 50 rows a stream. The same rows go through engines
without a limit, with all states switched off, and with a limit of what the windows take and a quarter of the states of
the first. Keys are drawn evenly, or by Zipf's law in the last stream, whose rows probe the largest state; every key of
the others comes once per window, so that results do not explode. All run in one process on one core; what counts is
processor time after the first window. They take turns, and the median of three rounds counts. All must give the same
results.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.lab.bench.one_core import use_one_core

_STREAMS = "abcd"
_PLAN = "(((a b) c) d)"
_SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})
_BATCH = 50
_SHARE = 1 / 4
_ROUNDS = 3
_OF_ALL_OFF = 0.9


@dataclass(frozen=True)
class Keys:
    """How keys are drawn, and which share of the throughput without a limit there should be at least."""

    name: str
    is_skewed: bool
    least_share: float


KEYS = (Keys("even keys", False, 1 / 3), Keys("Zipf(1) keys", True, 1 / 2))


@dataclass(frozen=True)
class Measurement:
    """Rows a second, the number of results and the sum of their values, and what windows and states took."""

    rate: float
    answer: tuple[int, int]
    windows: int
    states: int


def run(window: int = 20_000, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all targets were reached."""
    console = console or Console()
    use_one_core()
    table = Table("", "without limit", "all states off", "a quarter", "of no limit", "of all off", title="rows/s")
    reached = True
    for keys in KEYS:
        batches = list(_draw_batches(keys, window))
        free, off, limited = _take_turns(batches, window)
        of_free, of_off = limited / free, limited / off
        rates = [f"{rate:,.0f}" for rate in (free, off, limited)]
        shares = f"{of_free:.2f} (>= {keys.least_share:.2f})", f"{of_off:.2f} (>= {_OF_ALL_OFF:.2f})"
        table.add_row(keys.name, *rates, *shares)
        reached &= of_free >= keys.least_share and of_off >= _OF_ALL_OFF
    console.print(table)
    return reached


def _draw_batches(keys: Keys, window: int) -> Iterator[dict[str, pa.Table]]:
    """Rows of two windows, a microsecond apart."""
    rng = np.random.default_rng(7)
    orders = {name: np.concatenate([rng.permutation(window) for _ in range(2)]) for name in _STREAMS}
    if keys.is_skewed:
        weights = np.cumsum(1 / np.arange(1, window + 1))
        orders["d"] = np.searchsorted(weights, rng.random(2 * window) * weights[-1])
    for begin in range(0, 2 * window, _BATCH):
        times = np.arange(begin, begin + _BATCH)
        yield {
            name: pa.table([order[begin : begin + _BATCH], times % 1_000, times], schema=_SCHEMA)
            for name, order in orders.items()
        }


def _take_turns(batches: list[dict[str, pa.Table]], window: int) -> tuple[float, float, float]:
    """The median rates without a limit, with all states off, and with a limit; an error if their results differ."""
    rounds = []
    for _ in range(_ROUNDS):
        free = _measure(batches, window, False, None)
        off = _measure(batches, window, True, None)
        limited = _measure(batches, window, False, free.windows + int(_SHARE * free.states))
        if not free.answer == off.answer == limited.answer:
            raise AssertionError(f"results differ: {free.answer}, {off.answer} all off, {limited.answer} limited")
        rounds.append((free.rate, off.rate, limited.rate))
    without, with_none, with_limit = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    return without, with_none, with_limit


def _measure(batches: list[dict[str, pa.Table]], window: int, is_off: bool, limit: int | None) -> Measurement:
    inputs = ", ".join(f"{name} [RANGE {window - 1} MICROSECONDS]" for name in _STREAMS)
    text = f"SELECT a.v AS av, d.v AS dv FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    engine = ms.Engine(ms.query(text, dict.fromkeys(_STREAMS, _SCHEMA), "ts"), plan=_PLAN)
    if is_off:
        for owner in engine._pipeline.executor.evicting():
            for holding in owner.holdings():
                holding.switch_off()
    count = total = 0
    began = 0.0
    for number, batch in enumerate(batches):
        if number == len(batches) // 2:
            engine.memory_limit = limit
            began = time.process_time()
        out = engine.push(batch)
        count += out.num_rows
        total += pc.sum(out["av"]).as_py() or 0
    seconds = time.process_time() - began
    stats = engine.stats()
    sizes = [sum(state.bytes for state in stats.states if state.kind == kind) for kind in ("window", "join")]
    assert limit is None or stats.state_bytes <= limit
    return Measurement(len(_STREAMS) * window / seconds, (count, total), *sizes)
