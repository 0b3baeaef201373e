"""Results that come and go, as an output stage hands them to accumulators, and the same in plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.cql.model import Aggregate, Column
from midstream.engine.operators.aggregates import Accumulator, make_accumulator
from midstream.engine.operators.states import KeptValues
from midstream.state.indexes import Ints

STEP = 10


def make(function: str, argument: pa.DataType | None, type: pa.DataType) -> Accumulator:
    column = None if argument is None else Column(0, "x", argument)
    return make_accumulator(Aggregate(function, column, type))


class Stage:
    """Keeps records of results for one accumulator, and the results themselves, by the names of their groups.

    Group ids are given anew from time to time. Values of the aggregate are compared with `expect` of the values that
    are there.
    """

    def __init__(self, accumulator: Accumulator, expect: Callable[[list[Any]], Any], type: pa.DataType | None):
        self.accumulator = accumulator
        self.expect = expect
        self.type = type
        self.names: list[int] = []
        self.records: Ints = np.empty((0, 3 + accumulator.words), np.int64)
        self.values: list[Any] = []
        self.closed = 0
        self.compared = 0

    def take(self, results: Sequence[tuple[int, int, int, Any]]) -> None:
        """Results as name of the group, start, end and value."""
        for name, *_ in results:
            if name not in self.names:
                self.names.append(name)
        self.accumulator.resize(len(self.names))
        new = np.zeros((len(results), self.records.shape[1]), np.int64)
        for row, (name, start, end, _) in enumerate(results):
            new[row, :3] = self.names.index(name), start, end
        values = None
        if self.type is not None:
            values = self.to_arrow([None, *(value for *_, value in results)]).slice(1)
        self.accumulator.encode(np.ascontiguousarray(new[:, 0]), values, new[:, 3:])
        self.records = np.concatenate([self.records, new])
        self.values += [value for *_, value in results]

    def to_arrow(self, values: list[Any]) -> pa.Array:
        return pa.array(values, self.type)

    def close(self, until: int, rng: random.Random) -> None:
        """Apply all changes before `until`, compare, and forget what has gone."""
        changes = []
        for row, (group, start, end) in enumerate(self.records[:, :3].tolist()):
            changes += [
                (group, time, rng.random(), row, sign)
                for time, sign in ((start, 1), (end + 1, -1))
                if self.closed <= time < until
            ]
        changes += [(group, self.closed, -1.0, -1, 0) for group in range(len(self.names)) if rng.random() < 0.3]
        changes.sort()
        ends = [
            at
            for at, change in enumerate(changes)
            if at + 1 == len(changes) or changes[at + 1][:2] != change[:2] or rng.random() < 0.05
        ]
        if rng.random() < 0.2:
            ends = sorted(rng.sample(ends, len(ends) // 2))
        words = np.full((len(changes), self.accumulator.words + 1), 7, np.int64)
        for at, (_, _, _, row, _) in enumerate(changes):
            if row >= 0:
                words[at, :-1] = self.records[row, 3:]
        found = self.accumulator.apply(
            np.array([change[0] for change in changes], np.int64),
            np.array([change[4] for change in changes], np.int64),
            words[:, :-1],
            np.array(ends, np.int64),
        )
        if isinstance(found, KeptValues):
            found = found.to_array()
        found.validate(full=True)
        self._compare(changes, ends, found)
        self.closed = until
        self._forget(rng)

    def _compare(self, changes: list[Any], ends: list[int], found: pa.Array) -> None:
        live: dict[int, list[int]] = {group: [] for group in range(len(self.names))}
        for row, (group, start, end) in enumerate(self.records[:, :3].tolist()):
            if start < self.closed <= end + 1:
                live[group].append(row)
        answers = iter(found)
        asked = set(ends)
        for at, (group, _, _, row, sign) in enumerate(changes):
            if sign > 0:
                live[group].append(row)
            elif sign < 0:
                live[group].remove(row)
            if at in asked:
                expected = pa.scalar(self.expect([self.values[row] for row in live[group]]), found.type)
                answer = next(answers)
                assert is_same(answer, expected), (answer, expected, [self.values[row] for row in live[group]])
                self.compared += 1

    def _forget(self, rng: random.Random) -> None:
        kept = self.records[:, 2] + 1 >= self.closed
        self.values = [value for value, is_kept in zip(self.values, kept, strict=True) if is_kept]
        self.records = self.records[kept]
        new_words = self.accumulator.renumbering()
        if new_words is not None:
            held = self.records[:, 3] >= 0
            self.records[held, 3] = new_words[self.records[held, 3]]
            assert (self.records[held, 3] >= 0).all()
        if rng.random() < 0.3:
            used = list(dict.fromkeys(self.records[:, 0].tolist()))
            rng.shuffle(used)
            self.accumulator.keep(np.array(used, np.int64))
            self.records[:, 0] = [used.index(group) for group in self.records[:, 0].tolist()]
            self.names = [self.names[group] for group in used]


def is_same(one: pa.Scalar, other: pa.Scalar) -> bool:
    """Whether two scalars are equal, NaN and NaN too, and 0.0 and -0.0 not."""
    if pa.types.is_floating(one.type) and one.is_valid and other.is_valid:
        first, second = np.float64(one.as_py()), np.float64(other.as_py())
        return bool(first.view(np.int64) == second.view(np.int64) or (np.isnan(first) and np.isnan(second)))
    return bool(one.equals(other))


def run_history(stage: Stage, draw: Callable[[random.Random], Any], seed: int, results: int = 12) -> None:
    """Some steps with random results, of a few groups, of values by `draw`, until all have gone."""
    rng = random.Random(seed)
    for step in range(8):
        new = []
        for _ in range(rng.randrange(results) if step < 5 else 0):
            start = step * STEP + rng.randrange(STEP)
            new.append((rng.randrange(4), start, start + rng.choice([0, 1, 3, 9, 14, 25]), draw(rng)))
        stage.take(new)
        stage.close((step + 1) * STEP, rng)
    assert stage.compared > 0 and len(stage.records) == 0
