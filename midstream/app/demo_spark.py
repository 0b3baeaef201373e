"""The main demo: a four-way join on Spark whose plan turns bad half-way and is changed while the query runs.

It writes the streams as Parquet files, joins them batch by batch, and shows the throughput of each. It changes the plan
through the control folder, as a person at the terminal would, and compares all results with a batch join by Spark SQL.
Everything but a picture and Spark's log is in a temporary folder.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from midstream.app import demo_streams
from midstream.app.demo_screen import ChartScreen, draw, summary
from midstream.app.demo_streams import Story
from midstream.app.doctor import JAVA_ADVICE, Java, find_java, missing_for_spark
from midstream.app.scratch import scratch_folder
from midstream.app.screen import number_text
from midstream.errors import SparkError

if TYPE_CHECKING:
    from midstream.spark.jobs.demo import Batch, Comparison

_EMBEDDED = "or run the demo without Spark: midstream demo --embedded"


def run(story: Story, console: Console, out: Path) -> bool:
    """Runs the demo; whether the results were the same."""
    java = require()
    out.mkdir(parents=True, exist_ok=True)
    log_path = out / "demo-spark.log"
    started = time.monotonic()
    _introduce(story, console)
    with scratch_folder("demo") as folder, log_path.open("wb") as log:
        _write(story, folder, console)
        compile_kernels(console)
        # Imported here because it needs PySpark; every check that works without PySpark is done by now.
        from midstream.spark.jobs import demo

        job = demo.Job(
            folder=folder,
            streams=story.streams,
            text=demo_streams.TEXT,
            event_time="ts",
            delay=f"{demo_streams.DELAY_SECONDS} seconds",
            plan=demo_streams.OLD_PLAN,
            batches=story.batches,
        )
        try:
            with contextlib.ExitStack() as stack:
                with console.status(f"starting Spark on Java {java.version}"):
                    session = stack.enter_context(demo.quiet_session(folder, log))
                batches = _join(session, job, story, console)
                with console.status("comparing with a batch join by Spark SQL"):
                    verdict = demo.compare(session, job, demo_streams.BATCH_SQL)
        except SparkError as problem:
            raise SparkError(f"{problem}; Spark's log is {log_path}") from problem
    console.print(summary(batches, story))
    print_verdict(verdict, console)
    if draw(batches, story, out / "demo.png"):
        console.print(f"picture: {out / 'demo.png'}", highlight=False)
    console.print(f"{time.monotonic() - started:.0f} s in all; Spark's log is {log_path}", style="dim", highlight=False)
    return verdict.ok


def require() -> Java:
    """The Java to run on; a one-line error if it or a package is missing."""
    missing = missing_for_spark()
    if missing:
        raise SparkError(
            f"demo: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; "
            f"run: pip install 'midstream[spark]', {_EMBEDDED}"
        )
    java = find_java()
    if java is None:
        raise SparkError(f"demo: Spark needs Java 17 or newer, and there is none; {JAVA_ADVICE}, {_EMBEDDED}")
    if not java.ok:
        raise SparkError(
            f"demo: Spark needs Java 17 or newer, but {java.path} is {java.version}; {JAVA_ADVICE}, {_EMBEDDED}"
        )
    return java


def _introduce(story: Story, console: Console) -> None:
    console.rule("[bold]Midstream on Spark: one running join, two plans")
    console.print(demo_streams.TEXT, style="cyan", highlight=False, soft_wrap=True)
    console.print(
        f"Half-way an attack begins: logins gather on a few accounts, flows scatter over many addresses.\n"
        f"The plan {demo_streams.OLD_PLAN}, good until then, now makes large intermediate results.\n"
        f"After {story.suffering} batches of that a command tells the running query to go over to "
        f"{demo_streams.NEW_PLAN}.",
        highlight=False,
    )


def _write(story: Story, folder: Path, console: Console) -> None:
    with console.status("writing the streams") as status:
        for written in demo_streams.write(story, folder):
            status.update(f"writing the streams: {number_text(written)} of {number_text(story.total)} rows")
    console.print(
        f"{number_text(story.total)} rows of {len(story.streams)} streams, generated from seed {story.seed}, "
        f"{number_text(story.rows * len(story.streams))} a batch",
        highlight=False,
    )


def compile_kernels(console: Console) -> None:
    """Compile kernels here, once per machine, so that the first batch does not look slow."""
    import midstream as ms

    started = time.monotonic()
    with console.status("getting the kernels ready; the first time on a machine they are compiled"):
        ms.get_ready()
    seconds = time.monotonic() - started
    if seconds > 5:
        console.print(f"kernels compiled in {seconds:.0f} s; from now on they come from a cache", highlight=False)


def _join(session: Any, job: Any, story: Story, console: Console) -> list[Batch]:
    from midstream.spark.jobs import demo

    batches: list[Batch] = []
    with ChartScreen(console, story) as screen:
        for batch in demo.run(session, job):
            if batch is not None:
                batches.append(batch)
                screen.show(batch)
                if len(batches) == story.quiet + story.suffering:
                    screen.tell(demo.migrate(job, demo_streams.NEW_PLAN))
    return batches


def print_verdict(verdict: Comparison, console: Console, joined: str = "all files") -> None:
    """Print how the results compare with those of Spark SQL; `joined` says what it joined at once."""
    if verdict.ok:
        console.print(
            f"[bold green]same rows[/]: Spark SQL, joining {joined} at once, has the same "
            f"{number_text(verdict.expected)} results; none is missing, none is extra",
            highlight=False,
        )
    else:
        console.print(
            f"[bold red]wrong[/]: of {number_text(verdict.expected)} results of Spark SQL, "
            f"{number_text(verdict.missing)} are missing; {number_text(verdict.extra)} are there that should not be",
            highlight=False,
        )
