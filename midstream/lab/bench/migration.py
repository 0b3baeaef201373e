"""What a change of plan costs a running engine, as ratios inside one run on one core, in processor time.

Windows of a million rows a stream in which every key occurs once, so that every row has one partner in every other
stream and every state is as large as a window; the plan is turned round, so that no state is kept.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.lab.bench.answer import Tally
from midstream.lab.bench.engine import use_one_core
from midstream.lab.experiments.jisc_streams import Streams
from midstream.lab.race import CACQ, PARALLEL_TRACK, Contender, Lane, Race, lanes_for
from midstream.migrate.jisc import JustInTime

_BATCHES = 20


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

    def batches(self, size: int) -> Iterator[dict[str, pa.Table]]:
        """Rows of all streams, so many of each at a time, without end."""
        rng = np.random.default_rng(7)
        orders = [
            {column: rng.permutation(self.window_rows) for column in self._columns(number)}
            for number in range(self.streams)
        ]
        begin = 0
        while True:
            rows = np.arange(begin, begin + size)
            yield {
                name: pa.table(
                    {"ts": rows, **{key: order[rows % self.window_rows] for key, order in found.items()}, "v": rows}
                )
                for name, found in zip(self.names, orders, strict=True)
            }
            begin += size

    def plan(self, is_turned: bool) -> str:
        """Left-deep in the order of the streams, or in the opposite order."""
        first, *others = reversed(self.names) if is_turned else self.names
        text = first
        for name in others:
            text = f"({text} {name})"
        return text


@dataclass(frozen=True)
class Pause:
    """The slowest of the batches after a transition, its time included, beside the median before it, in seconds."""

    name: str
    batch: int
    steady: float
    slowest: float
    moving: float

    @property
    def ratio(self) -> float:
        return self.slowest / self.steady


def run(window_rows: int = 1_000_000, wide: int = 20, console: Console | None = None) -> bool:
    """Measure, print, and tell whether all answers were right and all targets reached."""
    console = console or Console()
    use_one_core()
    ms.get_ready()
    holds = [
        _completeness_is_free(console),
        _fill_is_vectorised(console),
        _stage(console, wide),
        _pauses(window_rows, wide, console),
    ]
    return all(holds)


def _pauses(window_rows: int, wide: int, console: Console) -> bool:
    table = Table(
        "query", "rows a stream and batch", "median steady batch, ms", "slowest of 20 after, ms", "ratio",
        "Moving State's pause, ms",
    )  # fmt: skip
    found = []
    for streams in (4, wide):
        for is_chain in (False, True):
            for size in (2_000, 50_000):
                rotation = Rotation(streams, window_rows, is_chain)
                name = f"{streams}-way, {'different attributes' if is_chain else 'one key'}"
                with console.status(f"{name}, {size:,} rows a stream and batch"):
                    found.append(_pause(name, rotation, size))
    for one in found:
        table.add_row(
            one.name,
            f"{one.batch:,}",
            f"{one.steady * 1e3:.1f}",
            f"{one.slowest * 1e3:.1f}",
            f"{one.ratio:.2f}",
            f"{one.moving * 1e3:,.0f}",
        )
    console.print(table)
    worst = max(one.ratio for one in found)
    return _verdict(console, f"slowest batch after a transition: {worst:.2f} times a steady one, at most 2", worst <= 2)


def _pause(name: str, rotation: Rotation, size: int) -> Pause:
    steady, slowest, answer, engine = _through_a_transition(rotation, size, "jisc")
    del engine
    gc.collect()
    _, _, expected, engine = _through_a_transition(rotation, size, None)
    if answer != expected:
        raise AssertionError(f"{name}: with a transition {answer}, without one {expected}")
    began = time.process_time()
    engine.migrate(rotation.plan(True), strategy="moving-state")
    moving = time.process_time() - began
    return Pause(name, size, steady, slowest, moving)


def _through_a_transition(
    rotation: Rotation, size: int, strategy: str | None
) -> tuple[float, float, object, ms.Engine]:
    """Fill the windows, measure steady batches, change the plan, measure again; the answer of the latter batches."""
    engine = ms.Engine(rotation.query(), plan=rotation.plan(False))
    batches = rotation.batches(size)
    # Two windows, so that rings have their final size and purging has begun.
    for _ in range(2 * rotation.window_rows // size):
        engine.push(next(batches))
    before = [_timed(engine, next(batches))[0] for _ in range(_BATCHES)]
    tally = Tally()
    data = next(batches)
    gc.collect()
    began = time.process_time()
    if strategy is not None:
        engine.migrate(rotation.plan(True), strategy=strategy)
    tally.add(engine.push(data))
    after = [time.process_time() - began]
    for _ in range(_BATCHES - 1):
        seconds, results = _timed(engine, next(batches))
        after.append(seconds)
        tally.add(results)
    return float(np.median(before)), max(after), tally.answer(), engine


def _timed(engine: ms.Engine, data: dict[str, pa.Table]) -> tuple[float, pa.Table]:
    began = time.process_time()
    results = engine.push(data)
    return time.process_time() - began, results


def _stage(console: Console, joins: int, window: int = 10_000) -> bool:
    """The stage of a migration, from the transition until Parallel Track drops its old plan, beside others.

    JISC runs with its default budget. "New plan alone" is an engine that had the new plan from the start.
    """
    table = Table("transition", "JISC, s", "new plan alone", "Parallel Track", "CACQ")
    jisc = Contender("JISC", JustInTime())
    alone = Contender("new plan alone")
    holds = []
    for case in ("best case", "worst case"):
        with console.status(f"stage of a migration, {joins} joins, {case}"):
            streams = Streams(joins, window, 4 * window, 500, seed=1)
            plan = streams.best_case if case == "best case" else streams.worst_case
            lanes = [*lanes_for((jisc, PARALLEL_TRACK, CACQ), streams.query, streams.plan)]
            race = Race([*lanes, Lane(alone, streams.query, plan)])
            race.run(streams.batches(0, 2 * window))
            race.check(None, case)
            race.start_watches()
            race.migrate(plan)
            for batch in streams.batches(2 * window):
                race.push(batch)
                if not lanes[1].is_migrating:
                    break
            race.check(None, case)
        seconds = race.times()
        mine = seconds.pop("JISC")
        table.add_row(case, f"{mine:.2f}", *(f"JISC is {mine / other:.2f} of it" for other in _in_columns(seconds)))
        if case == "best case":
            share = mine / seconds["new plan alone"]
            holds.append((f"best case: {share:.2f} times the new plan alone, at most 1.3", share <= 1.3))
        for name in ("Parallel Track", "CACQ"):
            share = mine / seconds[name]
            holds.append((f"{case}: {share:.2f} of {name}'s stage, below 1", share < 1))
    console.print(table)
    verdicts = [_verdict(console, text, is_so) for text, is_so in holds]
    return all(verdicts)


def _in_columns(seconds: dict[str, float]) -> list[float]:
    """The times in the order of the table's columns."""
    return [seconds["new plan alone"], seconds["Parallel Track"], seconds["CACQ"]]


