"""What a change of plan costs a running engine, as ratios inside one run on one core, in processor time.

Windows of a million rows a stream in which every key occurs once, so that every row has one partner in every other
stream and every state is as large as a window; the plan is turned round, so that no state is kept.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.lab.bench.answer import Tally
from midstream.lab.bench.one_core import use_one_core
from midstream.lab.bench.rotation import Rotation
from midstream.lab.experiments.jisc_streams import Streams
from midstream.lab.race import CACQ, PARALLEL_TRACK, Contender, Lane, Race, lanes_for
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategies.moving_state import MovingState

_BATCHES = 20
_SIZES = (2_000, 50_000)
#: The stage of a migration is raced so often, over other rows each time; the race in the middle counts.
_RACES = 5
_OTHERS = ("new plan alone", "Parallel Track", "CACQ")
#: How often a plan is turned round at each size; at 20 streams and large batches that takes minutes.
_TURNS, _WIDE_TURNS = (5, 5), (3, 1)


@dataclass(frozen=True)
class Transition:
    """The batches after a transition, its time included, and those of an engine without a transition, run in turns.

    In seconds. `steady` has one batch more, so that each batch of `after` lies between two steady ones.
    """

    after: tuple[float, ...]
    steady: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The slowest batch beside the steady ones right before and after it.

        The speed of a virtual machine varies from second to second, but neighbouring batches run at the same speed.
        """
        around = [(before + after) / 2 for before, after in pairwise(self.steady)]
        return max(after / steady for after, steady in zip(self.after, around, strict=True))

    @property
    def slowest(self) -> float:
        return max(self.after)

    @property
    def median(self) -> float:
        """The median steady batch."""
        return float(np.median(self.steady))


