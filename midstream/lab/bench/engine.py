"""How fast the embedded engine is, as ratios to the bare limit that runs beside it.

Every figure comes from one process on one core. Engine and bare limit run the same rows in the same batches by the same
left-deep plan, in turns; the better of two runs counts. The engine's answer is compared with DuckDB's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import midstream as ms
from midstream.engine.stats import EngineStats
from midstream.lab import generate
from midstream.lab.bench import scenarios
from midstream.lab.bench.answer import Answer, Tally
from midstream.lab.bench.one_core import use_one_core
from midstream.lab.bench.scenarios import Scenario
from midstream.lab.workload import batches

_EVERYTHING = 1 << 62
_RATE = 50_000.0


@dataclass(frozen=True)
class Measurement:
    """One row of the report: rows a second of the engine and of the bare limit, and their ratio."""

    scenario: str
    batch: int
    results: int
    engine: float
    bare: float

    @property
    def ratio(self) -> float:
        return self.engine / self.bare


def run(rows: int = 4_000_000, growth_rows: int = 3_000_000, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all answers were right and all targets reached."""
    console = console or Console()
    use_one_core()
    console.print("Engine beside the bare limit (nothing but the kernels' inserts, probes and purging), one core.")
    one_key = _one_key(rows)
    plans: list[tuple[Scenario, tuple[int, ...]]] = [
        (one_key, (50_000, 2_000, _EVERYTHING)),
        (_one_key(rows, string_keys=True), (50_000,)),
        (scenarios.chain(4, rows // 4, 500_000, _RATE, 5.0), (50_000,)),
        (scenarios.star(4, rows // 4, 500_000, _RATE, 5.0), (50_000,)),
        (scenarios.clique(6, rows // 40, 5, _RATE, 0.0012), (2_000,)),
        (scenarios.band(3, rows // 16, 1_000_000, _RATE, 2.0, width=2), (10_000,)),
    ]
    measured: list[Measurement] = []
    is_right = True
    for scenario, sizes in plans:
        with console.status(f"{scenario.name}: DuckDB's answer"):
            answer = scenario.answer()
        for size in sizes:
            with console.status(f"{scenario.name}, {_size(size)} rows a stream and batch"):
                found, measurement = _measure(scenario, size)
            if found != answer:
                console.print(f"[red]{scenario.name}: wrong answer[/] {found}, DuckDB has {answer}")
                is_right = False
            measured.append(measurement)
    console.print(_report(measured))
    verdicts = list(_verdicts(measured))
    for text, holds in verdicts:
        console.print(f"{'[green]holds[/]' if holds else '[red]does not hold[/]'}  {text}")
    grown = _check_growth(growth_rows, console)
    return is_right and grown and all(holds for _, holds in verdicts)


def _one_key(rows: int, string_keys: bool = False) -> Scenario:
    return scenarios.one_key(4, rows, 500_000, _RATE, 5.0, string_keys)


def _measure(scenario: Scenario, size: int) -> tuple[Answer, Measurement]:
    rows = max(table.num_rows for table in scenario.workload.tables.values())
    batch = min(size, rows)
    bare_batch = 50_000 if size == _EVERYTHING else batch
    found, engine_time = _engine_run(scenario, batch)
    bare = scenario.start_bare_tree(bare_batch).run()
    again, engine_time_again = _engine_run(scenario, batch)
    bare_again = scenario.start_bare_tree(bare_batch).run()
    if again != found or bare_again.results != bare.results:
        raise AssertionError(f"{scenario.name}: two runs on the same rows differ")
    total = scenario.workload.rows
    best_bare = min(bare.seconds, bare_again.seconds)
    return found, Measurement(
        scenario.name, size, found.results, total / min(engine_time, engine_time_again), total / best_bare
    )


def _engine_run(scenario: Scenario, batch: int) -> tuple[Answer, float]:
    engine = ms.Engine(scenario.query, plan=scenario.plan)
    tables: list[pa.Table] = []
    began = time.perf_counter()
    for data in batches(scenario.workload, batch):
        tables.extend(engine.push_batches(data))
    seconds = time.perf_counter() - began
    tally = Tally()
    for table in tables:
        tally.add(table)
    return tally.answer(), seconds


def _size(size: int) -> str:
    return "everything at once" if size == _EVERYTHING else f"{size:,}"


def _report(measured: list[Measurement]) -> Table:
    table = Table("query", "rows a stream and batch", "results", "engine, rows/s", "bare limit, rows/s", "of the limit")
    for measurement in measured:
        table.add_row(
            measurement.scenario,
            _size(measurement.batch),
            f"{measurement.results:,}",
            f"{measurement.engine:,.0f}",
            f"{measurement.bare:,.0f}",
            f"{measurement.ratio:.0%}",
        )
    return table


def _verdicts(measured: list[Measurement]) -> Iterator[tuple[str, bool]]:
    by = {(measurement.scenario, measurement.batch): measurement for measurement in measured}
    large, small = by["4-way, one key", 50_000], by["4-way, one key", 2_000]
    whole, strings = by["4-way, one key", _EVERYTHING], by["4-way, one string key", 50_000]
    yield f"50,000 rows a batch: {large.ratio:.0%} of the bare limit, at least 60 %", large.ratio >= 0.6
    yield f"2,000 rows a batch: {small.ratio:.0%} of the bare limit, at least 35 %", small.ratio >= 0.35
    share = whole.engine / large.engine
    yield f"everything at once: {share:.2f} times the speed of batches of 50,000, at least 1", share >= 1
    share = strings.engine / large.engine
    yield f"string keys: {share:.0%} of the speed of integer keys, at least 40 %", share >= 0.4


# Growth with the window ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """What a row costs at one size of the window, after the first window has passed."""

    window_rows: int
    engine: float
    bare: float
    visited: float
    moved: float
    bytes_per_live: float


def _check_growth(largest: int, console: Console) -> bool:
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size < largest] + [largest]
    found = []
    for size in sizes:
        with console.status(f"growth: window of {size:,} rows"):
            found.append(_measure_growth(size))
    table = Table(
        "rows in a window", "engine, ns a row", "bare limit, ns a row", "engine / bare", "slots visited a row",
        "bytes moved a row", "bytes per live row and entry",
    )  # fmt: skip
    for growth in found:
        table.add_row(
            f"{growth.window_rows:,}",
            f"{growth.engine:.0f}",
            f"{growth.bare:.0f}",
            f"{growth.engine / growth.bare:.2f}",
            f"{growth.visited:.2f}",
            f"{growth.moved:.0f}",
            f"{growth.bytes_per_live:.0f}",
        )
    console.print(table)
    measures: list[tuple[str, Callable[[Growth], float]]] = [
        ("time of the engine over the bare limit", lambda growth: growth.engine / growth.bare),
        ("slots visited a row", lambda growth: growth.visited),
        ("bytes moved a row", lambda growth: growth.moved),
    ]
    all_hold = True
    for name, measure in measures:
        first, worst = measure(found[0]), max(measure(growth) for growth in found)
        holds = worst <= 1.15 * first
        all_hold &= holds
        mark = "[green]holds[/]" if holds else "[red]does not hold[/]"
        console.print(f"{mark}  {name}: {worst / first - 1:+.0%} at worst from the smallest window, at most +15 %")
    with console.status("memory over 100 windows"):
        early, late = _memory_over_windows(10_000, 100)
    holds = late <= 1.05 * early
    mark = "[green]holds[/]" if holds else "[red]does not hold[/]"
    console.print(f"{mark}  memory over 100 windows: {late / early:.2f} times that of the first ten, at most 1.05")
    return all_hold and holds


def _measure_growth(size: int) -> Growth:
    """A 3-way join on one key whose rows match half a row of every other stream, whatever the window."""
    rate, batch = 1_000_000.0, 5_000
    rows = size + max(size, 200_000)
    scenario = scenarios.one_key(3, rows, 2 * size, rate, size / rate)
    timed_rows = 3 * (rows - size)
    engines = [_timed_engine(scenario, batch, size) for _ in range(2)]
    bares = [scenario.start_bare_tree(batch).run(skipped=size).seconds for _ in range(2)]
    stats, work = engines[0][1], engines[0][2]
    live = sum(state.rows for state in stats.states)
    return Growth(
        size,
        min(seconds for seconds, _, _ in engines) / timed_rows * 1e9,
        min(bares) / timed_rows * 1e9,
        work[0] / timed_rows,
        work[1] / timed_rows,
        stats.state_bytes / live,
    )


def _timed_engine(scenario: Scenario, batch: int, skipped: int) -> tuple[float, EngineStats, tuple[int, int]]:
    engine = ms.Engine(scenario.query, plan=scenario.plan)
    before, began, seen = engine.stats().work, time.perf_counter(), 0
    for data in batches(scenario.workload, batch):
        if seen < skipped <= seen + batch:
            before, began = engine.stats().work, time.perf_counter()
        seen += batch
        engine.push(data)
    seconds = time.perf_counter() - began
    stats = engine.stats()
    moved = stats.work.bytes_moved - before.bytes_moved
    return seconds, stats, (stats.work.slots_visited - before.slots_visited, moved)


def _memory_over_windows(size: int, windows: int) -> tuple[int, int]:
    """The most bytes held at any time in the first ten windows, and in the rest."""
    rate = 1_000_000.0
    workload = generate.common_key(3, size * windows, 2 * size, rate, window=size / rate)
    engine = ms.Engine(ms.query(workload.text, workload.schemas, workload.event_time))
    held = []
    for data in batches(workload, size // 10):
        engine.push(data)
        held.append(engine.stats().state_bytes)
    return max(held[:100]), max(held[100:])
