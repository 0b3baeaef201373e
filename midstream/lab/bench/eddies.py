"""What it costs to have no tree: STAIRs and SteMs beside the tree of joins, and beside what is possible at all.

Everything runs in one process on one core, over the same rows in the same batches, by the same left-deep plan:

* the tree;
* STAIRs with `routing="fixed"`, which send rows as the plan does;
* STAIRs with rows of eight classes of a key, every other class by the plan and the rest the other way round;
* SteMs with `routing="fixed"`;
* the bare limits of the tree and of SteMs: nothing but the kernels' inserts, probes and purging.

They take turns batch by batch, in an order drawn anew for each batch. What counts is processor time after the first
window, and of several rounds the median of the ratios. All must give the same results. Acyclic queries and those with
one common key have targets; a clique, with a smaller window, is printed. A row has about one partner in each other
window.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.engine.routing.classes import MOST_CLASSES, KeyClasses
from midstream.engine.routing.policy import Decision, Field, Policy
from midstream.engine.routing.rates import MatchRates
from midstream.lab.answers import Digest, digest_of
from midstream.lab.bench import scenarios
from midstream.lab.bench.bare import BareLoop
from midstream.lab.bench.bare_stems import BareStems
from midstream.lab.bench.one_core import use_one_core
from midstream.lab.bench.scenarios import Scenario
from midstream.lab.workload import batches

_ROUNDS = 3
_RATE = 50_000.0
#: The most rows of a stream in a window of the clique.
_CLIQUE_WINDOW = 5_000
#: How far the share of SteMs in their bare limit may be below the tree's in its own.
_BELOW = 0.05

TREE, STAIRS, TWO_WAYS, STEMS = "tree", "STAIRs, fixed order", "STAIRs, eight classes, two ways", "SteMs"
BARE_TREE, BARE_STEMS = "bare limit of the tree", "bare limit of SteMs"


@dataclass(frozen=True)
class Target:
    """By rows a stream and batch: what STAIRs may take at most, as multiples of the tree's time."""

    batch: int
    fixed: float
    two_ways: float


_TARGETS = (Target(50_000, 1.10, 1.20), Target(2_000, 1.25, 1.5))