@dataclass(frozen=True)
class Pause:
    """Transitions of one query at one size of batch, and what Moving State takes for one, in seconds."""

    name: str
    batch: int
    transitions: tuple[Transition, ...]
    moving: float

    @property
    def median(self) -> Transition:
        """The transition with the middle ratio."""
        return sorted(self.transitions, key=lambda transition: transition.ratio)[len(self.transitions) // 2]

    def __str__(self) -> str:
        middle, ratios = self.median, [transition.ratio for transition in self.transitions]
        text = f"{self.name}, {self.batch:,} rows a stream and batch: slowest of {_BATCHES} batches after a transition"
        text += f" {middle.ratio:.2f} times the steady ones around it"
        if len(ratios) > 1:
            text += f" (the middle one of {len(ratios)} transitions, {min(ratios):.2f} to {max(ratios):.2f})"
        text += f"; at most {middle.slowest * 1e3:.1f} ms, median steady {middle.median * 1e3:.1f} ms"
        return f"{text}, {middle.slowest / middle.median:.2f} times; Moving State pauses {self.moving * 1e3:,.0f} ms"


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
    found: list[Pause] = []
    for streams in (4, wide):
        for is_chain in (False, True):
            rotation = Rotation(streams, window_rows, is_chain)
            name = f"{streams}-way, {'different attributes' if is_chain else 'one key'}"
            with console.status(name):
                pauses = _pauses_of(name, rotation, _TURNS if streams == 4 else _WIDE_TURNS)
            for pause in pauses:
                console.print(str(pause), highlight=False)
            found += pauses
    worst = max(pause.median.ratio for pause in found)
    return _verdict(console, f"slowest batch after a transition: {worst:.2f} times a steady one, at most 2", worst <= 2)


class _Stream:
    """An engine and how far it has come in its streams."""

    def __init__(self, rotation: Rotation):
        self._rotation = rotation
        self.engine = ms.Engine(rotation.query(), plan=rotation.plan(False))
        self.place = 0
        # More than a window, so that rings have their final size and purging has begun.
        while self.place < rotation.window_rows + rotation.window_rows // 4:
            self.push(_SIZES[1])

    def push(self, size: int) -> tuple[float, pa.Table]:
        """Push so many rows of each stream; the seconds that took, and the results."""
        data = self._rotation.batch(self.place, size)
        self.place += size
        return _timed(self.engine, data)


def _timed(engine: ms.Engine, data: dict[str, pa.Table]) -> tuple[float, pa.Table]:
    began = time.process_time()
    results = engine.push(data)
    return time.process_time() - began, results


def _pauses_of(name: str, rotation: Rotation, turns: tuple[int, int]) -> list[Pause]:
    """Turn an engine's plan round at small and large batches, beside one that keeps its plan; then by Moving State."""
    gc.collect()
    stream, steady = _Stream(rotation), _Stream(rotation)
    measured: dict[int, list[Transition]] = {size: [] for size in _SIZES}
    is_turned = True
    for size in (size for size, times in zip(_SIZES, turns, strict=True) for _ in range(times)):
        measured[size].append(_turn(name, rotation, is_turned, stream, steady, size))
        is_turned = not is_turned
        while stream.engine.migration is not None and not stream.engine.migration.is_done:
            stream.push(_SIZES[1])
    del steady
    gc.collect()
    began = time.process_time()
    stream.engine.migrate(rotation.plan(is_turned), strategy=MovingState.name)
    moving = time.process_time() - began
    return [Pause(name, size, tuple(transitions), moving) for size, transitions in measured.items()]


def _turn(name: str, rotation: Rotation, is_turned: bool, stream: _Stream, steady: _Stream, size: int) -> Transition:
    """Change the plan of one engine; it and the other one take turns, so that both run at the machine's speed."""
    stream.push(size)
    began_at, tally = stream.place, Tally()
    beside = [steady.push(size)[0]]
    gc.collect()
    began = time.process_time()
    stream.engine.migrate(rotation.plan(is_turned))
    beginning = time.process_time() - began
    after = []
    for _ in range(_BATCHES):
        seconds, results = stream.push(size)
        after.append(seconds)
        tally.add(results)
        beside.append(steady.push(size)[0])
    after[0] += beginning
    if tally.answer() != rotation.answer(began_at, stream.place):
        raise AssertionError(
            f"{name}: {tally.answer()} after a transition, not {rotation.answer(began_at, stream.place)}"
        )
    return Transition(tuple(after), tuple(beside))


def _stage(console: Console, joins: int, window: int = 10_000) -> bool:
    """The stage of a migration, from the transition until Parallel Track drops its old plan, beside others.

    JISC runs with its default budget. "New plan alone" is an engine that had the new plan from the start.
    """
    table = Table("transition", "JISC, s", *_OTHERS, title=f"JISC's stage as a share of others', {joins} joins")
    holds = []
    for case in ("best case", "worst case"):
        with console.status(f"stage of a migration, {joins} joins, {case}"):
            races = [_raced(joins, window, case, seed) for seed in range(1, _RACES + 1)]
        shares = {name: sorted(race["JISC"] / race[name] for race in races) for name in _OTHERS}
        middle = {name: found[_RACES // 2] for name, found in shares.items()}
        told = (f"{middle[name]:.2f} ({shares[name][0]:.2f} to {shares[name][-1]:.2f})" for name in _OTHERS)
        table.add_row(case, f"{np.median([race['JISC'] for race in races]):.2f}", *told)
        if case == "best case":
            share = middle["new plan alone"]
            holds.append((f"best case: {share:.2f} times the new plan alone, at most 1.3", share <= 1.3))
        holds += [(f"{case}: {middle[name]:.2f} of {name}'s stage, below 1", middle[name] < 1) for name in _OTHERS[1:]]
    console.print(table)
    verdicts = [_verdict(console, text, is_so) for text, is_so in holds]
    return all(verdicts)


def _raced(joins: int, window: int, case: str, seed: int) -> dict[str, float]:
    """The seconds of each contender in one stage; their results are compared."""
    streams = Streams(joins, window, 4 * window, 500, seed=seed)
    plan = streams.best_case if case == "best case" else streams.worst_case
    contenders = (Contender("JISC", JustInTime()), PARALLEL_TRACK, CACQ)
    lanes = [*lanes_for(contenders, streams.query, streams.plan)]
    race = Race([*lanes, Lane(Contender("new plan alone"), streams.query, plan)])
    race.run(streams.batches(0, 2 * window))
    race.check(None, case)
    race.start_watches()
    race.migrate(plan)
    for batch in streams.batches(2 * window):
        race.push(batch)
        if not lanes[1].is_migrating:
            break
    race.check(None, case)
    return race.times()


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
    times: list[list[float]] = [[], []]
    for number in range(rotation.window_rows // size + count):
        data = rotation.batch(number * size, size)
        for which in (0, 1) if number % 2 else (1, 0):
            seconds, _ = _timed(engines[which], data)
            if number * size >= rotation.window_rows:
                times[which].append(seconds)
    return float(np.median(times[0])), float(np.median(times[1]))


def bypass_holes(engine: ms.Engine) -> None:
    """Take the question whether a state has holes out of an engine that has none."""
    filler = engine._pipeline.executor.filler  # type: ignore[attr-defined]
    filler.fill_for = lambda node, probing, horizon: None


def _fill_is_vectorised(console: Console) -> bool:
    """Filling a state of a million rows beside joining the same rows from scratch."""
    rotation = Rotation(3, 1_000_000, False)
    query = rotation.query()
    data = rotation.batch(0, rotation.window_rows)
    scratch, fill, entries = [], [], 0
    for _ in range(2):
        engine = ms.Engine(query, plan="((S1 S2) S0)")
        began = time.process_time()
        engine.push({name: data[name] for name in ("S1", "S2")})
        scratch.append(time.process_time() - began)
        engine = ms.Engine(query, plan="((S0 S1) S2)")
        engine.push(data)
        began = time.process_time()
        record = engine.migrate("((S1 S2) S0)", strategy=MovingState.name)
        fill.append(time.process_time() - began)
        entries = record.entries
    share = min(fill) / min(scratch)
    text = f"filling {entries:,} entries: {share:.2f} times joining the same rows from scratch, at most 1.5"
    return _verdict(console, text, share <= 1.5)


def _verdict(console: Console, text: str, holds: bool) -> bool:
    console.print(f"{'[green]holds[/]' if holds else '[red]does not hold[/]'}  {text}")
    return holds
