"""What a memory limit costs: an engine with room for a quarter of what its join states would take.

Four streams with a common key by a left-deep plan, in batches of 50 rows a stream. The same rows go through engines
without a limit, with all states switched off, and with a limit: what the windows of the first take in the end, and a
quarter of its join states. The limit is set after the first window. Keys are drawn evenly, or by Zipf's law in the last
stream, whose rows probe the largest state; every key of the others comes once per window, so that results do not
explode.

The engines take turns batch by batch in one process on one core, in an order drawn anew for each batch. What counts is
processor time after the first window, of several rounds the median. All must give the same results.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.lab.answers import Digest, digest_of
from midstream.lab.bench.one_core import use_one_core

Batches = Sequence[dict[str, pa.Table]]
_STREAMS = "abcd"
_PLAN = "(((a b) c) d)"
_SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})
_BATCH = 50
_SHARE = 1 / 4
_OF_ALL_OFF = 0.9


@dataclass(frozen=True)
class Keys:
    """How keys are drawn, and which share of the throughput without a limit there should be at least."""

    name: str
    is_skewed: bool
    least_share: float


KEYS = (Keys("even keys", False, 1 / 3), Keys("Zipf(1) keys", True, 1 / 2))


@dataclass
class Contender:
    """An engine, the processor time that it has taken, and what it has found."""

    name: str
    engine: ms.Engine
    seconds: float = 0.0
    answer: Digest = field(default_factory=Digest)

    def push(self, batch: dict[str, pa.Table]) -> None:
        out: list[pa.Table] = []
        self.take_time(lambda: out.append(self.engine.push(batch)))
        self.answer += digest_of(out)

    def take_time(self, step: Callable[[], None]) -> None:
        began = time.process_time()
        step()
        self.seconds += time.process_time() - began


def run(window: int = 20_000, rounds: int = 3, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all targets were reached."""
    console = console or Console()
    use_one_core()
    table = Table("", "without limit", "all states off", "a quarter", "of no limit", "of all off", title="rows/s")
    reached = True
    for keys in KEYS:
        batches = list(_draw_batches(keys, window))
        limit = _find_limit(batches, window)
        seconds = zip(*(_take_turns(batches, window, limit, seed) for seed in range(rounds)), strict=True)
        free, off, limited = (len(_STREAMS) * window / statistics.median(times) for times in seconds)
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


def _make_engine(window: int) -> ms.Engine:
    inputs = ", ".join(f"{name} [RANGE {window - 1} MICROSECONDS]" for name in _STREAMS)
    text = f"SELECT a.v AS av, d.v AS dv FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    return ms.Engine(ms.query(text, dict.fromkeys(_STREAMS, _SCHEMA), "ts"), plan=_PLAN, demand="off")


def _find_limit(batches: Batches, window: int) -> int:
    """What the windows and a quarter of the join states take after a run without a limit."""
    engine = _make_engine(window)
    for batch in batches:
        engine.push(batch)
    states = engine.stats().states
    windows, joins = (sum(state.bytes for state in states if state.kind == kind) for kind in ("window", "join"))
    return windows + int(_SHARE * joins)


def _take_turns(batches: Batches, window: int, limit: int, seed: int) -> list[float]:
    """Seconds without a limit, with all states off, and with a limit, in one round; an error if results differ."""
    free, off, limited = contenders = [
        Contender(name, _make_engine(window)) for name in ("without limit", "all states off", "a quarter")
    ]
    for owner in off.engine._pipeline.executor.evicting():
        for holding in owner.holdings():
            holding.switch_off()
    draws = random.Random(seed)
    for number, batch in enumerate(batches):
        if number == len(batches) // 2:
            for contender in contenders:
                contender.seconds = 0.0
            limited.take_time(lambda: setattr(limited.engine, "memory_limit", limit))
        for contender in draws.sample(contenders, len(contenders)):
            contender.push(batch)
        stats = limited.engine.stats()
        assert stats.memory is None or stats.state_bytes <= limit, "the limit holds after every push"
    if not free.answer == off.answer == limited.answer or not free.answer.rows:
        told = ", ".join(f"{contender.name}: {contender.answer}" for contender in contenders)
        raise AssertionError(f"results differ, or there are none: {told}")
    return [contender.seconds for contender in contenders]
