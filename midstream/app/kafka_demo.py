"""The demo with Kafka: a broker, three topics joined by Spark into Parquet files, another plan half-way, and a copy of
the results in a topic.

Rows of a web shop are sent to the topics while the join runs. At the end all results are compared with a batch join of
the topics by Spark SQL, and the topic of results with the Parquet files. Everything but Spark's log is in temporary
folders.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from midstream.app import kafka_jars
from midstream.app.demo_spark import compile_kernels, print_verdict, require
from midstream.app.kafka_broker import Broker
from midstream.app.scratch import scratch_folder
from midstream.app.screen import number_text
from midstream.errors import SparkError
from midstream.lab.shop import shop
from midstream.lab.workload import batches_by_time

if TYPE_CHECKING:
    from midstream.spark.jobs.demo_kafka import CopyCounts, Job

#: Short enough that the rows from before the change leave the windows before the input ends.
WINDOW_SECONDS = 10
PART_SECONDS = 5
#: A batch may have a part of one partition and not yet of another, so rows come as late as a part is long.
DELAY = f"{2 * PART_SECONDS} seconds"
TOPICS = {
    "orders": ("ts long, id long, customer long", "id"),
    "payments": ("ts long, order_id long, amount double", "order_id"),
    "shipments": ("ts long, order_id long, carrier string", "order_id"),
}
TEXT = f"""\
SELECT o.id, o.customer, p.amount, s.carrier
FROM orders    [RANGE {WINDOW_SECONDS} SECONDS] o,
     payments  [RANGE {WINDOW_SECONDS} SECONDS] p,
     shipments [RANGE {WINDOW_SECONDS} SECONDS] s
WHERE o.id = p.order_id AND o.id = s.order_id"""
#: The same join in plain SQL over everything that came; what it is compared with.
BATCH_SQL = f"""\
SELECT o.id, o.customer, p.amount, s.carrier, greatest(o.ts, p.ts, s.ts) AS valid_from,
       least(o.ts, p.ts, s.ts) + INTERVAL {WINDOW_SECONDS} SECONDS AS valid_to
