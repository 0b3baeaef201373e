"""What demand saves, and what it costs where there is nothing to save.

Three workloads, in batches of 50 rows a stream:

* the cliques of paper 003 by bushy plans, joined by hash, and by nested loops with checks by index;
* a common key by a left-deep plan, five rows a key in the first three windows, one for a tenth of the keys in the last,
  and the same in batches of 2,000 rows, where joins and not calls take the time;
* a common key of which every window has every row's partner, so that nothing can be saved.

Contenders take turns batch by batch in one process on one core, in an order drawn anew for each batch. Counted is what
comes after the first window: processor time, of several rounds the median; combinations put into join states; and pairs
that joins look at. All must give the same results.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.engine.executors.tree import Tree
from midstream.lab.answers import Digest, digest_of
from midstream.lab.bench.one_core import use_one_core
from midstream.lab.experiments.jit_streams import BUSHY, Setting, Streams
from midstream.lab.nested_loops import NestedLoops
from midstream.lab.workload import batches
from midstream.state.indexes import Ints

Batches = Sequence[dict[str, pa.Table]]
_BATCH, _LARGE_BATCH = 50, 2_000
_HASH = Tree()
_STREAMS = "abcd"
#: Windows of rows with a common key, the first of which is not measured.
_WINDOWS = 5
_SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "ts": pa.int64()})


@dataclass(frozen=True)
class Contender:
    """An engine: how it joins, and with which demand."""

    name: str
    demand: str
    kind: Tree = _HASH


OFF, ON, AUTO = Contender("off", "off"), Contender("on", "on"), Contender("auto", "auto")
LOOPS_OFF, LOOPS_ON = Contender("loops, off", "off", NestedLoops()), Contender("loops, on", "on", NestedLoops())


@dataclass(frozen=True)
class Measurement:
    """What one contender took after the first window."""

    seconds: float
    combinations: int
    pairs: int


@dataclass(frozen=True)
class Scenario:
    """Batches for a query by a plan; the first `warm` of them are not measured."""

    name: str
    query: ms.Query
    plan: str
    batches: Batches
    warm: int
    contenders: tuple[Contender, ...]


@dataclass(frozen=True)
class Target:
    """A figure, and the bound that it has to keep."""

    text: str
    figure: float
    bound: float
    is_upper: bool

    @property
    def is_reached(self) -> bool:
        return self.figure <= self.bound if self.is_upper else self.figure >= self.bound

    def line(self) -> str:
        mark = "[green]holds[/]" if self.is_reached else "[red]does not hold[/]"
        return f"{mark}  {self.text}: {self.figure:.2f}, at {'most' if self.is_upper else 'least'} {self.bound:.2f}"


def run(window: int = 1_200, rounds: int = 3, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all targets were reached."""
    console = console or Console()
    use_one_core()
    targets: list[Target] = []
    table = Table("", "demand", "seconds", "combinations", "pairs", title="after the first window")
    for streams, most in ((4, 0.58), (8, 0.30)):
        found = _measure(_clique(streams, window), rounds, console, table)
        name = f"clique of {streams}, bushy"
        stored = found[ON].combinations / found[OFF].combinations
        targets.append(Target(f"{name}: share of combinations put into states", stored, most, True))
        fewer = found[LOOPS_OFF].pairs / max(found[LOOPS_ON].pairs, 1)
        targets.append(Target(f"{name}, nested loops: times fewer pairs", fewer, 10.0, False))
        faster = found[LOOPS_OFF].seconds / found[LOOPS_ON].seconds
        targets.append(Target(f"{name}, nested loops: times less processor time", faster, 5.0, False))
    found = _measure(_rare_key(5 * window), rounds, console, table)
    fewer = found[OFF].combinations / max(found[ON].combinations, 1)
    targets.append(Target("common key, few in the last stream: times fewer combinations", fewer, 8.0, False))
    faster = found[OFF].seconds / found[ON].seconds
    targets.append(Target("common key, few in the last stream: times the throughput", faster, 3.0, False))
    _measure(_rare_key(50 * window, _LARGE_BATCH), rounds, console, table)
    found = _measure(_full_key(5 * window), rounds, console, table)
    cost = found[AUTO].seconds / found[OFF].seconds
    targets.append(Target("nothing to save: times the processor time with auto", cost, 1.05, True))
    console.print(table)
    for target in targets:
        console.print(target.line())
    return all(target.is_reached for target in targets)


