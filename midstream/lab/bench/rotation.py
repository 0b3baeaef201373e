"""Streams in which every key occurs once per window, and the answer to their join, computed without joining."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lab.bench.answer import Answer
from midstream.state.indexes import Ints


@dataclass(frozen=True)
class Rotation:
    """Streams in which every key occurs once per window: each repeats permutations of the keys."""

    streams: int
    window_rows: int
    is_chain: bool

    @property
    def names(self) -> list[str]:
        return [f"S{number}" for number in range(self.streams)]

    def _columns(self, number: int) -> list[str]:
        if not self.is_chain:
            return ["k"]
        neighbours = [number - 1, number]
        return [f"k{place}" for place in neighbours if 0 <= place < self.streams - 1]

    def query(self) -> ms.Query:
        """All streams equal on one key, or each to the next on a key of their own."""
        names = self.names
        keys = [f"k{place}" if self.is_chain else "k" for place in range(self.streams - 1)]
        schemas = {
            name: pa.schema([(column, pa.int64()) for column in ["ts", *self._columns(number), "v"]])
            for number, name in enumerate(names)
        }
        where = " AND ".join(f"S{at}.{key} = S{at + 1}.{key}" for at, key in enumerate(keys))
        windows = ", ".join(f"{name} [RANGE {self.window_rows - 1} MICROSECONDS]" for name in names)
        columns = ", ".join(f"{name}.v AS {name}_v" for name in names)
        return ms.query(f"SELECT {columns} FROM {windows} WHERE {where}", schemas, "ts")

    @cached_property
    def _orders(self) -> list[dict[str, Ints]]:
        """By stream and column, the key at each place of a window."""
        rng = np.random.default_rng(7)
        return [
            {column: rng.permutation(self.window_rows) for column in self._columns(number)}
            for number in range(self.streams)
        ]

    @cached_property
    def _places(self) -> list[dict[str, Ints]]:
        """By stream and column, the place of each key in a window."""
        return [{column: np.argsort(order) for column, order in found.items()} for found in self._orders]

    def batch(self, begin: int, size: int) -> dict[str, pa.Table]:
        """Rows of all streams, so many of each, from one place on; they go on without end."""
        rows = np.arange(begin, begin + size)
        return {
            name: pa.table(
                {"ts": rows, **{key: order[rows % self.window_rows] for key, order in found.items()}, "v": rows}
            )
            for name, found in zip(self.names, self._orders, strict=True)
        }

    def answer(self, begin: int, end: int) -> Answer:
        """What rows from `begin` on and before `end` complete, by following each one's only partners.

        A row's partner in another stream is the latest row there with its key: the one before has left the window.
        Two rows of one moment may be of one result.
        """
        results = 0
        sums = dict.fromkeys([*(f"{name}_v" for name in self.names), "valid_from", "valid_to"], 0)
        for first in range(begin, end, 10_000):
            now = np.arange(first, min(first + 10_000, end))
            found = np.concatenate([self._partners(number, now) for number in range(self.streams)])
            found = np.unique(found, axis=0)
            results += len(found)
            for number, name in enumerate(self.names):
                sums[f"{name}_v"] += int(found[:, number].sum())
            sums["valid_from"] += int(found.max(axis=1).sum())
            sums["valid_to"] += int(found.min(axis=1).sum()) + len(found) * (self.window_rows - 1)
        return Answer(results, tuple(sorted(sums.items())))

    def _partners(self, number: int, now: Ints) -> Ints:
        """The results of rows of one stream, one column a stream: the moment of its row."""
        moments = np.empty((len(now), self.streams), np.int64)
        moments[:, number] = now
        for step in (1, -1):
            for other in range(number + step, self.streams if step > 0 else -1, step):
                column = f"k{min(other, other - step)}" if self.is_chain else "k"
                neighbour = other - step
                key = self._orders[neighbour][column][moments[:, neighbour] % self.window_rows]
                place = self._places[other][column][key]
                moments[:, other] = now - (now - place) % self.window_rows
        return moments

    def plan(self, is_turned: bool) -> str:
        """Left-deep in the order of the streams, or in the opposite order."""
        first, *others = reversed(self.names) if is_turned else self.names
        text = first
        for name in others:
            text = f"({text} {name})"
        return text
