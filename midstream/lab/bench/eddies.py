"""What it costs to have no tree: STAIRs in the order of the plan, and SteMs, beside the tree of joins.

The tree, STAIRs with `routing="fixed"` and SteMs run the same rows in the same batches by the same left-deep plan, in
one process on one core. They take turns batch by batch, in an order drawn anew for each batch; what counts is processor
time after the first window, and of several rounds the median of the ratios. All must give the same results. Acyclic
queries and those with one common key have targets; a clique is printed. A row has about one partner in each other
window.
"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.lab import generate
from midstream.lab.answers import Digest, digest_of
from midstream.lab.bench.engine import use_one_core
from midstream.lab.race import Contender
from midstream.lab.workload import Workload, batches

_TREE = Contender("tree")
_STAIRS = Contender("STAIRs, fixed order", executor="stairs", routing="fixed")
_STEMS = Contender("SteMs", executor="stems", routing="fixed")
_CONTENDERS = (_TREE, _STAIRS, _STEMS)
#: By rows a stream and batch, what STAIRs may take at most as a multiple of the tree's time.
_TARGETS = {50_000: 1.10, 2_000: 1.25}
_ROUNDS = 3
_RATE = 50_000.0


@dataclass(frozen=True)
class Scenario:
    """A workload; whether the targets are for it."""

    name: str
    workload: Workload
    has_target: bool = True

    @property
    def plan(self) -> str:
        first, *others = self.workload.streams
        text = first
        for stream in others:
            text = f"({text} {stream})"
        return text


@dataclass(frozen=True)
class Measurement:
    """The time of STAIRs and of SteMs as multiples of the tree's, and nanoseconds a row of the tree.

    `batch` is the size that has a target; batches were of `rows`, which is less if the window is small.
    """

    scenario: Scenario
    batch: int
    rows: int
    tree: float
    stairs: float
    stems: float

    @property
    def is_within_target(self) -> bool:
        return not self.scenario.has_target or self.stairs <= _TARGETS[self.batch]


def run(window: int = 250_000, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all targets were reached."""
    console = console or Console()
    use_one_core()
    measured = []
    for scenario in _make_scenarios(window):
        for batch in _TARGETS:
            with console.status(f"{scenario.name}, {batch:,} rows a stream and batch"):
                measured.append(_measure(scenario, batch, window))
    console.print(_report(measured))
    for measurement in measured:
        if measurement.scenario.has_target:
            mark = "[green]holds[/]" if measurement.is_within_target else "[red]does not hold[/]"
            console.print(
                f"{mark}  {measurement.scenario.name}, {measurement.rows:,} rows a batch: STAIRs in a fixed order "
                f"take {measurement.stairs:.2f} times the tree's time, at most {_TARGETS[measurement.batch]:.2f}"
            )
    return all(measurement.is_within_target for measurement in measured)


def _make_scenarios(window: int) -> list[Scenario]:
    """Two windows of rows for each shape."""
    rows, seconds = 2 * window, window / _RATE
    return [
        Scenario("4-way, one key", generate.common_key(4, rows, window, _RATE, window=seconds)),
        Scenario("4-way, chain", generate.chain(4, rows, window, _RATE, window=seconds)),
        Scenario("4-way, star", generate.star(4, rows, window, _RATE, window=seconds)),
        Scenario("4-way, clique", generate.clique(4, rows, max(2, round(window**0.5)), _RATE, window=seconds), False),
    ]


def _measure(scenario: Scenario, batch: int, window: int) -> Measurement:
    """The medians over some rounds; an error if results differ."""
    rows = min(batch, window // 4)
    rounds = [_take_turns(scenario, rows, window, number) for number in range(_ROUNDS)]
    tree = statistics.median(seconds[_TREE.name] for seconds in rounds)
    stairs, stems = (
        statistics.median(seconds[contender.name] / seconds[_TREE.name] for seconds in rounds)
        for contender in (_STAIRS, _STEMS)
    )
    measured_rows = len(scenario.workload.streams) * window
    return Measurement(scenario, batch, rows, 1e9 * tree / measured_rows, stairs, stems)


def _take_turns(scenario: Scenario, batch: int, window: int, seed: int) -> dict[str, float]:
    """Seconds after the first window, by contender."""
    workload = scenario.workload
    query = ms.query(workload.text, workload.schemas, workload.event_time)
    engines = {contender.name: contender.start(query, scenario.plan) for contender in _CONTENDERS}
    seconds = dict.fromkeys(engines, 0.0)
    answers = dict.fromkeys(engines, Digest())
    draws = random.Random(seed)
    pushed = 0
    for rows in batches(workload, batch):
        for name in draws.sample(list(engines), len(engines)):
            began = time.process_time()
            found: list[pa.Table] = list(engines[name].push_batches(rows))
            if pushed >= window:
                seconds[name] += time.process_time() - began
            answers[name] += digest_of(found)
        pushed += batch
    if len(set(answers.values())) > 1:
        raise AssertionError(f"{scenario.name}: results differ: {answers}")
    return seconds


def _report(measured: list[Measurement]) -> Table:
    table = Table("query", "rows a stream and batch", "tree, ns a row", "STAIRs / tree", "SteMs / tree")
    for found in measured:
        target = f" (<= {_TARGETS[found.batch]:.2f})" if found.scenario.has_target else ""
        table.add_row(
            found.scenario.name,
            f"{found.rows:,}",
            f"{found.tree:.0f}",
            f"{found.stairs:.2f}{target}",
            f"{found.stems:.2f}",
        )
    return table
