"""The demo: four live streams of a web shop joined by the embedded engine, then checked against DuckDB.

It generates the rows from a seed, pushes them batch by batch as a live source would, shows what the engine does, and
ends with a verdict on every single result.
"""

from __future__ import annotations

import time

import pyarrow as pa
from rich.console import Console

import midstream as ms
from midstream.app.check import Comparison, compare, require_duckdb
from midstream.app.screen import Moment, number_text, open_screen
from midstream.lab.shop import shop
from midstream.lab.workload import Workload, batches_by_time

BATCH_MICROSECONDS = 1_000_000


def run(orders: int, seed: int, console: Console) -> bool:
    """Runs the demo; whether the results were right."""
    require_duckdb("demo")
    workload = shop(orders=orders, seed=seed)
    console.rule("[bold]Midstream: four streams, one running join")
    console.print(workload.text, style="cyan", highlight=False, soft_wrap=True)
    console.print(f"{number_text(workload.rows)} rows, generated from seed {seed}", highlight=False)
    _compile(console)

    results, seconds = _join(workload, console)
    console.print(
        f"{number_text(workload.rows)} rows joined in {seconds:.1f} s, {number_text(results.num_rows)} results",
        highlight=False,
    )
    with console.status("checking every result with DuckDB"):
        verdict = compare(workload, results)
    _print_verdict(verdict, console)
    return verdict.ok


def _compile(console: Console) -> None:
    """Run a small join first: kernels are compiled once per machine, and that should not look like a slow engine."""
    start = time.perf_counter()
    with console.status("getting the kernels ready; the first time on a machine they are compiled"):
        small = shop(orders=2_000)
        engine = _engine(small)
        for batch in batches_by_time(small, BATCH_MICROSECONDS):
            engine.push(batch)
        engine.finish()
    seconds = time.perf_counter() - start
    if seconds > 2:
        console.print(f"kernels compiled in {seconds:.0f} s; from now on they come from a cache", highlight=False)


def _engine(workload: Workload) -> ms.Engine:
    return ms.Engine(ms.query(workload.text, schemas=workload.schemas, event_time=workload.event_time))


def _join(workload: Workload, console: Console) -> tuple[pa.Table, float]:
    engine = _engine(workload)
    results: list[pa.Table] = []
    rows_in = rows_out = 0
    start = time.perf_counter()
    with open_screen(console, engine.plan) as screen:
        for batch in batches_by_time(workload, BATCH_MICROSECONDS):
            results.append(engine.push(batch))
            rows_in += sum(table.num_rows for table in batch.values())
            rows_out += results[-1].num_rows
            stats = engine.stats()
            screen.show(
                Moment(
                    seconds=time.perf_counter() - start,
                    rows_in=rows_in,
                    rows_to_come=workload.rows - rows_in,
                    rows_out=rows_out,
                    state_bytes=stats.state_bytes,
                    state_rows={frozenset(state.aliases): state.rows for state in stats.states},
                )
            )
    results.append(engine.finish())
    return pa.concat_tables(results), time.perf_counter() - start


def _print_verdict(verdict: Comparison, console: Console) -> None:
    if verdict.ok:
        console.print(
            f"[bold green]exact[/]: DuckDB computes the same {number_text(verdict.expected)} results; "
            "none is missing, none is extra",
            highlight=False,
        )
    else:
        console.print(
            f"[bold red]wrong[/]: of {number_text(verdict.expected)} results that DuckDB computes, "
            f"{number_text(verdict.missing)} are missing; {number_text(verdict.extra)} are there that should not be",
            highlight=False,
        )