class TwoWays:
    """Classes of the first key, as many as there may be: every other one goes by the plan, the rest the other way."""

    name = "two ways"
    looks_at_rates = False
    looks_at_content = False
    draws = False

    def __init__(self, keys: int):
        self._classes = KeyClasses(0, tuple(keys * part // MOST_CLASSES for part in range(1, MOST_CLASSES)))

    def decide(self, field: Field, rates: MatchRates) -> Decision:
        turned = {direction: -weight for direction, weight in field.by_plan.items()}
        return Decision((field.by_plan, turned) * (len(self._classes) // 2), self._classes)


@dataclass(frozen=True)
class Measurement:
    """Processor seconds after the first window of each that ran, by round.

    Batches were of `rows` rows a stream, and `window` is the rows of a stream in a window.
    """

    scenario: Scenario
    target: Target
    rows: int
    window: int
    rounds: tuple[dict[str, float], ...]

    @property
    def has_target(self) -> bool:
        return BARE_TREE in self.rounds[0]

    def seconds(self, name: str) -> float:
        return statistics.median(seconds[name] for seconds in self.rounds)

    def ratio(self, name: str, other: str = TREE) -> float:
        return statistics.median(seconds[name] / seconds[other] for seconds in self.rounds)

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of tree and SteMs in their bare limits."""
        return self.ratio(BARE_TREE, TREE), self.ratio(BARE_STEMS, STEMS)

    def verdicts(self) -> Iterator[tuple[str, bool]]:
        if not self.has_target:
            return
        where = f"{self.scenario.name}, {self.rows:,} rows a batch"
        for name, most in ((STAIRS, self.target.fixed), (TWO_WAYS, self.target.two_ways)):
            ratio = self.ratio(name)
            yield f"{where}: {name} take {ratio:.2f} times the tree's time, at most {most:.2f}", ratio <= most
        tree, stems = self.shares
        text = f"SteMs reach {stems:.0%} of their bare limit, at least 5 points less than the tree's {tree:.0%}"
        yield f"{where}: {text}", stems >= tree - _BELOW


@dataclass(frozen=True)
class _Case:
    """A scenario with windows of so many rows a stream, and the batches that it is measured in."""

    scenario: Scenario
    window: int
    batches: tuple[Target, ...]
    has_target: bool


def run(window: int = 250_000, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all targets were reached."""
    console = console or Console()
    use_one_core()
    measured = [_measure(case, target, console) for case in _make_cases(window) for target in case.batches]
    console.print(_report(measured))
    verdicts = [verdict for measurement in measured for verdict in measurement.verdicts()]
    for text, holds in verdicts:
        console.print(f"{'[green]holds[/]' if holds else '[red]does not hold[/]'}  {text}")
    return all(holds for _, holds in verdicts)


def _make_cases(window: int) -> Iterator[_Case]:
    """Two windows of rows for each shape."""
    for make in (scenarios.one_key, scenarios.chain, scenarios.star):
        scenario = make(4, 2 * window, window, _RATE, window / _RATE)
        # A row has a partner in each other window, so that states have more entries than windows have rows.
        yield _Case(replace(scenario, entries=8 * scenario.entries), window, _TARGETS, has_target=True)
    # For a row of a clique to have a partner that all others agree with, each pair of inputs has as many partners as
    # the root of the window, and one edge at a time leads to their square.
    small = min(window, _CLIQUE_WINDOW)
    clique = scenarios.clique(4, 2 * small, max(2, round(small**0.5)), _RATE, small / _RATE)
    yield _Case(clique, small, _TARGETS[-1:], has_target=False)


def _measure(case: _Case, target: Target, console: Console) -> Measurement:
    """All rounds; an error if results differ."""
    rows = min(target.batch, case.window // 4)
    where = f"{case.scenario.name}, {rows:,} rows a stream and batch"
    began = time.process_time()
    rounds = []
    for number in range(_ROUNDS):
        with console.status(f"{where}, round {number + 1} of {_ROUNDS}"):
            rounds.append(_take_turns(case.scenario, rows, case.window, case.has_target, number))
    console.print(f"{where}: measured in {time.process_time() - began:.0f} s")
    return Measurement(case.scenario, target, rows, case.window, tuple(rounds))


class _Lane(Protocol):
    """Something that takes the rows of a workload. `found` tells its results."""

    @property
    def found(self) -> Digest: ...

    def take(self, begin: int, batch: dict[str, pa.Table]) -> float:
        """The processor seconds that a batch took; `begin` is the place of its first rows in the workload."""


class _EngineLane:
    def __init__(self, scenario: Scenario, executor: str, routing: str | Policy | None = None):
        self._engine = ms.Engine(scenario.query, plan=scenario.plan, executor=executor, routing=routing, demand="off")
        self.found = Digest()

    def take(self, begin: int, batch: dict[str, pa.Table]) -> float:
        began = time.process_time()
        tables = list(self._engine.push_batches(batch))
        seconds = time.process_time() - began
        self.found += digest_of(tables)
        return seconds


class _BareLane:
    def __init__(self, loop: BareLoop | BareStems, rows: int):
        self._loop, self._rows = loop, rows
        self.found = Digest()

    def take(self, begin: int, batch: dict[str, pa.Table]) -> float:
        began = time.process_time()
        results = self._loop.take(begin, begin + self._rows)
        seconds = time.process_time() - began
        self.found += Digest(results)
        return seconds


def _start_lanes(scenario: Scenario, rows: int, has_target: bool) -> dict[str, _Lane]:
    lanes: dict[str, _Lane] = {
        TREE: _EngineLane(scenario, "tree"),
        STAIRS: _EngineLane(scenario, "stairs", "fixed"),
        TWO_WAYS: _EngineLane(scenario, "stairs", TwoWays(_count_keys(scenario))),
        STEMS: _EngineLane(scenario, "stems", "fixed"),
    }
    if has_target:
        lanes[BARE_TREE] = _BareLane(scenario.start_bare_tree(rows), rows)
        lanes[BARE_STEMS] = _BareLane(scenario.start_bare_stems(rows), rows)
    return lanes


def _count_keys(scenario: Scenario) -> int:
    """How many values the first key has; they are drawn from as many numbers from 0 on."""
    first = scenario.workload.tables[scenario.workload.streams[0]]
    column = scenario.joins[0].pairs[0][1]
    return int(first[column].to_numpy().max()) + 1


def _take_turns(scenario: Scenario, rows: int, window: int, has_target: bool, seed: int) -> dict[str, float]:
    """Seconds after the first window, by name."""
    lanes = _start_lanes(scenario, rows, has_target)
    seconds = dict.fromkeys(lanes, 0.0)
    draws = random.Random(seed)
    for number, batch in enumerate(batches(scenario.workload, rows)):
        for name in draws.sample(list(lanes), len(lanes)):
            taken = lanes[name].take(number * rows, batch)
            if number * rows >= window:
                seconds[name] += taken
    _compare(scenario, lanes)
    return seconds


def _compare(scenario: Scenario, lanes: dict[str, _Lane]) -> None:
    """An error unless all engines have the same results, and the bare limits as many."""
    wanted = lanes[TREE].found
    for name, lane in lanes.items():
        is_right = lane.found.rows == wanted.rows if isinstance(lane, _BareLane) else lane.found == wanted
        if not is_right:
            raise AssertionError(f"{scenario.name}: results of {name} differ: {lane.found}, the tree has {wanted}")


def _report(measured: Sequence[Measurement]) -> Table:
    """Time, as multiples of the tree's, and shares of bare limits."""
    table = Table(
        "query", "rows a stream and batch", "tree, ns a row", STAIRS, TWO_WAYS, STEMS, "tree, of its limit",
        "SteMs, of theirs",
    )  # fmt: skip
    for found in measured:
        row = 1e9 * found.seconds(TREE) / (len(found.scenario.workload.streams) * found.window)
        shares = [f"{share:.0%}" for share in found.shares] if found.has_target else ["", ""]
        most = [found.target.fixed, found.target.two_ways]
        targets = [f" (<= {target:.2f})" if found.has_target else "" for target in most]
        stairs = [f"{found.ratio(name):.2f}{text}" for name, text in zip((STAIRS, TWO_WAYS), targets, strict=True)]
        table.add_row(
            found.scenario.name, f"{found.rows:,}", f"{row:.0f}", *stairs, f"{found.ratio(STEMS):.2f}", *shares
        )
    return table