def _clique(streams: int, window: int) -> Scenario:
    """One window to begin with, and 1.2 windows to measure."""
    streams_of = Streams(Setting(BUSHY, streams, window / 60, 1.0, max(2, window // 6)), 2.2, seed=1)
    cut = list(batches(streams_of.workload, _BATCH))
    contenders = (OFF, ON, AUTO, LOOPS_OFF, LOOPS_ON)
    name, plan = f"clique of {streams}, bushy", streams_of.setting.plan
    return Scenario(name, streams_of.query, plan, cut, window // _BATCH, contenders)


def _rare_key(window: int, batch: int = _BATCH) -> Scenario:
    """Five rows a key in each window of the first three streams; the last has one for a tenth of the keys."""
    rng = np.random.default_rng(5)
    keys = window // 5
    once = np.arange(window) % keys
    orders = {name: np.concatenate([rng.permutation(once) for _ in range(_WINDOWS)]) for name in "abc"}
    rare = np.concatenate([rng.permutation(keys // 10) for _ in range(_WINDOWS)])
    return _common_key(f"common key, few in the last, batches of {batch:,}", orders, rare, window, batch)


def _full_key(window: int) -> Scenario:
    """Every key comes once a window in every stream."""
    rng = np.random.default_rng(7)
    orders = {name: np.concatenate([rng.permutation(window) for _ in range(_WINDOWS)]) for name in "abc"}
    last = np.concatenate([rng.permutation(window) for _ in range(_WINDOWS)])
    return _common_key("common key in all", orders, last, window, _BATCH)


def _common_key(name: str, orders: dict[str, Ints], last: Ints, window: int, batch: int) -> Scenario:
    """Rows of several windows; those of the last stream are spread evenly over the same time."""
    inputs = ", ".join(f"{stream} [RANGE {window - 1} MICROSECONDS]" for stream in _STREAMS)
    text = f"SELECT a.v AS av, d.v AS dv FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    query = ms.query(text, dict.fromkeys(_STREAMS, _SCHEMA), "ts")
    rows = _WINDOWS * window
    step = rows // len(last)
    every = np.arange(rows)
    tables = {stream: pa.table([order, every % 1_000, every], schema=_SCHEMA) for stream, order in orders.items()}
    times = np.arange(len(last)) * step
    tables["d"] = pa.table([last, times % 1_000, times], schema=_SCHEMA)
    cut = [
        {
            stream: table.slice(begin // (step if stream == "d" else 1), batch // (step if stream == "d" else 1))
            for stream, table in tables.items()
        }
        for begin in range(0, rows, batch)
    ]
    return Scenario(name, query, "(((a b) c) d)", cut, window // batch, (OFF, ON, AUTO))


def _measure(scenario: Scenario, rounds: int, console: Console, table: Table) -> dict[Contender, Measurement]:
    """Measure some rounds; the median times, and rows for the table."""
    with console.status(scenario.name):
        measured = [_take_turns(scenario, number) for number in range(rounds)]
    found = {}
    for contender in scenario.contenders:
        seconds = statistics.median(counts[contender].seconds for counts in measured)
        last = measured[-1][contender]
        found[contender] = Measurement(seconds, last.combinations, last.pairs)
        figures = f"{seconds:.3f}", f"{last.combinations:,}", f"{last.pairs:,}"
        table.add_row(scenario.name, contender.name, *figures)
    return found


def _take_turns(scenario: Scenario, seed: int) -> dict[Contender, Measurement]:
    """One round; an error if results differ."""
    engines = {
        contender: ms.Engine(scenario.query, plan=scenario.plan, executor=contender.kind, demand=contender.demand)
        for contender in scenario.contenders
    }
    seconds = dict.fromkeys(engines, 0.0)
    answers = dict.fromkeys(engines, Digest())
    before = dict.fromkeys(engines, (0, 0))
    draws = random.Random(seed)
    for number, batch in enumerate(scenario.batches):
        if number == scenario.warm:
            before = {contender: _count(engine) for contender, engine in engines.items()}
        for contender in draws.sample(list(engines), len(engines)):
            began = time.process_time()
            found = list(engines[contender].push_batches(batch))
            if number >= scenario.warm:
                seconds[contender] += time.process_time() - began
            answers[contender] += digest_of(found)
    if len(set(answers.values())) > 1 or not answers[OFF].rows:
        told = ", ".join(f"{contender.name}: {digest}" for contender, digest in answers.items())
        raise AssertionError(f"{scenario.name}: results differ, or there are none: {told}")
    measured = {}
    for contender, engine in engines.items():
        stored, pairs = (now - then for now, then in zip(_count(engine), before[contender], strict=True))
        measured[contender] = Measurement(seconds[contender], stored, pairs)
    return measured


def _count(engine: ms.Engine) -> tuple[int, int]:
    """The combinations that were ever put into join states, and the pairs that were looked at."""
    owners = engine._pipeline.executor.evicting()
    stored = sum(holding.state.stored_in_all for owner in owners for holding in owner.holdings())
    return stored, engine.stats().work.slots_visited
