"""Streams with given rates, windows and keys, and an engine that runs them up to a moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.adapt import InputLoad, Load
from midstream.cql.model import Query


@dataclass(frozen=True)
class Streams:
    """Poisson arrivals on streams A, B, C, ..., all equal on one key of `keys` values."""

    rates: tuple[float, ...]
    windows: tuple[float, ...]
    keys: int
    seconds: float
    seed: int = 0
    delay: float = 0.0

    @property
    def names(self) -> str:
        return "ABCDEFG"[: len(self.rates)]

    def query(self) -> Query:
        sources = ", ".join(
            f"{name} [RANGE {round(window * 1e6)} MICROSECONDS]"
            for name, window in zip(self.names, self.windows, strict=True)
        )
        equal = " AND ".join(f"A.k = {name}.k" for name in self.names[1:])
        schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
        delay = f"{round(self.delay * 1e6)} microseconds"
        text = f"SELECT A.k FROM {sources} WHERE {equal}"
        return ms.query(text, schemas=dict.fromkeys(self.names, schema), event_time="ts", delay=delay)

    def tables(self) -> dict[str, pa.Table]:
        tables = {}
        for number, (name, rate) in enumerate(zip(self.names, self.rates, strict=True)):
            rng = np.random.default_rng([self.seed, number])
            size = rng.poisson(rate * self.seconds)
            times = np.sort(rng.integers(0, round(self.seconds * 1e6), size))
            tables[name] = pa.table({"ts": times, "k": rng.integers(0, self.keys, size)})
        return tables

    def load(self) -> Load:
        """What the model expects of them, from their parameters alone."""
        inputs = tuple(InputLoad(*parameters) for parameters in zip(self.rates, self.windows, strict=True))
        states = range(1, 1 << len(inputs))
        sets = (frozenset(n for n in range(len(inputs)) if state >> n & 1) for state in states)
        return Load(inputs, {members: float(self.keys) ** (1 - len(members)) for members in sets if len(members) > 1})


def between(tables: dict[str, pa.Table], begin: float, end: float) -> dict[str, pa.Table]:
    """The rows from one second of event time up to another."""
    parts = {}
    for name, table in tables.items():
        times = np.asarray(table["ts"])
        first, last = np.searchsorted(times, [round(begin * 1e6), round(end * 1e6)]).tolist()
        parts[name] = table.slice(first, last - first)
    return parts


def run_to(engine: ms.Engine, tables: dict[str, pa.Table], end: float, step: float = 0.5) -> None:
    """Push everything before a moment, a step of event time at a time; the watermark is the end of each."""
    begin = 0.0
    while begin < end:
        until = min(begin + step, end)
        engine.push(between(tables, begin, until), watermark=round(until * 1e6))
        begin = until