FROM orders o JOIN payments p ON o.id = p.order_id JOIN shipments s ON o.id = s.order_id
WHERE greatest(o.ts, p.ts, s.ts) <= least(o.ts, p.ts, s.ts) + INTERVAL {WINDOW_SECONDS} SECONDS"""
OLD_PLAN = "((o p) s)"
NEW_PLAN = "((p s) o)"


@dataclass(frozen=True)
class Shop:
    """How much happens: `rows` orders and what follows them, in so many parts."""

    rows: int = 60_000
    seed: int = 42
    parts: int = 14

    @property
    def change_at(self) -> int:
        """The part after which the plan changes: a little before the half, as rows have to leave windows after it."""
        return self.parts // 2 - 2


def run(story: Shop, console: Console, out: Path) -> bool:
    """Runs the demo; whether everything was right."""
    java = require()
    jars = {bundle.name: kafka_jars.fetch(bundle, console.print) for bundle in kafka_jars.BUNDLES}
    out.mkdir(parents=True, exist_ok=True)
    log_path = out / "demo-kafka.log"
    started = time.monotonic()
    console.rule("[bold]Midstream between Kafka topics: one running join, two plans")
    console.print(TEXT, style="cyan", highlight=False, soft_wrap=True)
    with scratch_folder("demo") as folder, log_path.open("wb") as log, contextlib.ExitStack() as stack:
        total = write_input(story, folder / "input")
        compile_kernels(console)
        with console.status("starting a Kafka broker"):
            broker = stack.enter_context(Broker(jars["broker"], java.path))
        console.print(f"a Kafka broker listens on {broker.address}", highlight=False)
        # Imported here because it needs PySpark; every check that works without PySpark is done by now.
        from midstream.spark.jobs import demo, demo_kafka

        job = make_job(folder, broker.address, most_rows=story.rows)
        try:
            with console.status(f"starting Spark on Java {java.version}"):
                options = demo_kafka.options(jars["connector"])
                session = stack.enter_context(demo.quiet_session(folder, log, options))
            _join(session, job, story, total, console)
            with console.status("comparing with a batch join of the topics by Spark SQL"):
                verdict = demo_kafka.compare(session, job, BATCH_SQL)
                copied = demo_kafka.count_copies(session, job)
        except SparkError as problem:
            raise SparkError(f"{problem}; Spark's log is {log_path}") from problem
    print_verdict(verdict, console, "all messages of the topics")
    _print_copied(copied, console)
    console.print(f"{time.monotonic() - started:.0f} s in all; Spark's log is {log_path}", style="dim", highlight=False)
    return verdict.ok and copied.ok


def write_input(story: Shop, folder: Path) -> int:
    """Write a Parquet file of each stream for every part, event times as microseconds; the number of rows."""
    seconds = story.parts * PART_SECONDS
    # Rows of the last orders would be a part of their own, so they come a little faster.
    workload = shop(orders=story.rows, rate=story.rows / (seconds - 0.001), seed=story.seed)
    total = 0
    parts = list(batches_by_time(workload, PART_SECONDS * 1_000_000))
    assert len(parts) == story.parts, (len(parts), story.parts)
    for number, part in enumerate(parts):
        for stream in TOPICS:
            # A part may lack a stream; then its file is empty.
            rows = part.get(stream, workload.tables[stream].slice(0, 0))
            table = rows.set_column(0, "ts", rows["ts"].cast(pa.int64()))
            (folder / stream).mkdir(parents=True, exist_ok=True)
            pa.parquet.write_table(table, folder / stream / f"{number:03d}.parquet")
            total += table.num_rows
    return total


def make_job(folder: Path, servers: str, most_rows: int) -> Job:
    """The job over a folder with input and a broker."""
    from midstream.spark.jobs import demo_kafka

    topics = [demo_kafka.Topic(name, schema, key) for name, (schema, key) in TOPICS.items()]
    return demo_kafka.Job(folder, servers, topics, TEXT, DELAY, OLD_PLAN, most_rows)


def _join(session: Any, job: Job, story: Shop, total: int, console: Console) -> None:
    """Show how rows are sent and joined; lines for what happens, and a bar on a terminal."""
    from midstream.spark.jobs import demo, demo_kafka

    sent = rows_in = results = 0
    with _bars(console) as bars:
        sending = bars.add_task("sent", total=total)
        joining = bars.add_task("joined", total=total)
        for event in demo_kafka.run(session, job, story.parts, story.change_at, NEW_PLAN):
            if isinstance(event, demo_kafka.PartFed):
                sent += event.rows
                bars.update(sending, completed=sent)
                if event.part == story.change_at:
                    bars.console.print(
                        f"[bold]half-way[/]: all cells are told to go over to {NEW_PLAN}", highlight=False
                    )
            elif isinstance(event, demo_kafka.PlanChange):
                bars.console.print(
                    f"[bold]plan changed[/]: all cells run {NEW_PLAN} and miss nothing, {event.seconds:.1f} s "
                    "after they were told",
                    highlight=False,
                )
            elif event is not None:
                assert isinstance(event, demo.Batch)
                rows_in += event.rows_in
                results += event.rows_out
                bars.update(joining, completed=rows_in)
                plans = ", ".join(sorted(set(event.plans.values())))
                bars.console.print(
                    f"batch {event.number:>2}  {number_text(event.rows_in):>7} rows in {event.seconds:4.1f} s  "
                    f"{number_text(event.rows_out):>7} results  {event.late} late  "
                    f"plan {plans}{_percent(event.migrations)}",
                    highlight=False,
                    soft_wrap=True,
                )
    console.print(
        f"{number_text(sent)} messages sent to {len(TOPICS)} topics, {number_text(results)} results", highlight=False
    )


def _percent(migrations: Any) -> str:
    if not migrations:
        return ""
    return f"  {min(migration['percent'] for migration in migrations.values()):.0f} % complete"


@contextlib.contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description:>6}"), BarColumn(40), TextColumn("{task.completed:,.0f} rows"))
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal) as bars:
        yield bars


def _print_copied(copied: CopyCounts, console: Console) -> None:
    if copied.ok:
        console.print(
            f"[bold green]copied[/]: the topic of results has {number_text(copied.messages)} messages of "
            f"{number_text(copied.results)} results, told apart by result_id; none is missing",
            highlight=False,
        )
    else:
        console.print(
            f"[bold red]not copied[/]: {number_text(copied.missing)} results are missing in the topic of results",
            highlight=False,
        )