def _completeness_is_free(console: Console) -> bool:
    """A plan without holes beside the same plan with the hole machinery bypassed."""
    rotation = Rotation(4, 100_000, False)
    with_holes, without = _alternating(rotation, 2_000, 300)
    share = with_holes / without - 1
    text = f"complete states: {share:+.1%} beside the same engine without holes (median batch), at most +3 %"
    return _verdict(console, text, share <= 0.03)


def _alternating(rotation: Rotation, size: int, count: int) -> tuple[float, float]:
    engines = [ms.Engine(rotation.query(), plan=rotation.plan(False)) for _ in range(2)]
    bypass_holes(engines[1])
    batches = rotation.batches(size)
    times: list[list[float]] = [[], []]
    for number in range(rotation.window_rows // size + count):
        data = next(batches)
        for which in (0, 1) if number % 2 else (1, 0):
            seconds, _ = _timed(engines[which], data)
            if number * size >= rotation.window_rows:
                times[which].append(seconds)
    return float(np.median(times[0])), float(np.median(times[1]))


def bypass_holes(engine: ms.Engine) -> None:
    """Take the question whether a state has holes out of an engine that has none."""
    filler = engine._pipeline._course.filler  # type: ignore[attr-defined]
    filler.fill_for = lambda node, probing: None


def _fill_is_vectorised(console: Console) -> bool:
    """Filling a state of a million rows beside joining the same rows from scratch."""
    rotation = Rotation(3, 1_000_000, False)
    query = rotation.query()
    data = [next(rotation.batches(rotation.window_rows))]
    scratch, fill, entries = [], [], 0
    for _ in range(2):
        engine = ms.Engine(query, plan="((S1 S2) S0)")
        began = time.process_time()
        engine.push({name: data[0][name] for name in ("S1", "S2")})
        scratch.append(time.process_time() - began)
        engine = ms.Engine(query, plan="((S0 S1) S2)")
        engine.push(data[0])
        began = time.process_time()
        record = engine.migrate("((S1 S2) S0)", strategy="moving-state")
        fill.append(time.process_time() - began)
        entries = record.entries
    share = min(fill) / min(scratch)
    text = f"filling {entries:,} entries: {share:.2f} times joining the same rows from scratch, at most 1.5"
    return _verdict(console, text, share <= 1.5)


def _verdict(console: Console, text: str, holds: bool) -> bool:
    console.print(f"{'[green]holds[/]' if holds else '[red]does not hold[/]'}  {text}")
    return holds
